"""The finished episodes of a round, in bounded memory: the data of all, and the clips of those that may still win."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from tune_media.recording.choosing import CHOOSES_NOTHING, selector_reason, survivors
from tune_media.recording.episode import Candidate
from tune_media.recording.plan import Plan
from tune_media.recording.render_clock import RenderClock
from tune_media.recording.series import EpisodeValues, merged_metrics
from tune_media.recording.success import SuccessReader
from tune_media.values.artifact import Artifact
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import (
    MAX_EPISODES,
    MAX_ROUND_POINTS,
    MAX_TAPE_BYTES,
    EpisodeData,
    points_of,
    tape_bytes,
    thinned,
    with_fewer_tapes,
)
from tune_media.values.image import Image
from tune_media.values.medium import joined
from tune_media.values.problems import Problem, Problems, explained

MAX_CANDIDATES = 512  # the most candidates that one recorder holds
MAX_CANDIDATE_BYTES = 256 * 2**20  # the most memory that these take; one is held in any case
MAX_HELD_BYTES = 64 * 2**20  # the most memory that frames of these take that are not encoded yet

MoreValues = Callable[[EpisodeValues], Iterable[Exception]]
"""Adds the values that user hooks put into an episode, and returns why some of them cannot be stored. Called when it
ends, and again when it is collected, because hooks may add some later."""


class Candidates:
    """The episodes that ended since the last collection."""

    def __init__(self, plan: Plan, problems: Problems, clock: RenderClock, success: SuccessReader) -> None:
        self._plan, self._problems, self._clock, self._success = plan, problems, clock, success
        self._held: dict[str, Candidate] = {}
        self._data: dict[str, EpisodeData] = {}  # of all episodes
        self._more: dict[str, MoreValues] = {}
        self._points = self._tape_bytes = 0
        # the data of so many episodes are held, or of ``MAX_EPISODES`` if None; the others are counted in ``dropped``
        self.most_untaken: int | None = None
        self.dropped = 0  # episodes whose data were dropped because they were not collected

    def add_data(self, data: EpisodeData, more: MoreValues | None = None) -> EpisodeRecord:
        """Hold the data of an episode, and return its record with the values that user hooks have added so far."""
        if more is not None:
            self._more[data.record.id] = more
            data, _ = self._with_more(data, more)
        data = self._judged(data)
        self._data[data.record.id] = data
        self._points += points_of(data)
        self._bound_data(data.record.id)
        return data.record

    def newest(self) -> EpisodeData:
        """Return the data of the episode that ended last; there is one."""
        return next(reversed(self._data.values()))

    def _judged(self, data: EpisodeData) -> EpisodeData:
        """Return an episode's data with its success, if a function of the user's says it."""
        if not callable(self._plan.success):
            return data
        success = self._success.of_function(data.record, strict=self._plan.strict)
        return replace(data, record=replace(data.record, success=success))

    def leads(self, record: EpisodeRecord) -> bool:
        """Return whether a selector of few episodes, such as ``best``, would choose an episode now."""
        few = [rule for rule in self._plan.selectors if rule.local and rule.limit is not None]
        return record.id in survivors([*self.records(), record], few)[0]

    def add_tape(self, id: str, tape: bytes, recipe: str | None) -> None:
        """Add the tape of an episode whose data are held."""
        if id not in self._data:
            return
        self._data[id] = replace(self._data[id], tape=tape, recipe=recipe)
        self._tape_bytes += len(tape)
        if self._tape_bytes > MAX_TAPE_BYTES:
            kept = {*self._held, id}  # these may still win
            some = with_fewer_tapes(list(self._data.values()), kept, MAX_TAPE_BYTES // 2)
            self._data = {episode.record.id: episode for episode in some}
            self._tape_bytes = tape_bytes(some)

    def add(self, candidate: Candidate) -> bool:
        """Hold a candidate, and drop all that cannot win any more; return whether all selectors could choose."""
        self._held[candidate.record.id] = candidate
        alive, raised = survivors(self.records(), self._plan.selectors)
        is_lost = bool(raised) and not alive
        for number, (selector, error) in enumerate(raised):
            if self._plan.strict:
                raise error
            reason = selector_reason(selector, error, self.records())
            consequence, kind = "no clip" if is_lost else CHOOSES_NOTHING, f"{selector.name} {type(error).__name__}"
            self._problems.report(reason, consequence, kind=kind, lost=int(is_lost and number == 0))
            if is_lost:
                self.note(candidate.record.id, Problem.no_clip(reason).text)
        if is_lost:  # the older ones can still be chosen
            alive = self._held.keys() - {candidate.record.id}
        self._held = {id: held for id, held in self._held.items() if id in alive}
        self._bound_frames()
        while len(self._held) > MAX_CANDIDATES or (self.nbytes > MAX_CANDIDATE_BYTES and len(self._held) > 1):
            self._drop_oldest()
        return not raised

    @property
    def nbytes(self) -> int:
        """The memory that the clips, pictures, files and steps of the candidates take, roughly."""
        return sum(candidate.nbytes for candidate in self._held.values())

    def begin_round(self) -> None:
        """Begin a round: episodes that ended since the last collection are too late to be chosen."""
        self._held.clear()
        self._data = {id: replace(data, is_late=True) for id, data in self._data.items()}

    def held(self) -> list[Candidate]:
        """Return the candidates, in the order in which they ended."""
        return list(self._held.values())

    def records(self) -> list[EpisodeRecord]:
        """Return the records of the candidates, in the order in which they ended."""
        return [candidate.record for candidate in self._held.values()]

    def data(self) -> list[EpisodeData]:
        """Return the data of all episodes, in the order in which they ended, with everything that hooks have added."""
        for id, more in self._more.items():
            if id in self._data:
                data, media = self._with_more(self._data[id], more)
                data = self._judged(data)  # it may depend on what hooks have added since the episode ended
                self._data[id] = data
                if id in self._held:
                    self._held[id] = self._held[id].of_record(data.record, media)
        self._more.clear()
        return list(self._data.values())

    def take(self, winners: Collection[str], seen: Iterable[str]) -> dict[str, Candidate]:
        """Hand over the winners by id, with their clips encoded or the reason in ``no_clip``; drop losers and data.

        ``seen`` are the ids of all records that took part; episodes that ended since stay.
        """
        taken = {}
        for id in seen:
            self._data.pop(id, None)
            self._more.pop(id, None)
            candidate = self._held.pop(id, None)
            if candidate is not None and id in winners:
                taken[id] = self._encoded(candidate)
        self._points, self._tape_bytes = sum(map(points_of, self._data.values())), tape_bytes(self._data.values())
        return taken

    def _encoded(self, candidate: Candidate) -> Candidate:
        try:
            with self._clock.render():
                return candidate.encoded() if candidate.held else candidate
        except Exception as error:
            if self._plan.strict:
                raise
            return replace(candidate, held={}, tape=None, no_clip=explained("encoding its frames", error))

    def _bound_frames(self) -> None:
        """Encode the oldest candidates whose frames are held, if these take too much memory."""
        while waiting := [item for item in self._held.values() if item.held]:
            if sum(item.held_bytes for item in waiting) <= MAX_HELD_BYTES and self.nbytes <= MAX_CANDIDATE_BYTES:
                return
            oldest = self._encoded(waiting[0])
            self._held[oldest.record.id] = oldest
            if oldest.no_clip is not None:
                del self._held[oldest.record.id]
                self.note(oldest.record.id, Problem.no_clip(oldest.no_clip).text)
                self._problems.report(oldest.no_clip, lost=1)

    def _with_more(self, data: EpisodeData, more: MoreValues) -> tuple[EpisodeData, Mapping[str, Image | Artifact]]:
        """Return an episode's data with the values of user hooks, and their pictures and files."""
        values = EpisodeValues()
        try:
            for error in more(values):
                if self._plan.strict:
                    raise error
                reason = f"{type(error).__name__}: {error}"
                self._problems.report(reason, "a value that a hook put into an episode is left out")
        except Exception as error:
            if self._plan.strict:
                raise
            self._problems.report_error("reading an episode's own fields", error, "they are left out")
        if values.is_empty:  # nearly always
            return data, {}
        metrics = merged_metrics(data.record.metrics, data.series, values.metrics())
        answers = data.record.answers if metrics == data.record.metrics else {}  # a predicate may look at the metrics
        record = replace(data.record, metrics=metrics, answers=answers)
        series = {**data.series, **values.series()}
        return replace(data, record=record, series=series, values={**data.values, **values.values()}), values.media()

    def note(self, id: str, note: str) -> None:
        """Add a note to the record of an episode, if its data are held."""
        data = self._data.get(id)
        if data is not None and note not in (data.record.note or ""):
            self._data[id] = replace(data, record=replace(data.record, note=joined(data.record.note, note)))

    def _drop_oldest(self) -> None:
        """Drop the oldest candidate that no selector of a few episodes, such as ``best``, chooses."""
        few = [rule for rule in self._plan.selectors if rule.local and (rule.limit or MAX_CANDIDATES) < MAX_CANDIDATES]
        chosen, _ = survivors(self.records(), few)  # add() has reported the errors
        oldest = next((id for id in self._held if id not in chosen), next(iter(self._held)))
        del self._held[oldest]
        many = [rule for rule in self._plan.selectors if rule not in few] or self._plan.selectors
        is_number = len(self._held) >= MAX_CANDIDATES
        limit = f"{MAX_CANDIDATES} episodes" if is_number else f"{MAX_CANDIDATE_BYTES // 2**20} MB of clips and steps"
        newest = f"the newest {MAX_CANDIDATES}" if is_number else "the newest episodes"
        if self._plan.video is not None:
            self.note(oldest, Problem.no_clip(f"more than {limit} were held in its round, and it was the oldest").text)
        self._problems.report(
            f"more than {limit} are held for keep={', '.join(repr(r.name) for r in many)} until the round ends (or "
            f"take() is called): the choice is now among {newest}; keep='best' holds fewer",
            "the oldest clips are dropped",
            lost=1,
        )

    def _bound_data(self, newest: str) -> None:
        """Drop the data of the oldest episode that is no candidate; a candidate without data is never collected."""
        if len(self._data) > (MAX_EPISODES if self.most_untaken is None else self.most_untaken):
            oldest = next((id for id in self._data if id not in self._held and id != newest), next(iter(self._data)))
            self._held.pop(oldest, None)
            self._points -= points_of(self._data.pop(oldest))
            self._more.pop(oldest, None)
            self.dropped += 1
            if self.most_untaken is None:
                self._problems.report(
                    f"more than {MAX_EPISODES:,} episodes ended in one round (or since the last take())",
                    "the data of the oldest are dropped",
                )
        if self._points > MAX_ROUND_POINTS:
            some = thinned(list(self._data.values()), MAX_ROUND_POINTS // 2)
            self._data = {data.record.id: data for data in some}
            self._points = sum(map(points_of, some))
