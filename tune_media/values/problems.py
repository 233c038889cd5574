"""Problems: why something was not recorded, and what it costs. Each process collects its own, each kind once.

The problems of an env runner travel in its answers, and a recorder puts them into a result as a tuple, at
``<section>/<recorder>/problems``. The driver takes them with ``take_problems``, which leaves their texts behind for the
other loggers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from typing_extensions import override

from tune_media.values.foreign import without_address
from tune_media.values.number import counted
from tune_media.values.secrets import error_text, redacted

PROBLEMS = "problems"
"""The key under which a recorder reports its problems in a result."""
NUM_PENDING = "num_pending"
"""The key of the number of training episodes that RLlib counts so far and that are to come with a later result."""
NUM_UNANSWERED = "num_unanswered"
"""The key of the number of env runners whose episodes of an evaluation are to come with a later result."""


class _Part(NamedTuple):
    text: str
    argument: str = ""  # that the text names, in the words of Python
    is_remedy: bool = False


class Message(str):
    """The text of an error or a note, which keeps the names of arguments in it, and its remedy; ``+`` joins texts.

    >>> message = "no metric 'x'; " + remedy("pass " + argument("gate(metric=...)") + ", or leave mode= out.")
    >>> message
    "no metric 'x'; pass gate(metric=...), or leave mode= out."
    >>> message.with_options({"metric": "--metric"}).remedy
    'pass --metric, or leave mode= out.'
    """

    _parts: tuple[_Part, ...]

    def __new__(cls, *parts: Iterable[Any]) -> Message:  # noqa: D102 - of ``parts_of``, also as JSON has them
        message = super().__new__(cls, "".join(text for text, *_ in parts))
        message._parts = tuple(_Part(*part) for part in parts)
        return message

    def __getnewargs__(self) -> Any:  # to pickle it
        return self._parts

    @override
    def __add__(self, text: str) -> Message:
        return Message(*self._parts, *parts_of(text))

    def __radd__(self, text: str) -> Message:
        return Message(*parts_of(text), *self._parts)

    @property
    def remedy(self) -> str:
        """What to do about it; empty if the message does not say."""
        return "".join(part.text for part in self._parts if part.is_remedy)

    def with_options(self, options: Mapping[str, str]) -> Message:
        """Return the message as a command says it, which has these options for arguments."""
        return Message(*(part._replace(text=options.get(part.argument, part.text)) for part in self._parts))

    def redacted(self) -> Message:
        """Return the message without secrets."""
        return Message(*(part._replace(text=redacted(part.text)) for part in self._parts))


def parts_of(text: str) -> tuple[_Part, ...]:
    """Return the parts of a text, of which ``Message`` makes it again, also after JSON."""
    return text._parts if isinstance(text, Message) else (_Part(text),)


def argument(words: str) -> Message:
    """Return the words of Python for an argument, such as ``gate(seeds=...)`` or ``env=``, as a part of a message."""
    name, sign, _ = words.partition("=")
    return Message(_Part(words, name.rpartition("(")[2] if sign else ""))


def remedy(text: str) -> Message:
    """Return what to do about an error, as the end of its message."""
    return Message(*(part._replace(is_remedy=True) for part in parts_of(text)))


def message_of(error: BaseException) -> Message:
    """Return the message of an error."""
    text = error.args[0] if error.args else ""
    return text if isinstance(text, Message) else Message(_Part(str(error)))


class FrameError(ValueError):
    """A frame that cannot be recorded. Its message is complete: it names the env, the value and the remedy."""


@dataclass(frozen=True)
class Problem:
    """One reason why something was not recorded."""

    text: str  # the whole message: the recorder or argument, the value that is wrong, and how to mend it
    lost: int = 0  # the number of episodes that got no clip for it
    # what else there is to say of a fault; a reason why something was not recorded has it in its text
    remedy: str = field(default="", repr=False)

    @classmethod
    def no_clip(cls, reason: str, lost: int = 1) -> Problem:
        """Return the problem of episodes that got no clip. Its text is the note in their records."""
        return cls(f"no clip: {reason}", lost)

    def __str__(self) -> str:
        text = f"{self.text}. {self.remedy}" if self.remedy else self.text
        return f"{text} ({counted(self.lost, 'episode')} without a clip)" if self.lost else text


class Problems:
    """Counts the problems of one process: ``tell`` gets the first of each kind; kinds beyond ``most`` are left out."""

    def __init__(self, tell: Callable[[Problem], None] = lambda problem: None, most: int = 50) -> None:
        self._tell, self._most = tell, most
        self._all: dict[Hashable, Problem] = {}
        self._news: dict[Hashable, Problem] = {}  # since the last ``take``

    def add(self, problem: Problem, kind: Hashable = None) -> None:
        """Count a problem, and tell it if it is the first of its kind: the one that is given, or its text."""
        kind = kind or problem.text
        first = self._all.get(kind)
        if first is None and len(self._all) >= self._most:
            return
        self._all[kind] = problem if first is None else replace(first, lost=first.lost + problem.lost)
        if first is None:
            self._news[kind] = problem
            self._tell(problem)
        elif problem.lost:
            news = self._news.get(kind, replace(first, lost=0))
            self._news[kind] = replace(news, lost=news.lost + problem.lost)

    def report(self, reason: str, consequence: str = "no clip", *, kind: str = "", lost: int = 0) -> None:
        """Count a problem of a user's function or env, which costs ``lost`` episodes their clips.

        Reasons with the same kind and consequence are one problem. Without a kind, it is the reason itself.
        """
        text = f"{consequence}: {redacted(without_address(reason))}"
        self.add(Problem(text, lost), (consequence, kind) if kind else None)

    def report_error(self, subject: str, error: Exception, consequence: str = "no clip", *, lost: int = 0) -> None:
        """Count an exception of a user's function or env; those of one type raised by one thing are one problem."""
        kind = "" if isinstance(error, FrameError) else f"{subject} {type(error).__name__}"
        self.report(explained(subject, error), consequence, kind=kind, lost=lost)

    def take(self) -> list[Problem]:
        """Return the problems that are new or have cost further episodes since the last call."""
        news, self._news = self._news, {}
        return list(news.values())

    def __contains__(self, kind: Hashable) -> bool:
        return kind in self._all

    def __iter__(self) -> Iterator[Problem]:
        return iter(list(self._all.values()))


def explained(subject: str, error: Exception) -> str:
    """Return an exception as the reason of a problem."""
    return str(error) if isinstance(error, FrameError) else f"{subject} raised {error_text(error)}"


def pending(result: Mapping[Any, Any]) -> dict[str, int]:
    """Return the clips that come with a later result, by their key, for each section that a result of RLlib has."""
    pending_counts = {}
    for key, holder in ((NUM_PENDING, result), (NUM_UNANSWERED, result.get("evaluation"))):
        env_runners = holder.get("env_runners") if isinstance(holder, Mapping) else None
        if isinstance(env_runners, Mapping):
            counts = [recorder.get(key) for recorder in env_runners.values() if isinstance(recorder, Mapping)]
            pending_counts[key] = max((count for count in counts if isinstance(count, int)), default=0)
    return pending_counts


def take_problems(result: dict[Any, Any]) -> list[Problem]:
    """Return the problems that a result reports, at any depth, and put their texts (one string) in their place."""
    taken: list[Problem] = []
    for key, value in result.items():
        if isinstance(value, dict):
            taken += take_problems(value)
        elif key == PROBLEMS and isinstance(value, tuple):
            reported = [problem for problem in value if isinstance(problem, Problem)]
            if reported:
                result[key] = "; ".join(map(str, reported))
                taken += reported
    return taken
