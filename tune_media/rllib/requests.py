"""The Algorithm's requests to the env runners of one group, beside RLlib's own: its counters never see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tune_media.rllib import ray_names
from tune_media.values.problems import Problem

LOCAL = 0  # the index of the local env runner

Request = Callable[[Any], Any]


@dataclass(frozen=True)
class Replies:
    """The replies to a request, by the index of the env runner."""

    answers: dict[int, Any] = field(default_factory=dict)
    raised: dict[int, str] = field(default_factory=dict)  # why an env runner that lives has no answer
    died: tuple[int, ...] = ()  # the indices of the env runners that died, or cannot be reached

    @classmethod
    def of(cls, arrived: Mapping[int, Any]) -> Replies:
        """Sort answers and errors."""
        errors = {index: reply for index, reply in arrived.items() if isinstance(reply, Exception)}
        raised = {index: ray_names.raised_by(error) for index, error in errors.items()}
        return cls(
            {index: reply for index, reply in arrived.items() if index not in errors},
            {index: text for index, text in raised.items() if text is not None},
            tuple(index for index, text in raised.items() if text is None),
        )

    @property
    def problems(self) -> list[Problem]:
        """The requests that raised."""
        why = "episodes may be missing: the request to env runner {} raised {}"
        return [Problem(why.format(index, text)) for index, text in self.raised.items()]


class Requests:
    """Sends requests to the env runners of one group. The Algorithm's thread calls everything here.

    A request is a function of the env runner. An env runner runs what it is sent in order, between two samples. One
    that has not answered in time is not asked again until it has: if it hangs, it costs one timeout, not one a round.
    Env runners that RLlib knows to be dead are left out.
    """

    def __init__(self) -> None:
        self._owed: dict[int, Any] = {}

    def call(self, group: Any, request: Request, timeout: float | None, only: Collection[int] | None = None) -> Replies:
        """Ask the env runners (``only`` these), and wait ``timeout`` seconds (None: no limit) for their answers."""
        self.arrived()
        sent = self._send(group, request, only, self._owed)
        local = _answer_of_local(group, request, only)
        arrived = ray_names.finished(sent, timeout)
        self._owed |= {index: reference for index, reference in sent.items() if index not in arrived}
        return Replies.of(local | arrived)

    def tell(self, group: Any, request: Request, only: Collection[int] | None = None) -> None:
        """Send a request whose answer does not matter, without waiting; the arguments are those of ``call``."""
        self._send(group, request, only)
        _answer_of_local(group, request, only)

    def ask(self, group: Any, request: Request) -> set[int]:
        """Ask the remote env runners without waiting; return the indices of those asked: they owed no answer."""
        sent = self._send(group, request, None, self._owed)
        self._owed |= sent
        return set(sent)

    def arrived(self, timeout: float | None = 0.0, only: Collection[int] | None = None) -> Replies:
        """Return the answers since the last time, of ``only`` these, within ``timeout`` seconds (None: no limit)."""
        owed = {index: reference for index, reference in self._owed.items() if only is None or index in only}
        arrived = ray_names.finished(owed, timeout)
        for index in arrived:
            del self._owed[index]
        return Replies.of(arrived)

    def owing(self) -> set[int]:
        """Return the indices of the env runners that still owe an answer."""
        self.arrived()
        return set(self._owed)

    @staticmethod
    def _send(
        group: Any, request: Request, only: Collection[int] | None, without: Collection[int] = ()
    ) -> dict[int, Any]:
        return {
            index: ray_names.send(actor, request)
            for index, actor in ray_names.healthy_env_runners(group).items()
            if (only is None or index in only) and index not in without
        }


def _answer_of_local(group: Any, request: Request, only: Collection[int] | None) -> dict[int, Any]:
    local = ray_names.local_env_runner(group)
    return {} if local is None or (only is not None and LOCAL not in only) else {LOCAL: request(local)}
