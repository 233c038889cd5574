"""The columns of a table beside clips of other tools, by the facts that they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tune_media.values.checks import did_you_mean
from tune_media.values.problems import argument

FILE = "file"
FACTS = {"return": "episode_return", "seed": "seed", "success": "success", "step": "step"}
"""The facts that a table can give, and their names in an index line."""
OF_RESULTS = ("policy", "start")
"""The columns that a file of results may have besides: who played an episode, and from where if that is no seed."""
Columns = Mapping[str, str]
"""Which column has a fact, or the file's name, if it is not one of the usual names: ``{"return": "my_score"}``."""


def columns_of(text: str) -> dict[str, str]:
    """Return the columns that ``--columns`` names. Raises ValueError.

    >>> columns_of("file=clip, return=my_score")
    {'file': 'clip', 'return': 'my_score'}
    >>> columns_of("score=x")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: columns are file, policy, start, return, seed, success or step, each with its name in the table...
    """
    columns = {name.strip(): column.strip() for name, _, column in (part.partition("=") for part in text.split(","))}
    return checked_columns(columns)


def check_there(columns: Columns, names: Iterable[str]) -> None:
    """Raise a ValueError if one of the columns is none of those that tables have.

    >>> check_there({"return": "scor"}, ["score", "video"])
    Traceback (most recent call last):
    ValueError: load(columns=...): no table beside the clips has a column 'scor'; did you mean 'score'?
    """
    names = sorted(set(names))
    for name in columns.values():
        if name not in names:
            why = f": no table beside the clips has a column {name!r}; " + did_you_mean(name, names)
            raise ValueError(argument("load(columns=...)") + why)


def checked_columns(columns: Columns) -> dict[str, str]:
    """Return columns if these are names of facts with names of columns. Raises ValueError."""
    if not isinstance(columns, Mapping) or not all(
        name in (FILE, *OF_RESULTS, *FACTS) and isinstance(column, str) and column for name, column in columns.items()
    ):
        *names, last = (FILE, *OF_RESULTS, *FACTS)
        known = f"{', '.join(names)} or {last}"
        raise ValueError(f"columns are {known}, each with its name in the table, such as return=score")
    return dict(columns)
