"""Runs the benchmarks and writes ``docs/performance.md`` with its pictures: python -m tests.benchmarks.report [NAME].

Each benchmark is a process of its own, and prints tables. A benchmark that is not run keeps its section of the page.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.common import ROWS

ROOT = Path(__file__).parents[2]
PAGE, OUTPUT = ROOT / "docs" / "performance.md", ROOT / "build" / "bench"
RECORDING_PICTURE, LOOP_PICTURE = "performance-recording.png", "performance-loop.png"
PACKAGES = ("ray", "gymnasium", "av", "torch", "stable-baselines3", "moviepy", "ale-py", "mujoco", "wandb", "mlflow")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark and its section of the page.

    Attributes:
        name: The module is ``bench_<name>``.
        title: The heading.
        arguments: Its command line.
        has_peers: Whether it needs the packages of the peers (moviepy, mujoco, opencv).
        remark: What the figures show.
    """

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    has_peers: bool = False
    remark: str = ""


BENCHMARKS = (
    Benchmark("recording", "Recording an episode", has_peers=True, remark=f"""
        ![CPU time of an episode by method and env, as a ratio to stepping and rendering]({RECORDING_PICTURE})

        `RecordVideo` and `VecVideoRecorder` hold all frames of a clip in memory and encode them at its end. Where
        rendering is slow (MuJoCo), the recorder adds about a tenth, and only `every=` and
        [`render="replay"`](recording.md#render-only-the-winners) save time. Where rendering takes less time than
        encoding (CartPole, Atari), the encoder is what costs. To scale a frame of Atari's size costs more than its
        smaller clip saves. The memory target was that 1,000 frames add less than 32 MB. FFmpeg's libraries and the
        encoder take 30 to 38 MB from the first frame on; the other 990 frames add less than 10 MB."""),
    Benchmark("replay", "Rendering only the winners", has_peers=True, remark="""
        The CPU time is that of the Algorithm's process. The target is 1.05 of no recorder and 5 ms more. One env meets
        it; 8 envs, whose rounds take 71 ms, miss it by 24 ms: two requests to the env runner, and the tapes."""),
    Benchmark("frames", "Cheaper frames: what was tried", has_peers=True, remark="""
        Nothing in these tables pays enough to be worth its complexity. What pays is to render fewer frames:
        `VideoOptions(every=k)` and `render="replay"`, in the tables above and in
        [render only the winners](recording.md#render-only-the-winners)."""),
    Benchmark("encoding", "Encoding, GIFs and scaling", remark="""
        Pillow's box filter is faster on its own. In a clip, PyAV scales and converts to the encoder's colours in one
        pass."""),
    Benchmark("gym", "Steps that are not recorded"),
    Benchmark("evaluation", "Evaluating a checkpoint", remark="""
        Nearly all of the rest is the import of RLlib and torch."""),
    Benchmark("tune_loop", "Tune's loop", remark=f"""
        ![CPU time that Tune's loop spends on one result, by logger]({LOOP_PICTURE})"""),
    Benchmark("outbox", "The outbox", remark="""
        Where one result comes at a time, most of the time is that of a processor that wakes up: SQLite alone needs
        about five times what it needs for the second of two results. A reader that is woken waits 10 ms before it
        reads, so that results that come at once do not wait for the interpreter's lock while five threads run."""),
    Benchmark("sweep", "Results per second of a sweep", remark="""
        The target is 0.9 of the rate of Ray's loggers, without a gap above 0.5 s. To make a GIF takes several
        milliseconds of a core, so two cores that run trials, too, cannot make one for each of hundreds of results a
        second. The GIFs are made in a thread of niceness 5: Tune's loop goes first, and the GIFs that are left are made
        at the end. With 1,000 trials, the gaps are those in which Tune starts and ends trials: Ray's loggers alone have
        them, too. The rates of these sweeps differ much from run to run, with either loggers."""),
    Benchmark("trackers", "Tune's loop, with W&B and MLflow", has_peers=True),
    Benchmark("async_pull", "IMPALA", remark="""
        Most iterations find no new sample and are short, unless the collection waits. The table shows that nothing
        waits. It is too coarse to tell the exact cost."""),
    Benchmark("bytes", "Uploaded bytes", remark="""
        The targets were 1.1 with JSON and 1.5 with TensorBoard. Tune's own files alone, the last row, exceed the 0.1
        that the first target allows. TensorBoard's event files contain the GIFs, and the GIF of a clip of noise, as
        here, takes 2.3 times the bytes of the mp4. Little is uploaded twice: compare the ratio with what is on the
        storage. On remote storage event files are split into segments, and the newest segment is uploaded again until
        it is full. On a local disk, a trial has a single event file."""),
    Benchmark("storage", "Two hundred clips a second"),
    Benchmark("index", "The index, with many small media", remark="""
        The index column holds the experiment's log, too, which has each line before its file. The filesystem that
        counts bytes takes whole files only, as an object store does: the log is written in parts, and as one file at
        the end, so that each line is written about three times. That is more than media of 1 kB take, and a few percent
        of clips of 100 kB. On this machine's own disk the log is one file that grows. The longer a run takes, the more
        often its index is copied."""),
    Benchmark("catalog", "A million index lines"),
    Benchmark("viewer", "A thousand trials in the viewer"),
    Benchmark("soak", "A thousand trials in one driver", (str(ROOT / "docs" / "soak.png"),), remark="""
        ![Threads, open files and memory over a thousand trials](soak.png)"""),
)  # fmt: skip


