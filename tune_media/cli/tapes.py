"""``tune-media render``: clips of episodes that were recorded as tapes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_media.cli.command import Command, Outcome, clip_facts, in_shell, warn_of_stored_code
from tune_media.cli.shared_options import trials_option
from tune_media.values.number import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tune_media.viewing.catalog import Catalog
    from tune_media.viewing.taped_episodes import ClipFolder, Rendered, RenderOptions, TapedEpisode


@click.command(cls=Command, short_help="Make clips of episodes that were recorded as tapes.")
@click.argument("experiment")
@trials_option(
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
def render(experiment: str, trials: tuple[str, ...], which: str, output: str | None, **how: Any) -> Outcome:
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
    from tune_media.viewing.taped_episodes import WAITING, ClipFolder, RenderOptions

    options = RenderOptions(**how)
    catalog = load(experiment)
    taped = _taped(catalog, trials or ("best" if re.search(r"^(best|worst|last)$|[<>=]", which) else "all",))
    if which == WAITING and not set(trials) - {"all"}:
        _warn_of_missing_tapes(catalog, taped)
    chosen = _chosen(taped, which, experiment)
    folder = ClipFolder(Path(output) if output else Path(f"{Path(catalog.path).name}_clips"))
    if not options.env:
        warn_of_stored_code("the recipes of its envs", experiment)
    failed = _render(chosen, options, folder)
    problems = []
    for episode, text in ((rendered.episode, in_shell(rendered.problem)) for rendered in failed):
        click.echo(f"episode {episode.id}: {text}", err=True)
        problems.append({"trial": episode.trial.name, "episode_id": episode.id, "problem": text})
    clips = [clip_facts(made.row, trial=made.trial.name, file=file) for file, made in folder.files.items()]
    problem = f"{len(failed)} of {len(chosen)} episodes have no clip." if failed else ""
    return Outcome({"clips": clips, "problems": problems}, folder.files, problem=problem)


def _taped(catalog: Catalog, names: Sequence[str]) -> list[list[TapedEpisode]]:
    """Return the episodes with tapes of the trials that ``--trial`` means, each trial once."""
    from tune_media.viewing.taped_episodes import of_trial

    by_trial: dict[str, list[TapedEpisode]] = {}
    for name in names:
        trials = catalog.winner_first() if name == "best" else catalog.trials
        by_trial |= {episodes[0].trial.name: episodes for episodes in of_trial(trials, name) if episodes}
    return list(by_trial.values())


def _warn_of_missing_tapes(catalog: Catalog, taped: Sequence[Sequence[TapedEpisode]]) -> None:
    """Warn of clips that wait for tapes which only the outbox of the sweep's driver has."""
    with_tapes = {episode.id for episodes in taped for episode in episodes}
    if missing := sum(id not in with_tapes for trial in catalog.trials for id in trial.unrendered):
        wait = f"{missing} episodes wait whose tapes are not on the storage"
        click.echo(f"{wait}; Tuner.restore(...) brings them.", err=True)


def _chosen(taped: Sequence[list[TapedEpisode]], which: str, experiment: str) -> list[TapedEpisode]:
    """Return the episodes that ``--episodes`` means. Raises ClickException if there are none."""
    from tune_media.viewing.taped_episodes import WAITING, choose

    if not any(taped):
        raise click.ClickException(
            f"No episode there has a tape. Episodes have tapes by default if their env can repeat them, and in any "
            f"case with tapes=True or render='replay': {experiment}"
        )
    chosen = choose(taped, which)
    if not chosen:
        none = f"None of {sum(map(len, taped))} episodes matches {which!r}."
        raise click.ClickException("No clip waits to be rendered." if which == WAITING else none)
    return chosen


def _render(chosen: Sequence[TapedEpisode], options: RenderOptions, folder: ClipFolder) -> list[Rendered]:
    """Write the clips of episodes to a folder, and return those that failed."""
    from tune_media.viewing.taped_episodes import render_each

    failed = []
    steps = sum(int(episode.row["episode_length"]) for episode in chosen)
    with click.progressbar(length=steps, label=counted(len(chosen), "episode")) as bar:
        for rendered in render_each(chosen, options, bar.update):
            if rendered.problem:
                failed.append(rendered)
            else:
                folder.add(rendered)
    return failed
