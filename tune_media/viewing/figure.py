"""Learning curves of the configurations in one figure, for papers: ``tune-media figure``."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.storage.filesystem import save_file
from tune_media.values import score
from tune_media.values.installing import pip_install
from tune_media.values.number import counted
from tune_media.values.problems import argument, remedy
from tune_media.viewing.comparison import judged, metric_named, scores_by
from tune_media.viewing.configurations import Configuration, Judged, ReturnFrom, masked, titles, told_of
from tune_media.viewing.curves import Curves, MeanCurve
from tune_media.viewing.inference import Estimate
from tune_media.viewing.looks import looks
from tune_media.viewing.verdict import failed_ahead

if TYPE_CHECKING:
    from tune_media.viewing.catalog import Catalog

FORMATS = (".pdf", ".png", ".svg")
_WIDTH, _HEIGHT = 6.0, 3.8  # inches, without the names
TEXT = 9  # points
_NAME_HEIGHT = 12  # points from a name to the next one
_NAMES_AT = 1.06  # their left end; the axis ends at 1
INK, PALE = "#222222", "#dddddd"
_MUCH = 0.9  # of the training that is drawn


@dataclass(frozen=True)
class Drawn:
    """A configuration in a figure, with the last mean over its runs, and the step of that; None if it has none."""

    configuration: Configuration
    runs: Sequence[int]
    step: float | None
    mean: Estimate | None


@dataclass(frozen=True)
class WrittenFigure:
    """A figure that has been written."""

    shown: str  # a sentence
    lacking: Sequence[str]  # a sentence for each configuration that is drawn in part, or not, or failed while ahead
    metric: str  # its whole name
    configurations: Sequence[Drawn]  # the best first, with those that could not be drawn


def write_figure(
    catalog: Catalog, path: Path, metric: str | None = None, by: Sequence[str] | None = None, *, iqm: bool = False
) -> WrittenFigure:
    """Draw a metric over training: a line for each configuration, the mean over its runs, with its 95 % interval.

    ``metric`` may be the last part of its name; by default it is the mean return that ranks the trials. For ``by``, see
    ``Catalog.compare``. With ``iqm``, the interquartile mean is drawn instead.
    """
    name = metric_of(catalog, metric)
    scores = scores_by(catalog.trials, name)  # or it says which metrics there are
    found = Curves().means(catalog.trials, catalog.statuses, name, by=by, iqm=iqm)
    lines = [line for line in found if line.step]
    if not lines:
        raise _nothing_to_draw(name, found)
    runs = sorted({len(line.runs) for line in lines})
    of_runs = counted(runs[0], "run") if len(runs) == 1 else f"{runs[0]} to {runs[-1]} runs"
    shown = f"{'Interquartile mean' if iqm else 'Mean'} over {of_runs}"
    shown += ", with its 95 % interval" if runs[-1] > 1 else ""
    apart = {
        place: [line for line in lines if line.configuration.return_from == place]
        for place in dict.fromkeys(line.configuration.return_from for line in lines)
    }
    _write(path, apart, label_of(name), shown)
    sentence = f"{shown}, of {counted(len(lines), 'configuration')} in {path}"
    ends = [(line.step[-1], line.mean[-1]) if line.step else (None, None) for line in found]
    configurations = [Drawn(line.configuration, line.runs, *end) for line, end in zip(found, ends, strict=True)]
    failed = failures(judged(catalog.trials, catalog.statuses, scores, by=by), name)
    return WrittenFigure(sentence, [*_drawn_apart(apart), *_lacking(found), *failed], name, configurations)


def _write(path: Path, apart: Mapping[ReturnFrom, Sequence[MeanCurve]], label: str, title: str) -> None:
    """Draw the lines from each place on axes of their own."""
    heights = [max(_HEIGHT, len(lines) * _NAME_HEIGHT / 72 + 0.9) for lines in apart.values()]
    with matplotlib_figure(_WIDTH, sum(heights), path) as figure:
        every = figure.subplots(len(apart), squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for axes, (place, lines) in zip(every, apart.items(), strict=True):
            _draw(axes, lines, label if len(apart) == 1 else told_of(place), place[1] or "step")
        every[0].set_title(title, loc="left", fontsize=TEXT, color=INK)


def _drawn_apart(places: Iterable[ReturnFrom]) -> list[str]:
    """Return why lines are on several axes, in a sentence; none if they are on one."""
    told = [told_of(place) for place in places]
    return [f"Drawn apart, and not compared: {', and '.join(told)}."] if len(told) > 1 else []


def failures(ranking: Sequence[Judged], metric: str) -> list[str]:
    """Return which configurations had failed runs that led, in sentences."""
    return failed_ahead(ranking, titles([masked(entry.configuration) for entry in ranking]), label_of(metric))


def label_of(metric: str) -> str:
    """Return a metric as an axis names it."""
    return score.RETURNS.get(metric) or metric.rpartition("/")[2].replace("_", " ")


def metric_of(catalog: Catalog, metric: str | None) -> str:
    """Return the whole name of a metric; of None that of the mean return which ranks the trials."""
    if metric is not None:
        return metric_named(catalog.trials, metric)
    ranks = score.Scores.of([trial.last_metrics for trial in catalog.trials], []).metric
    if ranks is None:
        raise ValueError(
            "No trial reports a mean return: " + remedy("pass " + argument("metric=") + ", the name of a metric.")
        )
    return ranks


@contextlib.contextmanager
def matplotlib_figure(width: float, height: float, path: Path) -> Iterator[Any]:
    """Yield an empty figure, of inches; afterwards it is saved, and no text is cut."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        told = "The figure is drawn with matplotlib: " + pip_install("figure")
        raise ImportError(told) from error
    with mpl.rc_context({"font.size": TEXT, "pdf.fonttype": 42}):
        figure = Figure(figsize=(width, height))
        yield figure
        drawn = io.BytesIO()
        figure.savefig(drawn, format=path.suffix[1:], bbox_inches="tight", dpi=200)  # tight: it grows to fit all names
        save_file(path, drawn.getvalue())


