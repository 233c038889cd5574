"""Commands that put several clips or learning curves into one file: ``grid``, ``filmstrip`` and ``figure``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_media.cli.command import Command
from tune_media.cli.options import chooses_trials, file_to_write, options, trial_names
from tune_media.values.number import counted

if TYPE_CHECKING:
    from tune_media.viewing.grid_choice import Tile

_chooses_clips = options(  # that ``_tiles`` takes
    click.option("--key", help="Key of the clips. Default: the best episodes of the evaluation."),
    click.option("--over-training", metavar="TRIAL", help="The clips of one trial, from first to last."),
    click.option("--step", help="best, last, or a step. Default: best."),
    chooses_trials,
)


def _tiles(
    experiment: str, trials: tuple[str, ...], step: str | None, over_training: str | None, key: str | None
) -> list[Tile]:
    from tune_media.viewing.catalog import load
    from tune_media.viewing.grid_choice import MAX_TILES, choose_tiles

    at = _step(step or "best")
    catalog = load(experiment)
    names = trial_names(catalog, trials)
    tiles = choose_tiles(catalog, trials=names, step=at, over_training=over_training, key=key)
    if len(tiles) == MAX_TILES:
        others = "evenly spread over the training" if over_training else "those of the best trials; --trials has others"
        click.echo(f"At most {MAX_TILES} clips are shown: {others}.", err=True)
    return tiles


def _step(text: str) -> str | int:
    """Return what ``--step`` means. Raises BadParameter."""
    if text in ("best", "last"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"best, last, or a step such as 4000, not {text!r}", param_hint="--step")
    return int(text)


@click.command(cls=Command, short_help="Put the clips side by side into one video.")
@click.argument("experiment")
@click.option("-o", "output", required=True, type=click.Path(), help="The .mp4 or .gif file to write.")
@_chooses_clips
@click.option(
    "--width", default=1280, show_default=True, type=click.IntRange(64, 16384), help="Width of the video, pixels."
)
@click.option("--columns", type=click.IntRange(1), help="Number of clips side by side.")
def grid(experiment: str, output: str, width: int, columns: int | None, **choice: Any) -> None:
    """Write the clips of EXPERIMENT side by side into one labelled video.

    Example: tune-media grid ~/ray_results/my_sweep -o sweep.mp4
    """
    from tune_media.viewing.grid import write_grid

    path = file_to_write(output, ".mp4", ".gif")
    tiles = _tiles(experiment, **choice)
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
    click.echo(f"{counted(made.clips, 'clip')} in {path} ({path.stat().st_size / 1e6:.1f} MB)")


@click.command(cls=Command, short_help="Put frames of a clip, or of several, into one picture.")
@click.argument("clip_or_experiment")
@click.option("-o", "output", required=True, type=click.Path(dir_okay=False), help="The .png file to write.")
@click.option("--frames", default=8, show_default=True, type=click.IntRange(1, 64), help="Frames of each clip.")
@click.option("--width", default=1600, show_default=True, type=click.IntRange(64), help="Width of the picture, pixels.")
@_chooses_clips
def filmstrip(clip_or_experiment: str, output: str, frames: int, width: int, **choice: Any) -> None:
    """Write frames of CLIP_OR_EXPERIMENT, a video file or an experiment, as a picture with a row for each clip.

    \b
    Examples:
      tune-media filmstrip my_sweep -o sweep.png
      tune-media filmstrip my_sweep --over-training PPO_a1b2c -o learns.png
      tune-media filmstrip clip.mp4 -o clip.png
    """
    from tune_media.viewing.filmstrip import filmstrip as picture_of
    from tune_media.viewing.grid_choice import strip_of, strip_of_file

    path = file_to_write(output, ".png")
    if Path(clip_or_experiment).suffix.lower() in (".mp4", ".webm", ".gif"):
        if any(choice.values()):
            raise click.UsageError(f"{clip_or_experiment} is one clip; clips are chosen from an experiment.")
        strips = [strip_of_file(Path(clip_or_experiment).expanduser())]
    else:
        strips = [strip_of(tile) for tile in _tiles(clip_or_experiment, **choice)]
    picture = picture_of(strips, frames=frames, width=width)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture.data)
    click.echo(f"{counted(len(strips), 'clip')} in {path} ({picture.width}x{picture.height} pixels)")


@click.command(cls=Command, short_help="Draw the learning curves of the configurations.")
@click.argument("experiment")
@click.option("-o", "output", required=True, type=click.Path(dir_okay=False), help="The .pdf, .png or .svg to write.")
@click.option("--metric", help="A metric, or the last part of its name: success_rate. Default: the mean return.")
@click.option(
    "--by", multiple=True, help="Hyperparameters that make a configuration, with commas. Default: all but seeds."
)
@click.option("--iqm", is_flag=True, help="The interquartile mean instead of the mean.")
def figure(experiment: str, output: str, metric: str | None, by: tuple[str, ...], iqm: bool) -> None:
    """Draw the learning curves of EXPERIMENT: the mean over the runs of each configuration, with its 95 % interval.

    \b
    Examples:
      tune-media figure ~/ray_results/my_sweep -o curves.pdf
      tune-media figure my_sweep -o curves.svg --metric success_rate --by lr
    """
    from tune_media.viewing.catalog import load
    from tune_media.viewing.figure import FORMATS, write_figure

    path = file_to_write(output, *FORMATS)
    names = [name.strip() for text in by for name in text.split(",")] or None
    shown, *lacking = write_figure(load(experiment), path, metric=metric, by=names, iqm=iqm)
    for sentence in lacking:
        click.echo(sentence, err=True)
    click.echo(shown)
