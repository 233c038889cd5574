"""Whether the storage, the trackers and a backend of one's own have what a killed experiment reported, once."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.fs

import tune_media as tm
from tests.kills.driver import OLD, OLD_TIMESTAMP, RAW, TAPED, TRIALS, Places, filesystem_of
from tests.kills.trackers import check_trackers, is_blind, names_loss
from tests.kills.truth import Stored, TrialThere, Truth
from tests.support.json_lines import read_lines, write_line
from tune_media.callbacks.deliver import deliver

STALE_SECONDS = 60  # a clip that waited so long may stay a tape


def files_below(filesystem: pyarrow.fs.FileSystem, folder: str) -> list[str]:
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True))
    return sorted(info.path[info.path.index(folder) + len(folder) + 1 :] for info in found if info.is_file)


def is_medium(path: str) -> bool:
    others = ("index.jsonl", ".parquet", ".partial", ".tmp")
    return path.startswith(("media/", "episode_data/")) and not path.endswith(others)


def loaded(filesystem: pyarrow.fs.FileSystem, experiment: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {id: [] for id in (OLD, *TRIALS)}
    try:
        catalog = tm.load(experiment, filesystem)
    except (FileNotFoundError, ValueError):  # no trial has reported yet
        return found
    for row in catalog:
        found[row["trial_id"]].append(dict(row))
    for trial, path in catalog.reports:
        id = trial.path.rpartition("/")[2]
        found[id].append({"path": path[path.index("episode_data/") :], "is_report": True})
    return found


def check_after_kill(server: str, experiment: str) -> tuple[list[str], Stored]:
    """Compare the storage with ``tm.load`` right after a kill; return what is wrong, and what is stored, by trial."""
    filesystem, problems = filesystem_of(server), []
    stored: Stored = {}
    # A server goes on with the requests of a driver that was killed: what is there is looked up before the lines are.
    files = {trial: set(filter(is_medium, files_below(filesystem, f"{experiment}/{trial}"))) for trial in TRIALS}
    rows = loaded(filesystem, experiment)
    for trial, there in files.items():
        named = {row["path"] for row in rows[trial]}
        problems += [f"{trial}: {path} is on the storage, and tm.load has no row" for path in sorted(there - named)]
        missing = named - set(files_below(filesystem, f"{experiment}/{trial}"))
        problems += [f"{trial}: tm.load has a row of {path}, which is not on the storage" for path in sorted(missing)]
        keys = Counter((row["id"], row["section"], row["key"]) for row in rows[trial] if "id" in row)
        problems += [f"{trial}: tm.load has {count} rows of {key}" for key, count in keys.items() if count > 1]
        stored[trial] = {(row["path"], row.get("key", "episodes/data")) for row in rows[trial] if row["path"] in there}
    return problems, stored


def look(places: Places, goes_on: Callable[[], bool]) -> None:
    """Look at an experiment again and again; write what each look lacks of the one before it into ``looks.jsonl``."""
    filesystem, before = filesystem_of(places.server), set()
    while goes_on():
        begun = time.monotonic()
        rows = loaded(filesystem, places.experiment)
        names = ("id", "section", "key", "path")
        now = {(trial, *map(row.get, names)) for trial, found in rows.items() for row in found}
        write_line(places.folder / "looks.jsonl", sorted(before - now, key=str))
        before = now
        time.sleep(0.05 + 2 * (time.monotonic() - begun))


def is_of_experiment(file: Path) -> bool:
    """Return whether an outbox may hold something: it was made whole, and is of an experiment, not of a check."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        has_tables = database.execute("SELECT 1 FROM sqlite_master").fetchone() is not None
        return has_tables and ("storage", "") not in database.execute("SELECT name, value FROM facts").fetchall()


def is_old(outbox: Path) -> bool:
    with contextlib.closing(sqlite3.connect(outbox / "outbox.sqlite")) as database:
        return ("timestamp", OLD_TIMESTAMP) in database.execute("SELECT name, value FROM facts").fetchall()


