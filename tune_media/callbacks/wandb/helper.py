"""The driver's hold on W&B's helper process, which another one replaces if it dies."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tune_media.callbacks.wandb import private_names
from tune_media.callbacks.wandb.runs import WandbRuns
from tune_media.values.secrets import redacted

_POLL_SECONDS = 1.0
_MAX_DEATHS = 3  # one after the other, without an answer between them
_MAX_MARGIN, _SHARE_OF_MARGIN = 5.0, 0.25


class HelperDiedError(Exception):
    """W&B's helper process is gone; the next call starts another one."""


class WandbHelper:
    """Calls W&B's helper process and waits for its answers. Only the backend's thread calls it.

    An online run that a dead helper had begun is resumed by the next one, before the call that is made. An offline one
    cannot be: it is forgotten.

    Args:
        folder: An empty folder, for W&B's files.
        seconds_left: Returns how long the end of the experiment may still take; infinite before it.
    """

    def __init__(self, folder: Path, seconds_left: Callable[[], float]) -> None:
        self.folder = folder
        self._seconds_left = seconds_left
        self._settings: dict[str, dict[str, Any]] = {}  # of the runs that have not ended
        self._begun: set[str] = set()  # by the helper that is alive
        self._actor: Any = None
        self._deaths = 0
        self._gave_up: str | None = None
        self._margin: float | None = None

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Begin a trial's run, or go on with it, see ``WandbRuns.begin``; raises as ``ask`` does."""
        try:
            self._call("begin", trial_id, settings)
        except Exception as error:
            if not self._begun and private_names.is_passing(error):  # W&B's own process holds the id of such a run
                self._kill()
            raise
        self._settings[trial_id] = settings
        self._begun.add(trial_id)

    def ask(self, method: str, trial_id: str, *arguments: Any) -> Any:
        """Have something done with a trial's run, and return the answer.

        Raises:
            HelperDiedError: The helper has died. It is worth trying again.
            RuntimeError: The helper has died too often, or the end of the experiment cannot wait for it any longer.
            Exception: Any error of W&B's.
        """
        if trial_id not in self._begun:
            settings = self._settings.get(trial_id)
            if settings is None:
                raise RuntimeError(f"the run of trial {trial_id} has not begun")
            self.begin(trial_id, settings)
        return self._call(method, trial_id, *arguments)

    def end(self, trial_id: str, exit_code: int, best: dict[str, Any] | None = None) -> None:
        """End a trial's run, see ``WandbRun.end``; raises as ``ask`` does."""
        try:
            self.ask("end", trial_id, exit_code, best)
        except HelperDiedError:
            raise
        except Exception:
            self.forget(trial_id)
            raise
        self.forget(trial_id)

    def has(self, trial_id: str) -> bool:
        """Return whether a trial's run has begun, and not ended."""
        return trial_id in self._settings

    def forget(self, trial_id: str) -> None:
        """Let go of a trial's run, of which nothing is wanted any more."""
        self._settings.pop(trial_id, None)
        self._begun.discard(trial_id)

    def close(self) -> None:
        """End the helper process, and before it W&B's own, unless runs are left that W&B does not end."""
        if self._actor is not None and self._gave_up is None and not self._settings:
            with contextlib.suppress(Exception):  # it is killed anyway
                self._call("close")
        self._kill()

    def _kill(self) -> None:
        if self._actor is not None:
            import ray

            if ray.is_initialized():  # else it is gone, and the call would start a cluster of its own
                ray.kill(self._actor)
            self._actor = None

    def remove_folder(self) -> bool:
        """Remove the folder of W&B's files if nothing is left in it; return whether it is gone."""
        for trial in [path for path in self.folder.iterdir() if not any(path.glob("wandb/*run-*"))]:
            shutil.rmtree(trial, ignore_errors=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        return not self.folder.exists()

    def _call(self, method: str, *arguments: Any) -> Any:
        import ray

        if self._gave_up is not None:
            raise RuntimeError(self._gave_up)
        if self._actor is None:
            self._actor = _start_actor(str(self.folder))
        try:
            reference = getattr(self._actor, method).remote(*arguments)
            self._wait_for(reference)
            answer = ray.get(reference)
        except ray.exceptions.RayActorError as error:
            raise self._died(error) from None
        except ray.exceptions.RayTaskError as error:
            self._deaths = 0
            raise (error.cause if isinstance(error.cause, Exception) else RuntimeError(_last_line(error))) from None
        self._deaths = 0
        return answer

    def _wait_for(self, reference: Any) -> None:
        """Wait for an answer until it is there, or the end of the experiment is near."""
        import ray

        while not ray.wait([reference], timeout=_POLL_SECONDS if self._margin is None else 0.1)[0]:
            left = self._seconds_left()
            if left == float("inf"):
                continue
            if self._margin is None:  # the end has begun; copying what is there takes a moment
                self._margin = min(_MAX_MARGIN, _SHARE_OF_MARGIN * left)
            if left <= self._margin:
                self._gave_up = "W&B's helper process hangs: it did not answer until the end"
                raise RuntimeError(self._gave_up)

    def _died(self, error: Exception) -> Exception:
        self._actor = None
        self._begun.clear()
        self._settings = {id: settings for id, settings in self._settings.items() if not settings.get("anew")}
        self._deaths += 1
        if self._deaths < _MAX_DEATHS:
            return HelperDiedError(f"W&B's helper process failed: {_last_line(error)}")
        self._gave_up = f"W&B's helper process failed {self._deaths} times, one after the other: {_last_line(error)}"
        return RuntimeError(self._gave_up)


class DirectHelper(WandbHelper):
    """Calls W&B in this process: after an experiment there is no Ray, and no trial that could be hurt."""

    def _call(self, method: str, *arguments: Any) -> Any:
        if self._actor is None:
            self._actor = WandbRuns(str(self.folder))
        return getattr(self._actor, method)(*arguments)

    def close(self) -> None:
        """Let go of the runs, which have ended."""
        self._kill()

    def _kill(self) -> None:
        self._actor = None


def _last_line(error: Exception) -> str:
    return redacted((str(error).strip() or type(error).__name__).splitlines()[-1].strip())


def _start_actor(folder: str) -> Any:
    """Start the helper process on this node.

    It gets W&B's environment variables as an argument: Ray logs those that a ``runtime_env`` names, the API key too.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    env = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    return ray.remote(WandbRuns).options(num_cpus=0, scheduling_strategy=node).remote(folder, env)
