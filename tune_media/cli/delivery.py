"""Commands that bring media to another place: ``export`` to a file or a tracker, ``deliver`` to the storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tune_media.cli.command import Command, Outcome, UsersCommand, clip_facts, nothing_recorded
from tune_media.values.number import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tune_media.callbacks.deliver import Delivery
    from tune_media.callbacks.finished_trial import ExportSummary

_MAX_SHOWN = 20  # problems
_OF_A_FILE = ("width", "fps")  # the options of a clip that is saved


class _Tracker(NamedTuple):
    callback: str  # its name in ``tune_media``; empty if it writes a folder, ``-o``
    options: tuple[str, ...]  # of the command; the callback has arguments of these names


_TRACKERS = {
    "wandb": _Tracker("WandbMediaLoggerCallback", ("project", "group", "offline")),
    "mlflow": _Tracker("MLflowMediaLoggerCallback", ("tracking_uri", "experiment_name", "artifact_location", "nested")),
    "trackio": _Tracker("TrackioMediaLoggerCallback", ("project",)),
    "tensorboard": _Tracker("", ()),
}


@click.command(cls=UsersCommand, short_help="Save a clip as a GIF, or log a sweep to a tracker.")
@click.argument("experiment", metavar="CLIP|EXPERIMENT")
@click.option(
    "--to",
    "tracker",
    type=click.Choice([*_TRACKERS]),
    help="Where to log the experiment. Without it, one clip is saved.",
)
@click.option("--width", type=click.IntRange(16), help="GIF: the largest width, pixels. Default: that of the clip.")
@click.option("--fps", type=click.FloatRange(1, 50), help="GIF: the most frames per second. Default: the clip's.")
@click.option("--project", help="W&B, Trackio: the project. Default: WANDB_PROJECT_NAME; the experiment's name.")
@click.option("--group", help="W&B: the group of the runs. Default: the name of the experiment.")
@click.option("--offline", is_flag=True, help="W&B: write offline runs to <trial>/wandb, for `wandb sync`.")
@click.option("--tracking-uri", help="MLflow: the server or database. Default: MLflow's own.")
@click.option("--experiment-name", help="MLflow: the experiment. Default: the name of the Tune experiment.")
@click.option("--artifact-location", help="MLflow: where a new experiment keeps artifacts. Default: MLflow's own.")
@click.option("--nested", is_flag=True, help="MLflow: put the runs under one run of the sweep.")
@click.option("-o", "output", type=click.Path(), help="The .gif or .mp4 to write; TensorBoard: the folder.")
def export(experiment: str, tracker: str | None, output: str | None, **options: Any) -> Outcome:
    """Save CLIP, an mp4 file, or the best clip of EXPERIMENT for a slide, or log EXPERIMENT to a tracker.

    The tracker may have been away during the sweep, or is a new one. Experiments of Ray's own loggers, without clips,
    can be exported, too. It is safe to export an experiment again.

    \b
    Examples:
      tune-media export my_sweep -o best.gif
      tune-media export my_sweep --to mlflow --tracking-uri http://localhost:5000
      tune-media export my_sweep --to wandb --project walkers
      tune-media export s3://bucket/my_sweep --to tensorboard -o my_sweep_tb
    """
    settings = {name: value for name, value in options.items() if value}
    _check_options(tracker, output, settings)
    if tracker is None:
        return _save_clip(experiment, str(output), **settings)
    done = _export_to(tracker, experiment, output, settings)
    with_what = f"{counted(done.results, 'result')} and {counted(done.media, 'medium', 'media')}"
    lines = [f"{tracker} has {counted(done.trials, 'trial')}, with {with_what}."]
    lines += [f"Left alone: {trial}: {reason}" for trial, reason in done.left_alone.items()]
    more = f"\nand {len(done.problems) - _MAX_SHOWN} more" if len(done.problems) > _MAX_SHOWN else ""
    problem = "Not logged:\n" + "\n".join(done.problems[:_MAX_SHOWN]) + more if done.problems else ""
    return Outcome({"tracker": tracker, "path": output, **vars(done)}, lines, problem=problem)


def _check_options(tracker: str | None, output: str | None, settings: dict[str, Any]) -> None:
    """Raise UsageError if there are options of another tracker, or if ``-o`` is missing or too much."""
    taken = _TRACKERS[tracker].options if tracker else _OF_A_FILE
    foreign = [f"--{name.replace('_', '-')}" for name in settings if name not in taken]
    writes = tracker is None or not _TRACKERS[tracker].callback
    if foreign or (output is None) == writes:
        wrong = " and ".join(foreign) or "-o"
        needs = "needs -o" if writes and not foreign else f"does not take {wrong}"
        of_what = f"--to {tracker}" if tracker else "a clip (no --to is given)"
        raise click.UsageError(f"{of_what} {needs}; `tune-media export --help` says which options it takes.")


def _save_clip(source: str, output: str, width: int | None = None, fps: float | None = None) -> Outcome:
    """Save a clip, or the best one of an experiment."""
    from tune_media.experiment.places import folder_at
    from tune_media.viewing.catalog import load
    from tune_media.viewing.saved_clip import save_medium

    place = folder_at(source)
    if place.is_there:
        clips = load(source).clips
        best = clips.best()
        if best is None:
            raise ValueError(nothing_recorded(place.path, clips.trials, "No clip"))
        kind = "newest" if best["episode_return"] is None else "best"
        path, which = best.save(output, width=width, fps=fps), f"the {kind} clip, of {best['trial']}"
        clip = clip_facts(best)
    elif not place.is_file:
        raise ValueError(f"There is no clip or experiment {place.path!r}; an experiment is a folder of a sweep.")
    else:
        with place.filesystem.open_input_file(place.path) as file:
            path, which = save_medium(bytes(file.read()), place.path, output, width=width, fps=fps), place.name
        clip = clip_facts({}, file=place.path)
    size = path.stat().st_size
    return Outcome({"path": str(path), "bytes": size, "clips": [clip]}, [f"{path} ({size / 1e6:.1f} MB): {which}"])


def _export_to(tracker: str, experiment: str, output: str | None, settings: dict[str, Any]) -> ExportSummary:
    import tune_media as tm
    from tune_media.export import to_tensorboard, to_tracker

    if not (callback := _TRACKERS[tracker].callback):
        return to_tensorboard(experiment, str(output), progress=click.echo)
    if settings.pop("offline", False):
        settings["mode"] = "offline"
    return to_tracker(experiment, getattr(tm, callback)(**settings), progress=click.echo)


@click.command(cls=Command, short_help="Store what a driver left on this machine.")
@click.argument("experiment")
@click.option("--seconds", default=600.0, show_default=True, type=click.FloatRange(1), help="How long it may take.")
def deliver(experiment: str, seconds: float) -> Outcome:
    """Store what the storage of EXPERIMENT did not take before its driver ended or was killed.

    It waits in the driver's outbox, on the driver's machine, for a week. What waits for trackers, and tapes, stay:
    Tuner.restore goes on with them.

    Example: tune-media deliver s3://bucket/my_sweep
    """
    from tune_media.callbacks.deliver import deliver as deliver_all
    from tune_media.experiment.places import folder_at

    place = folder_at(experiment)
    outboxes = deliver_all(place.filesystem, place.path, seconds)
    if not outboxes and not place.is_there:
        raise FileNotFoundError(f"There is no experiment {place.path!r}, nor an outbox of one there.")
    facts = {"outboxes": [{**vars(outbox), "folder": str(outbox.folder)} for outbox in outboxes]}
    return Outcome(facts, _delivered(place.path, outboxes), code=int(not all(outbox.is_whole for outbox in outboxes)))


def _delivered(path: str, outboxes: Sequence[Delivery]) -> Iterator[str]:
    if not outboxes:
        yield f"Nothing of {path!r} waits on this machine: all is stored, or its driver ran on another machine."
    for outbox in outboxes:
        yield outbox.line or f"{outbox.folder}: its driver runs, and delivers it."
        if outbox.line:
            yield "" if outbox.is_gone else f"What waits for trackers, tapes and refused files stay in {outbox.folder}."
