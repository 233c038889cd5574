"""Which finished evaluation episodes RLlib counts.

RLlib plays more evaluation episodes than it counts: on the old API stack and on Ray 2.50, each env runner has already
been asked for its next episode when RLlib has enough, and it drops that episode's metrics. So each episode is stamped
with the time at which RLlib fetched its metrics, and the Algorithm takes the first ones, as many as RLlib reports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tune_media.selection import Selector
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeData

_RETURN_TOLERANCE = 1e-6


class FetchedEpisodes:
    """The finished episodes of one evaluation env runner, by when RLlib fetched their metrics.

    All calls come from the thread that samples or from functions that the Algorithm sends, which take turns. RLlib has
    at most ``in_flight`` requests under way to it.
    """

    def __init__(self, sub_envs: int = 1, in_flight: int = 1) -> None:
        self._sub_envs, self._in_flight = sub_envs, in_flight
        self._open: dict[str, None] = {}
        self._fetches: dict[str, tuple[int, float]] = {}  # by episode: the number of the fetch, and its time
        self._late: set[str] = set()
        self._fetch = 0
        self._is_fetched_from = False

    def ended(self, id: str) -> None:
        """An episode has ended."""
        self._open[id] = None

    def fetch(self, episodes: int | None = None) -> None:
        """RLlib fetches the metrics of ``episodes`` that have ended; None: of all.

        On the old API stack an episode that ends together with that of another sub-env waits for the next fetch.
        """
        self._is_fetched_from = True
        self._fetch += 1
        count = len(self._open)
        if episodes is not None and 0 <= count - episodes < self._sub_envs:
            count = episodes
        for id in list(self._open)[:count]:
            del self._open[id]
            self._fetches[id] = self._fetch, time.time()

    def begin_round(self) -> None:
        """An evaluation begins: RLlib does not count episodes whose metrics it has fetched before."""
        self._late |= set(self._fetches)
        self._is_fetched_from = False

    def is_late(self, id: str) -> bool:
        """Return whether an episode belongs to no evaluation any more."""
        return id in self._late

    def is_open(self, id: str) -> bool:
        """Return whether RLlib will fetch an episode's metrics in a later round."""
        return self._is_fetched_from and id in self._open

    def times_of(self, ids: Iterable[str]) -> dict[str, float]:
        """Return when RLlib fetched the metrics of some episodes, of those whose it has fetched."""
        return {id: self._fetches[id][1] for id in ids if id in self._fetches}

    def forget(self, id: str) -> None:
        """Drop an episode that has been collected."""
        self._open.pop(id, None)
        self._fetches.pop(id, None)
        self._late.discard(id)

    def choosing_from_each(self, selector: Selector) -> Selector:
        """Return a selector that also chooses among fewer episodes, so that a winner is held whatever RLlib counts.

        It chooses among the episodes that RLlib counts in any case, and among those of each fetch that it may drop.
        """

        def choose(records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
            groups: dict[int, list[EpisodeRecord]] = {}
            for record in records:
                if record.id not in self._late:
                    groups.setdefault(self._group(record.id), []).append(record)
            return [record for group in groups.values() for record in selector.choose(group)]

        return replace(selector, choose=choose)

    def _group(self, id: str) -> int:
        fetch = self._fetches[id][0] if id in self._fetches else self._fetch + 1
        return max(fetch, self._fetch - self._in_flight)


def watch_fetches(env_runner: Any, fetch: Callable[[int | None], None]) -> None:
    """Tell ``fetch`` when RLlib fetches an env runner's metrics, and of how many episodes if it says so."""
    get_metrics = env_runner.get_metrics

    def watched(*args: Any, **kwargs: Any) -> Any:
        metrics = get_metrics(*args, **kwargs)
        # the old API stack: one entry an episode; an env runner made by hand may return a list of anything
        is_by_episode = isinstance(metrics, list) and all(hasattr(entry, "episode_faulty") for entry in metrics)
        fetch(sum(not entry.episode_faulty for entry in metrics) if is_by_episode else None)
        return metrics

    env_runner.get_metrics = watched


@dataclass(frozen=True)
class ReportedEpisodes:
    """The episodes of an evaluation as RLlib reports them."""

    count: int | None = None  # None: RLlib does not say
    returns: tuple[float, ...] | None = None  # on the old API stack only

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> ReportedEpisodes:
        """Read them from the metrics of a section's env runners.

        >>> ReportedEpisodes.of({"num_episodes": 3, "hist_stats": {"episode_reward": [1.0, 2.0]}})
        ReportedEpisodes(count=2, returns=(1.0, 2.0))
        """
        histograms = metrics.get("hist_stats")
        if isinstance(histograms, Mapping) and "episode_reward" in histograms:
            returns = tuple(map(float, histograms["episode_reward"]))
            # in training, these are of the last hundred episodes or so
            return cls(min(len(returns), int(metrics.get("num_episodes", len(returns)))), returns)
        count = metrics.get("num_episodes")
        return cls(None if count is None or math.isnan(float(count)) else int(count))


def without_uncounted(
    episodes: Sequence[EpisodeData], times: Mapping[str, float], reported: ReportedEpisodes, *, all_are_here: bool
) -> list[EpisodeData]:
    """Return the episodes of an evaluation, with those that RLlib does not count marked as late.

    ``times`` are when RLlib fetched their metrics, by the id of their record. ``all_are_here``: the env runners hand
    over all episodes that RLlib may count.
    """
    in_time = sorted((e for e in episodes if not e.is_late and e.record.id in times), key=lambda e: times[e.record.id])
    if not in_time:
        return list(episodes)
    counted: Sequence[EpisodeData] = in_time[: reported.count] if all_are_here else in_time
    if reported.returns is not None:
        counted = _of_returns(in_time, reported.returns)
    late = {e.record.id for e in in_time} - {e.record.id for e in counted}
    return [replace(e, is_late=True) if e.record.id in late else e for e in episodes]


def _of_returns(episodes: Sequence[EpisodeData], returns: Sequence[float]) -> Sequence[EpisodeData]:
    """Return the first episode with each of these returns; all if RLlib counts by others, such as whole Atari games."""
    rest = list(episodes)
    counted = []
    for value in returns:
        episode = next((episode for episode in rest if _is_return(episode.record.episode_return, value)), None)
        if episode is not None:
            rest.remove(episode)
            counted.append(episode)
    return counted if counted or not returns else episodes


def _is_return(episode_return: float, reported: float) -> bool:
    if math.isnan(reported):
        return math.isnan(episode_return)
    return math.isclose(episode_return, reported, rel_tol=_RETURN_TOLERANCE, abs_tol=_RETURN_TOLERANCE)
