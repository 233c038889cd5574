"""Runs the benchmarks and writes two pages of the docs: python -m tests.benchmarks.report [NAME].

Each benchmark is a process of its own, and prints tables. ``tables.md`` has them; a benchmark that is not run keeps
its section. ``docs/performance.md``, with its figures and pictures, is made of the tables.
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
from typing import Literal

ROOT = Path(__file__).parents[2]
PAGE, TABLES = ROOT / "docs" / "performance.md", Path(__file__).with_name("tables.md")
OUTPUT = ROOT / "build" / "bench"
TAPES_SINCE = "2026-11-23"  # sections that were measured before show older code, and are on the page of tables only
EVALUATION_PICTURE, LOOP_PICTURE = "performance-evaluation.png", "performance-loop.png"
PACKAGES = ("ray", "gymnasium", "av", "torch", "stable-baselines3", "moviepy", "ale-py", "mujoco", "wandb", "mlflow")


@dataclass(frozen=True)
class Benchmark:
    """A benchmark and its section of the tables.

    It runs in the environment of the tests, in that of the peers (moviepy, mujoco, opencv), or on the oldest Ray. Its
    module is ``bench_<name>`` unless another one is named.
    """

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    environment: Literal["tests", "peers", "oldest"] = "tests"
    of: str = ""

    @property
    def module(self) -> str:
        return f"bench_{self.of or self.name}"


BENCHMARKS = (
    Benchmark("replay", "Rendering only the chosen episodes", environment="peers"),
    Benchmark("training", "A training run with a recorder and without", environment="peers"),
    Benchmark("evaluation", "Evaluating a checkpoint"),
    Benchmark("tune_loop", "Tune's loop"),
    Benchmark("sweep", "Results per second of a sweep"),
    Benchmark("bytes", "Uploaded bytes"),
    Benchmark("viewer", "A thousand trials of 100 clips in the viewer"),
    Benchmark("viewer_20", "A thousand trials of 20 clips in the viewer", ("--clips", "20"), of="viewer"),
    Benchmark("million", "A million episodes"),
    Benchmark("gate", "How sure a gate is"),
    Benchmark("statistics", "How often «clearly» is wrong"),
    Benchmark("follow", "Evaluating beside a sweep"),
    Benchmark("importance", "Which hyperparameter matters", ("--sweeps", "200")),
    Benchmark("folders", "Finding the runs of other tools"),
    Benchmark("event_files", "Reading event files"),
    Benchmark("soak", "A thousand trials in one driver", (str(ROOT / "docs" / "soak.png"),)),
    Benchmark(
        "replay_oldest", "Rendering only the chosen episodes, on the oldest Ray", ("CartPole",), "oldest", "replay"
    ),
    Benchmark("evaluation_oldest", "Evaluating a checkpoint, on the oldest Ray", (), "oldest", "evaluation"),
    Benchmark("tune_loop_oldest", "Tune's loop, on the oldest Ray", (), "oldest", "tune_loop"),
)


@dataclass(frozen=True)
class Figure:
    """A figure of the page: a cell of a table, and the same cell of what it is compared with.

    Rows are found by the texts of their first cells, tables by the beginning of the line above; empty: the first one
    that has the row. ``beside`` has the column and unit of an absolute figure that is shown beside a ratio.
    """

    benchmark: str
    what: str
    column: str
    ours: tuple[str, ...]
    peer: tuple[str, ...]
    table: str = ""
    beside: tuple[str, str] | None = None


_, _EIGHT, _LONG_ONE, _LONG_EIGHT = (
    f"{env}: an evaluation of 10 episodes by an env runner with {envs} env(s)"
    for env in ("CartPole", "CartPole, 200 steps")
    for envs in (1, 8)
)
_TAPE, _DIRECT = ("on tape, the default",), ("direct",)
_RAYS, _ALL = "Ray's JSON and TBX, no media", "ours: JSON, TensorBoard"
_MS = ("ms", "s")
FIGURES = (
    Figure("training", "training PPO on CartPole, with evaluations, relative to no recorder",
           "ratio (95 % interval)", ("CartPole-v1", "0", _ALL), ("CartPole-v1", "0", _RAYS)),
    Figure("replay", "an evaluation of 10 episodes of 200 steps, 1 env, relative to one without a recorder", "ratio",
           _TAPE, _DIRECT, _LONG_ONE, _MS),
    Figure("replay", "the same, 8 envs", "ratio", _TAPE, _DIRECT, _LONG_EIGHT, _MS),
    Figure("replay", "episodes of 24 steps, 8 envs", "ratio", _TAPE, _DIRECT, _EIGHT, _MS),
    Figure("tune_loop", "milliseconds of CPU of Tune's loop for a result with a clip", "CPU, ms: median",
           ("200 metrics and a Video", _ALL), ("200 metrics and a Video", _RAYS)),
    Figure("sweep", "results per second, relative to Ray's loggers", "ratio", (_ALL,),
           ("Ray's JSON and TBX, no clips",), "10 trials", ("results/s", "per s")),
    Figure("sweep", "with JSON alone, beside Ray's TBX", "ratio", ("ours: JSON",),
           ("Ray's JSON and TBX, no clips",), "10 trials", ("results/s", "per s")),
    Figure("bytes", "bytes uploaded, relative to bytes recorded", "ratio",
           ("ours: JSON and TensorBoard",), ("clips in the trial's folder",), beside=("uploaded, MB", "MB")),
    Figure("bytes", "with JSON alone, without TensorBoard's GIFs", "ratio", ("ours: JSON",),
           ("clips in the trial's folder",), beside=("uploaded, MB", "MB")),
    Figure("viewer", "seconds to the first picture of `tune-media watch`, 1,000 trials of 100 clips",
           "median, s", ("`tune-media watch`", "first picture"), ("`tune-media watch`", "all trials read")),
    Figure("viewer", "milliseconds once it has read the trials", "median, ms",
           ("the viewer", "first picture"), ("a bare page with 12 clips", "first picture")),
    Figure("soak", "the driver's memory at the end of 1,000 trials, relative to after 150", "ratio",
           ("ours", "resident memory, MB"), ("Ray's, numbers only", "resident memory, MB"),
           beside=("last tenth", "MB")),
)  # fmt: skip


def run(benchmark: Benchmark, python: str) -> str | None:
    """Run a benchmark and return its section of the page; None if it failed."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    print(f"== {benchmark.title}", flush=True)
    command = [python, "-m", f"tests.benchmarks.{benchmark.module}", *benchmark.arguments]
    without_screen = {"MUJOCO_GL": "osmesa", "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy"}
    environment = {**without_screen, **os.environ, "PYTHONPATH": str(ROOT)}
    started = os.getloadavg()[0]
    with (OUTPUT / f"{benchmark.name}.log").open("w") as log:
        process = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    print(process.stdout)
    if process.returncode:
        print(f"{benchmark.module} failed; see {log.name}. Its section stays as it was.", flush=True)
        return None
    date = datetime.datetime.now(datetime.UTC).date()
    release = versions_of(python)["ray"]
    when = _filled(
        f"Measured on {date} on {machine()}, with Ray {release} and a load average of {started:.0f} at the start."
    )
    (OUTPUT / f"{benchmark.name}.md").write_text(process.stdout)
    (OUTPUT / f"{benchmark.name}.when").write_text(when)
    return section(benchmark, process.stdout, when)


