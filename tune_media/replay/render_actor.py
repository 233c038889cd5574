"""A process that renders on another node of the cluster: a Ray actor holds it there.

The process, its messages and its watchdog are those of ``RenderProcess``. Tapes go to the actor, and clips come back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from typing_extensions import override

from tune_media.encoding.encoder import EncodedVideo
from tune_media.replay.process import RenderError, RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.values.secrets import error_text

_START_SECONDS = 60.0  # until an actor for which no node has room is given up
_CLOSE_SECONDS = 10.0
_OPTIONS = ("num_cpus", "num_gpus", "memory")  # of Ray's actors; all others are names of custom resources

Failure = tuple[str, int | None, bool]
"""The text, the step and ``has_died`` of a ``RenderError``, which is thrown on the other side."""


class NoRoomError(RenderError):
    """No node of the cluster has room for the actor; this says nothing of the tape or the env."""

    @property
    @override
    def is_of_tape(self) -> bool:
        return False


class RenderActor:
    """Plays tapes in a process on another node, as ``RenderProcess`` does on this one.

    The actor is started with the first tape, and again after it or its node has died.

    Args:
        recipe: How the envs are made.
        niceness: How far the process stands back behind others.
        node: The id of the node on which it is to be; if it has no room, another one is taken. Empty: any.
        resources: What it takes of the node's resources, such as ``{"num_gpus": 0.1}``.
    """

    def __init__(self, recipe: Recipe, *, niceness: int, node: str, resources: Mapping[str, float]) -> None:
        self._recipe, self._niceness, self._node = recipe, niceness, node
        self._resources = dict(resources)
        self._actor: Any = None

    def render(
        self, tape: bytes, *, on_step: Callable[[int, int], None] | None = None, **how: Any
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape by view.

        Args:
            tape: The tape as it is stored.
            on_step: Told nothing.
            **how: Other arguments of ``RenderProcess.render``.

        Raises:
            RenderError: As for ``RenderProcess.render``; or the actor died.
            NoRoomError: No node has room for it.
        """
        clips: dict[str, EncodedVideo] = self._asked("render", tape, **how)
        return clips

    def prove(self, tape: bytes, **how: Any) -> dict[str, Any]:
        """Compare a replay with the episode; see ``RenderProcess.prove``."""
        facts: dict[str, Any] = self._asked("prove", tape, **how)
        return facts

    def _asked(self, method: str, tape: bytes, **how: Any) -> Any:
        try:
            if self._actor is None:
                self._start()
            found: dict[str, Any] | Failure = ray.get(self._actor.call.remote(method, tape, **how))
        except ray.exceptions.RayError as error:  # the actor, its node or this Ray session is gone
            self._actor = None
            raise RenderError(f"the actor that renders died ({error_text(error)})", has_died=True) from error
        if isinstance(found, tuple):
            text, step, has_died = found
            raise RenderError(text, step, has_died=has_died)
        return found

    def close(self) -> None:
        """End the actor and its process."""
        actor = self._actor
        if actor is not None and ray.is_initialized():
            ray.wait([actor.close.remote()], timeout=_CLOSE_SECONDS)
        self.end()
        self._actor = None

    def end(self) -> None:
        """End the actor at once; ``render``, which another thread may be in, raises."""
        if self._actor is not None and ray.is_initialized():
            ray.kill(self._actor)

    def _start(self) -> None:
        given = {"num_cpus": 0, **{name: self._resources[name] for name in _OPTIONS if name in self._resources}}
        custom = {name: amount for name, amount in self._resources.items() if name not in _OPTIONS}
        own = [NodeAffinitySchedulingStrategy(self._node, soft=False)] if self._node else []
        for where in (*own, "DEFAULT"):  # Ray does not always keep to a node that is asked for softly
            actor = ray.remote(_Host).options(**given, resources=custom, scheduling_strategy=where)
            self._actor = actor.remote(self._recipe.content, self._niceness, with_gpu="num_gpus" in self._resources)
            ready, _ = ray.wait([self._actor.begin.remote()], timeout=_START_SECONDS)
            with contextlib.suppress(ray.exceptions.ActorUnschedulableError):  # the node is gone, or never has room
                if ray.get(ready):
                    return
            self.end()
            self._actor = None
        wanted = self._resources or "a worker"
        raise NoRoomError(f"no node had room for {wanted} within {_START_SECONDS:g} s")


class _Host:
    """The actor.

    Args:
        recipe, niceness, with_gpu: See ``RenderProcess``.
    """

    def __init__(self, recipe: bytes, niceness: int, *, with_gpu: bool) -> None:
        self._process = RenderProcess(recipe, niceness=niceness, with_gpu=with_gpu)

    def begin(self) -> None:
        """Be there."""

    def call(self, method: str, tape: bytes, **how: Any) -> dict[str, Any] | Failure:
        try:
            found: dict[str, Any] = getattr(self._process, method)(tape, **how)
            return found
        except RenderError as error:
            return str(error), error.step, error.has_died

    def close(self) -> None:
        self._process.close()


def this_node() -> str:
    """Return the id of the node of this process; empty if Ray does not run in it."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def is_elsewhere(node: str) -> bool:
    """Say whether an id is that of another node of the cluster, which lives."""
    if not node or not ray.is_initialized() or node == this_node():
        return False
    return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())