def check_end(places: Places, lost: int, stored: Stored, counts: Counter[str]) -> list[str]:
    """Return what is wrong at the end of a round; ``counts`` gets how much was compared."""
    folder, experiment = places.folder, places.experiment
    filesystem, truth = filesystem_of(places.server), Truth(folder, lost, stored)
    problems = [] if truth.over else ["the last driver did not come to its end"]
    # Others are of drivers that were killed while they made or tried one: they have nothing, and expire.
    made = [outbox for outbox in (folder / "outbox").iterdir() if any(map(is_of_experiment, outbox.glob("*.sqlite")))]
    said = "".join(log.read_text() for log in folder.glob("driver-*.log"))
    named = {outbox for outbox in made if f"after the outbox in {outbox} was left" in said}  # of a machine that is back
    counts["outboxes of machines that came back, left and named"] += len(named)
    of_this = [outbox for outbox in made if not is_old(outbox) and outbox not in named]
    left = [str(path.relative_to(folder)) for outbox in of_this for path in outbox.iterdir()]
    left += [path.name for path in (folder / "driver/tmp").glob("tune_media-*")]
    problems += [f"left on the driver: {left[:5]}"] if left else []
    if (folder / "old.jsonl").exists():
        problems += _check_old_outbox(places, has_outbox=any(map(is_old, made)), counts=counts)
        problems += ["the old outbox is gone"] if not any(map(is_old, made)) and truth.lost < 0 else []
    everything = files_below(filesystem, experiment)
    halves = [path for path in everything if path.endswith(".partial")]
    of_log = [path for path in halves if path.startswith(".tune_media_log/")][: truth.over.get("process", 0)]
    counts["half-written parts of the log"] += len(of_log)  # at most one a kill, which nobody reads
    problems += [f"{path} is left" for path in halves if path not in of_log]
    logs = [path for path in everything if path.startswith(".tune_media_log/")]
    done: set[str] = set()
    for path in logs:
        if path.endswith(".done.json"):
            with filesystem.open_input_stream(f"{experiment}/{path}") as stream:
                done |= {f".tune_media_log/{name}" for name in json.loads(stream.read())}
    for path in logs:
        is_left = any(f"-{outbox.name}-" in path for outbox in named)  # it may be of a driver that runs
        if path.endswith(".jsonl") and path not in done and not is_left:
            with filesystem.open_input_stream(f"{experiment}/{path}") as stream:
                of = {json.loads(line)["trial"] for line in stream.read().splitlines()}
            problems += [f"the log {path} is not done"] if of != {OLD} else []  # that trial has not ended
    rows = loaded(filesystem, experiment)
    for trial in TRIALS:
        inside = [path.removeprefix(f"{trial}/") for path in everything if path.startswith(f"{trial}/")]
        there = TrialThere(filesystem, f"{experiment}/{trial}", inside)
        found = _check_storage(places, truth, trial, there, rows[trial], counts)
        found += check_trackers(places, truth, trial, there, counts)
        problems += [f"{trial}: {problem}" for problem in found]
    problems += _check_calls(places, truth, counts)
    counts["doubles"] += sum(bool(re.search(r"\d+ (times|rows|lines)|again with|twice", text)) for text in problems)
    counts["lost without a word"] += sum("lack" in text or "did not get" in text for text in problems)
    return problems


def _check_old_outbox(places: Places, *, has_outbox: bool, counts: Counter[str]) -> list[str]:
    """Store what an earlier experiment of the same name left, as ``tune-media deliver`` does; is it there once?"""
    reported, filesystem = read_lines(places.folder / "old.jsonl"), filesystem_of(places.server)
    os.environ["TUNE_MEDIA_OUTBOX"] = str(places.folder / "outbox")
    left = deliver(filesystem, places.experiment, 60.0)
    problems = [f"of the old outbox: {delivery}" for delivery in left if not delivery.is_whole or delivery.is_gone]
    rows = Counter((row["path"], row.get("key", "episodes/data")) for row in loaded(filesystem, places.experiment)[OLD])
    wanted = {(path, key) for line in reported if line["event"] == "returned" for key, path in line["paths"].items()}
    if has_outbox:
        counts["old outboxes delivered"] += 1
        counts["media of old outboxes"] += len(rows)
        lacks = {place for place in wanted - rows.keys() if place[1] != RAW}
        problems += [f"of the old outbox, the storage lacks {place}" for place in sorted(lacks)]
    problems += [f"of the old outbox, {place} is there {count} times" for place, count in rows.items() if count > 1]
    problems += [f"of the old outbox, {place} was not reported" for place in sorted(rows.keys() - wanted)]
    return problems