def run(benchmark: Benchmark, python: str) -> str | None:
    """Run a benchmark and return its section of the page; None if it failed."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    rows = OUTPUT / f"{benchmark.name}.jsonl"
    rows.unlink(missing_ok=True)
    print(f"== bench_{benchmark.name}", flush=True)
    command = [python, "-m", f"tests.benchmarks.bench_{benchmark.name}", *benchmark.arguments]
    without_screen = {"MUJOCO_GL": "osmesa", "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    environment = {**without_screen, **os.environ, ROWS: str(rows), "PYTHONPATH": str(ROOT)}
    started = os.getloadavg()[0]
    with (OUTPUT / f"{benchmark.name}.log").open("w") as log:
        process = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    print(process.stdout)
    if process.returncode:
        print(f"bench_{benchmark.name} failed; see {log.name}. Its section stays as it was.", flush=True)
        return None
    date = datetime.datetime.now(datetime.UTC).date()
    when = _filled(f"Measured on {date} on {machine()}, with a load average of {started:.0f} at the start.")
    (OUTPUT / f"{benchmark.name}.md").write_text(process.stdout)
    (OUTPUT / f"{benchmark.name}.when").write_text(when)
    return section(benchmark, process.stdout, when)


def section(benchmark: Benchmark, output: str, when: str) -> str:
    """Return a benchmark's section: what it measures, what it printed, and what that shows."""
    source = (Path(__file__).parent / f"bench_{benchmark.name}.py").read_text()
    about = re.sub(
        r": ``?python -m.*?``?(?=\.\n|\.$)|: python -m [^\n]*?(?=\.\n|\.$)",
        "",
        ast.get_docstring(ast.parse(source)) or "",
    )
    about = re.sub(r"``(.*?)``", r"`\1`", re.sub(r"\n\nRun it with .*", "", about))
    heading = f"## {benchmark.title} (`bench_{benchmark.name}`)"
    parts = [
        f"<!-- {benchmark.name} -->",
        heading,
        about,
        without_paths(output).strip(),
        _filled(benchmark.remark),
        when,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _filled(text: str) -> str:
    """Return paragraphs with lines of the page's length."""
    paragraphs = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(textwrap.fill(part, 120, break_long_words=False, break_on_hyphens=False) for part in paragraphs)


def without_paths(output: str) -> str:
    """Return the lines of an output that belong on the page: tables, and text without paths of the machine.

    Example:
        >>> without_paths("wrote /tmp/x.png\\n\\nSpeed\\n\\n| a |\\n|---|")
        'Speed\\n\\n| a |\\n|---|'
    """
    noise = re.compile(r"(^|\s)/\w+/|warning|^MoviePy|^Saving video|^\[Powered|^A\.L\.E|^tune_media: ", re.IGNORECASE)
    lines = [line for line in output.splitlines() if line.startswith("|") or not noise.search(line)]
    text = "\n".join(lines).strip()
    text = re.sub(r"(?m)^(\|.*)\n(?!\||\n|$)", r"\1\n\n", text)  # a table ends with an empty line
    return re.sub(r"\n{3,}", "\n\n", text)


def sections_of(page: str) -> dict[str, str]:
    """Return the sections of a page by the name of their benchmark.

    Example:
        >>> sections_of("intro\\n\\n<!-- gym -->\\n\\n## Steps\\n")
        {'gym': '<!-- gym -->\\n\\n## Steps\\n'}
    """
    parts = re.split(r"(?m)^(?=<!-- \w+ -->$)", page)[1:]
    return {part.split()[1]: f"{part.rstrip()}\n" for part in parts}


def machine() -> str:
    """Return this machine in a few words: its cores, and the name of its processor."""
    cpus = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpus.read_text()) if cpus.exists() else None
    return f"{os.cpu_count()} cores ({model[1] if model else platform.processor()}), {platform.system()}, no GPU"


