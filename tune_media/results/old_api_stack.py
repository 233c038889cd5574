"""Reads the single episodes in results of the old API stack: ``episode_media``, ``hist_stats``, ``custom_metrics``.

Each training result repeats the episodes of a sliding window, so that smoothed means have enough of them. The result
also has the number of new episodes. A list with an entry (or a step) for each episode of the window is cut by that
number. In any other list, the entries that the last result had are recognised by their content.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tune_media.results.content_ids import round_digits, section_round
from tune_media.values.convert import as_numbers
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import UNKNOWN, EpisodeBatch, EpisodeData, Series
from tune_media.values.foreign import is_a, shown
from tune_media.values.medium import CONTENT_DIGITS
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION, TRAIN
from tune_media.values.strict_json import as_plain

RECORDER = "rllib"
"""The recorder's name in the rows of these episodes."""

_LEVELS = ("env_runners", "sampler_results")
_MEDIA, _HISTOGRAMS, _METRICS = "episode_media", "hist_stats", "custom_metrics"
_RETURNS, _LENGTHS = "episode_reward", "episode_lengths"


@dataclass
class Windows:
    """The lists of a trial's last result that do not tell which of their entries are new."""

    last: dict[tuple[str, ...], list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class NewEpisodes:
    """The new episodes of one section."""

    section: str
    batch: EpisodeBatch
    lists: dict[tuple[str, ...], list[Any]]  # the new entries of each list, by its place in the result
    put: Callable[[str | None], None]  # replaces the ``episode_media`` by a path, or by nothing if there is no file


def new_episodes(result: dict[str, Any], windows: Windows, unstored: Callable[[str], None]) -> Iterator[NewEpisodes]:
    """Yield the new episodes of each section of a result whose media were replaced; the new API stack's has none.

    ``windows`` are the lists of the trial's last result, and change. ``unstored`` gets a message for each bad value.
    """
    evaluation: Any = result.get(EVALUATION)
    for section, part, path in ((TRAIN, result, ()), (EVALUATION, evaluation, (EVALUATION,))):
        if not is_a(part, dict):
            continue
        level = next((name for name in _LEVELS if _is_legacy(part.get(name))), None)
        place = part[level] if level else part
        if _is_legacy(place):
            try:
                new = _Section(result, section, place, (*path, *((level,) if level else ())), windows, unstored).read()
            except Exception as error:  # for example, returns that are not numbers
                unstored(f"the episodes of {section} could not be read: {error_text(error)}")
                continue
            yield new


def _is_legacy(place: Any) -> bool:
    return is_a(place, dict) and is_a(place.get(_HISTOGRAMS), dict) and _RETURNS in place[_HISTOGRAMS]


@dataclass
class _Draft:
    """What has been read of one episode, by name."""

    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


class _Section:
    """Reads the new episodes of one section."""

    def __init__(
        self,
        result: dict[str, Any],
        section: str,
        place: dict[str, Any],
        path: tuple[str, ...],
        windows: Windows,
        unstored: Callable[[str], None],
    ) -> None:
        self._result, self._section, self._place, self._path = result, section, place, path
        self._windows, self._unstored = windows, unstored
        self._returns = list(place[_HISTOGRAMS][_RETURNS])
        lengths = place[_HISTOGRAMS].get(_LENGTHS, [])
        self._lengths = [int(length) if math.isfinite(length) else 0 for length in lengths]
        self._lists: dict[tuple[str, ...], list[Any]] = {}
        new = place.get("num_episodes", place.get("episodes_this_iter"))
        if new is None:
            new = len(self._fresh_by_content((_HISTOGRAMS, _RETURNS), self._returns))
        self._new = min(int(new), len(self._returns))
        self._drafts = [_Draft() for _ in range(self._new)]
        self._unknown = _Draft()  # values that cannot be assigned to an episode

    def read(self) -> NewEpisodes:
        for kind in (_HISTOGRAMS, _METRICS):
            for name, entries in self._lists_of(kind):
                self._read_numbers(kind, name, entries)
        for name, entries in self._lists_of(_MEDIA):
            self._read_media(name, entries)
        episodes = [self._episode(index, draft) for index, draft in enumerate(self._drafts)]
        if self._unknown.series or self._unknown.values:
            note = "values of several episodes: the result does not say which is whose"
            record = self._record(UNKNOWN, math.nan, 0, {}, note)
            episodes.append(EpisodeData(record, self._unknown.series, self._unknown.values))
        return NewEpisodes(self._section, self._batch(episodes), self._lists, self._put)

    def _read_numbers(self, kind: str, name: str, entries: list[Any]) -> None:
        """Add a list of numbers to the metrics and series of the episodes that they belong to."""
        each = self._by_episode(kind, name, entries)
        if name in (_RETURNS, _LENGTHS):
            return
        if each is None:
            self._unknown.series.update(_as_series(name, self._lists[(*self._path, kind, name)]))
            return
        for draft, of_episode in zip(self._drafts, each, strict=True):
            if len(of_episode) == 1 and _number(of_episode[0]) is not None:
                draft.metrics[name] = float(of_episode[0])
            else:
                draft.series.update(_as_series(name, of_episode))

    def _read_media(self, name: str, entries: list[Any]) -> None:
        """Add a list of ``episode_media`` to the values of the episodes that they belong to."""
        each = self._by_episode(_MEDIA, name, entries)
        if each is None:
            fresh = self._lists[(*self._path, _MEDIA, name)]
            if plain := [value for item in fresh for value in self._plain(name, item)]:
                self._unknown.values[name] = plain
            return
        for draft, of_episode in zip(self._drafts, each, strict=True):
            for value in self._plain(name, of_episode[0]):
                draft.values[name] = value

    def _lists_of(self, kind: str) -> Iterator[tuple[str, list[Any]]]:
        lists: Any = self._place.get(kind)
        for name, values in list(lists.items()) if is_a(lists, dict) else []:
            if is_a(values, (list, tuple)) or (is_a(values, np.ndarray) and values.ndim):
                yield shown(name, str), list(values)

    def _by_episode(self, kind: str, name: str, values: list[Any]) -> list[list[Any]] | None:
        """Return the new entries of a list for each new episode, or None if the list does not tell whose they are."""
        window, lengths = len(self._returns), self._lengths
        counts = [[1] * window]
        if kind == _HISTOGRAMS and len(lengths) == window:
            counts += [lengths, [length + 1 for length in lengths]]
        fitting = next((count for count in counts if sum(count) == len(values)), None)
        place = (*self._path, kind, name)
        if fitting is None:
            fresh = self._fresh_by_content((kind, name), values)
            are_all_new = self._new == window  # the window has no episode of the last result
            self._lists[place] = values if are_all_new else fresh
            return None
        counts_of_new = fitting[window - self._new :]
        fresh = values[len(values) - sum(counts_of_new) :]
        self._lists[place] = fresh
        ends = itertools.accumulate(counts_of_new)
        return [fresh[end - count : end] for end, count in zip(ends, counts_of_new, strict=True)]

    def _fresh_by_content(self, place: tuple[str, ...], values: list[Any]) -> list[Any]:
        """Return the entries after those with which the last result's list ended and this one begins."""
        key = (self._section, *place)
        before, now = self._windows.last.get(key, []), [_digest(value) for value in values]
        self._windows.last[key] = now
        return values[_overlap(before, now) :]

    def _plain(self, name: str, value: Any) -> Iterator[Any]:
        try:
            yield as_plain(value, f"{_MEDIA}/{name}")
        except TypeError as error:
            self._unstored(str(error))

    def _episode(self, index: int, draft: _Draft) -> EpisodeData:
        number = index - self._new  # from the end
        length = self._lengths[number] if len(self._lengths) >= self._new else 0
        name = f"{self._section}-{self._result.get('training_iteration')}-{index}"
        record = self._record(name, float(self._returns[number]), length, draft.metrics)
        return EpisodeData(record, draft.series, draft.values)

    def _record(
        self, name: str, episode_return: float, length: int, metrics: dict[str, float], note: str | None = None
    ) -> EpisodeRecord:
        return EpisodeRecord(
            name,
            episode_return,
            length,
            section=self._section,
            training_iteration=self._result.get("training_iteration"),
            metrics=metrics,
            note=note,
        )

    def _batch(self, episodes: Sequence[EpisodeData]) -> EpisodeBatch:
        """Make the batch, with an id made from the content, and from the round if the result tells it."""
        window = [self._returns, self._lengths]
        window += [
            [kind, name, values] for kind in (_HISTOGRAMS, _METRICS, _MEDIA) for name, values in self._lists_of(kind)
        ]
        content = repr([self._section, _digest(window)]).encode("utf-8", "replace")
        digest = hashlib.blake2b(content, digest_size=CONTENT_DIGITS // 2).hexdigest()
        if self._section == TRAIN:
            token: Any = [self._result.get(n) for n in ("training_iteration", "timesteps_total", "episodes_total")]
        else:
            token = section_round(self._result, self._section)
        return EpisodeBatch(tuple(episodes), id=digest + round_digits(token), may_repeat=None if token else digest)

    def _put(self, path: str | None) -> None:
        media: Any = self._place.get(_MEDIA)
        if is_a(media, dict):
            self._place[_MEDIA] = dict.fromkeys(media, path or ())


def _as_series(name: str, values: list[Any]) -> dict[str, Series]:
    numbers = as_numbers(values)
    if numbers is None or not values:
        return {}
    return {name: Series(numbers.astype(np.float64).ravel(), 1, int(numbers.size))}


def _number(value: Any) -> float | None:
    numbers = as_numbers(value)
    return float(numbers.item()) if numbers is not None and numbers.size == 1 else None


def _overlap(before: list[Any], now: list[Any]) -> int:
    """Return the length of the longest end of ``before`` with which ``now`` begins (Knuth-Morris-Pratt)."""
    sequence = [*now, object(), *before]
    borders = [0] * len(sequence)
    for index in range(1, len(sequence)):
        length = borders[index - 1]
        while length and sequence[index] != sequence[length]:
            length = borders[length - 1]
        borders[index] = length + (sequence[index] == sequence[length])
    return borders[-1] if before and now else 0


def _digest(value: Any) -> Any:
    """Return a stand-in that is equal for equal values: a number or text itself, a digest of an array."""
    if is_a(value, np.generic):
        value = value.item()
    if is_a(value, float) and math.isnan(value):
        return "not a number"  # unlike NaN, this equals itself
    if is_a(value, (bool, int, float, str)):
        return value
    if is_a(value, np.ndarray):
        return hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()
    if is_a(value, Mapping):
        return tuple((key, _digest(item)) for key, item in value.items())
    if is_a(value, (list, tuple)):
        return tuple(map(_digest, value))
    return type(value).__qualname__
