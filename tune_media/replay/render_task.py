"""Playing a tape on another node of the cluster, or with some of its resources: a Ray task, with a process of its own.

The process, its messages and its watchdog are those of ``RenderProcess``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from tune_media.ray_compat import started_ray
from tune_media.replay.player import RenderError
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.values.secrets import error_text

_START_SECONDS = 60.0  # until a task for which no node has room is given up
_OPTIONS = ("num_cpus", "num_gpus", "memory")  # of Ray's tasks; all others are names of custom resources


class NoRoomError(RenderError):
    """No node of the cluster has room for the task; this says nothing of the tape or the env."""

    @property
    @override
    def is_of_tape(self) -> bool:
        return False


class RenderTasks:
    """Plays tapes, one at a time, each in a task.

    Args:
        niceness: How far their processes stand back behind others.
        resources: What each takes of a node's resources, such as ``{"num_gpus": 0.1}``.
    """

    def __init__(self, niceness: int, resources: Mapping[str, float]) -> None:
        self._niceness, self._resources = niceness, resources
        given = {name: resources[name] for name in _OPTIONS if name in resources}
        custom = {name: resources[name] for name in resources if name not in _OPTIONS}
        self._options: dict[str, Any] = {"num_cpus": 0, **given, "resources": custom, "max_retries": 0}
        self._answers: Any = None
        self._is_over = False

    def play(self, method: str, recipe: Recipe, tape: bytes, *, node: str, **how: Any) -> Any:
        """Return what a method of ``RenderProcess`` returns.

        Args:
            method: ``render`` or ``prove``.
            node: The id of the node on which it is to be; if it has no room, another one is taken. Empty: any.
            **how: Other arguments of the method.

        Raises:
            RenderError: As for the method; or the task's process or node died.
            NoRoomError: No node has room for it.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        own = [NodeAffinitySchedulingStrategy(node, soft=False)] if node else []
        arguments = recipe.content, self._niceness, "num_gpus" in self._resources, method, tape, how
        task = ray.remote(num_returns="streaming")(_play)
        try:
            for where in (*own, "DEFAULT"):  # Ray does not always keep to a node that is asked for softly
                self._answers = task.options(scheduling_strategy=where, **self._options).remote(*arguments)
                if self._is_over:  # since before there was a task that ``end`` could see
                    self.end()
                begun, _ = ray.wait([self._answers], timeout=_START_SECONDS)
                with contextlib.suppress(ray.exceptions.TaskUnschedulableError):  # the node is gone, or never has room
                    if begun:
                        ray.get(next(self._answers))
                        found = ray.get(next(self._answers))
                        if isinstance(found, RenderError):
                            raise found
                        return found
                ray.cancel(self._answers, force=True)
        except ray.exceptions.RayError as error:  # the worker, its node or this Ray session is gone
            raise RenderError(f"the task that renders died ({error_text(error)})", has_died=True) from error
        raise NoRoomError(f"no node had room for {self._resources or 'a worker'} within {_START_SECONDS:g} s")

    def end(self) -> None:
        """End the task at once; ``play``, which another thread may be in, raises, now and from now on."""
        self._is_over = True
        ray = started_ray()
        if self._answers is not None and ray is not None:
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
    ray = started_ray()
    return "" if ray is None else str(ray.get_runtime_context().get_node_id())


def is_elsewhere(node: str) -> bool:
    """Return whether an id is that of another node of the cluster, which lives."""
    ray = started_ray()
    if not node or ray is None or node == this_node():
        return False
    return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())
