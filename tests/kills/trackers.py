"""Whether each tracker has what docs/faults.md promises for it after a kill."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kills.driver import CLIP_KEYS, RAW, Places
from tests.kills.truth import TrialThere, Truth
from tests.support.experiment import tensorboard_events
from tests.support.json_lines import read_lines
from tests.support.trackers import wandb_records

_NUMBER = "number"
_HISTOGRAMS = ("weights", "episodes/episode_length", "episodes/episode_return", "episodes/speed")


def check_trackers(places: Places, truth: Truth, trial: str, there: TrialThere, counts: Counter[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "result.json": _check_results(truth, trial, there),
            "TensorBoard": _check_tensorboard(places, truth, trial, there, Path(folder), counts),
            "W&B": _check_wandb(places, truth, trial, there, Path(folder), counts),
            "MLflow": _check_mlflow(places, truth, trial, there, counts),
            "calls": _check_calls(places, truth, trial, there, counts),
        }
    is_named = any(f"trial {trial} had" in log.read_text() for log in places.folder.glob("driver-*.log"))
    had_ended = truth.ends.get(trial, sys.maxsize) < truth.over.get("process", 0)  # Ray's logger does not look again
    if is_named or (had_ended and found["result.json"]):
        counts["result.json cut off by a kill"] += 1
        for name in ("result.json", "W&B") if is_named else ("result.json",):  # which are made of it
            found[name] = [problem for problem in found[name] if not problem.startswith("lacks result")]
    return [f"{name} {problem}" for name, problems in found.items() for problem in problems]


def is_blind(places: Places, process: int | str = "*") -> bool:
    """Return whether the storage had no thread, and could not tell in time which media are known."""
    logs = places.folder.glob(f"driver-{process}.log")
    return any("'tune_media storage' did not start" in log.read_text() for log in logs)


def names_loss(places: Places, trial: str) -> bool:
    """Return whether a driver has said that the storage lacks something of a trial."""
    said = [line for log in places.folder.glob("driver-*.log") for line in log.read_text().splitlines()]
    hole = f"the last media of trial {trial} before its driver was lost"
    return any(hole in line or ("storage may lack" in line and trial in line) for line in said)


def _unnamed(
    places: Places, truth: Truth, tracker: str, trial: str, lacks: list[str], counts: Counter[str]
) -> list[str]:
    """Return what a tracker lacks after a machine was lost, unless a driver has named the trial and the remedy."""
    said = [line for log in places.folder.glob("driver-*.log") for line in log.read_text().splitlines()]
    named = f"{tracker} may lack", trial, "tune-media export"
    is_named = any(all(text in line for text in named) for line in said)
    counts[f"{tracker}: media that a lost machine had"] += len(lacks)
    counts[f"{tracker}: trials named after a machine was lost"] += is_named
    needless = ["is named as lacking data, and no machine was lost"] if is_named and truth.lost < 0 else []
    return needless if is_named else lacks


def _check_results(truth: Truth, trial: str, there: TrialThere) -> list[str]:
    """Return what is wrong with the results that Ray's logger writes: each once."""
    text = there.read("result.json").decode() if "result.json" in there.files else ""
    held = Counter(int(number) for number in re.findall(r'"number": (\d+)\b', text))
    problems = [f"lacks result {number}" for number in truth.counting(trial).values() if number not in held]
    return problems + [f"has result {number} {count} times" for number, count in held.items() if count > 1]


