"""Collects the episodes of the env runners of an RLlib Algorithm: chooses over all of them, and fetches the chosen.

An env runner is asked for its finished episodes, and, when it is known who won, for the clips of its winners. Winners
whose clips are made of tapes come with the first answer: nobody waits for a second one.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.recording.choosing import CHOOSES_NOTHING, DATA, NUM_ABANDONED, NUM_LOST, chosen_by
from tune_media.recording.episode import Candidate
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import NOT_RECORDED
from tune_media.recording.winners import Winners, result_of
from tune_media.replay.recipe import Recipe
from tune_media.replay.taped_clip import TapedClip
from tune_media.rllib.counting import ReportedEpisodes, without_uncounted
from tune_media.rllib.env_runner_requests import Answer, ask, ask_and_take, begin_round, take
from tune_media.rllib.proofs import Sample
from tune_media.rllib.requests import LOCAL, Replies, Requests
from tune_media.rllib.round_checks import Unfinished
from tune_media.rllib.settings import EVALUATION
from tune_media.values.episode_record import REPLAY, EpisodeRecord
from tune_media.values.episodes import (
    LEFT_OUT,
    MAX_TAPE_BYTES,
    EpisodeData,
    thinned,
    with_progress,
)
from tune_media.values.problems import NUM_PENDING, NUM_UNANSWERED, Problem

_SHARE_OF_A_ROUND = 0.02
"""The share of a round's time that an asynchronous collection may wait for the answers."""
_TIMEOUT = "config.evaluation(evaluation_sample_timeout_s=...)"


@dataclass(frozen=True)
class Round:
    """One evaluation, or one training iteration.

    Attributes:
        section: ``evaluation`` or ``train``.
        iteration: The training iteration.
        env_steps: The Algorithm's env steps so far. None: not known.
        on_old_stack: Whether it is of the old API stack.
        timeout: How long to wait for the env runners, seconds. None: as long as it takes.
        reported: The episodes that RLlib reports.
        is_exact: Whether RLlib counts the episodes that end on these env runners in this round, and no others.
    """

    section: str
    iteration: int
    env_steps: int | None = None
    on_old_stack: bool = False
    timeout: float | None = None
    reported: ReportedEpisodes = field(default_factory=ReportedEpisodes)
    is_exact: bool = False


@dataclass(frozen=True)
class Collected:
    """The episodes of one round.

    Attributes:
        chosen: For each selector that chose something, its clip, or the list of its clips if it may choose several;
            under a picture's name the same of it; under ``data`` all episodes; and the numbers of episodes that never
            ended and that were lost, if there are any.
        metrics: The custom metrics over the episodes.
        problems: The reasons why episodes were not recorded.
        unfinished: The paths and episodes that the env runners still wait for.
        matched: The same, of those that finished an episode.
    """

    chosen: dict[str, Any]
    metrics: dict[str, float]
    problems: Sequence[Problem] = ()
    unfinished: Sequence[Unfinished] = ()
    matched: Sequence[Unfinished] = ()
    samples: Sequence[Sample] = ()


class EnvRunnerClient:
    """The env runners of one section: which are there, and which of their answers have arrived.

    The Algorithm's thread calls everything here.

    Attributes:
        recordings: The id of each env runner's recording, by its index. Another one means that it was restarted.
        starts: The number of episodes that each sub-env of each env runner has begun.
        requests: The requests to them.
    """

    def __init__(self) -> None:
        self.recordings: dict[int, str] = {}
        self.starts: dict[str, dict[str, int]] = {}
        self._serials: dict[int, str] = {}
        self._begun: set[int] | None = None  # those that have been told to begin a round
        self.requests = Requests()

    @property
    def received(self) -> list[str]:
        """The serials of the last answers, for the next request."""
        return list(self._serials.values())

    def begin_round(self, group: Any, name: str) -> None:
        """Begin an evaluation on the env runners of a group; see ``env_runner_requests``.

        Nobody waits: an env runner does so before the first sample that it is asked for.
        """
        request = functools.partial(begin_round, name=name)
        self.requests.tell(group, request, only=self.requests.owing())
        local = self.requests.call(group, request, 0.0, only=[LOCAL]).answers.values()
        self.recordings = dict(pair for pair in local if pair is not None)
        self._begun = self.requests.ask(group, request)

    def hold_begun(self, timeout: float | None) -> None:
        """Hold the env runners that have begun the round: they have answered before they played."""
        if self._begun is not None:
            found = self.requests.arrived(timeout, only=self._begun).answers.values()
            self.recordings |= dict(pair for pair in found if pair is not None)
            self._begun = None

    def arrived(self, answers: Sequence[Answer]) -> list[int]:
        """Hold the answers that have arrived; return the indices of the env runners whose episodes are missing."""
        now = {answer.env_runner: answer.recording for answer in answers}
        gone = [index for index, id in self.recordings.items() if now.get(index) != id]
        self.recordings = now
        for answer in answers:
            self._serials[answer.env_runner] = answer.serial
            self.starts[str(answer.env_runner)] = {str(index): count for index, count in answer.starts.items()}
        return gone


