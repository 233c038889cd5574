"""The texts of ``overlay=`` functions: these are called while an episode runs, and a replay draws what they said."""

from __future__ import annotations

import bisect
import itertools
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tune_media.recording.render_clock import RenderClock
from tune_media.steps import StepFacts
from tune_media.values.medium import joined
from tune_media.values.options import VideoOptions
from tune_media.values.problems import Problems, explained

Function = Callable[[StepFacts], str]

MAX_BYTES = 64 * 2**10  # of the texts of one episode, equal ones counted once
_SUBJECT = "VideoOptions(overlay=...), a function,"
_SHARE, _MEASURED = 0.03, 10.0  # of the passed seconds, and so many of these at least
_ONLY_STEP = "says_the_step_only"  # an attribute of functions whose text is the same in a replay


@dataclass(frozen=True)
class NamedLine:
    """Stands for a function of ``overlay=`` in a recipe: an episode has its texts under its name."""

    name: str

    def __call__(self, step: StepFacts) -> str:
        """Say nothing: an episode has no texts of the function."""
        return ""


def functions_of(video: VideoOptions | None) -> tuple[Function, ...]:
    """Return the functions of ``overlay=``, in their order."""
    return () if video is None else tuple(part for part in video.overlay if callable(part))


def names_of(functions: Sequence[Function]) -> list[str]:
    """Return a name of each function; those of the same place are numbered.

    >>> names_of([NamedLine("a.score:3"), StepFacts, NamedLine("a.score:3")])
    ['a.score:3', 'tune_media.steps.StepFacts', 'a.score:3#2']
    """
    names: list[str] = []
    for function in functions:
        name = _name_of(function)
        others = (f"{name}#{number}" for number in itertools.count(2))
        names.append(next(free for free in itertools.chain([name], others) if free not in names))
    return names


def _name_of(function: Any) -> str:
    if isinstance(function, NamedLine):
        return function.name
    if isinstance(function, str) or not hasattr(function, "__qualname__"):
        function = type(function)
    code = getattr(function, "__code__", None)
    return f"{function.__module__}.{function.__qualname__}" + ("" if code is None else f":{code.co_firstlineno}")


def by_name(video: VideoOptions | None) -> VideoOptions | None:
    """Return options with names in place of the functions of ``overlay=``, so that they can be stored."""
    if video is None or not functions_of(video):
        return video
    names = iter(names_of(functions_of(video)))
    return replace(video, overlay=tuple(NamedLine(next(names)) if callable(part) else part for part in video.overlay))


class Lines:
    """The texts of functions at some steps of an episode, equal ones once; ``names`` are those of the functions."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.full_at: int | None = None  # the first step whose texts had no room any more
        self.error: str | None = None  # why a text is missing: the first exception of a function
        self.nbytes = 0
        self._texts: list[str] = []
        self._known: dict[str, int] = {}  # the number of each text
        self._steps, self._numbers = array("I"), array("I")  # of each step, the number of each function's text

    def __len__(self) -> int:
        """The number of steps that have texts."""
        return len(self._steps)

    @property
    def last_step(self) -> int:
        """The last step that has texts, or -1."""
        return self._steps[-1] if self._steps else -1

    def add(self, step: int, texts: Sequence[str]) -> None:
        """Add the texts of a step after the last one."""
        new = sum(len(text.encode()) for text in {*texts} - self._known.keys())
        if self.full_at is not None or self.nbytes + new > MAX_BYTES:
            self.full_at = step if self.full_at is None else self.full_at
            texts = self.at(self.last_step) or [""] * len(self.names)
        else:
            self.nbytes += new
        self._steps.append(step)
        for text in texts:
            if text not in self._known:
                self._known[text] = len(self._texts)
                self._texts.append(text)
            self._numbers.append(self._known[text])

    def at(self, step: int) -> list[str] | None:
        """Return the text of each function at a step, or None if they were not called there."""
        place, count = bisect.bisect_left(self._steps, step), len(self.names)
        if place == len(self._steps) or self._steps[place] != step:
            return None
        return [self._texts[number] for number in self._numbers[place * count : (place + 1) * count]]

    @property
    def note(self) -> str | None:
        """That texts are missing for lack of room, or of a function that raised, if they are."""
        if self.full_at is None:
            return self.error
        room = f"from step {self.full_at} on, the text of overlay functions is older: there was room for 64 kB of it"
        return joined(room, self.error)

    def packed(self) -> dict[str, Any]:
        """Return it as plain data."""
        numbers = np.array(self._numbers, np.int64).reshape(-1, len(self.names))
        return {
            "names": self.names,
            "texts": self._texts,
            "steps": np.diff(np.array(self._steps, np.int64), prepend=0).astype("<u4").tobytes(),
            "numbers": np.diff(numbers, axis=0, prepend=0).astype("<i4").T.tobytes(),
            "full_at": self.full_at,
            "error": self.error,
        }

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Lines:
        """The inverse of ``packed``. Raises ValueError, KeyError or TypeError."""
        lines = cls([str(name) for name in packed["names"]])
        lines.full_at, lines.error = packed["full_at"], packed["error"]
        lines._texts = [str(text) for text in packed["texts"]]
        lines._known = {text: number for number, text in enumerate(lines._texts)}
        lines._steps = array("I", np.cumsum(np.frombuffer(packed["steps"], "<u4")).tolist())
        numbers = np.frombuffer(packed["numbers"], "<i4").reshape(len(lines.names), len(lines._steps))
        lines._numbers = array("I", np.cumsum(numbers, axis=1).T.ravel().tolist())
        if len(lines._numbers) and max(lines._numbers) >= len(lines._texts):
            raise ValueError("a text is missing")
        lines.nbytes = sum(len(text.encode()) for text in lines._texts)
        return lines


class OverlayFunctions:
    """Calls the functions of a recorder's ``overlay=``, and tells if that takes long."""

    def __init__(self, video: VideoOptions, clock: RenderClock, problems: Problems, *, strict: bool = False) -> None:
        self.video = video
        self._functions = functions_of(video)
        self.names = names_of(self._functions)
        self._clock, self._problems, self._strict = clock, problems, strict
        self.seconds = 0.0  # that they have taken
        self.error: str | None = None  # why a text of the last step is missing

    def texts(self, facts: StepFacts) -> list[str]:
        """Return the text of each function at a step; none, and a problem, of one that raises."""
        began, self.error = time.perf_counter(), None
        texts = [self._text(function, facts) for function in self._functions]
        self.seconds += time.perf_counter() - began
        passed = self._clock.sampling
        if passed > _MEASURED and self.seconds > _SHARE * passed:
            self._problems.report(
                f"overlay functions take {self.seconds / passed:.0%} of the time: have them called at fewer steps ("
                "VideoOptions(every=...)) or in fewer episodes (trigger=), or draw named values, such as 'return'",
                "the run is slower",
                kind="overlay",
            )
        return texts

    def _text(self, function: Function, facts: StepFacts) -> str:
        try:
            return _plain(function(facts))
        except Exception as error:
            if self._strict:
                raise
            self._problems.report_error(_SUBJECT, error, "a line of an overlay is missing")
            self.error = explained(_SUBJECT, error)
            return ""


