"""Tells which round (an evaluation, a training iteration) a part of a result belongs to, and makes ids from that.

RLlib repeats its last evaluation in every iteration that runs none. A raw array that a user put into a result
has no id, so its id is made from its content and from the round that reported it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tune_media.values.foreign import is_a, shown
from tune_media.values.medium import CONTENT_DIGITS, Medium
from tune_media.values.sections import EVALUATION, TRAIN

EVALUATION_IS_NEW = "num_healthy_workers"
SECTIONS = frozenset({TRAIN, EVALUATION, "eval", "validation", "val", "test"})
"""The top-level keys of a result that are sections; everything under other keys belongs to ``train``."""

_COUNTERS = ("num_env_steps_sampled_lifetime", "num_episodes_lifetime")
_TRANSPARENT = frozenset({"env_runners", "sampler_results"})  # RLlib's own levels, which are no part of a key


class Place(NamedTuple):
    """A place in a result.

    >>> place_of("evaluation", {}).inside("env_runners").inside("episodes").inside("best").key
    'episodes/best'
    >>> place_of("eval/rollout", None)
    Place(section='eval', path=('rollout',))
    >>> place_of("rollout", None)
    Place(section='train', path=('rollout',))
    """

    section: str  # ``train``, ``evaluation``, or another top-level key that means an evaluation, such as ``eval``
    path: tuple[str, ...] = ()  # the keys inside the section

    @property
    def key(self) -> str:
        """The keys inside the section, joined by ``/``."""
        return "/".join(self.path)

    def inside(self, name: str) -> Place:
        """Return the place of an entry of the dict that lies here."""
        return self if not self.path and name in _TRANSPARENT else Place(self.section, (*self.path, name))


def place_of(name: str, value: Any) -> Place:
    """Return the place of a top-level entry of a result."""
    section, _, rest = name.partition("/")
    if section not in SECTIONS:
        return Place(TRAIN).inside(name)
    return Place(section) if is_a(value, dict) and not rest else Place(section, (rest or name,))


class ContentIds:
    """Makes the ids of the media of one result that bring none: from the content, the place and the round.

    A later evaluation whose clip looks the same is another round, and two equal media of one round get different ids.
    If the result does not say that a section is new, or if RLlib reports the place as a window, a medium may be a
    repetition, and ``may_repeat`` says of which id.

    ``windows`` are the places that have ever been a window. Ray 2.50 reports a window as a deque; in an iteration that
    evaluates only its oldest value, which may be that of an earlier evaluation.

    >>> result = {"training_iteration": 3, "evaluation": {"num_healthy_workers": 1}}
    >>> new, _ = ContentIds(result).id_of([b"pixels"], Place("evaluation", ("map",)))
    >>> _, may_repeat = ContentIds({"evaluation": {}}).id_of([b"pixels"], Place("evaluation", ("map",)))
    >>> new.startswith(may_repeat)
    True
    """

    def __init__(self, result: dict[str, Any], windows: Collection[Place] = ()) -> None:
        self._result, self._windows = result, windows
        self._occurrences: dict[str, int] = {}

    def id_of(
        self, content: Sequence[bytes | memoryview], place: Place, *, may_repeat_in_training: bool = False
    ) -> tuple[str, str | None]:
        """Return the id of a medium, and the first digits of an id that it may repeat, or None if it is new.

        ``may_repeat_in_training``: the MetricsLogger repeats values that were logged with a window in later iterations.
        """
        digest = hashlib.blake2b(digest_size=16)
        for part in content:
            digest.update(part)
        digest.update(repr((place.section, place.path)).encode("utf-8", "surrogatepass"))
        may_repeat = place in self._windows or (may_repeat_in_training and place.section == TRAIN)
        token = None if may_repeat else section_round(self._result, place.section)
        nth = 1
        if token:  # else a window of Ray 2.50 may hold it twice
            nth = self._occurrences[digest.hexdigest()] = self._occurrences.get(digest.hexdigest(), 0) + 1
        digest.update(str(nth).encode())
        content_id = digest.hexdigest()[:CONTENT_DIGITS]
        return content_id + round_digits(token), None if token else content_id

    def identify(self, medium: Medium, place: Place, *, may_repeat_in_training: bool = False) -> None:
        """Give a medium that was made from a value of another library the id that its repetition gets, too."""
        medium.reidentify(*self.id_of([medium.content()], place, may_repeat_in_training=may_repeat_in_training))


def section_round(result: dict[str, Any], section: str) -> tuple[Any, ...] | None:
    """Return a token that differs between the rounds of a section, or None if this may repeat an earlier round.

    RLlib repeats an evaluation without the health counts that a new one has. Its lifetime counters are no help there:
    on Ray 2.60 a new evaluation counts from zero, and only its repetition counts on. In the training section the
    counters rise with every sample.

    >>> section_round({"training_iteration": 3, "evaluation": {"num_healthy_workers": 1}}, "evaluation")
    (3,)
    >>> section_round({"training_iteration": 4, "evaluation": {}}, "evaluation") is None
    True
    """
    if section == EVALUATION:
        evaluation: Any = result.get(EVALUATION)
        if is_a(evaluation, dict) and EVALUATION_IS_NEW in evaluation:
            return (result.get("training_iteration"),)
        return None
    counters: Any = result.get("env_runners")
    if section != TRAIN or not is_a(counters, dict):
        return None
    counts = (_count(counters.get(name)) for name in _COUNTERS)
    return tuple(count for count in counts if count is not None) or None


def round_digits(token: Sequence[Any] | None) -> str:
    """Return the eight digits of an id that depend on the round."""
    return hashlib.blake2b(shown(token).encode("utf-8", "replace"), digest_size=4).hexdigest()


def _count(value: Any) -> float | None:
    if not is_a(value, (int, float, np.number)) or is_a(value, (bool, np.complexfloating)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
