"""How many seeds a gate takes, foreseen: the known scores are drawn again and again, and each draw is tested."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.fs

from tune_media.evaluation.gate_request import GateRequest
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.memory import PROBED
from tune_media.evaluation.request import EnvCondition
from tune_media.evaluation.sequential import FIRST, UNDECIDED, Scores, verdicts
from tune_media.experiment.places import Folder
from tune_media.values.number import counted

EPISODES = 10  # of the base, that a plan plays
MOST = 2000  # seeds that are foreseen
WORSE_BY = (0.0, 0.5, 1.0, 2.0)  # margins
_GATES = 100  # that are drawn
_SPACING = 1.03  # of the looks: more seeds by this factor


@dataclass(frozen=True)
class Seeds:
    r"""After how many seeds half of the gates, and 90 of 100, have a verdict; infinite: not within ``MOST``.

    >>> print(Seeds(71, 110), Seeds(71, math.inf), Seeds(math.inf, math.inf), sep="\n")
    about 71 seeds (90 of 100 gates: 110)
    about 71 seeds (90 of 100 gates: more than 2,000)
    more than 2,000 seeds
    """

    half: float
    most: float

    def __str__(self) -> str:
        if math.isinf(self.half):
            return f"more than {MOST:,} seeds"
        most = f"more than {MOST:,}" if math.isinf(self.most) else f"{self.most:.0f}"
        return f"about {self.half:.0f} seeds (90 of 100 gates: {most})"


@dataclass(frozen=True)
class Question:
    """What a gate asks: of the base, or of the floor, at the level of each of its verdicts."""

    measure: Measure
    level: float
    of_floor: bool = False

    def seeds(self, base: Scores, candidate: Scores) -> Seeds:
        """Return how many seeds gates take whose scores are of shape (gates, seeds)."""
        margin, bounds = None if self.of_floor else self.measure.margin, self.measure.bounds
        count, taken = base.shape[1], np.full(len(base), math.inf)
        left, look = np.arange(len(base)), 1 if bounds is not None else FIRST
        lowest = self.measure.lowest(of_floor=self.of_floor).score
        while len(left):
            said, _ = verdicts(base[left, :look], candidate[left, :look], margin, bounds, self.level, look - 1, lowest)
            is_open = np.array(said) == UNDECIDED
            taken[left[~is_open]] = look
            left = left[is_open]
            if look == count:
                break
            look = min(count, max(look + 1, int(look * _SPACING)))
        half, most = np.quantile(taken, (0.5, 0.9), method="higher")
        return Seeds(float(half), float(most))

    def for_equal(self, scores: Sequence[tuple[float, ...]]) -> Seeds:
        """Return how many seeds equal policies take whose scores differ as these do, of both sides on each seed.

        Of a floor: a policy with the mean of these scores. Whose score is whose is drawn, so that both are equal.
        """
        random, known = np.random.default_rng(0), np.array(scores, float)
        drawn = known[random.integers(len(known), size=(_GATES, MOST))]
        if self.of_floor:
            return self.seeds(np.full((_GATES, MOST), self.measure.floor), drawn[..., -1])
        is_other = random.random((_GATES, MOST)) < 0.5
        return self.seeds(*(np.where(is_other, drawn[..., one], drawn[..., 1 - one]) for one in (0, 1)))

    def for_worse(self, scores: Scores, worse_by: float) -> Seeds:
        """Return how many seeds a candidate takes that is worse by so many margins, and scores like the base else.

        Both are drawn from the base's scores, each on its own.
        """
        random, bounds, mean = np.random.default_rng(0), self.measure.bounds, float(np.mean(scores))
        if bounds is None:  # what is drawn from a few scores varies less than these do
            scores = mean + (scores - mean) * math.sqrt(len(scores) / max(1, len(scores) - 1))
        base, candidate = random.choice(scores, (2, _GATES, MOST))
        loss = worse_by * self.measure.margin.of(mean)
        if bounds is None:
            candidate = candidate - loss
        elif set(scores) <= set(bounds):  # such as success: it fails on more seeds
            share = loss / (mean - bounds[0]) if mean > bounds[0] else 0.0
            candidate = np.where(random.random(candidate.shape) < share, bounds[0], candidate)
        else:
            candidate = np.maximum(candidate - loss, bounds[0])
        return self.seeds(base, candidate)


@dataclass(frozen=True)
class Plan:
    r"""How many seeds a gate would take under one condition of the env.

    Attributes:
        condition: The condition as text; empty: the env of the training.
        episodes, mean: The episodes of the base that are known, and their mean.
        at_least: The floor; None: it is asked of the base.
        margin: How much worse the candidate may be; of a floor, how far the mean is above it.
        seconds: What a seed takes here, of all sides; NaN: nothing was played.
        cases: How many seeds a candidate takes that is worse by so many margins; of a floor, one that is as good as the
            base.

    >>> plan = Plan("", 10, 470.0, None, 23.5, 0.5, {0.0: Seeds(71, 110), 1.0: Seeds(math.inf, math.inf)})
    >>> print(*plan.facts("return")["sentences"], sep="\n")
    Of 10 episodes of the base, the mean return is 470. A seed takes 0.5 s here.
    Equal policies: about 71 seeds (90 of 100 gates: 110), 36 s.
    Worse by the margin, 23.5: more than 2,000 seeds.
    """

    condition: str
    episodes: int
    mean: float
    at_least: float | None
    margin: float
    seconds: float
    cases: dict[float, Seeds]

    def facts(self, metric: str) -> dict[str, Any]:
        """Return it as JSON."""
        cases = [
            {"worse_by": worse_by, "seeds": seeds.half, "seeds_90": seeds.most, "seconds": seeds.half * self.seconds}
            for worse_by, seeds in self.cases.items()
        ]
        return {**vars(self), "cases": cases, "sentences": list(self._sentences(metric))}

    def _sentences(self, metric: str) -> Iterator[str]:
        takes = "" if math.isnan(self.seconds) else f" A seed takes {self.seconds:.2g} s here."
        yield f"Of {counted(self.episodes, 'episode')} of the base, the mean {metric} is {self.mean:.5g}.{takes}"
        for worse_by, seeds in self.cases.items():
            time = _span(seeds.half * self.seconds)
            yield f"{self._policy(worse_by)}: {seeds}{time and f', {time}'}."

    def _policy(self, worse_by: float) -> str:
        if self.at_least is not None:
            return f"With this mean, for at least {self.at_least:g}"
        names = {0.0: "Equal policies", 0.5: "Worse by half of the margin", 1.0: "Worse by the margin"}
        name = names.get(worse_by, "Worse by twice the margin")
        return f"{name}, {worse_by * self.margin:.5g}" if worse_by else name


def _span(seconds: float) -> str:
    """Return a time in words; empty if it is not known.

    >>> _span(0.1), _span(35.5), _span(600), _span(9000)
    ('1 s', '36 s', '10 min', '2.5 h')
    """
    if not math.isfinite(seconds):
        return ""
    return (
        f"{math.ceil(seconds)} s"
        if seconds < 100
        else f"{seconds / 60:.0f} min"
        if seconds < 6000
        else f"{seconds / 3600:.1f} h"
    )


def plans(
    request: GateRequest,
    measure: Measure,
    history: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, Sequence[float]],
    level: float,
    workers: int,
    plays: Callable[[str], object],
) -> Iterator[Plan]:
    """Play some seeds of the base, and yield a plan for each condition, and each question; nothing is kept.

    ``history`` and ``before`` are what ``lowest_before`` and ``scores_before`` return: if enough scores are known, a
    few seeds are played for the time alone. ``plays`` is called with the condition when an episode is next.
    Raises ValueError if the base cannot be played.
    """
    sides, asked = len(request.sides), request.request
    for condition in asked.conditions:
        known = before.get(condition.label, ())
        few = replace(asked, seeds=asked.seeds[: EPISODES if len(known) < EPISODES else PROBED + 1])
        alone = replace(request, sides=request.sides[:1], request=few, loaders=request.loaders[:1])
        measure = measure.with_history(history.get(condition.label, {}), request.by_role)
        scores, seconds = _scores(alone, condition, measure, workers, plays)
        scores = scores if len(known) < EPISODES else np.array(known)
        mean = float(np.mean(scores))
        if sides > 1:
            question = Question(measure, level)
            cases = {worse_by: question.for_worse(scores, worse_by) for worse_by in WORSE_BY}
            margin = measure.margin.of(mean)
            yield Plan(condition.label, len(scores), measure.sign * mean, None, margin, sides * seconds, cases)
        if measure.floor is not None:
            cases = {0.0: Question(measure, level, of_floor=True).for_equal([(score,) for score in scores])}
            margin = mean - measure.floor
            yield Plan(condition.label, len(scores), mean, measure.floor, margin, sides * seconds, cases)


def _scores(
    request: GateRequest, condition: EnvCondition, measure: Measure, workers: int, plays: Callable[[str], object]
) -> tuple[Scores, float]:
    """Return the scores of the base's episodes, and the seconds that one takes; NaN: none was played."""
    with tempfile.TemporaryDirectory() as folder:
        (part,) = request.parts(condition, Folder(pyarrow.fs.LocalFileSystem(), folder))
        times: dict[int, float] = {}  # by the episodes that were there first
        plays(condition.label)
        for batch in request.play([part], condition, workers):
            plays(condition.label)
            part.add(batch)
            if part.error is not None:
                raise ValueError("the base cannot be played: " + part.error)
            if part.rows():
                times.setdefault(len(part.rows()), time.monotonic())
        scores = np.array([measure.value(row) for row in part.rows()])
    if len(times) < 2:
        return scores, math.nan
    (first, since), *_, (last, until) = times.items()
    return scores, (until - since) / (last - first)
