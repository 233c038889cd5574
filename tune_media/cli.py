"""The command line, ``tune-media``: demo, list, watch, render, evaluate, gallery, pictures, export, doctor."""

from __future__ import annotations

import functools
import re
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_media._version import __version__
from tune_media.values.checks import local_path
from tune_media.values.number import counted
from tune_media.values.secrets import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tune_media.callbacks.export import Exported
    from tune_media.viewing.catalog import Catalog
    from tune_media.viewing.grid_choice import Tile
    from tune_media.viewing.taped_episodes import Rendered, TapedEpisode

_MAX_SHOWN = 20  # problems
_CODE = "its checkpoints and in what makes its envs"  # where it has code
_MUCH = 10**9  # bytes that are copied only after a question


_EXIT_CODES = """\b
Exit codes:
  0  it worked
  1  it failed, or found nothing or a problem; the message says what to do
  2  an unknown command or option
"""


class _Command(click.Command):
    """A command whose errors are told in the words of a shell."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # Click ends quietly
            raise
        except (ImportError, OSError, ValueError) as error:
            raise _Failure(error) from error


class _UsersCommand(_Command):
    """A command that calls code of the user's, or of a tracker: a TypeError is told, too."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TypeError as error:
            raise _Failure(error) from error


class _Commands(click.Group):
    command_class = _Command


@click.group(cls=_Commands, invoke_without_command=True, epilog=_EXIT_CODES)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context) -> None:
    """See what the agents of a Ray Tune or RLlib sweep do."""
    if context.invoked_subcommand is None:
        from tune_media.viewing.next_steps import next_steps

        click.echo(f"{context.get_help()}\n\n{next_steps()}")


class _Failure(click.ClickException):
    """An error of the package, or of the system, as the command line tells it."""

    def __init__(self, error: Exception, exit_code: int = 1) -> None:
        is_systems = isinstance(error, OSError) and error.filename is not None and error.strerror
        text = f"{error.filename}: {error.strerror}" if is_systems else _in_shell(str(error))  # type: ignore[attr-defined]
        is_viewers = isinstance(error, ImportError) and str(error.name).startswith("werkzeug")
        super().__init__(f"{text}. Install it: pip install 'tune-media[viewer]'" if is_viewers else text)
        self.exit_code = exit_code  # type: ignore[misc]  # a constant of Click's class


def _in_shell(text: str) -> str:
    """Return the text of an error with the options of the command in place of arguments of Python functions.

    The error says ``evaluate(seeds=...) takes seeds``, or ``pass env=, a function``; the command has ``--seeds``.
    """
    parameters = click.get_current_context().command.params
    options = {one.name: one.opts[-1] for one in parameters if isinstance(one, click.Option)}
    text = re.sub(r"\b\w+\((\w+)=[^()]*\)", lambda found: options.get(found[1], found[0]), text)
    text = re.sub(r"\b(\w+)=(?![\w.'\"\[{(])", lambda found: options.get(found[1], found[0]), text)
    return re.sub(r"(--[\w-]+), or (?=\1(?![\w-]))", "", text)  # it names both: "env=, or --env"


def _file_to_write(output: str, *endings: str, option: str = "-o") -> Path:
    path = local_path(option, output)
    if path.suffix.lower() not in endings:
        raise click.BadParameter(f"a {' or '.join(endings)} file, not {output!r}", param_hint=option)
    return path


def _address(path: str, *given: str | None) -> str:
    """Return a folder as a word of a command: on an object store with the scheme and options of what was given.

    >>> _address("bucket/exp/evaluations/a", "s3://bucket/exp?region=us-east-1&access_key=AKIA0&secret_key=s3cr3t")
    "'s3://bucket/exp/evaluations/a?region=us-east-1&access_key=***&secret_key=***'"
    """
    for uri in given:
        scheme, sign, rest = (uri or "").partition("://")
        if sign and path.startswith(f"{rest.partition('/')[0]}/"):
            return shlex.quote(redacted(f"{scheme}://{path}{''.join(rest.partition('?')[1:])}"))
    return shlex.quote(path)


def _nothing(path: str, wanted: str = "Nothing") -> str:
    """Return the message for an experiment without media."""
    return (
        f"{wanted} is recorded in {path}. If its sweep has run, add a recorder to the script: "
        "tm.rllib.record_episodes() in RLlib's config, tm.gym.RecordEpisodes around an env of your own loop, or a "
        "tm.Video in a result; and a logger callback of tune_media to the run (`tune-media` shows how)."
    )