def _check_tensorboard(
    places: Places, truth: Truth, trial: str, there: TrialThere, folder: Path, counts: Counter[str]
) -> list[str]:
    """Each step once: results that were reported there, and media of the index, or a restore names the trial."""
    there.copy("events.out.tfevents", folder / "events")
    events, is_whole = tensorboard_events(folder / "events"), truth.lost < 0
    tags = events.Tags()
    scalars, images, histograms = (set(tags[kind]) for kind in ("scalars", "images", "histograms"))
    shown = events.Scalars(f"ray/tune/{_NUMBER}") if f"ray/tune/{_NUMBER}" in scalars else []
    results = [(event.step, int(event.value)) for event in shown]
    problems = _compare("result", {}, results, is_whole=False)
    reported = {(report["iteration"], report["number"]) for report in truth.of_trial(trial)}
    problems += [f"has result {number} at iteration {step}" for step, number in set(results) - reported]
    counts["TensorBoard: results"] += len(shown)
    lacks: list[str] = []
    for key in (*CLIP_KEYS, RAW, *_HISTOGRAMS):
        tag = f"train/{key}"
        is_image = key not in _HISTOGRAMS
        held = (events.Images(tag) if is_image else events.Histograms(tag)) if tag in images | histograms else []
        held = list({event.step: event for event in held}.values())  # the page shows one a step
        own = "episodes/data" if key.startswith("episodes/") else key
        # A raw array that comes again may be shown at its new time.
        lines = [line for line in there.counting if line["key"] == own]
        wanted = {line["training_iteration"]: key != RAW and line["time"] for line in lines}
        times = [(event.step, key != RAW and event.wall_time) for event in held]
        found = _compare(tag, wanted, times, is_whole)
        if key == RAW and is_blind(places):  # it came as a new one, and its second array was lost in memory
            counts["TensorBoard: raw arrays lost in memory"] += sum(problem.startswith("lacks") for problem in found)
            found = [problem for problem in found if not problem.startswith("lacks")]
        problems += found
        lacks += [] if is_whole else _lacks(tag, wanted, times)
        counts["TensorBoard: media"] += len(held)
    return problems + _unnamed(places, truth, "TensorBoard", trial, lacks, counts)


def _check_wandb(
    places: Places, truth: Truth, trial: str, there: TrialThere, folder: Path, counts: Counter[str]
) -> list[str]:
    """One offline run, which is whole, and has each result and medium once."""
    files = [file for file in there.copy("wandb/offline-run-", folder) if file.suffix == ".wandb"]
    is_whole = not truth.ended_before_loss(trial)
    if len(files) != 1 and (files or is_whole):
        return [f"has {len(files)} runs"]
    records = list(wandb_records(files[0])) if files else []
    problems = [] if not files or records[-1].WhichOneof("record_type") == "exit" else ["has a run without an end"]
    numbers: list[tuple[int, float]] = []
    media: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for record in records:
        if record.WhichOneof("record_type") != "history":
            continue
        row = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        if _NUMBER in row:
            numbers.append((row["training_iteration"], row[_NUMBER]))
        for name, value in row.items():
            key, is_type, _ = name.rpartition("/_type")
            if is_type and value in ("video-file", "histogram"):
                media[key].append((row["media_step"], row.get(f"{key}/sha256")))
    problems += _compare("result", truth.counting(trial), numbers, is_whole)
    counts["W&B: results"] += len(numbers)
    lacks: list[str] = []
    for key in (*CLIP_KEYS, RAW, *_HISTOGRAMS):
        own = "episodes/data" if key.startswith("episodes/") else key
        lines = [line for line in there.counting if line["key"] == own]
        wanted = {line["training_iteration"]: None if key in _HISTOGRAMS else line["sha256"] for line in lines}
        held = media.get(f"train/{key}", [])
        problems += _compare(key, wanted, held, is_whole)
        lacks += [] if is_whole else _lacks(key, wanted, held)
        counts["W&B: media"] += len(held)
    return problems + _unnamed(places, truth, "W&B", trial, lacks, counts)