def _check_storage(
    places: Places, truth: Truth, trial: str, there: TrialThere, rows: list[Any], counts: Counter[str]
) -> list[str]:
    filesystem, folder, files, lines = there.filesystem, there.folder, there.files, there.lines
    problems, is_named = [], names_loss(places, trial)
    doubled = Counter((line["id"], line["section"], line["key"]) for line in lines)
    problems += [f"listed {count} times: {key}" for key, count in doubled.items() if count > 1]
    by_place: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        by_place[line["path"], line["key"]].append(line)
    reports = truth.of_trial(trial)
    wanted: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)  # the reports of each place
    for report in reports:
        for key, path in truth.returned.get(report["number"], {}).items():
            wanted[path, key].append(report)
    known_ids = {id: (report, key) for report in reports for key, id in report["media"].items() if id}
    for (path, key), having in wanted.items():
        found = by_place.pop((path, key), [])
        must = any(map(truth.must_be_there, having)) or (path, key) in truth.stored.get(trial, ())
        if len(found) != 1:
            if found or must:
                problems.append(f"{len(found)} lines of {key} {path} (reports {_numbers(having)})")
            elif not found:
                counts["lost with the machine"] += 1
                if not is_named and not all(truth.is_gone[report["number"]] for report in having):
                    problems.append(f"the storage lacks {key} {path}, and nothing says so")
            continue
        (line,) = found
        if line["status"] != "stored":
            is_late = truth.over.get("time", 0) - line["time"] > STALE_SECONDS  # rendering is slow on a busy machine
            if key == RAW and line["status"] == "failed" and line["note"]:
                counts["raw clips that were not made"] += 1
            elif key == TAPED and line["status"] == "tape" and (is_late or not any(map(truth.counts, having))):
                counts["clips that stay tapes"] += 1
            elif not must and line["status"] == "failed" and line["note"].startswith("lost with its driver"):
                counts["listed, and lost with the machine"] += 1
            else:
                problems.append(f"{key} {path} is {line['status']}: {line.get('note')}")
            continue
        own = [report for report in having if report["media"][key] in (None, line["id"])]
        if not own or any(map(truth.must_be_there, (report for report in having if report not in own))):
            problems.append(f"{key} {path} has the id {line['id']} (reports {_numbers(having)})")
            continue
        is_right = bool(line.get("rolled_back")) == truth.is_gone[own[-1]["number"]]
        was_lost = is_named and not any(map(truth.must_be_there, having))  # that the trial went back was lost, too
        if not is_right and was_lost:
            counts["rolled back in an outbox that was lost"] += 1
        elif not is_right:
            problems.append(f"{key} {path}: rolled_back is {line.get('rolled_back')} (reports {_numbers(own)})")
        if line["training_iteration"] != own[0]["iteration"]:
            problems.append(f"{key} {path} has iteration {line['training_iteration']}, not {own[0]['iteration']}")
        problems += _check_file(filesystem, folder, line, files)
        counts["media"] += 1
    for (path, key), found in by_place.items():  # of reports that had not returned
        under_way = [report for report in reports if report["number"] not in truth.returned and key in report["media"]]
        if len(found) > 1:
            problems.append(f"{len(found)} lines of {key} {path}")
        line = found[0]
        if not under_way or (key != RAW and known_ids.get(line["id"], ({}, ""))[0] not in under_way):
            problems.append(f"a line of something that nobody reported: {key} {path}")
        elif line["status"] == "stored":
            problems += _check_file(filesystem, folder, line, files)
    named = {line["path"] for line in lines}
    problems += [f"{path} is a file without a line" for path in files if is_medium(path) and path not in named]
    tables = {path.replace(".json", ".parquet") for path in named}
    problems += [
        f"{path} has no line" for path in files if "/data-" in path and path.endswith(".parquet") and path not in tables
    ]
    shown = {(row["path"], row.get("key"), bool(row.get("rolled_back"))) for row in rows if "id" in row}
    shown |= {(row["path"], "", False) for row in rows if "is_report" in row}
    listed = {
        (line["path"], *(("", False) if line["kind"] == "episodes" else (line["key"], bool(line.get("rolled_back")))))
        for line in lines
        if line["status"] == "stored"
    }
    if shown != listed:
        problems.append(f"tm.load differs from the index: {sorted(shown ^ listed)[:4]}")
    return problems


def _check_file(filesystem: pyarrow.fs.FileSystem, folder: str, line: dict[str, Any], files: list[str]) -> list[str]:
    path = line["path"]
    if path not in files:
        return [f"{path} is listed and not there"]
    with filesystem.open_input_stream(f"{folder}/{path}") as stream:
        content = stream.read()
    if hashlib.sha256(content).hexdigest() != line["sha256"] or len(content) != line["bytes"]:
        return [f"{path} has other bytes than its line says"]
    if path.startswith("episode_data/") and path.replace(".json", ".parquet") not in files:
        return [f"{path} has no Parquet"]
    return []


def _check_calls(places: Places, truth: Truth, counts: Counter[str]) -> list[str]:
    calls = read_lines(places.folder / "calls.jsonl")
    problems = []
    made: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for at, call in enumerate(calls):
        if call["call"] in ("metrics", "media"):
            made[call["call"], call["trial"], json.dumps(call["what"])].append(at)
    for report in truth.reports:
        if not truth.counts(report):
            continue
        trial = report["trial"]
        if ("metrics", trial, json.dumps(report["number"])) not in made:
            problems.append(f"{trial}: the backend did not get result {report['number']}")
        for key, path in truth.returned[report["number"]].items():
            if ("media", trial, json.dumps([key, path])) not in made and key != RAW:
                problems.append(f"{trial}: the backend did not get {key} {path}")
    for what, turns in made.items():
        for first, again in itertools.pairwise(turns):
            process = calls[first]["process"]
            if calls[again]["process"] == process:
                problems.append(f"the backend got {what} twice in one process")
                continue
            if calls[again]["row"] != calls[first]["row"] and is_blind(places, calls[again]["process"]):
                counts["calls that were made again with another row"] += 1
            elif calls[again]["row"] != calls[first]["row"] and truth.lost < 0:
                problems.append(f"the backend got {what} again with another row")
            counts["calls that were made again"] += 1
    return problems


def _numbers(reports: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(report["number"], report["process"], report["iteration"]) for report in reports]
