"""Hands over the episodes that ended since the last ``take()``."""

from __future__ import annotations

from typing import Any

from tune_media.gym.replays import Replays
from tune_media.recording.choosing import DATA, chosen_by, laid_out, selector_reason
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.winners import Winners, with_note
from tune_media.selection import Selector
from tune_media.values.episodes import EpisodeBatch, thinned, with_fewer_tapes

MAX_UNTAKEN = 1000
"""The number of episodes whose data are held until ``take()`` is called for the first time; most users never do."""


class Taking:
    """Collects the episodes of one recorder whenever its user asks for them.

    Until the first ``take()``, nobody knows whether there will be one, so the data of only the last ``MAX_UNTAKEN``
    episodes are held, without a warning. After it, as many are held as any recorder holds.

    Args:
        recorder: The recorder.
        replays: Renders the chosen episodes that have no clip yet. None: all have one.

    Example:
        >>> from tune_media.recording.episode import EpisodeStart
        >>> from tune_media.recording.plan import Plan
        >>> from tune_media.selection import as_selectors
        >>> recorder = EpisodeRecorder(Plan("eval", as_selectors("best"), video=None))
        >>> taking = Taking(recorder)
        >>> for reward in (1.0, 3.0):
        ...     is_candidate = recorder.start(0, EpisodeStart("id"))
        ...     recorder.step(0, reward)
        ...     record = recorder.end(0)
        >>> taking.take()["best"].episode_return
        3.0
        >>> taking.take()
        {}
    """

    def __init__(self, recorder: EpisodeRecorder, replays: Replays | None = None) -> None:
        self._recorder, self._replays = recorder, replays
        recorder.candidates.hold_untaken(MAX_UNTAKEN)

    def take(self) -> dict[str, Any]:
        """Return the chosen clips, and the data, of the episodes that ended since the last call."""
        candidates, plan = self._recorder.candidates, self._recorder.plan
        episodes, records = candidates.data(), candidates.records()

        def report(selector: Selector, error: Exception) -> None:
            if plan.strict:
                raise error
            self._recorder.problems.report(selector_reason(selector, error, records), "a selector chooses nothing")

        chosen = chosen_by(plan.selectors, records, report)
        seen = [record.id for record in records] + [episode.record.id for episode in episodes]
        winners = candidates.take({record.id for found in chosen.values() for record in found}, seen)
        taken = Winners(winners) if self._replays is None else self._replays.taken(winners, episodes)
        winners, episodes = taken.kept, [with_note(one, taken.lost.get(one.record.id)) for one in episodes]
        result = laid_out(plan.selectors, chosen, winners, taken.lost)
        note = self._note_dropped()
        if not episodes:
            return result
        trajectories = {id: winner.trajectory for id, winner in winners.items() if winner.trajectory is not None}
        episodes = with_fewer_tapes(thinned(episodes), winners)
        recipe = None if self._replays is None else self._replays.recipe
        recipes = {} if recipe is None else {recipe.hash: recipe.content}
        batch = EpisodeBatch(tuple(episodes), trajectories, recipes, note=note)
        metrics = batch.metrics()
        return result | {DATA: batch} | ({"custom_metrics": metrics} if metrics else {})

    def _note_dropped(self) -> str | None:
        """Return how many episodes ended too long before the first ``take()``, and hold more from now on."""
        candidates = self._recorder.candidates
        candidates.hold_untaken(None)
        dropped, candidates.dropped = candidates.dropped, 0
        if not dropped:
            return None
        reason = f"{dropped:,} episodes ended too long before take(); call it at least every {MAX_UNTAKEN:,} episodes"
        self._recorder.problems.report(reason, "the data of episodes are left out", kind="untaken")
        return reason