def section(benchmark: Benchmark, output: str, when: str) -> str:
    """Return a benchmark's section: what it measures, and what it printed."""
    source = (Path(__file__).parent / f"{benchmark.module}.py").read_text()
    about = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
    about = re.sub(r": ``?python -m.*?``?(?=\.$)|: python -m .*?(?=\.$)", "", about, flags=re.DOTALL)
    about = re.sub(r"``(.*?)``", r"`\1`", about)
    heading = f"## {benchmark.title} (`{benchmark.module}`)"
    parts = [f"<!-- {benchmark.name} -->", heading, about, without_paths(output).strip(), when]
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


def versions_of(python: str) -> dict[str, str]:
    """Return the versions of the packages that an interpreter imports, by name."""
    code = (
        "import importlib.metadata as m, json; "
        "all = [*m.distributions()]; "  # what is imported comes first
        "print(json.dumps({d.name.lower(): d.version for d in reversed(all)}))"
    )
    return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def introduction(python: str) -> str:
    """Return the beginning of the page: how to read it, and the versions."""
    installed = versions_of(python)
    versions = ", ".join(f"{name} {installed[name]}" for name in PACKAGES if name in installed)
    built = textwrap.fill(f"Python {platform.python_version()}, {versions}.", 120)
    return f"""# Benchmarks

The tables behind [performance](../../docs/performance.md), as `make bench` wrote them.

{built}
"""