def _nothing_to_draw(metric: str, curves: Sequence[MeanCurve]) -> ValueError:
    why = f"in each configuration, a run has ended before another has {metric!r}"
    return ValueError(f"Nothing to draw: {why if curves else f'no run has {metric!r} over training'}.")


def _lacking(lines: Sequence[MeanCurve]) -> list[str]:
    """Return which configurations are drawn in part only, because one of their runs ended before the others."""
    names = titles([masked(line.configuration) for line in lines])
    told = []
    for name, line in zip(names, lines, strict=True):
        last = line.step[-1] if line.step else -math.inf
        if last < _MUCH * line.longest:
            how = f"up to step {last:,.0f} of {line.longest:,.0f}" if line.step else "not at all"
            told.append(f"{name} is drawn {how}: a mean is over all runs, and one of them has no later value.")
    return told


def _draw(axes: Any, lines: Sequence[MeanCurve], label: str, unit: str) -> None:
    from matplotlib.ticker import EngFormatter

    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))  # 160k
    axes.set_xlabel(unit, color=INK)
    axes.set_ylabel(label, color=INK, parse_math=False)
    styles = looks([line.configuration.place for line in lines])
    for rank, (line, (color, style)) in enumerate(zip(lines, styles, strict=True)):
        above = 3 + len(lines) - rank  # the best one is drawn last
        look = {"color": color, "ls": style, "lw": 1.6, "marker": "o", "ms": 3, "markevery": [-1], "clip_on": False}
        axes.plot(line.step, [mean.value for mean in line.mean], zorder=above, **look)
        if len(line.runs) > 1:
            low, high = [m.low for m in line.mean], [m.high for m in line.mean]
            alpha = max(0.07, 0.2 - 0.015 * len(lines))  # many bands hide each other
            axes.fill_between(line.step, low, high, color=color, alpha=alpha, linewidth=0, zorder=2)
    axes.autoscale_view()
    axes.autoscale(enable=False)
    height = axes.get_window_extent().height * 72 / axes.figure.dpi  # points
    ends = [axes.transLimits.transform((0, line.mean[-1].value))[1] * height for line in lines]
    names = titles([masked(line.configuration) for line in lines])
    for name, place, line, (color, style) in zip(names, spread(ends, _NAME_HEIGHT, height), lines, styles, strict=True):
        end = axes.transLimits.transform((line.step[-1], line.mean[-1].value))
        ways = [end[0], _NAMES_AT - 0.01], [end[1], place / height]
        axes.plot(*ways, color=color, ls=style, lw=0.8, alpha=0.6, transform=axes.transAxes, clip_on=False)
        look = {"transform": axes.transAxes, "va": "center_baseline", "color": INK, "parse_math": False}
        axes.text(_NAMES_AT, ways[1][1], name, **look)


def spread(places: Sequence[float], apart: float, height: float) -> list[float]:
    """Return the places nearest to those given that are at least ``apart`` from each other, from 0 to ``height``.

    >>> spread([5, 5, 100], apart=10, height=100), spread([100, 100], apart=10, height=100)
    ([10.0, 0.0, 100.0], [100.0, 90.0])
    """
    order = sorted(range(len(places)), key=lambda line: (places[line], -line))  # of two equal ones the best is above
    blocks: list[tuple[float, int]] = []  # names that touch each other: where the first of them is at best
    for number, line in enumerate(order):
        start, count = places[line] - number * apart, 1
        while blocks and blocks[-1][0] >= start:
            before, names = blocks.pop()
            start, count = (before * names + start * count) / (names + count), names + count
        blocks.append((start, count))
    most = height - (len(places) - 1) * apart
    starts = [min(max(start, 0.0), most) for start, count in blocks for _ in range(count)]
    found = {line: start + number * apart for number, (line, start) in enumerate(zip(order, starts, strict=True))}
    return [float(found[line]) for line in range(len(places))]
