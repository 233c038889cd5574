"""Playing a tape on another node of the cluster, or with some of its resources: a Ray task, with a process of its own.

The process, its messages and its watchdog are those of ``RenderProcess``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from typing_extensions import override

from tune_media.replay.process import RenderError, RenderProcess
from tune_media.values.secrets import error_text

_START_SECONDS = 60.0  # until a task for which no node has room is given up
_OPTIONS = ("num_cpus", "num_gpus", "memory")  # of Ray's tasks; all others are names of custom resources


class NoRoomError(RenderError):
    """No node of the cluster has room for the task; this says nothing of the tape or the env."""

    @property
    @override
    def is_of_tape(self) -> bool:
        return False


class RenderTask:
    """Plays one tape.

    Args:
        recipe: The content of the recipe that makes the env.
        niceness: How far the process stands back behind others.
        node: The id of the node on which it is to be; if it has no room, another one is taken. Empty: any.
        resources: What it takes of the node's resources, such as ``{"num_gpus": 0.1}``.
    """

    def __init__(self, recipe: bytes, *, niceness: int, node: str, resources: Mapping[str, float]) -> None:
        self._arguments, self._node, self._resources = (recipe, niceness, "num_gpus" in resources), node, resources
        self._answers: Any = None
        self._is_over = False

    def play(self, method: str, tape: bytes, **how: Any) -> dict[str, Any]:
        """Return what a method of ``RenderProcess`` returns.

        Args:
            method: ``render`` or ``prove``.
            tape: The tape as it is stored.
            **how: Other arguments of the method.

        Raises:
            RenderError: As for the method; or the task's process or node died.
            NoRoomError: No node has room for it.
        """
        given = {"num_cpus": 0, **{name: self._resources[name] for name in _OPTIONS if name in self._resources}}
        custom = {name: amount for name, amount in self._resources.items() if name not in _OPTIONS}
        own = [NodeAffinitySchedulingStrategy(self._node, soft=False)] if self._node else []
        task = ray.remote(_play).options(**given, resources=custom, num_returns="streaming", max_retries=0)
        try:
            for where in (*own, "DEFAULT"):  # Ray does not always keep to a node that is asked for softly
                answers = self._answers = task.options(scheduling_strategy=where).remote(
                    *self._arguments, method, tape, how
                )
                if self._is_over:  # since before there was a task that ``end`` could see
                    self.end()
                begun, _ = ray.wait([answers], timeout=_START_SECONDS)
                with contextlib.suppress(ray.exceptions.TaskUnschedulableError):  # the node is gone, or never has room
                    if begun:
                        ray.get(next(answers))
                        found: dict[str, Any] | RenderError = ray.get(next(answers))
                        if isinstance(found, RenderError):
                            raise found
                        return found
                ray.cancel(answers, force=True)
        except ray.exceptions.RayError as error:  # the worker, its node or this Ray session is gone
            raise RenderError(f"the task that renders died ({error_text(error)})", has_died=True) from error
        raise NoRoomError(f"no node had room for {self._resources or 'a worker'} within {_START_SECONDS:g} s")

    def end(self) -> None:
        """End the task at once; ``play``, which another thread may be in, raises."""
        self._is_over = True
        if self._answers is not None and ray.is_initialized():
            ray.cancel(self._answers, force=True)


def _play(
    recipe: bytes, niceness: int, with_gpu: bool, method: str, tape: bytes, how: dict[str, Any]
) -> Iterator[dict[str, Any] | RenderError | None]:
    """Yield None when the task has begun, and then what a method returned or raised; this is the task."""
    yield None
    with RenderProcess(recipe, niceness=niceness, with_gpu=with_gpu) as process:
        try:
            yield getattr(process, method)(tape, **how)
        except RenderError as error:
            yield error


def this_node() -> str:
    """Return the id of the node of this process; empty if Ray does not run in it."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def is_elsewhere(node: str) -> bool:
    """Say whether an id is that of another node of the cluster, which lives."""
    if not node or not ray.is_initialized() or node == this_node():
        return False
    return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())