def collect(group: Any, plan: Plan, seen: EnvRunnerClient, of_round: Round) -> Collected:
    """Choose among the finished episodes of a group's env runners, and fetch the chosen.

    Args:
        group: The ``EnvRunnerGroup``.
        plan: The recorder's plan.
        seen: The env runners of this section.
        of_round: The round.
    """
    seen.hold_begun(of_round.timeout)
    request = functools.partial(ask, name=plan.name, received=seen.received)
    replies = seen.requests.call(group, request, of_round.timeout)
    by_index = {index: answer for index, answer in replies.answers.items() if answer is not None}
    answers = list(by_index.values())

    def fetch(wanted: set[str], present: set[str]) -> Winners:
        taken = Winners({id: one for answer in answers for id, one in answer.kept.kept.items() if id in wanted})
        wanted = wanted - taken.kept.keys()
        request = functools.partial(take, name=plan.name, winners=wanted, seen=present)
        holders = {index for index, answer in by_index.items() if wanted.intersection(answer.candidates)}
        seen.requests.tell(group, request, only=by_index.keys() - holders)  # these drop their losers
        replies = seen.requests.call(group, request, of_round.timeout, only=holders)
        for of_env_runner in replies.answers.values():
            taken.add(of_env_runner)
        taken.problems.extend(replies.problems)
        return taken

    return _Choice(plan, of_round, answers, seen.arrived(answers), replies.problems).collected(fetch)


class AsyncGather:
    """Collects without holding up training, if its env runners are always busy.

    An env runner answers between two samples, which may take longer than a training iteration. So a round waits for the
    answers only for a small share of the time that it took itself. An answer that comes later is used in a later round:
    nobody knows which of the episodes that RLlib counts are still to come, and none is counted as lost.
    The Algorithm's thread calls everything here.

    Args:
        plan: The recorder's plan.
        seen: The env runners of the section.
    """

    def __init__(self, plan: Plan, seen: EnvRunnerClient) -> None:
        self._plan, self._seen = plan, seen
        self._asked: dict[int, _AskedRound] = {}  # by env runner
        self._began = time.monotonic()
        self._pending = 0

    def begin_round(self, group: Any) -> None:
        """Begin an evaluation: an env runner does so when its last sample has ended."""
        self._began = time.monotonic()
        self._seen.requests.tell(group, functools.partial(begin_round, name=self._plan.name))

    def collect(self, group: Any, of_round: Round) -> Collected:
        """Choose among the episodes that have arrived since the last time, and ask for more."""
        requests, patience = self._seen.requests, _SHARE_OF_A_ROUND * (time.monotonic() - self._began)
        earlier = self._sorted(requests.arrived())
        asked = requests.ask(group, functools.partial(ask_and_take, name=self._plan.name, received=self._seen.received))
        self._asked |= dict.fromkeys(asked, _AskedRound(of_round))
        now = self._sorted(requests.arrived(patience, only=asked))
        self._began = time.monotonic()
        answers, problems = [*earlier[0], *now[0]], [*earlier[1], *now[1]]
        taken = Winners()
        for answer in answers:
            taken.add(answer.kept)
        choice = _Choice(self._plan, replace(of_round, reported=ReportedEpisodes()), answers, problems=problems)
        return self._with_pending(choice.collected(lambda wanted, present: taken), of_round)

    def _sorted(self, replies: Replies) -> tuple[list[Answer], list[Problem]]:
        """Return the answers, marked by the rounds in which they were asked for, and the problems."""
        found: dict[int, list[Answer]] = {}
        rounds: dict[int, _AskedRound] = {}
        for index, answer in replies.answers.items():
            asked = self._asked.pop(index)
            if answer is not None:
                rounds[id(asked)] = asked
                found.setdefault(id(asked), []).append(answer)
        for index in (*replies.raised, *replies.died):
            self._asked.pop(index, None)
        sees_all = self._plan.sees_all
        answers = [answer for key, several in found.items() for answer in rounds[key].marked(several, sees_all)]
        self._seen.arrived(answers)
        died = [Problem(f"episodes may be missing: env runner {index} died") for index in replies.died]
        return answers, [*replies.problems, *died]

    def _with_pending(self, collected: Collected, of_round: Round) -> Collected:
        """Add the number of training episodes that RLlib has counted and that have not arrived.

        Of an evaluation in which no sample ended, RLlib repeats the number of the one before, or has none. So the
        number of env runners is added whose episodes are to come.
        """
        if of_round.section == EVALUATION:
            if self._asked:
                collected.chosen[NUM_UNANSWERED] = len(self._asked)
            return collected
        if not self._plan.sees_all or of_round.reported.count is None:
            return collected
        batch = collected.chosen.get(DATA)
        self._pending += of_round.reported.count - (len(batch.counted()) if batch else 0)
        if self._pending > 0:
            collected.chosen[NUM_PENDING] = self._pending
        return collected


