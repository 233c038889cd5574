"""Collects the episodes of the env runners of an RLlib Algorithm: asks for the finished ones, and fetches the chosen.

An env runner is asked for its finished episodes, and, when it is known who won, for the clips of its winners. Winners
whose clips are made of tapes come with the first answer, so that no second one is needed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tune_media.recording.choosing import DATA, Winners
from tune_media.recording.plan import Plan
from tune_media.rllib.counting import ReportedEpisodes, without_uncounted
from tune_media.rllib.env_runner_requests import ask, ask_and_take, begin_round, take
from tune_media.rllib.replies import EpisodesReply
from tune_media.rllib.requests import LOCAL, Replies, Requests
from tune_media.rllib.round_choice import Round, RoundChoice, RoundResult
from tune_media.values.problems import NUM_PENDING, NUM_UNANSWERED, Problem
from tune_media.values.sections import EVALUATION

_SHARE_OF_A_ROUND = 0.02  # of its time, for which an asynchronous collection may wait for the answers


class EnvRunnerClient:
    """The env runners of one section, and their answers that have arrived. The Algorithm's thread calls everything."""

    def __init__(self) -> None:
        # the id of each env runner's recording, by its index; another one: it was restarted
        self.recordings: dict[int, str] = {}
        self.starts: dict[str, dict[str, int]] = {}  # how many episodes each sub-env of each env runner has begun
        self._serials: dict[int, str] = {}
        self._begun: set[int] | None = None  # the env runners that were asked to begin a round
        self.requests = Requests()

    @property
    def received(self) -> list[str]:
        """The serials of the last answers, for the next request."""
        return list(self._serials.values())

    def begin_round(self, group: Any, name: str) -> None:
        """Begin an evaluation on a group's env runners, each before its next sample, without waiting for them."""
        request = functools.partial(begin_round, name=name)
        self.requests.tell(group, request, only=self.requests.owing())
        local = self.requests.call(group, request, 0.0, only=[LOCAL]).answers.values()
        self.recordings = dict(pair for pair in local if pair is not None)
        self._begun = self.requests.ask(group, request)

    def hold_begun(self, timeout: float | None) -> None:
        """Store the replies to ``begin_round``: these env runners replied before they played."""
        if self._begun is not None:
            replies = self.requests.arrived(timeout, only=self._begun).answers.values()
            self.recordings |= dict(pair for pair in replies if pair is not None)
            self._begun = None

    def arrived(self, answers: Sequence[EpisodesReply]) -> list[int]:
        """Hold the answers that have arrived; return the indices of the env runners whose episodes are missing."""
        now = {answer.env_runner: answer.recording for answer in answers}
        gone = [index for index, id in self.recordings.items() if now.get(index) != id]
        self.recordings = now
        for answer in answers:
            self._serials[answer.env_runner] = answer.serial
            self.starts[str(answer.env_runner)] = {str(index): count for index, count in answer.starts.items()}
        return gone


def collect(group: Any, plan: Plan, seen: EnvRunnerClient, of_round: Round) -> RoundResult:
    """Choose among the finished episodes of a group's env runners, and fetch the chosen."""
    seen.hold_begun(of_round.timeout)
    request = functools.partial(ask, name=plan.name, received=seen.received)
    replies = seen.requests.call(group, request, of_round.timeout)
    by_index = {index: answer for index, answer in replies.answers.items() if answer is not None}
    answers = list(by_index.values())
    choice = RoundChoice(plan, of_round, answers, seen.arrived(answers), replies.problems)
    light = [pair for answer in answers for pair in answer.kept.kept.items()]
    taken = Winners({id: candidate for id, candidate in light if id in choice.wanted})
    if choice.present:
        wanted = choice.wanted - taken.kept.keys()
        fetch = functools.partial(take, name=plan.name, winners=wanted, seen=choice.present)
        holders = {index for index, answer in by_index.items() if wanted.intersection(answer.candidates)}
        seen.requests.tell(group, fetch, only=by_index.keys() - holders)  # these drop their losers
        fetched = seen.requests.call(group, fetch, of_round.timeout, only=holders)
        for of_env_runner in fetched.answers.values():
            taken.add(of_env_runner)
        taken.problems.extend(fetched.problems)
    return choice.collected(taken)


class AsyncGather:
    """Collects without holding up training, if its env runners are always busy.

    An env runner answers between two samples, which may take longer than a training iteration. So a round waits for the
    answers only for a small share of the time that it took itself. An answer that comes later is used in a later round:
    it is not known which of the episodes that RLlib counts are still to come, and none is counted as lost.
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

    def collect(self, group: Any, of_round: Round) -> RoundResult:
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
        choice = RoundChoice(self._plan, replace(of_round, reported=ReportedEpisodes()), answers, problems=problems)
        return self._with_pending(choice.collected(taken), of_round)

    def _sorted(self, replies: Replies) -> tuple[list[EpisodesReply], list[Problem]]:
        """Return the answers, marked by the rounds in which they were asked for, and the problems."""
        by_round: dict[_AskedRound, list[EpisodesReply]] = {}
        for index, answer in replies.answers.items():
            asked = self._asked.pop(index)
            if answer is not None:
                by_round.setdefault(asked, []).append(answer)
        for index in (*replies.raised, *replies.died):
            self._asked.pop(index, None)
        sees_all = self._plan.sees_all
        answers = [answer for asked, several in by_round.items() for answer in asked.marked(several, sees_all)]
        self._seen.arrived(answers)
        died = [Problem(f"episodes may be missing: env runner {index} died") for index in replies.died]
        return answers, [*replies.problems, *died]

    def _with_pending(self, collected: RoundResult, of_round: Round) -> RoundResult:
        """Add the number of training episodes that RLlib has counted and that have not arrived."""
        if of_round.section == EVALUATION:  # RLlib's number may be that of the one before: the env runners are counted
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
    """A round whose env runners may answer in a later one; RLlib counts the episodes whose metrics it fetched first."""

    def __init__(self, of_round: Round) -> None:
        self._round, self._left = of_round, of_round.reported.count

    def marked(self, answers: Sequence[EpisodesReply], sees_all: bool) -> list[EpisodesReply]:
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