def _plain(text: Any) -> str:
    return str(text).encode("utf-8", "replace").decode()  # half a character cannot be stored


class EpisodeLines:
    """The lines of an episode that runs: of the steps whose frames its clip keeps."""

    def __init__(self, functions: OverlayFunctions) -> None:
        self._functions, self._video = functions, functions.video
        self.lines = Lines(functions.names)
        self._skipped: StepFacts | None = None  # the last step, if its frame is kept only if it is the last one

    @property
    def note(self) -> str | None:
        """What is odd about the lines."""
        return self.lines.note

    def follow(self, facts: StepFacts, *, picture: bool = True) -> None:
        """Note a step, and its texts if its frame is kept; not ``picture``: the env does not show it any more."""
        self._skipped = facts if picture and facts.step % self._video.every else None
        if picture and self._skipped is None:
            self._add(facts)

    def follow_last(self) -> None:
        """Note that the last step was the episode's last one."""
        facts, self._skipped = self._skipped, None
        if facts is not None:
            self._add(facts)

    def of(self, facts: StepFacts) -> list[str]:
        """Return the texts of the last step; the functions are called if they have not been called at it."""
        if self.lines.last_step < facts.step:
            if self.lines.full_at is None:
                self.lines.add(facts.step, self._functions.texts(facts))
                self.lines.error = self.lines.error or self._functions.error
            else:
                self.lines.add(facts.step, ())  # the newest stand for these
        return self.lines.at(facts.step) or []

    def _add(self, facts: StepFacts) -> None:
        if self._video.max_frames is None or len(self.lines) < self._video.max_frames:
            self.of(facts)


class ReplayedLines:
    """The lines of a replay: the episode's, and the texts of functions that were not called while it ran."""

    def __init__(self, video: VideoOptions, lines: Lines | None) -> None:
        self._functions = functions_of(video)
        there = [] if lines is None else lines.names
        self._places = [there.index(name) if name in there else None for name in names_of(self._functions)]
        self._lines = lines
        self._missing = 0  # frames without a text of the episode
        self._is_replays, self._error = False, ""

    def of(self, facts: StepFacts) -> list[str]:
        """Return the text of each function at a step."""
        row = None if self._lines is None else self._lines.at(facts.step)
        texts = [self._text(*pair, row, facts) for pair in zip(self._functions, self._places, strict=True)]
        self._missing += None in texts
        return [text or "" for text in texts]

    def _text(self, function: Function, place: int | None, row: Sequence[str] | None, facts: StepFacts) -> str | None:
        """Return a function's text, or None if the episode has none."""
        if place is not None:
            return None if row is None else row[place]
        if isinstance(function, NamedLine):
            return None
        self._is_replays = self._is_replays or not getattr(function, _ONLY_STEP, False)
        try:
            return _plain(function(facts))
        except Exception as error:
            self._error = self._error or explained(_SUBJECT, error)
            return ""

    @property
    def note(self) -> str | None:
        """What is odd about the lines."""
        notes = [self._lines.note] if self._lines is not None and any(p is not None for p in self._places) else []
        if self._missing:
            notes.append(f"overlay functions were not called at {self._missing} of the frames while the episode ran")
        if self._is_replays:
            notes.append("the text of an overlay function is the replay's: it was not called while the episode ran")
        return "; ".join(filter(None, [*notes, self._error])) or None
