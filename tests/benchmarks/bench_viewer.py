"""How long the viewer's first picture takes with 1,000 trials: python -m tests.benchmarks.bench_viewer.

First with a server that starts at the same moment and has to read the trials (their files are in the system's cache),
then with one that has read them; and what the verdict costs, by ``tm.load`` and on the page. ``--folder`` keeps the
experiment for the next run. The clips are real: five small mp4s, hard-linked.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.common import cpu_seconds, memory_kb, serving
from tests.support.browser import FLAGS, find_chromium
from tests.support.viewing import moving_bar

LINE = {
    "v": 4,
    "row": 1,
    "kind": "video",
    "section": "evaluation",
    "key": "episodes/best",
    "status": "stored",
    "format": "mp4",
    "width": 600,
    "height": 400,
    "fps": 50.0,
    "bytes": 15321,
    "sha256": "0" * 64,
    "episode_length": 200,
    "env_runner": 1,
    "env_index": 0,
    "explored": False,
    "metrics": {"speed_avg": 1.25, "speed_sum": 250.0},
}
_SERVER = """
import sys
from tune_media.viewing.watch import make_watch_server
server = make_watch_server(sys.argv[1])
print(server.port, flush=True)
server.serve_forever()
"""
_VERDICT = """
import resource, sys
import tune_media as tm
assert tm.load(sys.argv[1]).verdict.title
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)
"""
_WATCH = """
addEventListener("loadeddata", () => { window.firstPicture ??= performance.now(); }, true);
new PerformanceObserver((list) => {
  window.longest = Math.max(window.longest || 0, ...list.getEntries().map((entry) => entry.duration));
}).observe({ type: "longtask", buffered: true });
"""
_SCROLL = """() => new Promise((resolve) => {
  const frames = [];
  const began = performance.now();
  let last = began;
  function frame(now) {
    frames.push(now - last);
    last = now;
    scrollBy(0, 120);
    if (now - began < 4000) requestAnimationFrame(frame);
    else resolve(frames.slice(2).sort((a, b) => a - b));
  }
  requestAnimationFrame(frame);
})"""


def make(folder: Path, trials: int, clips: int) -> None:
    """Write an experiment: index lines, results with 150 metrics, a file a clip."""
    from tune_media.encoding.encoder import encode_video

    originals = []
    for number in range(5):
        path = folder / f"clip_{number}.mp4"
        path.write_bytes(encode_video(moving_bar(30, number), fps=30).data)
        originals.append(path)
    params = {f"setting_{number}": number for number in range(300)}
    noise, states = random.Random(1), []
    for trial in range(trials):
        media = folder / f"trial_{trial:04d}" / "media"
        clip_folder = media / "evaluation" / "episodes" / "best"
        clip_folder.mkdir(parents=True)
        rows = []
        for at in range(clips):
            id = f"{noise.getrandbits(128):032x}"
            path = f"media/evaluation/episodes/best/step_{at * 4000:09d}-{id[-12:]}.mp4"
            os.link(originals[trial % 5], media.parent / path)
            own = {"id": id, "path": path, "step": at * 4000, "episode_return": round(noise.uniform(0, 500), 2)}
            size = {"width": 64, "height": 48, "fps": 30.0, "frames": 30, "training_iteration": at, "seed": at}
            rows.append(json.dumps(LINE | own | size | {"trial_id": f"t{trial}", "bytes": 2000 + noise.randrange(999)}))
        returns = [noise.uniform(0, 500) for _ in range(10)]
        (media / "index.jsonl").write_text("\n".join([*rows, evaluation(media.parent, clips, returns)]) + "\n")
        config = {"lr": noise.random(), "gamma": trial % 5, **params}
        (media.parent / "params.json").write_text(json.dumps(config))
        metrics = {f"learner_{number}": noise.random() for number in range(148)}
        means = {"env_runners": {"episode_return_mean": statistics.mean(returns)}}
        result = {"training_iteration": clips, "timesteps_total": clips * 4000, "evaluation": means, **metrics}
        (media.parent / "result.json").write_text(json.dumps(result) + "\n")
        facts = {"trial_id": f"t{trial}", "relative_logdir": media.parent.name, "status": "TERMINATED"}
        own = {**facts, "config": config, "_Trial__unresolved_config": config, "evaluated_params": {"lr": config["lr"]}}
        states.append([json.dumps(own, indent=2), json.dumps({"last_result": result, "n_steps": "80" * 60_000})])
    (folder / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps({"trial_data": states}))


def evaluation(trial: Path, iteration: int, returns: list[float]) -> str:
    """Write the report of a trial's last evaluation, and return its index line."""
    from tune_media.storage.episode_files import (
        EpisodeReport,
        RecorderEpisodes,
        file_names,
        parquet_name,
        report_parquet,
    )
    from tune_media.values.episode_record import EpisodeRecord
    from tune_media.values.episodes import EpisodeBatch, EpisodeData

    records = [EpisodeRecord(f"{trial.name}-{n}", value, 200 + n, seed=1000 + n) for n, value in enumerate(returns)]
    batch = EpisodeBatch(tuple(EpisodeData(record, {}) for record in records))
    report, path = [RecorderEpisodes("evaluation", "episodes", batch)], file_names(iteration * 4000)
    (trial / path).parent.mkdir()
    (trial / parquet_name(path)).write_bytes(report_parquet(EpisodeReport("t", iteration, iteration * 4000, report)))
    own = {"id": batch.id, "path": path, "kind": EpisodeBatch.kind, "key": "episodes/data", "step": iteration * 4000}
    return json.dumps({**LINE, **own, "training_iteration": iteration})


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[tuple[str, int]]:
    """Run the server as ``tune-media watch`` does, in a process of its own; yield its address and its process id."""
    with serving("-c", _SERVER, str(folder)) as (port, pid):
        yield f"http://localhost:{port}/", pid


