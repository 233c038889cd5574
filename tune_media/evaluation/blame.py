"""``tune_media.blame``: from which step of an episode on another policy could not save it any more.

The other policy takes over at a coarse grid of steps, then where it goes wrong by bisection, then at the neighbours. An
episode is *saved* if more than half of what the policy gains from the start is left: of its success rate, or of its
return above that of the episode. A step is surely saved, or surely lost, if the whole interval is on that side.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.fs

from tune_media.evaluation.fork import Continuations, ForkProgress, Forks
from tune_media.evaluation.jobs import LoadPolicy
from tune_media.evaluation.measure import SUCCESS
from tune_media.recording.success import Success
from tune_media.storage.filesystem import write_atomically
from tune_media.values.checks import a_count, suggests_names
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions
from tune_media.values.strict_json import json_bytes
from tune_media.viewing.forks import BLAME_FILE, blame_name
from tune_media.viewing.statistics import Estimate
from tune_media.viewing.table import laid_out, with_interval

VERSION = 1
_COARSE = 9  # steps of the grid
_NEAR = 2  # steps on each side that are looked at in the end
LOST, UNSURE, SAVED = -1, 0, 1


@dataclass(frozen=True)
class Blame:
    """From which step of an episode on a policy could not save it.

    Attributes:
        episode: The id of the episode.
        policy: The checkpoint that took over, as it was given.
        metric: ``success`` if it is known of all episodes, otherwise ``return``.
        original: The episode itself; ``at`` is its length.
        curve: How it ends if the policy takes over after so many steps, in their order.
        threshold: Above it an episode counts as saved. NaN: the policy does no better than the episode, even from the
            start.
        path: The folder of the episodes, the clips and ``blame.json``, an experiment with a trial for each step.
        link: What the address of the viewer's page ends with if it compares the clips.
        problems: What is missing besides, such as clips.

    >>> ends = {9: 9.0, 0: 20.0, 3: 20.0, 4: 9.0}
    >>> before, *after = (Continuations(at, (value,), (9,), (None,), 1) for at, value in ends.items())
    >>> Blame("e1", "runs/b", "return", before, after, 14.5, "folder").step
    4
    """

    episode: str
    policy: str
    metric: str
    original: Continuations
    curve: Sequence[Continuations]
    threshold: float
    path: str
    link: str = ""
    problems: Sequence[str] = ()

    @property
    def step(self) -> int | None:
        """The first step after which it is not saved any more; None: it is not saved from the start, either."""
        saved = [one.at for one in self.curve if one.outcome(self.metric).value > self.threshold]
        return max(saved) + 1 if saved else None

    @property
    def between(self) -> tuple[int, int] | None:
        """The first and the last step that ``step`` may be: up to them, it is surely saved; from the last on, lost."""
        if self.step is None:
            return None
        sides = {one.at: side_of_threshold(one.outcome(self.metric), self.threshold) for one in self.curve}
        saved = [at for at, side in sides.items() if side == SAVED]
        return max(saved, default=-1) + 1, max(at for at, side in sides.items() if side != LOST) + 1

    def facts(self) -> dict[str, Any]:
        """Return what ``--json`` prints and ``blame.json`` has.

        As of a ``Fork``, but with ``curve``, a list, in place of ``continued``; and ``sentence``, ``step``, ``between``
        (the steps that it may be) and ``threshold``.
        """
        return {
            "v": VERSION,
            "forked_from": self.episode,
            "policy": self.policy,
            "metric": self.metric,
            "sentence": sentence(self),
            "step": self.step,
            "between": None if self.between is None else list(self.between),
            "threshold": None if math.isnan(self.threshold) else self.threshold,
            "original": self.original.facts(self.metric),
            "curve": [one.facts(self.metric) for one in self.curve],
            "path": self.path,
            "problems": list(self.problems),
        }


@suggests_names
def blame(
    episode: Any,
    *,
    policy: Any,
    times: int = 20,
    checkpoint: str | int = "last",
    explore: bool | None = None,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    policy_loader: LoadPolicy | str | None = None,
    success: Success | None = None,
    workers: int = 0,
    clips: int = 1,
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: ForkProgress | None = None,
) -> Blame:
    """Find the step of an episode from which on a policy could not save it any more.

    The policy takes over at several steps, as ``fork`` lets it. One that does not explore goes on from each of them
    only twice, to see that its draws do not matter.

    Args:
        episode, policy, checkpoint, explore, connectors, env, policy_loader, success: As of ``fork``.
        times: The number of continuations from each step.
        workers: The number of Ray tasks at a time. 0: all is played in this process.
        clips: The number of continuations from the last step that is saved, and from the next one, of which clips are
            made.
        video, filesystem, progress: As of ``fork``.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, the episode succeeded, the env does not repeat it, or the policy cannot be
            played.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``blame("runs/mine:worst", policy="runs/main").step``
    """
    a_count("a number of continuations, at least 2", 2).check("blame(times=...)", times)
    a_count("a number of clips", 0).check("blame(clips=...)", clips)
    how = (explore, connectors, env, policy_loader, success, workers)
    with Forks("blame", episode, policy, checkpoint, *how, filesystem, progress) as forks:
        if forks.original.successes[0]:
            raise ValueError(f"episode {forks.episode.id} succeeded: there is nothing to blame a step for.")
        forks.put_into(blame_name(forks.episode.id), {})
        first = forks.play(0, times)
        metric = forks.metric([first])
        forks.progress.continued(first, metric)
        curve = {0: first}
        threshold = _threshold(first.outcome(metric), forks.original.outcome(metric))

        def side_at(at: int) -> tuple[int, bool]:
            if at not in curve:
                curve[at] = forks.play(at, times)
                forks.progress.continued(curve[at], metric)
            found = curve[at].outcome(metric)
            return side_of_threshold(found, threshold), found.value > threshold

        if not math.isnan(threshold):
            search(side_at, forks.steps)
        ordered = [curve[at] for at in sorted(curve)]
        if forks.metric(ordered) != metric:
            raise ValueError("it is known of some episodes whether they succeeded, and not of others: pass success=")
        found = Blame(forks.episode.id, forks.policy, metric, forks.original, ordered, threshold, forks.path)
        shown = sorted({at for at in ((found.step or 1) - 1, found.step) if at in curve})
        lines = [line for at in shown for line in forks.add_clips(at, min(clips, curve[at].count), video)]
        link = forks.compare_link(lines)
        found = replace(found, link=link, problems=forks.problems)
        path = posixpath.join(forks.path, BLAME_FILE)
        write_atomically(forks.episode.trial.filesystem, path, json_bytes(found.facts()) + b"\n")
        return found


def search(side_at: Callable[[int], tuple[int, bool]], steps: int) -> None:
    """Look at those steps that tell from which one on an episode is lost.

    Args:
        side_at: Looks at a step, and returns on which side it surely is, and whether it is more likely saved.
        steps: The length of the episode, which is lost.

    >>> seen = []
    >>> search(lambda at: (seen.append(at), (1, True) if at < 30 else (-1, False))[1], 100)
    >>> set(range(28, 33)) <= set(seen), len(set(seen)) < 20
    (True, True)
    """
    known: dict[int, tuple[int, bool]] = {}

    def look(at: int) -> tuple[int, bool]:
        known[at] = known[at] if at in known else side_at(at)
        return known[at]

    for at in np.linspace(0, steps - 1, min(_COARSE, steps)).round().astype(int).tolist():
        look(at)
    tests: list[Callable[[tuple[int, bool]], bool]] = [
        lambda found: found[1],
        lambda found: found[0] == SAVED,
        lambda found: found[0] != LOST,
    ]
    for test in tests:
        for at in _around(known, test, steps):
            look(at)


def _around(
    known: dict[int, tuple[int, bool]],
    test: Callable[[tuple[int, bool]], bool],
    steps: int,
) -> Iterator[int]:
    """Yield the steps that narrow down the last one for which a test holds, and its neighbours."""
    while True:
        last = max((at for at, found in known.items() if test(found)), default=-1)
        first = min((at for at in known if at > last), default=steps)
        if first - last > 1:
            yield (last + first) // 2
            continue
        near = [at for at in range(first - _NEAR, first + _NEAR + 1) if 0 <= at < steps and at not in known]
        if not near:
            return
        yield near[-1]  # if it holds there, it goes on from there


def side_of_threshold(found: Estimate, threshold: float) -> int:
    """Return whether an outcome is surely above a threshold, surely below, or neither.

    >>> side_of_threshold(Estimate(0.6, 0.4, 0.8), 0.5), side_of_threshold(Estimate(1.0), 0.5)
    (0, 1)
    """
    low, high = (found.value, found.value) if math.isnan(found.low) else (found.low, found.high)
    return SAVED if low > threshold else LOST if high <= threshold else UNSURE


def _threshold(best: Estimate, worst: Estimate) -> float:
    """Return the middle between the policy from the start and the episode; NaN if it is not surely better."""
    return (best.value + worst.value) / 2 if side_of_threshold(best, worst.value) == SAVED else math.nan


def told(found: Blame) -> str:
    """Return what was found as text for a terminal: the curve as a table, and a sentence."""
    lines = [["taken over after step", found.metric, "continuations", ""]]
    for one in found.curve:
        value = one.outcome(found.metric)
        mark = "the last one that is saved" if found.step == one.at + 1 else ""
        lines.append([str(one.at), with_interval(value.value, value.low, value.high, digits=3), str(one.count), mark])
    lines.append([f"{found.original.at} (the episode)", f"{found.original.outcome(found.metric).value:.3g}", "", ""])
    return f"{laid_out(lines)}\n\n{sentence(found)}"


def sentence(found: Blame) -> str:
    """Return what was found in a sentence.

    >>> ends = {9: 9.0, 0: 20.0, 3: 20.0, 4: 9.0}
    >>> before, *after = (Continuations(at, (value,), (9,), (None,), 1) for at, value in ends.items())
    >>> sentence(Blame("e1", "runs/b", "return", before, after, 14.5, "folder"))
    'From step 4 on, runs/b regains at most half of what it gains from the start over episode e1.'
    """
    step, between = found.step, found.between
    what = f"episode {found.episode}"
    lost = "could not save" if found.metric == SUCCESS else "regains at most half of what it gains from the start over"
    if step is None or between is None:
        better = "succeed" if found.metric == SUCCESS else "do better"
        return f"{found.policy} does not surely {better}, even if it plays {what} from the start: no step is to blame."
    if step >= found.original.at:
        return f"{found.policy} could still save {what} before its last step, {counted(step, 'step')} after the reset."
    likely = "" if between == (step, step) else f" (it may be any step from {between[0]} to {between[1]})"
    return f"From step {step} on, {found.policy} {lost} {what}{likely}."
