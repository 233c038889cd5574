"""Options that several commands have, and the checks of their values."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tune_media.values.checks import local_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from tune_media.viewing.catalog import Catalog


def options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    """Return a decorator that adds options to a command; the last one is the first in its help."""
    return lambda command: functools.reduce(lambda function, decorator: decorator(function), decorators, command)


def trials_option(help_text: str, **more: Any) -> Callable[..., Any]:
    """Return the option that names trials, which has two names."""
    return click.option("--trial", "--trials", "trials", multiple=True, metavar="NAME", help=help_text, **more)


def _parsed_columns(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, str] | None:
    from tune_media.values.clip_columns import columns_of

    try:
        return None if text is None else columns_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


names_columns = click.option(
    "--columns",
    metavar="FACT=COLUMN,...",
    callback=_parsed_columns,
    help="Columns of a table beside clips of other tools: file, return, seed, success, step. Default: the usual names.",
)
chooses_trials = trials_option("Names or parts of names, with commas; may be repeated. Default: all.")


def trial_names(catalog: Catalog, texts: tuple[str, ...]) -> list[str]:
    """Return the trials that ``--trials`` names; Tune's own names have commas. Raises BadParameter, ValueError."""
    from tune_media.viewing.catalog import names_of_trials

    whole = {trial.name for trial in catalog.trials}
    names = [name for text in texts for name in ([text] if text in whole else text.split(",")) if name.strip()]
    if texts and not names:
        raise click.BadParameter(f"names of trials, separated by commas, not {texts[0]!r}", param_hint="--trials")
    return names_of_trials(catalog, [name.strip() for name in names])


def file_to_write(output: str, *endings: str, option: str = "-o") -> Path:
    """Return the path of a file to write. Raises BadParameter if its ending is another."""
    path = local_path(option, output)
    if path.suffix.lower() not in endings:
        raise click.BadParameter(f"a {' or '.join(endings)} file, not {output!r}", param_hint=option)
    return path
