"""Chooses among the episodes that all env runners of a round have ended, and lays them out for the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.recording.choosing import CHOOSES_NOTHING, DATA, NUM_ABANDONED, NUM_LOST, Winners, chosen_by, result_of
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import NOT_RECORDED
from tune_media.replay.recipe import Recipe
from tune_media.replay.taped_clip import TapedClip
from tune_media.rllib.counting import ReportedEpisodes, without_uncounted
from tune_media.rllib.replies import EpisodesReply, Unfinished
from tune_media.values.episode_record import REPLAY, EpisodeRecord
from tune_media.values.episodes import LEFT_OUT, MAX_TAPE_BYTES, EpisodeData, thinned, with_progress
from tune_media.values.problems import Problem

_TIMEOUT = "config.evaluation(evaluation_sample_timeout_s=...)"


@dataclass(frozen=True)
class Round:
    """One evaluation, or one training iteration."""

    section: str  # ``evaluation`` or ``train``
    iteration: int
    env_steps: int | None = None  # the Algorithm's so far, or None if not known
    on_old_stack: bool = False
    timeout: float | None = None  # how long to wait for the env runners, seconds, or None for no limit
    reported: ReportedEpisodes = field(default_factory=ReportedEpisodes)  # the episodes that RLlib reports
    is_exact: bool = False  # RLlib counts the episodes that end on these env runners in this round, and no others


@dataclass(frozen=True)
class RoundResult:
    """The episodes of one round."""

    # by selector, its clip, or a list if it may choose several, and pictures by name; under ``data`` all episodes;
    # and the numbers of episodes that never ended or were lost
    chosen: dict[str, Any]
    metrics: dict[str, float]
    problems: Sequence[Problem] = ()
    unfinished: Sequence[Unfinished] = ()  # the paths and episodes that the env runners still wait for
    matched: Sequence[Unfinished] = ()  # the same, of those that finished an episode
    # the tapes of episodes of which all frames were rendered while they ran: a replay of them proves the recipe
    samples: Sequence[TapedClip] = ()


class RoundChoice:
    """The choice among the episodes of one round, over all env runners but those in ``gone``, which are missing."""

    def __init__(
        self,
        plan: Plan,
        of_round: Round,
        answers: Sequence[EpisodesReply],
        gone: Sequence[int] = (),
        problems: Sequence[Problem] = (),
    ) -> None:
        unseen, count = sum(answer.unseen_ends for answer in answers), of_round.reported.count
        if unseen and count is not None:
            of_round = replace(of_round, reported=replace(of_round.reported, count=max(0, count - unseen)))
        self._plan, self._round, self._answers, self._gone = plan, of_round, answers, gone
        self._problems = [*problems, *(problem for answer in answers for problem in answer.problems)]
        self._recipes = {hash: content for answer in answers for hash, content in answer.recipes.items()}
        self._episodes = {episode.record.id: episode for episode in self._all_episodes()}
        self._numbers = self._missing_episodes()
        self._chosen = self._choose() if self._episodes else {}
        self.present = set(self._episodes)  # the ids of the records of all episodes
        self.wanted = {record.id for records in self._chosen.values() for record in records}  # those of the winners

    def collected(self, taken: Winners) -> RoundResult:
        """Return the episodes of the round."""
        unfinished = [answer.unfinished for answer in self._answers]
        if not self._episodes:
            return RoundResult(self._numbers, {}, self._problems, unfinished)
        winners = Winners(lost=dict(taken.lost))
        for id in filter(self.wanted.__contains__, taken.kept):
            winner = winners.kept[id] = taken.kept[id].of_record(self._episodes[id].record)
            if not winner.clips and winner.record.rendered == REPLAY:
                clip = self._taped_clip(id)
                if clip is None:
                    winners.lose(id, "its tape cannot be stored")
                else:
                    winners.kept[id] = replace(winner, unrendered=dict.fromkeys(self._plan.views, clip))
        problems = [*self._problems, *taken.problems]
        problems += [Problem(why, 1) for id, why in winners.lost.items() if id in winners.kept]
        if missing := len(self.wanted - taken.kept.keys()):
            problems.append(Problem.no_clip(_did_not_answer("their env runner", self._round.timeout), missing))
        holds_legacy = self._plan.sees_all and self._round.on_old_stack
        episodes = self._episodes.values()
        chosen = result_of(
            self._plan.selectors,
            self._chosen,
            winners,
            episodes,
            self._recipes,
            is_tiled=self._plan.tiled,
            holds_legacy=holds_legacy,
        )
        batch = chosen[DATA]
        problems += _without_tapes(batch.episodes)
        matched = [answer.unfinished for answer in self._answers if answer.data]
        sampled = [id for answer in self._answers for id in answer.samples if id in self._episodes]
        samples = list(filter(None, map(self._taped_clip, sampled)))
        return RoundResult(self._numbers | chosen, batch.metrics(), problems, unfinished, matched, samples)

    def _taped_clip(self, id: str) -> TapedClip | None:
        """Return the clip of an episode's tape, not rendered yet, or None if the tape or its recipe is missing."""
        episode = self._episodes[id]
        if episode.recipe is None or episode.recipe not in self._recipes or not episode.tape:
            return None
        return TapedClip(episode.tape, Recipe(episode.recipe, self._recipes[episode.recipe]), episode.record)

    def _all_episodes(self) -> list[EpisodeData]:
        """Return all episodes, in the order in which they ended; those that RLlib does not count are late."""
        times = {id: time for answer in self._answers for id, time in answer.fetched_at.items()}
        episodes = without_uncounted(
            [episode for answer in self._answers for episode in answer.data],
            times,
            self._round.reported,
            all_are_here=self._plan.sees_all,
        )
        return with_progress(thinned(episodes), self._round.iteration, self._round.env_steps)

    def _choose(self) -> dict[str, list[EpisodeRecord]]:
        """Return the choice of each selector among the candidates that RLlib counts, by its name."""
        counted = {id: episode.record for id, episode in self._episodes.items() if not episode.is_late}
        candidates = [counted[id] for answer in self._answers for id in answer.candidates if id in counted]
        chosen, reasons = chosen_by(self._plan.selectors, candidates, strict=self._plan.strict)
        self._problems += [Problem(f"{CHOOSES_NOTHING}: {reason}") for reason in reasons]
        return chosen

    def _missing_episodes(self) -> dict[str, Any]:
        """Return the numbers of episodes that never ended, and that went down with their env runner."""
        abandoned = sum(answer.abandoned for answer in self._answers)
        lost = self._lost()
        if lost:
            why = "for an unknown reason: please report this, with the env and the config"
            if self._gone:
                why = _did_not_answer(f"env runner {', '.join(map(str, self._gone))}", self._round.timeout)
            text = f"episodes that RLlib counts are not recorded: {why}"
            self._problems.append(Problem(text, lost))
        return ({NUM_ABANDONED: abandoned} if abandoned else {}) | ({NUM_LOST: lost} if lost else {})

    def _lost(self) -> int:
        """Return how many of the episodes that RLlib counts are missing and in no other problem."""
        count = self._round.reported.count
        if count is None or not self._plan.sees_all:
            return 0
        missing = max(0, count - sum(not episode.is_late for episode in self._episodes.values()))
        if self._gone:
            return missing
        if not self._round.is_exact or not self._answers:
            return 0
        return max(0, missing - sum(problem.lost for problem in self._problems if NOT_RECORDED in problem.text))


def _without_tapes(episodes: Sequence[EpisodeData]) -> list[Problem]:
    """Return the problem that the tapes of some episodes were left out, if they were."""
    count = sum(episode.tape == LEFT_OUT for episode in episodes)
    most = f"those of a round take at most {MAX_TAPE_BYTES // 2**20} MB; the chosen and the newest episodes come first"
    return [Problem(f"{count} of {len(episodes)} episodes have no tape: {most}")] if count else []


def _did_not_answer(who: str, timeout: float | None) -> str:
    """Return why an env runner's episodes or clips are missing after ``timeout`` seconds (None: no limit)."""
    if timeout is None:
        return f"{who} died or raised an error"
    return f"{who} died, raised an error, or did not answer within {timeout:g} s ({_TIMEOUT})"
