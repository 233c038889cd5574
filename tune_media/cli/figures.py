"""Commands that put several clips or learning curves into one file: ``grid``, ``filmstrip`` and ``figure``."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_media.cli.command import Command, Outcome, clip_facts, is_json
from tune_media.cli.shared_options import chooses_trials, file_to_write, options, trial_names
from tune_media.values.number import counted
from tune_media.values.problems import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tune_media.viewing.catalog import Catalog
    from tune_media.viewing.filmstrip import Strip
    from tune_media.viewing.grid_choice import Tile

_chooses_clips = options(  # that ``_tiles`` takes
    click.option("--key", help="Key of the clips. Default: the best episodes of the evaluation."),
    click.option("--over-training", metavar="TRIAL", help="The clips of one trial, from first to last."),
    click.option("--step", help="best, last, or a step. Default: best."),
    chooses_trials,
)


def _tiles(
    experiment: str, trials: tuple[str, ...], step: str | None, over_training: str | None, key: str | None
) -> tuple[Catalog, list[Tile]]:
    from tune_media.viewing.catalog import load
    from tune_media.viewing.grid_choice import MAX_TILES, choose_tiles

    step = step or "best"
    if not (step in ("best", "last") or step.isdecimal()):
        raise click.BadParameter(f"best, last, or a step such as 4000, not {step!r}", param_hint="--step")
    number = int(step) if step.isdecimal() else step
    catalog = load(experiment)
    names = trial_names(catalog, trials)
    tiles = choose_tiles(catalog, trials=names, step=number, over_training=over_training, key=key)
    if len(tiles) == MAX_TILES:
        others = "evenly spread over the training" if over_training else "those of the best trials; --trials has others"
        click.echo(f"At most {MAX_TILES} clips are shown: {others}.", err=True)
    return catalog, tiles


@click.command(cls=Command, short_help="Put the clips side by side into one video.")
@click.argument("experiment")
@click.option("-o", "output", required=True, type=click.Path(), help="The .mp4 or .gif file to write.")
@_chooses_clips
@click.option(
    "--width", default=1280, show_default=True, type=click.IntRange(64, 16384), help="Width of the video, pixels."
)
@click.option("--columns", type=click.IntRange(1), help="Number of clips side by side.")
def grid(experiment: str, output: str, width: int, columns: int | None, **choice: Any) -> Outcome:
    """Write the clips of EXPERIMENT side by side into one labelled video.

    Example: tune-media grid ~/ray_results/my_sweep -o sweep.mp4
    """
    from tune_media.viewing.grid import write_grid

    path = file_to_write(output, ".mp4", ".gif")
    _, tiles = _tiles(experiment, **choice)
    with click.progressbar(length=100, label=counted(len(tiles), "clip")) as bar:
        made = write_grid(
            tiles,
            path,
            width=width,
            columns=columns,
            progress=lambda done, total: bar.update(100 * done // total - bar.pos),
        )
    for problem in made.problems:
        click.echo(problem, err=True)
    size, clips = path.stat().st_size, [clip_facts(tile.row) for tile in made.tiles]
    facts = {"path": str(path), "bytes": size, "clips": clips, "problems": made.problems}
    return Outcome(facts, [f"{counted(len(clips), 'clip')} in {path} ({size / 1e6:.1f} MB)"])


@click.command(cls=Command, short_help="Put frames of a clip, or of several, into one picture.")
@click.argument("clip_or_experiment")
@click.option("-o", "output", required=True, type=click.Path(dir_okay=False), help="The .png file to write.")
@click.option("--frames", default=8, show_default=True, type=click.IntRange(1, 64), help="Frames of each clip.")
@click.option("--width", default=1600, show_default=True, type=click.IntRange(64), help="Width of the picture, pixels.")
@_chooses_clips
def filmstrip(clip_or_experiment: str, output: str, frames: int, width: int, **choice: Any) -> Outcome:
    """Write frames of CLIP_OR_EXPERIMENT, a video file or an experiment, as a picture with a row for each clip.

    \b
    Examples:
      tune-media filmstrip my_sweep -o sweep.png
      tune-media filmstrip my_sweep --over-training PPO_a1b2c -o learns.png
      tune-media filmstrip clip.mp4 -o clip.png
    """
    from tune_media.viewing.filmstrip import filmstrip as picture_of
    from tune_media.viewing.grid_choice import catalog_of_file, strip_of, strip_of_file
    from tune_media.viewing.saved_clip import save_medium

    path = file_to_write(output, ".png")
    if Path(clip_or_experiment).suffix.lower() in (".mp4", ".webm", ".gif"):
        if any(choice.values()):
            raise click.UsageError(f"{clip_or_experiment} is one clip; clips are chosen from an experiment.")
        if "://" in clip_or_experiment:
            raise click.UsageError(f"{clip_or_experiment}: " + remedy("pass a clip on this machine, or an experiment."))
        file = Path(clip_or_experiment).expanduser()
        catalog = catalog_of_file(file)
        strips = [strip_of_file(file, catalog)]
    else:
        catalog, tiles = _tiles(clip_or_experiment, **choice)
        strips = [strip_of(tile) for tile in tiles]
    picture = picture_of(strips, frames=frames, width=width)
    save_medium(picture.data, path.name, path)
    facts: dict[str, Any] = {"path": str(path), "width": picture.width, "height": picture.height}
    if is_json():  # else nobody asks for the values, which are read from the episodes' files
        facts["clips"] = list(_shown(catalog, strips, frames, width))
    return Outcome(facts, [f"{counted(len(strips), 'clip')} in {path} ({picture.width}x{picture.height} pixels)"])


def _shown(catalog: Catalog | None, strips: Sequence[Strip], frames: int, width: int) -> Iterator[dict[str, Any]]:
    """Yield the episode of each row of a filmstrip, with the step and the values of each frame."""
    from tune_media.viewing.episode_details import episode_details, values_at
    from tune_media.viewing.filmstrip import frame_numbers, step_of

    for strip in strips:
        row = dict(strip.facts)
        trials = [trial for trial in catalog.trials if trial.name == row.get("trial")] if catalog else []
        trial = next((one for one in trials if posixpath.join(one.media_path, row["path"]) == row["file"]), None)
        details = episode_details(trial, row) if trial else {}
        steps = {number: step_of(strip.facts, number) for number in frame_numbers(strip, frames, width)}
        shown = [{"frame": frame, "step": step, "values": values_at(details, step)} for frame, step in steps.items()]
        yield {**clip_facts(strip.facts, file=strip.name), "frames": shown}


@click.command(cls=Command, short_help="Draw the learning curves of the configurations.")
@click.argument("experiment")
@click.option("-o", "output", required=True, type=click.Path(dir_okay=False), help="The .pdf, .png or .svg to write.")
@click.option("--metric", help="A metric, or the last part of its name: success_rate. Default: the mean return.")
@click.option(
    "--by", multiple=True, help="Hyperparameters that make a configuration, with commas. Default: all but seeds."
)
@click.option("--iqm", is_flag=True, help="The interquartile mean instead of the mean.")
@click.option("--verdict", is_flag=True, help="Instead of curves, the runs, means and leads, as at the page's top.")
def figure(experiment: str, output: str, metric: str | None, by: tuple[str, ...], iqm: bool, verdict: bool) -> Outcome:
    """Draw the learning curves of EXPERIMENT: the mean over the runs of each configuration, with its 95 % interval.

    \b
    Examples:
      tune-media figure ~/ray_results/my_sweep -o curves.pdf
      tune-media figure my_sweep -o curves.svg --metric success_rate --by lr
    """
    from tune_media.viewing.catalog import load
    from tune_media.viewing.figure import FORMATS, write_figure
    from tune_media.viewing.table import in_lines, printable
    from tune_media.viewing.verdict_figure import write_verdict

    path = file_to_write(output, *FORMATS)
    names = [name.strip() for text in by for name in text.split(",")] or None
    if iqm and verdict:
        raise click.UsageError("--iqm is of curves, and --verdict has none: " + remedy("leave one of them out."))
    catalog = load(experiment)
    made = (
        write_verdict(catalog, path, metric, names) if verdict else write_figure(catalog, path, metric, names, iqm=iqm)
    )
    for sentence in made.lacking:
        click.echo(sentence, err=True)
    configurations = [
        {
            "params": drawn.configuration.params,
            "trials": [catalog.trials[number].name for number in drawn.runs],
            "step": drawn.step,
            **(vars(drawn.mean) if drawn.mean else {}),
        }
        for drawn in made.configurations
    ]
    facts = {"path": str(path), "metric": made.metric, "configurations": configurations, "problems": made.lacking}
    is_of_score = made.metric == catalog.scores.metric and names is None
    return Outcome(facts, [made.shown, *([in_lines(printable(catalog.verdict.sentence))] if is_of_score else [])])