@main.command(short_help="Run a real sweep, and see what is recorded.")
@click.option("--storage", default="~/ray_results", show_default=True, help="Folder for results.")
@click.option("--iterations", default=8, show_default=True, type=click.IntRange(2), help="Iterations of each trial.")
def demo(storage: str, iterations: int) -> None:
    """Run a real sweep of four PPO trials on CartPole and say where to look.

    Example: tune-media demo
    """
    if "://" in storage:
        raise click.BadParameter(f"a folder of this machine, not {storage!r}", param_hint="--storage")
    click.echo(
        "The demo trains four PPO agents on CartPole-v1 (two learning rates, two discount factors), evaluates each of\n"
        f"them {iterations // 2} times, and records the best and the worst episode of each evaluation.\n"
        f"It takes two minutes on 2 cores, and needs no GPU and no network. Results go to {storage}.\n"
    )
    from tune_media.viewing.status_line import StatusLine

    with StatusLine() as line:
        line.stage("Importing Ray")
        from tune_media.rllib.record import record_episodes as _  # noqa: F401 - its error names the extra
        from tune_media.viewing.demo import run_demo, watch_command, where_to_look
        from tune_media.viewing.table import trial_table

        try:
            catalog = run_demo(storage, iterations, line)
        except RuntimeError as error:
            raise _Failure(error) from error
    click.echo(f"\n{trial_table(catalog)}\n")
    click.echo(f"{counted(len(catalog), 'clip')} in {catalog.path}")
    for place, command in where_to_look(catalog.path):
        click.echo(f"\n{place}:\n\n    {command}")
    best = catalog.clips.best()
    if best is None:
        raise click.ClickException("the demo recorded no clip; run `tune-media doctor CartPole-v1`.")
    click.echo(f"\nThe best trial is {best['trial']}: its best episode has the return {best['episode_return']:g}.")
    click.echo(f"See the four trials side by side, the best first:\n\n    {watch_command(catalog.path)}\n")


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds options to a command; the last one is the first in its help."""
    return lambda command: functools.reduce(lambda function, option: option(function), options, command)


def _trials_option(told: str, **more: Any) -> Callable[..., Any]:
    """Return the option that names trials, which has two names."""
    return click.option("--trial", "--trials", "trials", multiple=True, metavar="NAME", help=told, **more)


_chooses_trials = _trials_option("Names or parts of names, with commas; may be repeated. Default: all.")


@main.command("list", short_help="Print a table of the trials and their best clips.")
@click.argument("experiment")
@click.option("--all", "every", is_flag=True, help="One line for each medium, short for --rows media.")
@click.option(
    "--rows",
    type=click.Choice(["trials", "configurations", "media"]),
    help="What a line is. Default: trials; with --json media.",
)
@click.option("--csv", "csv", is_flag=True, help="CSV, with all digits.")
@click.option("--json", "json", is_flag=True, help="One JSON object a line, for programs, with all fields.")
@click.option("--config", "with_config", is_flag=True, help="With --json: the whole config of each trial, too.")
@_chooses_trials
def list_media(
    experiment: str, every: bool, rows: str | None, with_config: bool, trials: tuple[str, ...], **formats: bool
) -> None:
    """List what was recorded in EXPERIMENT, a folder or a URI: the best clip of each trial, the best trial first.

    EXPERIMENT may also be one trial, or a folder of experiments. Without clips, each trial has its last metrics.

    If trials differ only in their seed, a table of the configurations, with means and intervals, comes before it.

    \b
    Examples:
      tune-media list ~/ray_results/my_sweep
      tune-media list --json ~/ray_results/my_sweep | jq .episode_return
      tune-media list --rows configurations --csv my_sweep > table.csv
    """
    forms = [name for name in ("csv", "json") if formats[name]]
    if len(forms) > 1:
        raise click.UsageError(f"--{forms[0]} and --{forms[1]} exclude each other.")
    form = forms[0] if forms else None
    of = rows or ("media" if every or form == "json" else "trials")
    if with_config and form != "json":
        raise click.UsageError("--config adds the whole config to the lines of --json: pass both.")
    if with_config and of != "media":
        raise click.UsageError(f"--config is for media, and --rows {rows} wants others.")
    if every and of != "media":
        raise click.UsageError(f"--all and --rows {rows} exclude each other.")
    from tune_media.viewing.catalog import load
    from tune_media.viewing.list_formats import as_csv, as_json
    from tune_media.viewing.table import (
        configuration_table,
        importance_line,
        laid_out,
        lines_of_configurations,
        media_table,
        printable,
        trial_table,
    )

    catalog = load(experiment)
    if trials:
        catalog = catalog.of_trials(_trial_names(catalog, trials))
    if not len(catalog) and (of == "media" or not catalog.trials):
        raise click.ClickException(_nothing(catalog.path))
    if form is not None:
        if form == "json":
            for line in as_json(catalog, of, with_config=with_config):
                click.echo(line)
        else:
            click.echo(as_csv(catalog, of))
        return
    if of == "configurations":
        click.echo(laid_out(lines_of_configurations(catalog)))
        return
    configurations = configuration_table(catalog) if of == "trials" else ""
    if configurations:
        click.echo(f"{configurations}\n")
    click.echo(media_table(catalog) if of == "media" else trial_table(catalog))
    if of == "trials" and (importance := importance_line(catalog)):
        click.echo(importance)
    has_media = bool(len(catalog)) or any(len(trial.reports) for trial in catalog.trials)  # episodes without a clip
    media = f"{counted(len(catalog), 'medium', 'media')} in {catalog.path}"
    click.echo(printable(media if has_media else _nothing(catalog.path)))


_chooses_clips = _options(  # that ``_tiles`` takes
    click.option("--key", help="Key of the clips. Default: the best episodes of the evaluation."),
    click.option("--over-training", metavar="TRIAL", help="The clips of one trial, from first to last."),
    click.option("--step", help="best, last, or a step. Default: best."),
    _chooses_trials,
)


def _tiles(
    experiment: str, trials: tuple[str, ...], step: str | None, over_training: str | None, key: str | None
) -> list[Tile]:
    from tune_media.viewing.catalog import load
    from tune_media.viewing.grid_choice import choose_tiles

    at = _step(step or "best")
    catalog = load(experiment)
    names = _trial_names(catalog, trials)
    return choose_tiles(catalog, trials=names, step=at, over_training=over_training, key=key)


def _step(text: str) -> str | int:
    """Return what ``--step`` means.

    Raises:
        BadParameter: It is nothing of the kind.
    """
    if text in ("best", "last"):
        return text
    if not text.isdecimal():
        raise click.BadParameter(f"best, last, or a step such as 4000, not {text!r}", param_hint="--step")
    return int(text)


def _trial_names(catalog: Catalog, texts: tuple[str, ...]) -> list[str]:
    """Return the names of the trials that ``--trials`` means; Tune's own names have commas.

    Raises:
        BadParameter: There are texts without any name.
        ValueError: There is no such trial, or several have a text as a part of their names.
    """
    from tune_media.viewing.catalog import names_of_trials

    known = {trial.name for trial in catalog.trials}
    names = [name for text in texts for name in ([text] if text in known else text.split(",")) if name.strip()]
    if texts and not names:
        raise click.BadParameter(f"names of trials, separated by commas, not {texts[0]!r}", param_hint="--trials")
    return names_of_trials(catalog, [name.strip() for name in names])


@main.command(short_help="Put the clips side by side into one video.")
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

    path = _file_to_write(output, ".mp4", ".gif")
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


@main.command(short_help="Put frames of a clip, or of several, into one picture.")
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

    path = _file_to_write(output, ".png")
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


@main.command(short_help="Show the clips in the browser, live.")
@click.argument("experiment")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=6007, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option("--open/--no-open", "opens", default=False, help="Open the page in a browser.")
@click.option("--wait", is_flag=True, help="Start although the folder, or an experiment in it, is not there yet.")
def watch(experiment: str, host: str, port: int, opens: bool, wait: bool) -> None:
    """Show the clips of EXPERIMENT, a folder or a URI, in the browser, live, without TensorBoard.

    Example: tune-media watch --open ~/ray_results/my_sweep
    """
    from tune_media.viewing.watch import make_watch_server, reachable_at, ssh_line

    server = make_watch_server(experiment, host, port, wait=wait)
    url = reachable_at(host, server.port)
    click.echo(f"{url} shows the episodes of {experiment}. Press Ctrl+C to stop.")
    if line := ssh_line(host, server.port):
        click.echo(f"From another machine: {line} and open http://localhost:{server.port}")
    if opens:
        click.launch(url)
    server.serve_forever()


@main.command(short_help="Copy the clips into a folder that opens without a server.")
@click.argument("experiment")
@click.option("-o", "output", type=click.Path(file_okay=False), help="Folder to write. Default: <experiment>_gallery.")
@click.option("--only", multiple=True, help="Only clips of this key or section, such as best; may be repeated.")
@click.option("--steps", is_flag=True, help="With the steps of trajectories, if they were kept.")
@click.option("--errors/--no-errors", default=True, help="Say why trials failed, without folders and passwords.")
@click.option("--yes", is_flag=True, help="Do not ask before copying more than a gigabyte.")
def gallery(
    experiment: str,
    output: str | None,
    only: tuple[str, ...],
    steps: bool,
    errors: bool,
    yes: bool,
) -> None:
    """Write the clips of EXPERIMENT, a folder or a URI, as a folder with a page that opens without a server.

    Example: tune-media gallery ~/ray_results/my_sweep -o sweep
    """
    from tune_media.viewing.gallery import Gallery, default_folder, human_size

    made = Gallery.of(experiment, only, errors=errors)
    if not made.count and not only:
        raise click.ClickException(_nothing(experiment, "No clip or picture"))
    for name, hint in made.unknown.items():
        raise click.ClickException(f"Nothing in {experiment} has the key or section {name!r}; {hint}")
    if not made.count:
        raise click.ClickException(f"No clip or picture in {experiment} is of {', '.join(only)}.")
    folder = local_path("-o", output) if output else default_folder(made.title)
    media = f"{counted(made.count, 'medium', 'media')} of {counted(len(made.trials), 'trial')}"
    click.echo(f"{media}, {human_size(made.nbytes)}, {'goes' if made.count == 1 else 'go'} to {folder}")
    if made.nbytes > _MUCH and not yes:
        click.confirm("Copy them?", abort=True)
    with click.progressbar(length=made.count, label="Copying") as bar:
        page = made.write(folder, bar.update, steps=steps)
    if made.missing:
        click.echo(f"{counted(len(made.missing), 'file')} could not be read; the first: {made.missing[0]}", err=True)
    click.echo(f"Open {page.resolve().as_uri()}")


@main.command(short_help="Store what a driver left on this machine.")
@click.argument("experiment")
@click.option("--seconds", default=600.0, show_default=True, type=click.FloatRange(1), help="How long it may take.")
def deliver(experiment: str, seconds: float) -> None:
    """Store what the storage of EXPERIMENT did not take before its driver ended or was killed.

    It waits in the driver's outbox, on the driver's machine, for a week. What waits for trackers, and tapes, stay:
    Tuner.restore goes on with them.

    Example: tune-media deliver s3://bucket/my_sweep
    """
    from tune_media.callbacks.deliver import deliver as deliver_all
    from tune_media.viewing.places import folder_at

    place = folder_at(experiment)
    found = deliver_all(place.filesystem, place.path, seconds)
    if not found:
        raise click.ClickException(f"No outbox on this machine is of an experiment in {place.path!r}.")
    for one in found:
        if not one.line:
            click.echo(f"{one.folder}: its driver runs, and delivers it.")
        else:
            click.echo(one.line)
            click.echo("" if one.is_gone else f"What waits for trackers, tapes and refused files stay in {one.folder}.")
    if not all(one.is_whole for one in found):
        raise click.exceptions.Exit(1)


@main.command(short_help="Make clips of episodes that were recorded as tapes.")
@click.argument("experiment")
@_trials_option(
    "best, all, or a trial's name, or a part of it; may be repeated. Default: best; all with waiting or an id."
)
@click.option(
    "--episodes",
    "which",
    default="best",
    show_default=True,
    help="best, worst, last, waiting (whose clips the sweep was to render and has not), an episode's id, or a "
    "condition such as 'return < 20 and distance > 3'.",
)
@click.option("--height", type=click.IntRange(16), help="Height of the clips, pixels. Default: as recorded.")
@click.option("--every", type=click.IntRange(1), help="Keep every n-th frame. Default: as recorded.")
@click.option("--overlay", multiple=True, help="step, reward, return, action or curve; may be repeated.")
@click.option("--frame", metavar="MODULE:FUNCTION", help="A function of the env that returns the frame.")
@click.option("--env", metavar="MODULE:FUNCTION", help="A function of the env_config that makes the env instead.")
@click.option("-o", "output", type=click.Path(file_okay=False), help="Folder to write. Default: <experiment>_clips.")
def render(experiment: str, trials: tuple[str, ...], which: str, output: str | None, **how: Any) -> None:
    """Make clips of the episodes of EXPERIMENT, a folder or a URI, that were recorded as tapes, with a clip or without.

    Each episode is played again in a process of its own, and each step is checked. The process runs the code that made
    the env, which is stored with the experiment: render only experiments of people whom you trust.

    \b
    Examples:
      tune-media render my_sweep -o clips
      tune-media render my_sweep --trial all --episodes worst --overlay return
      tune-media render my_sweep --episodes 'return < 20' --height 720
      tune-media render my_sweep --episodes waiting
    """
    from tune_media.viewing.catalog import load
    from tune_media.viewing.taped_episodes import WAITING, ClipFolder, RenderOptions, choose, render_each

    failed: list[Rendered] = []
    options = RenderOptions(**how)
    catalog = load(experiment)
    of_trials = _taped(catalog, trials or ("best" if re.search(r"^(best|worst|last)$|[<>=]", which) else "all",))
    if which == WAITING and not set(trials) - {"all"}:
        with_tapes = {episode.id for episodes in of_trials for episode in episodes}
        if gone := sum(id not in with_tapes for one in catalog.trials for id in one.unrendered):
            click.echo(
                f"{gone} episodes wait whose tapes are not on the storage; Tuner.restore(...) brings them.", err=True
            )
    if not any(of_trials):
        raise click.ClickException(
            f"No episode there has a tape. Episodes have tapes by default if their env can repeat them, and in any "
            f"case with tapes=True or render='replay': {experiment}"
        )
    chosen = choose(of_trials, which)
    if not chosen:
        nothing = f"None of {sum(map(len, of_trials))} episodes matches {which!r}."
        raise click.ClickException("No clip waits to be rendered." if which == WAITING else nothing)
    folder = ClipFolder(Path(output) if output else Path(f"{Path(catalog.path).name}_clips"))
    if not options.env:
        _say_whose_code_runs("the recipes of its envs", experiment)
    steps = sum(int(episode.row["episode_length"]) for episode in chosen)
    with click.progressbar(length=steps, label=counted(len(chosen), "episode")) as bar:
        for rendered in render_each(chosen, options, bar.update):
            if rendered.problem:
                failed.append(rendered)
            else:
                folder.add(rendered)
    for file in folder.files:
        click.echo(file)
    for rendered in failed:
        click.echo(f"episode {rendered.episode.id}: {_in_shell(rendered.problem)}", err=True)
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(chosen)} episodes have no clip.")


def _taped(catalog: Catalog, names: Sequence[str]) -> list[list[TapedEpisode]]:
    """Return the episodes with tapes of the trials that ``--trial`` means, each trial once."""
    from tune_media.viewing.taped_episodes import of_trial

    found: dict[str, list[TapedEpisode]] = {}
    for name in names:
        trials = [one for one, *_ in catalog.best_first()] if name == "best" else catalog.trials
        found |= {episodes[0].trial.name: episodes for episodes in of_trial(trials, name) if episodes}
    return list(found.values())


def _say_whose_code_runs(place: str, *experiments: str) -> None:
    """Warn, before it happens, that files of experiments are executable."""
    trust = "go on only if you trust the people who made it."
    for one in dict.fromkeys(experiments):
        click.echo(f"This runs code that is stored in {one}, in {place}: {trust}", err=True)


_plays = _options(  # how a policy is played
    click.option("--workers", default=0, show_default=True, type=click.IntRange(0), help="Ray tasks; 0: this process."),
    click.option("--success", metavar="NAME", help="The value of info that says if an episode succeeded: data/solved."),
    click.option(
        "--connectors",
        type=click.Choice(["evaluation", "training"]),
        help="Whose connectors play. Default: the evaluations', if there were any.",
    ),
    click.option("--explore/--no-explore", default=None, help="Default: as in the evaluations of the training."),
)
_plays_on_seeds = _options(  # how policies are played, and in which envs
    click.option("--policy", metavar="MODULE:FUNCTION", help="Loads the policies of checkpoints that are not RLlib's."),
    click.option("--env-config", multiple=True, metavar="KEY=A,B,C", help="Values of the env_config; may be repeated."),
    click.option("--env", metavar="MODULE:FUNCTION", help="A function of the env_config that makes the env instead."),
    _plays,
)


@main.command(cls=_UsersCommand, short_help="Play the checkpoints of a finished sweep on the same seeds.")
@click.argument("experiment")
@_trials_option("all, best:5, or a trial's name, or a part of it; may be repeated.", default=["all"])
@click.option("--checkpoint", default="last", show_default=True, help="last, best, all, or a number.")
@click.option("--episodes", type=click.IntRange(1), help="Episodes of each checkpoint. Default: 40.")
@click.option("--seeds", help="The seeds of the episodes instead, such as 0:40 or 3,7.")
@_plays_on_seeds
@click.option("--name", help="Name of the evaluation. Default: one that follows from the options.")
@click.option("--clips/--no-clips", default=True, help="Clips of the best, the worst and the median episode.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs, and nothing else.")
def evaluate(experiment: str, clips: bool, as_json: bool, **options: Any) -> None:
    """Play the checkpoints of EXPERIMENT, a folder or a URI, each on the same seeds; no learner, no training workers.

    The episodes go to EXPERIMENT/evaluations/NAME, in the formats of an experiment. The same command goes on where it
    was interrupted. Checkpoints are executable: evaluate only experiments of people whom you trust.

    \b
    Examples:
      tune-media evaluate my_sweep
      tune-media evaluate my_sweep --trials best:5 --episodes 100 --workers 8
      tune-media evaluate my_sweep --trials best:1 --env-config wind=0,5,10
      tune-media evaluate my_sweep --trials best:1 --checkpoint all --seeds 7
    """
    from tune_media.evaluation.evaluate import evaluate as play
    from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Progress
    from tune_media.evaluation.evaluation_table import checkpoint_line, remarks, tables
    from tune_media.evaluation.request import parsed_env_config
    from tune_media.values.strict_json import json_bytes

    class Shown(Progress):
        """Prints a line for each checkpoint, and how many episodes have been played."""

        def reads_checkpoints(self, path: str) -> None:
            _say_whose_code_runs("its checkpoints", path)

        def begin(self, name: str, episodes: int, missing: int) -> None:
            self.total, self.done = missing, 0
            known = episodes - missing
            there = f"; {known} {'is' if known == 1 else 'are'} there already" if known else ""
            click.echo(f"Evaluation {name}: {counted(missing, 'episode')} to play{there}.")

        def played(self, episodes: int) -> None:
            self.done += episodes
            self._bar()

        def finished(self, checkpoint: EvaluatedCheckpoint) -> None:
            self._bar(clear=True)
            click.echo(checkpoint_line(checkpoint))
            self._bar()

        def _bar(self, *, clear: bool = False) -> None:
            if sys.stdout.isatty():
                click.echo("\r\x1b[K" if clear else f"\r\x1b[K{self.done}/{self.total} episodes", nl=False)

    sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
    found = play(
        experiment,
        env_config=parsed_env_config(options.pop("env_config")),
        clips=("best", "worst", "median") if clips else None,
        progress=Progress() if as_json else Shown(),
        **options,
    )
    if as_json:
        click.echo(json_bytes(found.facts()))
    else:
        click.echo(f"\n{tables(found)}\n")
        for remark in remarks(found):
            click.echo(remark)
        click.echo(f"\nSee the episodes:\n\n    tune-media watch --open {_address(found.path, experiment)}\n")
    failed = [one for one in found.checkpoints if one.error]
    if failed:
        raise click.ClickException(f"{len(failed)} of {len(found.checkpoints)} checkpoints lack episodes.")


@main.command(short_help="Decide on the same seeds whether a policy may replace another.")
@click.argument("base")
@click.argument("candidate")
@click.option("--metric", default="return", show_default=True, help="return, success, length, or a custom metric.")
@click.option("--mode", type=click.Choice(["max", "min"]), default="max", show_default=True, help="What is better.")
@click.option("--margin", default="5%", show_default=True, help="How much worse the candidate may be: 5% or 3.0.")
@click.option(
    "--bounds", type=float, nargs=2, metavar="LOW HIGH", help="The least and the largest metric there can be."
)
@click.option("--seeds", help="The seeds at most, such as 0:400. Default: 0:200.")
@click.option("--checkpoint", default="last", show_default=True, help="Of a trial: last, best, or a number.")
@_plays_on_seeds
@click.option("--clips", default=5, show_default=True, type=click.IntRange(0), help="Seeds of which clips are made.")
@click.option("-o", "--output", metavar="FOLDER", help="For episodes and clips. Default: gates/CANDIDATE-DIGEST here.")
@click.option("--junit", metavar="FILE", help="Write the verdict as JUnit's XML, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON, and nothing else.")
def gate(base: str, candidate: str, junit: str | None, as_json: bool, **options: Any) -> None:
    """Play BASE and CANDIDATE on the same seeds until it is sure whether CANDIDATE is worse by more than the margin.

    Each is the folder of a checkpoint, an experiment (its best trial), EXPERIMENT:TRIAL, or an evaluation that is
    there, EXPERIMENT/evaluations/NAME. Checkpoints are executable: compare only those of people whom you trust.

    \b
    Exit codes:
      0  not worse by more than the margin
      1  worse by more than the margin
      2  it cannot be decided: an argument, the env, or an episode is wrong
      3  undecided after the last seed

    \b
    Examples:
      tune-media gate runs/main runs/mine --workers 4
      tune-media gate runs/main:PPO_0 mine/checkpoint_000009 --margin 10
      tune-media gate a.zip b.zip --policy my_code:load --env my_code:make_env
    """
    try:
        from tune_media.evaluation.gate import ERROR, EXIT_CODES, GateProgress, sentence
    except ImportError as error:  # without Ray
        raise _Failure(error, 2) from error
    from tune_media.evaluation.gate import gate as play
    from tune_media.evaluation.request import parsed_env_config
    from tune_media.evaluation.sequential import Standing
    from tune_media.evaluation.sides import Side
    from tune_media.values.strict_json import json_bytes

    class Shown(GateProgress):
        """Prints how it stands."""

        def plays(self, base: Side, candidate: Side) -> None:
            _say_whose_code_runs(_CODE, base.name, candidate.name)

        def stands(self, condition: str, found: Standing, seeds: int) -> None:
            if sys.stderr.isatty():
                interval = f"{found.difference:+.5g} [{found.low:.5g}, {found.high:.5g}]"
                click.echo(f"\r\x1b[K{condition} {found.seeds}/{seeds} seeds  {interval}", nl=False, err=True)

    sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
    target = None if junit is None else _file_to_write(junit, ".xml", option="--junit")
    try:
        if target is not None:
            target.parent.stat()  # raises if there is none; when all has been played it is too late
        conditions = parsed_env_config(options.pop("env_config"))
        found = play(base, candidate, env_config=conditions, progress=Shown(), **options)
        if target is not None:
            target.write_text(found.junit(), encoding="utf-8")
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise _Failure(error, EXIT_CODES[ERROR]) from error
    except KeyboardInterrupt as error:  # Click would end with 1, which means worse
        raise _Failure(RuntimeError("it was interrupted; run it again, and it goes on"), EXIT_CODES[ERROR]) from error
    except Exception:  # such as of a module of the user's; Python would end with 1, too
        traceback.print_exc()
        sys.exit(EXIT_CODES[ERROR])
    if as_json:
        click.echo(json_bytes(found.facts()))
        sys.exit(found.exit_code)
    for one in found.verdicts:
        name = f"{one.condition}: " if one.condition else ""
        click.echo(f"{name}{one.verdict.upper()}. {_in_shell(sentence(one, found.metric))}")
        for word, seeds in (("lost", one.lost), ("won", one.won)):
            if seeds:
                shown = ", ".join(map(str, seeds[:10])) + (", ..." if len(seeds) > 10 else "")
                click.echo(f"  {word} by more than the margin on {counted(len(seeds), 'seed')}: {shown}")
        for note in one.notes:
            click.echo(f"  Note: {_in_shell(note)}.")
    for problem in found.problems:
        click.echo(problem)
    folder = _address(found.path, options["output"])
    click.echo(f"\nSee both side by side:\n\n    tune-media watch --open {folder}\n")
    sys.exit(found.exit_code)


@main.command(cls=_UsersCommand, short_help="Let another policy go on with an episode.")
@click.argument("episode", metavar="EXPERIMENT:EPISODE")
@click.option(
    "--at", required=True, type=click.IntRange(0), metavar="K", help="The steps before the policy takes over."
)
@click.option("--policy", required=True, metavar="CHECKPOINT", help="What takes over: a checkpoint, or an experiment.")
@click.option("--times", default=1, show_default=True, type=click.IntRange(1), help="Continuations.")
@click.option("--checkpoint", default="last", show_default=True, help="Of a trial: last, best, or a number.")
@_plays
@click.option("--env", metavar="MODULE:FUNCTION", help="Makes the env, if how it is made is not stored.")
@click.option("--policy-loader", metavar="MODULE:FUNCTION", help="Loads a policy of another library than RLlib.")
@click.option("--clips", default=5, show_default=True, type=click.IntRange(0), help="Continuations that get clips.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, and nothing else.")
def fork(episode: str, as_json: bool, **options: Any) -> None:
    """Play the first K steps of an episode as they were, and let another policy go on.

    EXPERIMENT is the folder of an experiment or of an evaluation, EPISODE the id of an episode that has a tape, or
    best, worst or last. Everything goes to EXPERIMENT/evaluations. Checkpoints, and what makes the env of an episode,
    are executable: use only those of people whom you trust.

    \b
    Exit codes:
      0  it has been played
      1  it cannot be: the env does not repeat the episode, an argument is wrong
      2  an option is wrong

    \b
    Examples:
      tune-media fork my_sweep:worst --at 120 --policy runs/main --times 20
      tune-media fork my_sweep:5c1e --at 0 --policy runs/main:PPO_3
    """
    from tune_media.evaluation.fork import ForkProgress, sentence
    from tune_media.evaluation.fork import fork as play
    from tune_media.values.strict_json import json_bytes

    class Shown(ForkProgress):
        """Prints whose code runs."""

        def runs(self, experiment: str, policy: str) -> None:
            _say_whose_code_runs(_CODE, experiment, policy)

    sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
    forked = play(episode, progress=Shown(), **options)
    if as_json:
        click.echo(json_bytes(forked.facts()))
        return
    click.echo(_in_shell(sentence(forked)))
    for problem in forked.problems:
        click.echo(f"Note: {_in_shell(problem)}.")
    click.echo(f"\nSee it beside the original:\n\n    tune-media watch {_address(forked.path, episode)}\n")
    if forked.link:
        click.echo(f"and then in the browser:\n\n    http://localhost:6007/{forked.link}\n")


@main.command(cls=_UsersCommand, short_help="Save a clip as a GIF, or log a sweep to a tracker.")
@click.argument("experiment", metavar="CLIP|EXPERIMENT")
@click.option(
    "--to",
    "tracker",
    type=click.Choice(["wandb", "mlflow", "tensorboard"]),
    help="Where to log the experiment. Without it, one clip is saved.",
)
@click.option("--width", type=click.IntRange(16), help="GIF: the largest width, pixels. Default: that of the clip.")
@click.option("--fps", type=click.FloatRange(1, 50), help="GIF: the most frames per second. Default: the clip's.")
@click.option("--project", help="W&B: the project. Default: WANDB_PROJECT_NAME.")
@click.option("--group", help="W&B: the group of the runs. Default: the name of the experiment.")
@click.option("--offline", is_flag=True, help="W&B: write offline runs to <trial>/wandb, for `wandb sync`.")
@click.option("--tracking-uri", help="MLflow: the server or database. Default: MLflow's own.")
@click.option("--experiment-name", help="MLflow: the experiment. Default: the name of the Tune experiment.")
@click.option("--artifact-location", help="MLflow: where a new experiment keeps artifacts. Default: MLflow's own.")
@click.option("--nested", is_flag=True, help="MLflow: put the runs under one run of the sweep.")
@click.option("-o", "output", type=click.Path(), help="The .gif or .mp4 to write; TensorBoard: the folder.")
def export(experiment: str, tracker: str | None, output: str | None, **options: Any) -> None:
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
    given = {name: value for name, value in options.items() if value}
    of = {
        None: ("width", "fps"),
        "wandb": ("project", "group", "offline"),
        "mlflow": ("tracking_uri", "experiment_name", "artifact_location", "nested"),
        "tensorboard": (),
    }[tracker]
    foreign = [f"--{name.replace('_', '-')}" for name in given if name not in of]
    writes = tracker in (None, "tensorboard")
    if foreign or (output is None) == writes:
        wrong = " and ".join(foreign) or "-o"
        needs = "needs -o" if writes and not foreign else f"does not take {wrong}"
        of_what = f"--to {tracker}" if tracker else "a clip (no --to is given)"
        raise click.UsageError(f"{of_what} {needs}; `tune-media export --help` says which options it takes.")
    if tracker is None:
        click.echo(_save_clip(experiment, str(output), **given))
        return
    done = _export_to(tracker, experiment, output, given)
    with_what = f"{counted(done.results, 'result')} and {counted(done.media, 'medium', 'media')}"
    click.echo(f"{tracker} has {counted(done.trials, 'trial')}, with {with_what}.")
    for trial, reason in done.left_alone.items():
        click.echo(f"Left alone: {trial}: {reason}")
    if done.problems:
        more = f"\nand {len(done.problems) - _MAX_SHOWN} more" if len(done.problems) > _MAX_SHOWN else ""
        raise click.ClickException("Not logged:\n" + "\n".join(done.problems[:_MAX_SHOWN]) + more)


def _save_clip(source: str, output: str, width: int | None = None, fps: float | None = None) -> str:
    """Save a clip, or the best one of an experiment, and return a sentence about it."""
    from tune_media.viewing.catalog import load
    from tune_media.viewing.places import folder_at
    from tune_media.viewing.saved_clip import save_medium

    place = folder_at(source)
    if place.is_there:
        clips = load(source).clips
        best = clips.best()
        if best is None and len(clips):
            raise ValueError(f"None of the clips in {place.path} has a return, by which one is the best: pass a file.")
        if best is None:
            raise ValueError(_nothing(place.path, "No clip"))
        path, told = best.save(output, width=width, fps=fps), f"the best clip, of {best['trial']}"
    elif not place.is_file:
        raise ValueError(f"There is no clip or experiment {place.path!r}; an experiment is a folder of a sweep.")
    else:
        with place.filesystem.open_input_file(place.path) as file:
            path, told = save_medium(bytes(file.read()), place.path, output, width=width, fps=fps), place.name
    return f"{path} ({path.stat().st_size / 1e6:.1f} MB): {told}"


def _export_to(tracker: str, experiment: str, output: str | None, given: dict[str, Any]) -> Exported:
    import tune_media as tm
    from tune_media.export import to_tensorboard, to_tracker

    def say(trial: str) -> None:
        click.echo(trial)

    if tracker == "tensorboard":
        return to_tensorboard(experiment, str(output), progress=say)
    if tracker == "wandb":
        if given.pop("offline", False):
            given["mode"] = "offline"
        return to_tracker(experiment, tm.WandbMediaLoggerCallback(**given), progress=say)
    return to_tracker(experiment, tm.MLflowMediaLoggerCallback(**given), progress=say)


@main.command(short_help="Find out why an env is not recorded.")
@click.argument("env")
@click.option("--config", default='{"render_mode": "rgb_array"}', show_default=True, help="The env's config, JSON.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs: env, facts and problems.")
def doctor(env: str, config: str, as_json: bool) -> None:
    """Render frames of ENV in a Ray actor and say what a recording would be, and what is wrong.

    ENV is an id that Gymnasium knows (CartPole-v1, module:Id-v0) or module:EnvClass.

    \b
    Examples:
      tune-media doctor CartPole-v1
      tune-media doctor mazes:Maze --config '{"n": 5, "render_mode": "rgb_array"}'
      tune-media doctor --json mazes:Maze | jq .facts.render_ms
    """
    import json

    from tune_media.values.strict_json import json_bytes
    from tune_media.viewing.doctor import examine_in_actor
    from tune_media.viewing.status_line import StatusLine

    try:
        parsed = json.loads(config)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--config") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"a JSON object such as {{}}, not {config}", param_hint="--config")
    with StatusLine(sys.stderr) as line:
        line.stage(f"Rendering {env} in a Ray actor")
        report = examine_in_actor(env, parsed)
    if as_json:
        click.echo(json_bytes({"env": env, "facts": report.facts, "problems": report.problems}))
    else:
        click.echo(report.text())
    if report.problems:
        raise SystemExit(1)


for _command in main.commands.values():
    if "Exit codes:" not in str(_command.help):
        _command.epilog = _EXIT_CODES

if __name__ == "__main__":
    main(prog_name="tune-media")
