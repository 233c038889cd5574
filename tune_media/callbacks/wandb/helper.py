"""W&B's helper process, the only one that talks to W&B, and the driver's handle.

If the process dies, another one replaces it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tune_media.callbacks.wandb import private_names
from tune_media.callbacks.wandb.run import WandbRun
from tune_media.values.secrets import redacted

_POLL_SECONDS = 1.0
_MAX_DEATHS = 3  # one after the other, without an answer between them


class WandbRuns:
    """The runs of all trials. A Ray actor, which the backend's thread on the driver calls.

    W&B reads the ``environment`` variables, as the driver has them; without them, this is the driver.
    """

    def __init__(self, folder: str, environment: Mapping[str, str] | None = None) -> None:
        if environment is not None:
            os.environ.update(environment)
            os.environ.pop("WANDB_SERVICE", None)  # else the runs were the driver's own W&B process's, and outlive us
        self._folder = Path(folder)
        self._runs: dict[str, WandbRun] = {}

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Begin a trial's run; go on with the one that it has, or start over if ``anew``."""
        if settings.get("anew"):
            if trial_id in self._runs:
                self._runs.pop(trial_id).discard()
            shutil.rmtree(self._folder / trial_id, ignore_errors=True)
        if trial_id not in self._runs:
            self._runs[trial_id] = WandbRun(self._folder / trial_id, settings)

    def call(self, method: str, trial_id: str, *arguments: Any) -> Any:
        """Call a method of a trial's ``WandbRun``, and return its answer; ``end`` is the last one."""
        run = self._runs.pop(trial_id) if method == "end" else self._runs[trial_id]
        return getattr(run, method)(*arguments)

    def close(self) -> None:
        """End W&B's own process, after all runs: if it dies first, this one prints a long traceback at its exit."""
        import wandb

        wandb.teardown()


class HelperDiedError(Exception):
    """W&B's helper process is gone; the next call starts another one."""


class WandbHelper:
    """Calls W&B's helper process and waits for its answers. Only the backend's thread calls it."""

    def __init__(self, folder: Path, seconds_left: Callable[[], float]) -> None:
        self.folder = folder
        self.runs: set[str] = set()  # the trials whose run in the helper process has begun, and not ended
        self._seconds_left = seconds_left
        self._actor: Any = None
        self._deaths = 0
        self._gave_up = ""  # why nothing more is asked

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Begin a trial's run, or go on with it, see ``WandbRuns.begin``; raises as ``ask`` does."""
        try:
            self._call("begin", trial_id, settings)
        except Exception as error:
            if not self.runs and private_names.is_passing(error):  # W&B's own process holds the id of such a run
                self._kill()
            raise
        self.runs.add(trial_id)

    def ask(self, method: str, trial_id: str, *arguments: Any) -> Any:
        """Call a method of a trial's ``WandbRun``, and return its answer; raises any error of W&B's.

        HelperDiedError: it is worth trying again, once the run has begun again. RuntimeError: the helper has died too
        often, or the end of the experiment cannot wait for it any longer.
        """
        return self._call("call", method, trial_id, *arguments)

    def end(self, trial_id: str, exit_code: int, best: dict[str, Any] | None = None) -> None:
        """End a trial's run, see ``WandbRun.end``; raises as ``ask`` does."""
        try:
            self.ask("end", trial_id, exit_code, best)
        finally:
            self.runs.discard(trial_id)

    def close(self) -> None:
        """End the helper process, and before it W&B's own, unless runs are left that W&B does not end."""
        if self._actor is not None and not self._gave_up and not self.runs:
            with contextlib.suppress(Exception):  # it is killed anyway
                self._call("close")
        self._kill()

    def _kill(self) -> None:
        if self._actor is not None:
            import ray

            if ray.is_initialized():  # else the actor is gone, and the call would start a cluster
                ray.kill(self._actor)
            self._actor = None

    def _call(self, method: str, *arguments: Any) -> Any:
        import ray

        if self._gave_up:
            raise RuntimeError(self._gave_up)
        if self._actor is None:
            self._actor = _start_actor(str(self.folder))
        try:
            reference = getattr(self._actor, method).remote(*arguments)
            while not ray.wait([reference], timeout=_POLL_SECONDS)[0]:
                if self._seconds_left() <= _POLL_SECONDS:
                    self._gave_up = "W&B's helper process hangs: it did not answer until the end"
                    raise RuntimeError(self._gave_up)
            answer = ray.get(reference)
        except ray.exceptions.RayActorError as error:
            raise self._died(error) from None
        except ray.exceptions.RayTaskError as error:
            self._deaths = 0
            raise (error.cause if isinstance(error.cause, Exception) else RuntimeError(_last_line(error))) from None
        self._deaths = 0
        return answer

    def _died(self, error: Exception) -> Exception:
        self._actor = None
        self.runs.clear()
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
        """Forget the runs, which have ended."""
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
