"""The driver's hold on W&B's helper process: calls that never wait, and what becomes of them when it dies."""

from __future__ import annotations

import functools
import logging
import os
import shutil
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from tune_media.callbacks.base import MediaLogging
from tune_media.callbacks.wandb_runs import Runs
from tune_media.entries import Place
from tune_media.files import write_once

logger = logging.getLogger("tune_media")

_LOOK_EVERY = 50  # calls, after which it is seen which of them are done
_MOST_STARTS = 3


class Process:
    """The driver's hold on the helper process. No call waits; what it leaves when it dies is done by another one.

    Args:
        media: Where faults are told.
    """

    def __init__(self, media: MediaLogging) -> None:
        self._media = media
        self._folder = tempfile.mkdtemp(prefix="tune_media-wandb-")
        self._begun: dict[str, dict[str, Any]] = {}
        self._under_way: deque[tuple[Any, str, tuple[Any, ...], int]] = deque()
        self._ended: dict[str, Place] = {}
        self._bytes = 0
        self._calls = self._dropped = self._starts = 0
        self._actor: Any = None
        self._failed: set[str] = set()  # trials whose run has not all that it should have
        self._lock = threading.RLock()  # Tune's loop and the background thread both call

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Start a trial's run."""
        self._begun[trial_id] = settings
        with self._lock:
            self._look()  # trials that have ended since
        self.call("begin", trial_id, settings)

    def call(self, method: str, *arguments: Any, nbytes: int = 0) -> None:
        """Have something done; where too many bytes of clips wait already, a clip is dropped, counted and named."""
        most = self._media.options.max_pending_bytes
        with self._lock:
            self._calls += 1
            if self._calls % _LOOK_EVERY == 0 or (nbytes and self._bytes + nbytes > most):
                self._look()
            if not nbytes or self._bytes + nbytes <= most:
                self._bytes += nbytes
                self._send(method, arguments, nbytes)
                return
            self._dropped += 1
        reason = RuntimeError(f"more than MediaOptions(max_pending_bytes={most}) wait for W&B's process")
        self._media.report("a clip is in the trial's folder only", reason, kind="dropped")

    def end(self, trial_id: str, place: Place, exit_code: int) -> None:
        """End a trial's run."""
        self._ended[trial_id] = place
        self.call("end", trial_id, exit_code)

    def close(self, timeout: float) -> None:
        """Wait for what is under way, at most so long; copy offline runs to the storage; say what is missing."""
        import ray

        deadline = time.monotonic() + timeout
        while self._under_way and time.monotonic() < deadline:
            references = [reference for reference, *_ in self._under_way]
            ray.wait(references, num_returns=len(references), timeout=min(1.0, max(0.0, deadline - time.monotonic())))
            self._look()
        if self._actor is not None and not self._under_way:
            with self._media.guard("ending W&B's process"):
                reference = self._actor.finish.remote()
                ray.get(reference, timeout=max(1.0, deadline - time.monotonic()))
        missing = sorted({arguments[0] for _, _, arguments, _ in self._under_way} | self._failed)
        if self._actor is not None:
            ray.kill(self._actor)
        self._media.wait()
        for trial_id in list(self._ended):
            self._copy_later(trial_id, whole=trial_id in missing)
        if self._media.wait_for_storage():
            shutil.rmtree(self._folder, ignore_errors=True)
        else:
            logger.warning("tune_media: W&B: runs that the storage did not take are in %s", self._folder)
        if missing or self._dropped:
            logger.warning(
                "tune_media: W&B: the runs of %d trial(s) are not complete (%s%s) after %g s, and %d clip(s) were "
                "dropped. All media are in the trials' folders. WandbMediaLoggerCallback(upload_timeout=...) says how "
                "long the end waits.",
                len(missing),
                ", ".join(missing[:5]),
                ", ..." if len(missing) > 5 else "",
                timeout,
                self._dropped,
            )

    def _send(self, method: str, arguments: tuple[Any, ...], nbytes: int) -> None:
        if self._actor is None:
            if self._starts >= _MOST_STARTS:
                raise RuntimeError(f"W&B's process has died {_MOST_STARTS} times")
            self._starts += 1
            self._actor = _start_actor(self._folder)
        reference = getattr(self._actor, method).remote(*arguments)
        self._under_way.append((reference, method, arguments, nbytes))

    def _look(self) -> None:
        """See what is done; where the process has died, have the rest done by another one."""
        import ray

        references = [reference for reference, *_ in self._under_way]
        done = set(ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else set()
        kept: deque[tuple[Any, str, tuple[Any, ...], int]] = deque()
        died = False
        for call in self._under_way:
            reference, method, arguments, nbytes = call
            if reference not in done:
                kept.append(call)
                continue
            try:
                ray.get(reference)
            except ray.exceptions.RayActorError as error:
                died = True
                kept.append(call)
                self._media.report("W&B's process", error, kind="died")
                continue
            except Exception as error:
                self._failed.add(arguments[0])
                told = RuntimeError(str(error).strip().splitlines()[-1])
                self._media.report(f"{method} in W&B's process", told, kind=method)
            self._bytes -= nbytes
            if method == "end" and arguments[0] in self._ended:
                self._copy_later(arguments[0])
        self._under_way = kept
        if died:
            self._again()

    def _copy_later(self, trial_id: str, *, whole: bool = False) -> None:
        place = self._ended.pop(trial_id, None)
        self._begun.pop(trial_id, None)
        if place is not None:
            copy = functools.partial(self._copy_runs, trial_id, place, whole=whole)
            self._media.on_storage("copying an offline run", copy)

    def _copy_runs(self, trial_id: str, place: Place, *, whole: bool) -> None:
        """Copy a trial's offline runs to its storage, and online ones that W&B does not have yet (``whole``)."""
        folder = Path(self._folder) / trial_id
        for run in sorted(folder.glob("wandb/*run-*")):
            if run.is_symlink() or (not whole and run.name.startswith("run-")):
                continue  # W&B has it
            for file in sorted(path for path in run.rglob("*") if path.is_file()):
                relative = file.relative_to(folder).as_posix()
                write_once(place.filesystem, f"{place.path}/{relative}", file.read_bytes())
        shutil.rmtree(folder, ignore_errors=True)

    def _again(self) -> None:
        left, self._under_way, self._actor = list(self._under_way), deque(), None
        begun = [arguments[0] for _, method, arguments, _ in left if method == "begin"]
        try:
            for trial_id in dict.fromkeys(arguments[0] for _, _, arguments, _ in left if arguments[0] not in begun):
                self._send("begin", (trial_id, self._begun[trial_id]), 0)
            for _, method, arguments, nbytes in left:
                self._send(method, arguments, nbytes)
        except RuntimeError as error:
            self._failed |= {arguments[0] for _, _, arguments, _ in left}
            self._under_way.clear()
            self._media.report("W&B", error, kind="dead")


def _start_actor(folder: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    names = [name for name in os.environ if name.startswith("WANDB_")]
    env = {name: os.environ[name] for name in names}
    return (
        ray.remote(Runs)
        .options(num_cpus=0, scheduling_strategy=node, runtime_env={"env_vars": env} if env else None)
        .remote(folder)
    )
