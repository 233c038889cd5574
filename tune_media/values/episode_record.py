"""The facts of one finished episode."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from tune_media.values.checks import a_text, as_shown, is_number
from tune_media.values.medium import Medium, new_id
from tune_media.values.strict_json import json_bytes

_WHOLE = ("seed", "env_runner", "env_index", "training_iteration", "env_steps", "weights_version")
_FACTS = (
    "episode_id",
    "episode_return",
    "episode_length",
    "seed",
    "env_runner",
    "env_index",
    "agent",
    "view",
    "env_steps",
    "terminated",
    "success",
    "success_once",
    "success_at_end",
    "explored",
    "weights_version",
    "task",
    "rendered",
)
DIRECT, REPLAY, AUTO = RENDERS = ("direct", "replay", "auto")
"""When frames are rendered: while the episode runs, or in a replay of it; ``auto`` chooses one of these."""


@dataclass(frozen=True)
class EpisodeRecord(Medium):
    """The facts of one finished episode.

    >>> record = EpisodeRecord("e1", episode_return=9.0, episode_length=10, seed=3)
    >>> record.facts()
    {'episode_id': 'e1', 'episode_return': 9.0, 'episode_length': 10, 'seed': 3}

    Attributes:
        episode_id: The id that the env runner gave the episode.
        episode_return: The sum of its rewards, over all agents.
        episode_length: Its length in env steps.
        seed: The seed that its env was reset with, if known.
        env_runner: Index of the env runner that played it; 0 is the local one.
        env_index: Index of the sub-env inside the env runner's vector env.
        agent: The agent, if a clip shows the frames of a single agent.
        view: The name of the view, if an episode has several.
        section: ``train`` or ``evaluation``.
        training_iteration: The Algorithm's iteration when the episode was collected.
        env_steps: The Algorithm's lifetime env steps at that time.
        terminated: True if the env ended it, False if it was truncated, None if unknown.
        success: Whether it succeeded: ``success`` or ``is_success`` in its infos, or as the recorder's ``success=`` and
            ``success_when=`` say. None if unknown.
        success_once: Whether it was a success after any of its steps. None if unknown, or if a function says it.
        success_at_end: Whether it was one after its last step; None as for ``success_once``.
        explored: Whether the policy explored.
        weights_version: RLlib's sequence number of the weights that played its last step.
        task: The return value of the env's ``get_task()`` when the episode began, if the env has one.
        rendered: How its frames are rendered: ``direct``, while it ran, or ``replay``, after it was chosen. None: not.
        finished_at: When it ended, Unix time in seconds.
        metrics: Further numbers of the episode, by name: the statistics of the values that ``collect=`` took.
        answers: The answers of predicates of ``tune_media.selection.where`` so far, since each is asked once. Not
            stored.

    Raises:
        TypeError: A value is not the number that it should be, NumPy's are fine; or ``metrics`` is no dict.
        ValueError: The length or an index is below 0.
    """

    kind: ClassVar[str] = "episode"
    suffix = ".json"

    episode_id: str
    episode_return: float
    episode_length: int
    seed: int | None = None
    env_runner: int | None = None
    env_index: int | None = None
    agent: str | None = None
    view: str | None = None
    section: str | None = None
    training_iteration: int | None = None
    env_steps: int | None = None
    terminated: bool | None = None
    success: bool | None = None
    success_once: bool | None = field(default=None, kw_only=True)
    success_at_end: bool | None = field(default=None, kw_only=True)
    explored: bool | None = None
    weights_version: int | None = None
    task: Any = None
    rendered: str | None = None
    finished_at: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    id: str = field(default_factory=new_id)
    note: str | None = None
    answers: dict[str, bool] = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if type(self.episode_return) is not float or type(self.episode_length) is not int:  # NumPy's, for example
            episode_return = _plain("episode_return", "a number", self.episode_return, float)
            episode_length = _plain("episode_length", "a whole number", self.episode_length, int)
            self._set(episode_return=episode_return, episode_length=episode_length)
        a_text("'a3f0'").check("EpisodeRecord(episode_id=...)", self.episode_id)
        if self.episode_length < 0:
            raise ValueError(f"EpisodeRecord(episode_length=...) counts steps, got {self.episode_length}.")
        for name in _WHOLE:
            value = getattr(self, name)
            if value is not None and type(value) is not int:
                self._set(**{name: _plain(name, "a whole number", value, int)})
        for name in ("env_runner", "env_index"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"EpisodeRecord({name}=...) takes an index, got {getattr(self, name)}.")
        if not isinstance(self.metrics, Mapping):
            raise TypeError(
                f"EpisodeRecord(metrics=...) takes numbers by their names, such as {{'speed_avg': 1.5}}, got "
                f"{as_shown(self.metrics)}."
            )

    @property
    def clip_id(self) -> str:
        """The id of its clip: its own; of one of several views, one that follows from both."""
        return self.id if self.view is None else uuid.uuid5(uuid.UUID(self.id), self.view).hex

    @override
    def content(self) -> bytes:
        return json_bytes(self.facts())

    @override
    def facts(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in _FACTS if getattr(self, name) is not None}
        return facts | ({"metrics": dict(self.metrics)} if self.metrics else {})


def _plain(name: str, kind: str, value: Any, as_kind: Callable[[Any], float]) -> float:
    """Return a number of any library as one of Python's own."""
    try:
        plain = value if is_number(value) else value.item()
        number = as_kind(plain)
        if is_number(plain) and (as_kind is float or number == plain):
            return number
    except (AttributeError, TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"EpisodeRecord({name}=...) takes {kind}, got {as_shown(value)}.")