class _AskedRound:
    """A round whose env runners were asked for their episodes and may answer in a later one.

    Args:
        of_round: The round. Of an evaluation, RLlib counts the episodes whose metrics it fetched first.
    """

    def __init__(self, of_round: Round) -> None:
        self._round, self._left = of_round, of_round.reported.count

    def marked(self, answers: Sequence[Answer], sees_all: bool) -> list[Answer]:
        """Return answers with those of their episodes marked as late that RLlib does not count."""
        if self._round.section != EVALUATION:
            return list(answers)
        times = {id: time for answer in answers for id, time in answer.fetched_at.items()}
        data = without_uncounted(
            [episode for answer in answers for episode in answer.data],
            times,
            replace(self._round.reported, count=self._left),
            all_are_here=sees_all,
        )
        if self._left is not None:
            self._left = max(0, self._left - sum(not episode.is_late for episode in data))
        marked = {episode.record.id: episode for episode in data}
        return [
            replace(answer, data=[marked[episode.record.id] for episode in answer.data], fetched_at={})
            for answer in answers
        ]


class _Choice:
    """The choice among the episodes of one round."""

    def __init__(
        self,
        plan: Plan,
        of_round: Round,
        answers: Sequence[Answer],
        gone: Sequence[int] = (),
        problems: Sequence[Problem] = (),
    ) -> None:
        unseen, count = sum(answer.unseen_ends for answer in answers), of_round.reported.count
        if unseen and count is not None:
            of_round = replace(of_round, reported=replace(of_round.reported, count=max(0, count - unseen)))
        self._plan, self._round, self._answers, self._gone = plan, of_round, answers, gone
        self._problems = [*problems, *(problem for answer in answers for problem in answer.problems)]

    def collected(self, fetch: Callable[[set[str], set[str]], Winners]) -> Collected:
        """Choose, and fetch the chosen.

        Args:
            fetch: Told the ids of the winners and of all that took part, returns the winners that are there.
        """
        episodes = self._episodes()
        result = self._numbers(episodes)
        unfinished = [answer.unfinished for answer in self._answers]
        if not episodes:
            return Collected(result, {}, self._problems, unfinished)
        records = {episode.record.id: episode.record for episode in episodes}
        chosen = self._chosen(episodes, records)
        wanted = {record.id for found in chosen.values() for record in found}
        taken = fetch(wanted, set(records))
        kept = {id: held.of_record(records[id]) for id, held in taken.kept.items() if id in wanted}
        missing = len(wanted - taken.kept.keys())
        self._problems += taken.problems
        recipes = {hash: content for answer in self._answers for hash, content in answer.recipes.items()}
        tapes = {episode.record.id: episode for episode in episodes}
        nodes = {answer.env_runner: answer.node for answer in self._answers}
        for id, winner in kept.items():
            if not winner.clips and winner.record.rendered == REPLAY:
                node = nodes.get(winner.record.env_runner or 0, "")
                kept[id] = _with_taped_clip(winner, self._plan.views, tapes[id], recipes, node, taken.lost)
        self._problems += [Problem(reason, 1) for id, reason in taken.lost.items() if id in kept]
        if missing:
            text = _did_not_answer("their env runner", self._round.timeout)
            self._problems.append(Problem(f"no clip: {text}", missing))
        holds_legacy = self._plan.sees_all and self._round.on_old_stack
        winners = Winners(kept, taken.lost)
        result |= result_of(self._plan.selectors, chosen, winners, episodes, recipes, holds_legacy=holds_legacy)
        self._problems += _without_tapes(result[DATA].episodes)
        matched = [answer.unfinished for answer in self._answers if answer.data]
        return Collected(
            result, result[DATA].metrics(), self._problems, unfinished, matched, self._samples(tapes, recipes, nodes)
        )

    def _samples(
        self, episodes: Mapping[str, EpisodeData], recipes: Mapping[str, bytes], nodes: Mapping[int, str]
    ) -> list[Sample]:
        """Return the episodes of which frames were rendered while they ran, which prove their tapes."""
        found = []
        for id in (id for answer in self._answers for id in answer.samples):
            recipe = _recipe_of(episodes[id], recipes) if id in episodes else None
            if recipe is not None and (tape := episodes[id].tape):
                record = episodes[id].record
                node = nodes.get(record.env_runner or 0, "")
                found.append(Sample(recipe, tape, record, self._plan.views, node))
        return found

    def _episodes(self) -> list[EpisodeData]:
        """Return all episodes, in the order in which they ended; those that RLlib does not count are late."""
        times = {id: time for answer in self._answers for id, time in answer.fetched_at.items()}
        episodes = without_uncounted(
            [episode for answer in self._answers for episode in answer.data],
            times,
            self._round.reported,
            all_are_here=self._plan.sees_all,
        )
        return with_progress(thinned(episodes), self._round.iteration, self._round.env_steps)

    def _chosen(
        self, episodes: Sequence[EpisodeData], records: Mapping[str, EpisodeRecord]
    ) -> dict[str, list[EpisodeRecord]]:
        """Return the choice of each selector among the candidates that RLlib counts, by its name."""
        late = {episode.record.id for episode in episodes if episode.is_late}
        candidates = [
            records[id] for answer in self._answers for id in answer.candidates if id in records and id not in late
        ]
        chosen, reasons = chosen_by(self._plan.selectors, candidates, strict=self._plan.strict)
        self._problems += [Problem(f"{CHOOSES_NOTHING}: {reason}") for reason in reasons]
        return chosen

    def _numbers(self, episodes: Sequence[EpisodeData]) -> dict[str, Any]:
        """Return the numbers of episodes that never ended, and that went down with their env runner."""
        abandoned = sum(answer.abandoned for answer in self._answers)
        lost = self._lost(episodes)
        if lost:
            why = "for an unknown reason: please report this, with the env and the config"
            if self._gone:
                why = _did_not_answer(f"env runner {', '.join(map(str, self._gone))}", self._round.timeout)
            text = f"episodes that RLlib counts are not recorded: {why}"
            self._problems.append(Problem(text, lost))
        return ({NUM_ABANDONED: abandoned} if abandoned else {}) | ({NUM_LOST: lost} if lost else {})

    def _lost(self, episodes: Sequence[EpisodeData]) -> int:
        """Return how many of the episodes that RLlib counts are missing and in no other problem."""
        count = self._round.reported.count
        if count is None or not self._plan.sees_all:
            return 0
        missing = max(0, count - sum(not episode.is_late for episode in episodes))
        if self._gone:
            return missing
        if not self._round.is_exact or not self._answers:
            return 0
        return max(0, missing - sum(problem.lost for problem in self._problems if NOT_RECORDED in problem.text))


