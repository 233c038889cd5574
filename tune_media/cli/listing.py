"""``tune-media list``: tables of the trials, the configurations or the media."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tune_media.cli.command import Command, Outcome, is_json, nothing_recorded
from tune_media.cli.shared_options import chooses_trials, names_columns, trial_names
from tune_media.values.number import counted
from tune_media.values.problems import message_of, remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tune_media.experiment.experiments import SeveralExperimentsError
    from tune_media.viewing.catalog import Catalog


@click.command(
    "list",
    cls=Command,
    short_help="Print a table of the trials and their best clips.",
    json_help="One JSON object a line, with all fields: of media, unless --rows says otherwise.",
)
@click.argument("experiment", nargs=-1, required=True)
@click.option("--all", "every", is_flag=True, help="One line for each medium, short for --rows media.")
@click.option(
    "--rows",
    type=click.Choice(["trials", "configurations", "media"]),
    help="What a line is. Default: media with --json, configurations with --markdown, else trials.",
)
@click.option("--csv", is_flag=True, help="CSV, with all digits: of trials, unless --rows says otherwise.")
@click.option("--markdown", is_flag=True, help="The table for a pull request, with the verdict.")
@click.option("--config", "with_config", is_flag=True, help="With --json: the whole config of each trial, too.")
@names_columns
@chooses_trials
def list_media(
    experiment: tuple[str, ...],
    every: bool,
    rows: str | None,
    with_config: bool,
    trials: tuple[str, ...],
    columns: dict[str, str] | None,
    csv: bool,
    markdown: bool,
) -> Outcome:
    """List what was recorded in EXPERIMENT, a folder or a URI: the best clip of each trial, the best trial first.

    EXPERIMENT may also be one trial, a folder of experiments, or a file of results of policies: CSV, JSON lines or
    JSON. There may be several. Without clips, each trial has its last metrics.

    If trials differ only in their seed, a table of the configurations, with means and intervals, comes before it.

    \b
    Examples:
      tune-media list ~/ray_results/my_sweep
      tune-media list --json ~/ray_results/my_sweep | jq .episode_return
      tune-media list --rows configurations --csv my_sweep > table.csv
      tune-media list --rows configurations --markdown act.jsonl diffusion.jsonl
    """
    kind = _kind_of_row(every, rows, with_config, csv, markdown)
    from tune_media.experiment.experiments import SeveralExperimentsError
    from tune_media.viewing.catalog import load
    from tune_media.viewing.trials import lost_lines

    try:
        catalog = load(list(experiment), columns=columns)
    except SeveralExperimentsError as several:
        return _experiments(several)
    if trials:
        catalog = catalog.of_trials(trial_names(catalog, trials))
    if not len(catalog) and (kind == "media" or not catalog.trials):
        raise click.ClickException("\n".join(lost_lines(catalog)) or nothing_recorded(catalog.path, catalog.trials))
    from tune_media.viewing.list_formats import as_csv, as_json, as_markdown

    text = as_csv if csv else as_markdown if markdown else None
    lines = _tables(catalog, kind) if text is None else [text(catalog, kind)]
    return Outcome(as_json(catalog, kind, with_config=with_config), lines)


def _kind_of_row(every: bool, rows: str | None, with_config: bool, csv: bool, markdown: bool) -> str:
    """Return the kind of row that is listed. Raises UsageError if options exclude each other."""
    if csv + markdown + is_json() > 1:
        raise click.UsageError("--csv, --markdown and --json exclude each other.")
    kind = rows or ("media" if every or is_json() else "configurations" if markdown else "trials")
    if with_config and not is_json():
        raise click.UsageError("--config adds the whole config to the lines of --json: " + remedy("pass both."))
    if with_config and kind != "media":
        raise click.UsageError(f"--config is for media, and --rows {rows} wants others.")
    if every and kind != "media":
        raise click.UsageError(f"--all and --rows {rows} exclude each other.")
    return kind


def _experiments(several: SeveralExperimentsError) -> Outcome:
    """Return the experiments of a folder without a score, since their runs are not compared."""
    from tune_media.viewing.table import in_lines, laid_out

    facts, rows = [], [["experiment", "runs", "newest"]]
    for one in several.experiments:
        facts.append({"experiment": several.argument_of(one), "runs": one.runs, "newest": one.newest})
        rows.append([one.name, f"{one.runs:,}", one.shown_time])
    what_to_do = message_of(several).remedy
    return Outcome(iter(facts), [laid_out(rows), in_lines(what_to_do[:1].upper() + what_to_do[1:])])


def _tables(catalog: Catalog, kind: str) -> Iterator[str]:
    from tune_media.viewing import trials
    from tune_media.viewing.table import in_lines, printable

    if kind == "media":
        yield trials.media_table(catalog)
    else:
        configurations = trials.configuration_table(catalog, always=kind == "configurations")
        yield from [f"{configurations}\n"] if configurations else []
        yield from [trials.trial_table(catalog)] if kind == "trials" else []
        for line in (catalog.verdict.sentence, *catalog.verdict.why):
            yield in_lines(printable(line))
        if importance := trials.importance_line(catalog):
            yield in_lines(importance)
    for line in trials.column_lines(catalog):
        yield in_lines(printable(line))
    for line in trials.lost_lines(catalog):
        yield in_lines(line)
    # episodes without a clip, and media that were lost, are recorded, too
    has_media = bool(len(catalog)) or any(len(trial.reports) or trial.lost or trial.run for trial in catalog.trials)
    media = f"{counted(len(catalog), 'medium', 'media')} in {catalog.path}"
    yield in_lines(printable(media if has_media else nothing_recorded(catalog.path, catalog.trials)))