def introduction(python: str) -> str:
    """Return the beginning of the page: how to read it, and the versions."""
    code = "import importlib.metadata as m, json; print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"  # noqa: E501
    installed = json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    versions = ", ".join(f"{name} {installed[name]}" for name in PACKAGES if name in installed)
    built = textwrap.fill(f"Python {platform.python_version()}, {versions}.", 120)
    return f"""# Performance

`make bench` runs the benchmarks in `tests/benchmarks` and writes this page; `make bench ONLY="gym index"` runs some of
them. **Use the ratios, not the absolute times.** The methods in a table take turns, round by round, so that other work
on the machine slows all of them alike. Each time is a median, with the quartiles as its spread. A ratio is the median
of the ratios of each round to the first method of the table. CPU time is that of all threads and of helper programs
such as ffmpeg; other work on the machine hardly changes it, so its ratio is the more reliable one.

{built}
"""


def tables_of(text: str) -> list[dict[str, str]]:
    """Return the rows of all tables in a text, each with its cells by column.

    Example:
        >>> tables_of("| method | ms |\\n|---|---|\\n| ours | 3 |")
        [{'method': 'ours', 'ms': '3'}]
    """
    rows, head = [], []
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if re.fullmatch(r"\|[-|]+\|", following.strip()):
            head = cells
        elif line.startswith("|") and not re.fullmatch(r"\|[-|]+\|", line.strip()):
            rows.append(dict(zip(head, cells, strict=False)))
    return rows


def draw_recording(sections: dict[str, str]) -> None:
    """Draw the cost of recording by method and env: ratios of CPU time."""
    by_env: dict[str, dict[str, float]] = {}
    for title, table in re.findall(r"(?m)^(\w+): an episode of .*\n\n((?:\|.*\n)+)", sections["recording"]):
        rows = {row["method"]: float(row["CPU ratio"]) for row in tables_of(table)}
        by_env[title] = {
            method: ratio for method, ratio in rows.items() if not method.startswith(("step only", "step and"))
        }
    bars = [(env, method, ratio) for env, methods in by_env.items() for method, ratio in methods.items()]
    _draw(RECORDING_PICTURE, bars, "CPU time of an episode / stepping and rendering it (1 = no cost)", floor=1.0)


def draw_loop(sections: dict[str, str]) -> None:
    """Draw how much of its time Tune's loop spends on one result."""
    bars = [(row["what"], row["method"], float(row["CPU, ms: median"])) for row in tables_of(sections["tune_loop"])]
    _draw(LOOP_PICTURE, bars, "CPU milliseconds that Tune's loop spends on one result, median")


PICTURES = {"recording": draw_recording, "tune_loop": draw_loop}


def _draw(name: str, bars: list[tuple[str, str, float]], label: str, *, floor: float = 0.0) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    groups = dict.fromkeys(group for group, _, _ in bars)
    figure, axes = plt.subplots(figsize=(9, 0.32 * (len(bars) + 1.6 * len(groups)) + 0.8), layout="constrained")
    place, places, names = 0.0, [], []
    for group in groups:
        axes.text(0, place, group, transform=axes.get_yaxis_transform(), fontweight="bold", va="center")
        for _, method, value in (bar for bar in bars if bar[0] == group):
            place += 1
            is_ours = method.startswith(("tune_media", "ours"))
            axes.barh(place, value, color="#2f6db3" if is_ours else "#b9bec5")
            axes.text(value, place, f" {value:.3g}", va="center", fontsize=8)
            places.append(place)
            names.append(method)
        place += 1.6
    axes.set_yticks(places, names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    if floor:
        axes.axvline(floor, color="#444", linewidth=0.8)
    axes.margins(x=0.12)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(ROOT / "docs" / name, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the benchmarks to run; all if none is named")
    parser.add_argument("--peers", default=sys.executable, help="the Python that has moviepy, mujoco and opencv")
    parser.add_argument("--saved", action="store_true", help="take the outputs of the last run in build/bench")
    options = parser.parse_args()
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = set(options.names) - known.keys()
    if unknown:
        parser.error(f"no benchmark is named {min(unknown)!r}; there are {', '.join(known)}")
    sections, failed = sections_of(PAGE.read_text()), []
    for name in options.names or known:
        if options.saved:
            made = section(known[name], *((OUTPUT / f"{name}.{end}").read_text() for end in ("md", "when")))
        else:
            made = run(known[name], options.peers if known[name].has_peers else sys.executable)
        if made is None:
            failed.append(name)
            continue
        sections[name] = made
        if name in PICTURES:
            PICTURES[name](sections)
        write(sections, options.peers)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def write(sections: dict[str, str], peers: str) -> None:
    """Write the page."""
    in_order = [sections[benchmark.name] for benchmark in BENCHMARKS if benchmark.name in sections]
    PAGE.write_text("\n".join([introduction(peers), *in_order]))


if __name__ == "__main__":
    main()