def _with_taped_clip(
    winner: Candidate,
    views: Sequence[str],
    episode: EpisodeData,
    recipes: Mapping[str, bytes],
    node: str,
    lost: dict[str, str],
) -> Candidate:
    """Return a winner that was not rendered while it ran, with clips of these views that are rendered of its tape."""
    recipe = _recipe_of(episode, recipes)
    if recipe is None or episode.tape is None:
        lost[winner.record.id] = "no clip: its tape cannot be stored"
        return winner
    return replace(winner, late={view: TapedClip(episode.tape, recipe, winner.record, node) for view in views})


def _recipe_of(episode: EpisodeData, recipes: Mapping[str, bytes]) -> Recipe | None:
    if episode.recipe is None or episode.tape in (None, LEFT_OUT) or episode.recipe not in recipes:
        return None
    return Recipe(episode.recipe, recipes[episode.recipe])


def _without_tapes(episodes: Sequence[EpisodeData]) -> list[Problem]:
    """Return the problem that the tapes of some episodes were left out, if they were."""
    count = sum(episode.tape == LEFT_OUT for episode in episodes)
    most = f"those of a round take at most {MAX_TAPE_BYTES // 2**20} MB; the chosen and the newest episodes come first"
    return [Problem(f"{count} of {len(episodes)} episodes have no tape: {most}")] if count else []


def _did_not_answer(who: str, timeout: float | None) -> str:
    """Return why an env runner's episodes or clips are missing.

    Args:
        who: The env runner.
        timeout: The Algorithm's timeout, seconds. None: it waits as long as it takes.
    """
    if timeout is None:
        return f"{who} died"
    return f"{who} died, or did not answer within {timeout:g} s ({_TIMEOUT})"