def wait_for(page: Any, condition: str) -> None:
    """Wait until an expression of JavaScript is true; the page's policy lets no ``wait_for_function`` run."""
    deadline = time.monotonic() + 120
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.02)


def open_cold(browser: Any, folder: Path, clips: int) -> dict[str, float]:
    """Start a server and open its page at once; return seconds until there is something to see, and all of it."""
    found = {}
    began = time.perf_counter()
    with watching(folder) as (url, pid):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.add_init_script(_WATCH)
        page.goto(url)
        app = "tuneMedia.app.instance"
        for name, condition in {
            "first picture": "window.firstPicture",
            "all trials read": f"{app}.data && !{app}.reading",
            "the verdict": f"{app}.judged",
            "all clips known": f"{app}.data.trials.at(-1).clipCount === {clips}",
        }.items():
            wait_for(page, condition)
            found[name] = time.perf_counter() - began
            if name == "first picture":
                found["trials in the first picture"] = page.evaluate(f"{app}.data.trials.length")
            if name == "the verdict":
                found["CPU of the server until then"] = cpu_seconds(pid)
                found["MB of the server until then"] = memory_kb("VmHWM", pid) / 1000
        found["CPU of the server"], found["MB of the server"] = cpu_seconds(pid), memory_kb("VmHWM", pid) / 1000
        page.close()
    return found


def verdict(folder: Path) -> dict[str, float]:
    """Return what ``tm.load(...).verdict`` costs a process."""
    printed = subprocess.run([sys.executable, "-c", _VERDICT, folder], check=True, capture_output=True, text=True)
    seconds, size = map(float, printed.stdout.split())
    return {"CPU": seconds, "MB": size}


def show(head: str, rounds: list[dict[str, float]], form: str) -> None:
    """Print the median, the least and the most of each of some values."""
    for name in rounds[0]:
        values = sorted(found[name] for found in rounds)
        numbers = " | ".join(format(value, form) for value in (statistics.median(values), values[0], values[-1]))
        print(f"| {head} | {name} | {numbers} |", flush=True)


def ask(url: str, pid: int) -> None:
    """Print what each answer costs."""
    print("\n| answer | CPU ms of the server | kB sent | kB of JSON |\n|---|---|---|---|")
    for name in ("data/first.json", "data/index.json", "data/metrics.json"):
        times = []
        for _ in range(3):
            before = cpu_seconds(pid)
            request = urllib.request.Request(url + name, headers={"Accept-Encoding": "gzip"})
            content = urllib.request.urlopen(request).read()
            times.append(cpu_seconds(pid) - before)
        sent = len(content)
        raw = len(gzip.decompress(content)) if content[:2] == b"\x1f\x8b" else sent
        print(f"| {name} | {statistics.median(times) * 1e3:.0f} | {sent / 1e3:.0f} | {raw / 1e3:.0f} |")


