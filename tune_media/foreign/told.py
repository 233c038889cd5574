"""What the files of another tool tell of a run, before it is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tune_media.values.problems import Message, argument, remedy
from tune_media.values.secrets import error_text, redacted
from tune_media.values.sections import EVALUATION

ENV_STEPS, ITERATIONS, EPISODES, STEPS = "env steps", "iterations", "episodes", "steps"
"""The units in which tools count training; ``STEPS`` if nothing says which it is."""


def unread(path: str, error: Exception) -> str:
    """Return the sentence on a file that cannot be read.

    >>> unread("a.csv", ValueError("it has no header")), unread("b.csv", OSError("no such file"))
    ('a.csv: it has no header.', 'b.csv: OSError: no such file.')
    """
    why = redacted(str(error)) if type(error) is ValueError else error_text(error)  # of ours it is a sentence
    return f"{path}: {why.rstrip('.')}."


@dataclass(frozen=True)
class Curve:
    """A number over training.

    Attributes:
        name: Its name in results: ``episode_return_mean`` (``evaluation/episode_return_mean``) for the usual return of
            a tool, else its tag.
        tag: Its name in the tool's file, such as ``rollout/ep_rew_mean``.
        unit: In which its steps count.
        times: When each value was written, Unix time in seconds; empty if nobody knows.
    """

    name: str
    tag: str
    unit: str
    steps: Sequence[float]
    values: Sequence[float]
    times: Sequence[float] = ()


@dataclass(frozen=True)
class Episode:
    """An episode of which there may be no clip. ``step`` is that of the training, in ``unit``."""

    section: str = EVALUATION
    episode_return: float | None = None
    length: int | None = None
    seed: int | None = None
    success: bool | None = None
    step: float | None = None
    finished_at: float | None = None  # Unix time in seconds
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What one reader found in a run's files.

    Attributes:
        config: Hyperparameters, nested as the file has them.
        env_id: The task, if the file names it.
        episodes: In the order in which they ended; ``tag`` and ``unit`` say where they and their steps come from, and
            ``train_tag`` where those of the training do, if it is told.
        clips: Facts of clips as index lines name them (``episode_return``, ``seed``, ``success``, ``step``, ...), by
            the clip's path in the run's folder.
        columns: The names that ``columns`` may give: of columns of tables, and tags.
        curves: Reads the curves, which takes long; None: the reader has none.
        not_understood: What was seen and could not be read, one sentence each, with the remedy if there is one.
    """

    config: Mapping[str, Any] = field(default_factory=dict)
    env_id: str | None = None
    episodes: Sequence[Episode] = ()
    tag: str = ""
    train_tag: str = ""
    unit: str = STEPS
    clips: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: frozenset[str] = frozenset()
    curves: Callable[[], Sequence[Curve]] | None = None
    not_understood: Sequence[str] = ()


def unnamed(path: str, fact: str, names: str = "") -> str:
    """Return the sentence on a file of which nothing says where it has a fact, such as ``return`` or ``step``.

    >>> unnamed("t.csv", "return", "reward, score")
    't.csv: no column for a return (reward, score); name it in load(columns=...), or --columns, as in return=NAME.'
    """
    return f"{path}: no column for a {fact}{f' ({names})' if names else ''}; " + remedy(name_it(f"{fact}=NAME") + ".")


def name_it(example: str) -> Message:
    """Return the words on how to name a column."""
    return "name it in " + argument("load(columns=...), or --columns") + f", as in {example}"