def _check_mlflow(places: Places, truth: Truth, trial: str, there: TrialThere, counts: Counter[str]) -> list[str]:
    """One run, with each result and file that counts; what a killed driver had sent besides is there, too."""
    from mlflow import MlflowClient

    is_store = places.mlflow.startswith("sqlite:")
    home, name = places.folder / "mlflow", "mlflow.db" if is_store else "server.db"
    client, problems = MlflowClient(f"sqlite:///{home}/{name}"), []
    experiment = client.get_experiment_by_name(places.mlflow_experiment)
    runs = [run for run in client.search_runs([experiment.experiment_id]) if run.data.tags["trial_name"][-2:] == trial]
    counted = {line["path"] for line in there.counting if line["key"] != RAW}
    if len(runs) != 1:
        if runs or not truth.ended_before_loss(trial):
            return [f"has {len(runs)} runs"]
        return _unnamed(places, truth, "MLflow", trial, [f"lacks {path}" for path in sorted(counted)], counts)
    (run,) = runs
    # What a lost machine had to tell a tracker is lost: `tune-media export` rebuilds the tracker.
    if run.info.status != "FINISHED" and not truth.ended_before_loss(trial):
        problems.append(f"has a run that is {run.info.status}")
    points = Counter(int(point.value) for point in client.get_metric_history(run.info.run_id, _NUMBER))
    reports = truth.of_trial(trial)
    problems += [f"has result {number} {count} times" for number, count in points.items() if count > 1]
    parts = [*(() if is_store else (experiment.experiment_id,)), run.info.run_id, "artifacts"]
    root = (home / "artifacts").joinpath(*parts)
    paths = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    paths = {path for path in paths if ".artifact.uploading." not in path}  # MLflow's own, half-written
    paths = {re.sub(r"-return_\d+-", "-", path) for path in paths}  # there the clip of an episode has it in its name
    wanted, allowed = set(), set()
    for report in reports:
        number = report["number"]
        if truth.counts(report) and number not in points:
            problems.append(f"lacks result {number}")
        for key, path in truth.returned.get(number, {}).items():
            allowed.add(path)
            if truth.counts(report) and key != RAW:
                wanted.add(path)
    problems += [f"lacks {path}" for path in sorted(wanted - paths)]
    lacks = [f"lacks {path}" for path in sorted(counted - wanted - paths)]  # which the storage has
    problems += _unnamed(places, truth, "MLflow", trial, lacks, counts)
    ids = {id[:12] for report in reports for id in report["media"].values() if id}
    for path in paths:
        known = path in allowed or any(id in path for id in ids) or "raw" in path or path.startswith("episode_data/")
        if not known and path.startswith("media/"):
            problems.append(f"has {path}, which nobody reported")
    best = max((line["episode_return"] for line in there.counting if "episode_return" in line), default=None)
    if run.data.metrics.get("best_return") != best and not truth.ended_before_loss(trial):
        problems.append(f"has the best return {run.data.metrics.get('best_return')}, not {best}")
    counts["MLflow: results"] += sum(points.values())
    counts["MLflow: media"] += sum(path.startswith(("media/", "episode_data/")) for path in paths)
    return problems


def _check_calls(places: Places, truth: Truth, trial: str, there: TrialThere, counts: Counter[str]) -> list[str]:
    """Return the media on the storage that the backend did not get, if a machine was lost."""
    calls = read_lines(places.folder / "calls.jsonl") if truth.lost >= 0 else []
    made = [call["what"] for call in calls if call["call"] == "media" and call["trial"] == trial]
    media = [[line["key"], line["path"]] for line in there.counting if truth.lost >= 0 and line["key"] != RAW]
    lacks = [f"lacks {place}" for place in media if place not in made]
    return _unnamed(places, truth, "calls", trial, lacks, counts)


def _lacks(what: str, wanted: dict[int, Any], held: Iterable[tuple[int, Any]]) -> list[str]:
    return [problem for problem in _compare(what, wanted, held, is_whole=True) if problem.startswith("lacks")]


def _compare(what: str, wanted: dict[int, Any], held: Iterable[tuple[int, Any]], is_whole: bool) -> list[str]:
    """Compare what a tracker has at each iteration with what counts there; less is right if it need not be whole."""
    found: dict[int, list[Any]] = defaultdict(list)
    for step, value in held:
        found[step].append(value)
    problems = []
    for step in sorted(wanted.keys() | found.keys()):
        values = found.get(step, [])
        if len(values) > 1:
            problems.append(f"has {what} of iteration {step} {len(values)} times")
        elif not values and is_whole:
            problems.append(f"lacks {what} of iteration {step}")
        elif values and is_whole and (step not in wanted or values[0] != wanted[step]):
            problems.append(f"has {what} of iteration {step} as {values[0]}, not {wanted.get(step)}")
    return problems