def page(sections: dict[str, str]) -> str:
    """Return the page about performance: the figures of the tables, and the pictures."""
    lines = ["| what | tune_media | compared with |", "|---|---|---|"]
    for figure in FIGURES:
        section = sections.get(figure.benchmark)
        if section is not None and not _is_older(section):
            ours, peers = (_shown(section, figure, row) for row in (figure.ours, figure.peer))
            lines.append(f"| {figure.what} | **{ours}** | {peers}: {_name_of_peer(figure)} |")
    table = "\n".join(lines)
    current = [name for name, section in sections.items() if not _is_older(section)]
    pictures = "\n\n".join(f"![{about}]({file})" for name, file, about in SHOWN if name in current)
    return f"""# Performance

By default, an episode is put on tape, which costs little. One that cannot be played again is rendered *directly*,
in the env runner; then fewer frames help (`every=`, a trigger).

{table}

Medians of times and of ratios, on two cores without a GPU. [The
tables](../tests/benchmarks/tables.md) have all, with dates.

{pictures}
"""


def _name_of_peer(figure: Figure) -> str:
    return next(theirs for ours, theirs in zip(figure.ours, figure.peer, strict=True) if ours != theirs)


def _shown(section: str, figure: Figure, row: tuple[str, ...]) -> str:
    """Return a figure, with the absolute one beside it: seconds of a column in milliseconds."""
    shown = cell_of(section, figure.column, figure, row)
    if figure.beside is None:
        return shown
    column, unit = figure.beside
    beside = cell_of(section, column, figure, row)
    return f"{shown} ({float(beside) / 1000:.2g} s)" if unit == "s" else f"{shown} ({beside} {unit})"


def _is_older(section: str) -> bool:
    found = re.search(r"Measured on\s+(\d{4}-\d\d-\d\d)", section)
    return found is not None and found[1] < TAPES_SINCE


def cell_of(section: str, column: str, figure: Figure, row: tuple[str, ...]) -> str:
    """Return the cell of a column in a row, of the first of a figure's tables that has this row.

    Raises:
        KeyError: There is no such table, row or column.
    """
    for title, table in re.findall(r"(?m)^([^|\n].*)\n\n((?:(?:\|.*)?\n)+)", section):
        for cells in tables_of(table) if title.startswith(figure.table) else ():
            if tuple(cells.values())[: len(row)] == row and column in cells:
                return cells[column]
    raise KeyError(f"bench_{figure.benchmark} has no row {row} in a table that begins with {figure.table!r}")


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


def draw_evaluation(sections: dict[str, str]) -> None:
    """Draw the duration of an evaluation by method: ratios to one without a recorder."""
    (table,) = re.findall(rf"(?m)^{re.escape(_LONG_ONE)}\n\n((?:\|.*\n)+)", sections["replay"])
    names = {"on tape, the default": "tune_media, on tape (the default)", "direct": "tune_media, direct"}
    bars = [
        ("CartPole, 10 episodes of 200 steps", names.get(row["method"], row["method"]), float(row["ratio"]))
        for row in tables_of(table)[1:]
    ]
    _draw(EVALUATION_PICTURE, bars, "duration of an evaluation / one without a recorder (1 = no cost)", floor=1.0)


def draw_loop(sections: dict[str, str]) -> None:
    """Draw how much of its time Tune's loop spends on one result."""
    bars = [(row["what"], row["method"], float(row["CPU, ms: median"])) for row in tables_of(sections["tune_loop"])]
    _draw(LOOP_PICTURE, bars, "CPU milliseconds that Tune's loop spends on one result, median")


SHOWN = (
    ("replay", EVALUATION_PICTURE, "Duration of an evaluation, relative to one without a recorder"),
    ("tune_loop", LOOP_PICTURE, "CPU time that Tune's loop spends on one result, by logger"),
    ("soak", "soak.png", "Threads, open files and memory over a thousand trials"),
)
PICTURES = {"replay": draw_evaluation, "tune_loop": draw_loop}


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
    parser.add_argument("--oldest", help="the Python that has the oldest Ray")
    parser.add_argument("--saved", action="store_true", help="take the outputs of the last run in build/bench")
    options = parser.parse_args()
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = set(options.names) - known.keys()
    if unknown:
        parser.error(f"no benchmark is named {min(unknown)!r}; there are {', '.join(known)}")
    chosen = options.names or list(known)
    pythons = {"tests": sys.executable, "peers": options.peers, "oldest": options.oldest}
    if not options.saved and options.oldest is None and any(known[name].environment == "oldest" for name in chosen):
        parser.error("--oldest has to name the Python with the oldest Ray")
    sections, failed = sections_of(TABLES.read_text()), []
    for name in chosen:
        if options.saved:
            made = section(known[name], *((OUTPUT / f"{name}.{end}").read_text() for end in ("md", "when")))
        else:
            made = run(known[name], pythons[known[name].environment])
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
    """Write the tables, and the page that is made of them."""
    published = [one.name for one in BENCHMARKS if one.name in sections]
    TABLES.write_text("\n".join([introduction(peers), *(sections[name] for name in published)]))
    PAGE.write_text(page(sections))


if __name__ == "__main__":
    main()