def open_bare(browser: Any, url: str) -> dict[str, float]:
    """Open a page that has nothing but the first 12 clips and 1,000 empty boxes: the floor. Return ms."""
    first = json.load(urllib.request.urlopen(url + "data/first.json"))
    read = {name: _column(column) for name, column in first["clips"].items() if name != "count"}
    paths = [f"media/{first['trials'][read['trial'](row)]['id']}/{read['folder'](row)}/" for row in range(24)]
    clips = "".join(
        f"<video muted src='{path}{read['file'](row)}'></video>" for row, path in list(enumerate(paths))[::2]
    )
    boxes = "<div style='display:inline-block;width:280px;height:340px;background:#ddd;margin:8px'>x</div>" * 1000
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(_WATCH)
    page.route(url + "bare.html", lambda route: route.fulfill(body=clips + boxes, content_type="text/html"))
    page.goto(url + "bare.html")
    wait_for(page, "window.firstPicture")
    found = {"first picture": page.evaluate("window.firstPicture"), **_frames(page.evaluate(_SCROLL))}
    page.close()
    return found


def _frames(sorted_times: list[float]) -> dict[str, float]:
    """Return how long frames took while the page scrolled, ms."""
    count = len(sorted_times)
    middle, late = sorted_times[count // 2], sorted_times[count * 95 // 100]
    return {"scrolling: median frame": middle, "scrolling: 95 % of frames": late}


def _column(column: dict[str, Any]) -> Any:
    if "same" in column:
        return lambda row: column["same"]
    return lambda row: column["of"][column["at"][row]] if "of" in column else column["all"][row]


def open_page(browser: Any, url: str, pid: int) -> dict[str, float]:
    """Open the page and return what was measured, ms."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(_WATCH)
    session = page.context.new_cdp_session(page)
    session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})  # CPU time: other processes do not count
    session.send("Performance.enable")
    before = cpu_seconds(pid)
    page.goto(url)
    wait_for(page, "window.firstPicture")
    found = {"first picture": page.evaluate("window.firstPicture")}

    metrics = _metrics(session)
    found["server CPU until then"] = (cpu_seconds(pid) - before) * 1e3
    found["page's main thread until then"] = metrics["TaskDuration"] * 1e3
    found["of it script"] = metrics["ScriptDuration"] * 1e3
    found["of it layout and style"] = (metrics["LayoutDuration"] + metrics["RecalcStyleDuration"]) * 1e3
    page.wait_for_timeout(3000)
    found |= page.evaluate("Object.fromEntries(performance.getEntriesByType('mark').map((m) => [m.name, m.startTime]))")
    found["longest task"] = page.evaluate("window.longest || 0")
    found["videos with a src"] = page.evaluate("document.querySelectorAll('video[src]').length")
    found["elements"] = page.evaluate("document.querySelectorAll('*').length")
    before = _metrics(session)["TaskDuration"]
    frames = page.evaluate(_SCROLL)
    found["scrolling: main thread a frame"] = (_metrics(session)["TaskDuration"] - before) * 1e3 / len(frames)
    found |= _frames(frames)
    page.close()
    return found


def _metrics(session: Any) -> dict[str, float]:
    """Return what Chromium has measured of the page: its main thread's CPU time and more, seconds."""
    return {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}


def main() -> None:
    """Make the experiment, serve it, and open it several times."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--clips", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not list(folder.glob("trial_*")):
            folder.mkdir(exist_ok=True)
            make(folder, options.trials, options.clips)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=find_chromium(), args=FLAGS)
            cold = [open_cold(browser, folder, options.clips) for _ in range(min(3, options.rounds))]
            print("| started cold | until | median, s | least | most |\n|---|---|---|---|---|")
            show("`tune-media watch`", cold, ".1f")
            show("`tm.load(...).verdict`", [verdict(folder) for _ in cold], ".1f")
            with watching(folder) as (url, pid):
                urllib.request.urlopen(url + "data/index.json").read()
                ask(url, pid)
                pairs = [(open_page(browser, url, pid), open_bare(browser, url)) for _ in range(options.rounds)]
            browser.close()
    print("\n| page | what | median, ms | least | most |\n|---|---|---|---|---|")
    for page, rounds in zip(("the viewer", "a bare page with 12 clips"), zip(*pairs, strict=True), strict=True):
        show(page, list(rounds), ".0f")


if __name__ == "__main__":
    main()
