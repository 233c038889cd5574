"""Every name of Ray Tune's that is not public and that the callbacks need; ``tests/test_ray_compat.py`` pins each.

Supported: Ray 2.50.1 and the newest release (2.60 when this was written). RLlib's names are in ``rllib/ray_names.py``.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import itertools
import os
import posixpath
import re
import sys
import uuid
from pathlib import Path
from typing import Any

from tune_media.values.installing import pip_install
from tune_media.values.problems import remedy

OLDEST = (2, 50, 1)


def check_ray(needing: str, extra: str = "tune") -> None:
    """Raise ImportError unless Ray is there, and not older than the tests run on.

    The arguments are for its message: ``extra`` is the one of this package that has all that is needed.
    """
    try:
        import ray
    except ImportError as error:
        told = f" needs Ray, which cannot be imported ({error}): "
        raise ImportError(needing + told + pip_install(extra)) from error

    found = tuple(int(part) for part in re.findall(r"\d+", ray.__version__)[:3])
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"tune_media needs Ray {oldest} or later, and Ray {ray.__version__} is installed: "
            + remedy(f"pip install -U 'ray[tune]>={oldest}'")
        )


def ray_version() -> str | None:
    """Return the release of Ray that is installed; None if there is none."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version("ray")
    return None


def started_ray() -> Any:
    """Return Ray if this process is connected to a cluster, or else None; Ray is not imported to find out."""
    if sys.modules.get("ray") is None:
        return None
    import ray  # if another thread has begun to import it, this waits

    return ray if ray.is_initialized() else None


def start_ray(**options: Any) -> None:
    """Connect to the cluster of ``RAY_ADDRESS``, or start Ray here. ConnectionError: it does not take this process."""
    import ray

    try:
        ray.init(**options)
    except (ConnectionError, ray.exceptions.RayError) as error:
        if "RAY_ADDRESS" not in os.environ:
            raise
        raise ConnectionError(
            f"the cluster of RAY_ADDRESS={os.environ['RAY_ADDRESS']} does not take this process "
            f"({str(error).partition('. ')[0]}). If its address is right, it may have token authentication: set "
            "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what `ray get-auth-token` prints on its head node."
        ) from error


def cloudpickle() -> Any:
    """Return Ray's copy of cloudpickle if Ray has been imported, or else the package.

    Only Ray's copy knows the ids of the classes that it has unpickled: with the package, each env runner would pickle
    the same env of a script differently.
    """
    if sys.modules.get("ray") is not None:
        from ray import cloudpickle as rays

        return rays
    import cloudpickle as package

    return package


def latest_checkpoint_metrics(trial: Any) -> dict[str, Any] | None:
    """Return the metrics of a trial's latest checkpoint, the live dict in the experiment's state, or None."""
    latest = trial.run_metadata.checkpoint_manager.latest_checkpoint_result
    return latest.metrics if latest is not None and isinstance(latest.metrics, dict) else None


def unresolved_config(trial: Any) -> dict[str, Any]:
    """Return a trial's config before Tune put objects and sampled values in; {} if it does not say."""
    return dict(getattr(trial, "_Trial__unresolved_config", None) or {})


def experiment_timestamp(trial: Any) -> str:
    """Return Tune's own time stamp of a trial's experiment, which a restore keeps."""
    return str(getattr(trial.storage, "_timestamp", ""))


def donor_of(trial: Any) -> tuple[str, int] | None:
    """Return the folder name of the other trial from whose checkpoint a trial starts, and the checkpoint's iteration.

    Only for a trial that starts: later its latest checkpoint is its own. None if it starts anew, or from its own. The
    folder tells, and not the checkpoint's metrics: RLlib's have the trial id ``default`` since Ray 2.60.
    """
    latest = trial.run_metadata.checkpoint_manager.latest_checkpoint_result
    if latest is None or latest.checkpoint is None:
        return None
    folder = posixpath.basename(posixpath.dirname(str(latest.checkpoint.path).rstrip("/")))
    if folder == str(trial.storage.trial_dir_name):
        return None
    return folder, int((latest.metrics or {}).get("training_iteration") or 0)


def callbacks_of_experiment() -> list[Any]:
    """Return all callbacks of the experiment that is being set up, in Tune's order; [] outside of ``Callback.setup``.

    Tune does not tell a callback of the others, but the list that calls their ``setup`` knows them.
    """
    from ray.tune.callback import CallbackList

    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, CallbackList):
            return list(caller._callbacks)
        frame = frame.f_back
    return []


def earlier_driver_files(file: Path) -> list[Path]:
    """Return what the drivers of earlier Ray sessions on this machine have of a file in a trial's folder, newest first.

    The folder is ``<temporary folder>/session_<its start>/artifacts/<experiment's time stamp>/...``.
    """
    parts = file.parts
    folders = enumerate(itertools.pairwise(parts))
    at = next((at for at, (one, next_) in folders if one.startswith("session_") and next_ == "artifacts"), None)
    if at is None:
        return []
    files = []
    for session in Path(*parts[:at]).glob("session_*"):
        other = session.joinpath(*parts[at + 1 :])
        with contextlib.suppress(OSError):  # it has none, or is another user's: all users share the folder
            facts = other.stat()
            if session.name != parts[at] and facts.st_uid == os.getuid():
                files.append((facts.st_mtime, other))
    return [other for _, other in sorted(files, reverse=True)]


