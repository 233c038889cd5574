"""Copies: episodes of a run that are the same though their evaluation seeds differ, as their tapes tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tune_media.experiment.trial_files import TrialFiles

COLUMNS = ["episode_id", "seed", "episode_return", "episode_length"]
"""The columns of episodes that ``TapeEnds.copies`` takes."""

_Episode = tuple[int, int]  # its last checksum, and their number


class TapeEnds:
    """What the tapes of a run begin and end with, by which copies are found; each file is read once.

    It is asked of more and more episodes: if nothing is a copy among some, nothing is among more.
    """

    def __init__(self, trial: TrialFiles) -> None:
        self._trial = trial
        self._files: set[str] = set()  # that have been read
        self._ends: dict[str, tuple[int, _Episode]] = {}  # by the episode's id: the checksum of its reset, and itself
        self._has_none = False  # one has no tape, or more than the start decides them

    def copies(self, paths: Iterable[str], episodes: Sequence[Mapping[str, Any]]) -> dict[int, int]:
        """Return a number for each seed, equal for those whose episodes are copies; empty if none are known to be.

        Two episodes are copies if the last checksums and the lengths of their tapes are equal, and if nothing but the
        start decides an episode: each reset that came twice led to the same one. Tapes are read only if two episodes
        have equal returns and lengths; if one has no tape or no seed, nothing is a copy.

        Args:
            paths: The reports that have the episodes, by their paths in the index.
            episodes: Rows of one run, with ``COLUMNS``.
        """
        looks = {(row["episode_return"], row["episode_length"]) for row in episodes}
        if self._has_none or len(looks) == len(episodes) or any(row["seed"] is None for row in episodes):
            return {}
        for path in paths:
            self._read(path)
        of_start: dict[int, _Episode] = {}
        of_seed: dict[int, set[_Episode]] = defaultdict(set)
        for row in episodes:
            start, episode = self._ends.get(row["episode_id"], (None, None))
            if start is None or episode is None or of_start.setdefault(start, episode) != episode:
                self._has_none = True
                return {}
            of_seed[row["seed"]].add(episode)
        kinds = [frozenset(own) for own in of_seed.values()]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        are_there = len(numbers) < len(kinds)
        return {seed: numbers[kind] for seed, kind in zip(of_seed, kinds, strict=True)} if are_there else {}

    def _read(self, path: str) -> None:
        """Read the tapes of a report; a file that cannot be read has none."""
        from tune_media.replay.tape import Tape  # it loads the encoder

        if path in self._files:
            return
        self._files.add(path)
        try:
            for row in self._trial.episodes(path, ["episode_id", "tape"]).drop_null().to_pylist():
                checks = Tape.unpacked(row["tape"], with_actions=False).checks
                self._ends[row["episode_id"]] = checks[0], (checks[-1], len(checks))
        except Exception:  # it is gone, broken, or of another version
            return