def json_files(callback: Any) -> dict[Any, Any]:
    """Return the open result.json files of a ``JsonLoggerCallback``, by trial; the live dict."""
    files: dict[Any, Any] = callback._trial_files
    return files


def result_line(result: dict[str, Any]) -> str:
    """Return the line that ``JsonLoggerCallback`` writes for a result, four times as fast: not piece by piece."""
    from ray.tune.utils.util import SafeFallbackEncoder

    line: str = SafeFallbackEncoder().encode(result)  # packages replace json.dumps
    return line + "\n"


def event_writers(callback: Any) -> dict[Any, Any]:
    """Return the writers of a ``TBXLoggerCallback``, by trial; the live dict."""
    writers: dict[Any, Any] = callback._trial_writer
    return writers


def set_event_writer_class(callback: Any, kind: type) -> None:
    """Make a ``TBXLoggerCallback`` write events with another class than tensorboardX's."""
    callback._summary_writer_cls = kind


def forget_last_result(callback: Any, trial: Any) -> None:
    """Remove a trial's last result from a ``TBXLoggerCallback``, which keeps it for its HParams summary."""
    callback._trial_result.pop(trial, None)


_MARK = "tune_media/logged/"


def mark_as_logged(trial: Any) -> None:
    """Let the processes of a trial know that one of our logger callbacks runs; see ``is_logged``.

    The registry of envs of RLlib and Tune is the only public place that every process of a Ray job can read.
    """
    name = str(trial.storage.trial_dir_name)
    if not is_logged(name):  # nothing is remembered here: after ray.shutdown() the registry is empty
        from ray.tune import register_env

        register_env(_mark_of(name), dict)


def _mark_of(trial: str) -> str:
    """Return the key of a trial in Ray's registry, which takes ASCII only, and never recovers from another name."""
    return _MARK + hashlib.sha256(trial.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_logged(trial: str) -> bool:
    """Return, in any process of the Ray job, whether our logger callbacks run for the started trial of this folder."""
    from ray.tune.registry import ENV_CREATOR, _global_registry

    return bool(_global_registry.contains(ENV_CREATOR, _mark_of(trial)))


def trial_of(algorithm: Any) -> tuple[str | None, bool]:
    """Return the name of the folder of the Tune trial that an Algorithm runs in, and whether it is the trainable.

    The name is None outside Tune. If the Algorithm is not the trainable, a function trainable made it, and decides
    which results Tune sees.
    """
    storage = getattr(algorithm, "_storage", None)  # an Algorithm drops the trial's id
    if storage is not None and storage.trial_dir_name:
        return str(storage.trial_dir_name), True
    from ray import tune

    folder = tune.get_context().get_trial_dir()
    return (os.path.basename(os.path.normpath(folder)) if folder else None), False  # noqa: PTH119 - a path on any storage


def experiment_of(algorithm: Any) -> str:
    """Return what tells the Tune experiment that an Algorithm runs in from all others; outside Tune, the Algorithm."""
    storage = getattr(algorithm, "_storage", None)
    if storage is None:
        return uuid.uuid4().hex
    return f"{storage.experiment_fs_path} {getattr(storage, '_timestamp', '')}"


_KV_NAMESPACE = b"tune_media"
_SHARED_HERE: dict[str, str] = {}  # without Ray, there is only this process


def shared_value(name: str) -> str | None:
    """Return a value that a process of the Ray job has shared, or None if none has. It takes 0.15 ms."""
    store = _shared_store()
    if store is None:
        return _SHARED_HERE.get(name)
    found = store._internal_kv_get(_of_this_job(name), namespace=_KV_NAMESPACE)
    return None if found is None else found.decode().partition(" ")[2]


def share_value(name: str, value: str, *, may_replace: bool) -> bool:
    """Share a value with all processes of the Ray job, unless it may not replace one; return whether it is shared."""
    store = _shared_store()
    if store is None:
        is_new = may_replace or name not in _SHARED_HERE
        if is_new:
            _SHARED_HERE[name] = value
        return is_new
    key, own = _of_this_job(name), f"{uuid.uuid4().hex} {value}".encode()
    had_one = store._internal_kv_put(key, own, may_replace, namespace=_KV_NAMESPACE)
    # On a busy machine Ray may send a request twice: the second one finds what the first one has written.
    return may_replace or not had_one or store._internal_kv_get(key, namespace=_KV_NAMESPACE) == own


def _of_this_job(name: str) -> bytes:
    """Return the key of a value: a cluster's store outlives its jobs."""
    import ray

    return f"{ray.get_runtime_context().get_job_id()} {name}".encode()


def _shared_store() -> Any:
    """Return Ray's own key-value store; None without Ray."""
    if started_ray() is None:
        return None
    from ray.experimental import internal_kv

    return internal_kv if internal_kv._internal_kv_initialized() else None
