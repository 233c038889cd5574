"""A finished experiment for other tools: a tracker, or TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs

from tune_media.ray_compat import check_ray
from tune_media.values.checks import a_function, an_instance, as_shown
from tune_media.values.options import MediaOptions
from tune_media.values.problems import argument
from tune_media.values.secrets import error_text
from tune_media.viewing.catalog import Catalog, load

if TYPE_CHECKING:
    from tune_media.callbacks.backend import Backend
    from tune_media.callbacks.callback import MediaLoggerCallback
    from tune_media.callbacks.finished_trial import ExportSummary


def to_tracker(
    path: str | Path,
    callback: MediaLoggerCallback,
    *,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Callable[[str], None] = lambda trial: None,
) -> ExportSummary:
    """Log a finished experiment to W&B, MLflow or a tracker of your own, as if the tracker had been there all the time.

    Each trial is logged from its files: the results in ``result.json``, the hyperparameters, and the media if there are
    any. So experiments of Ray's own loggers can be exported, too. Results and media that were rolled back are left out.
    Data that the tracker has already is not duplicated: see "After a sweep" in the docs.

    Args:
        path: The experiment's folder or one trial's, as for ``tune_media.load``.
        callback: The callback of the tracker, as you would pass it to ``tune.RunConfig``.
        filesystem: A pyarrow filesystem that ``path`` is on.
        progress: Called with the name of each trial, before it is logged.

    Returns:
        The numbers of trials, results and media that were logged, and a sentence for each problem.

    Raises:
        FileNotFoundError: There is no such folder.
        TypeError: ``callback`` is something else, or writes files that an experiment already has.
        ValueError: The tracker cannot be used: see the callback.

    Example:
        ``to_tracker("~/ray_results/my_sweep", tune_media.MLflowMediaLoggerCallback("http://localhost:5000"))``

        >>> to_tracker("results/my_sweep", "mlflow")
        Traceback (most recent call last):
        TypeError: to_tracker takes a callback such as tune_media.MLflowMediaLoggerCallback(...), got 'mlflow'.
    """
    check_ray("to_tracker")
    from tune_media.callbacks.callback import MediaLoggerCallback

    if not isinstance(callback, MediaLoggerCallback):
        got = as_shown(callback)
        raise TypeError(f"to_tracker takes a callback such as tune_media.MLflowMediaLoggerCallback(...), got {got}.")
    catalog = _loaded(path, filesystem, progress)
    return _export(catalog, callback.backend, callback.given_options or MediaOptions(), progress)


def to_tensorboard(
    path: str | Path,
    output: str | Path,
    *,
    options: MediaOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Callable[[str], None] = lambda trial: None,
) -> ExportSummary:
    """Write a TensorBoard log directory of a finished experiment: scalars, clips, pictures, histograms, HParams.

    Args:
        path: The experiment's folder or one trial's, as for ``tune_media.load``.
        output: The log directory. Event files that an earlier export wrote there are replaced.
        options: The width and frame rate of GIFs.
        filesystem: A pyarrow filesystem that ``path`` is on.
        progress: Called with the name of each trial, before it is written.

    Returns:
        As ``to_tracker``. A trial whose folder in ``output`` has event files of another writer is a problem.

    Raises:
        FileNotFoundError: There is no such folder.
        FileExistsError: ``output`` is a file.

    Example:
        ``to_tensorboard("s3://bucket/my_sweep", "my_sweep_tensorboard")``
    """
    check_ray("to_tensorboard", "tensorboard")
    from tune_media.callbacks.tensorboard.folder import TensorBoardFolder

    if not isinstance(output, (str, os.PathLike)):
        raise TypeError(f"to_tensorboard(output=...) takes the path of a folder, got {as_shown(output)}.")
    folder = Path(output).expanduser()
    if folder.is_file():
        is_file = f" takes a folder, and {str(folder)!r} is a file."
        raise FileExistsError(argument("to_tensorboard(output=...)") + is_file)
    an_instance("tune_media.MediaOptions", MediaOptions).check("to_tensorboard(options=...)", options)
    catalog = _loaded(path, filesystem, progress)
    backend = TensorBoardFolder(folder, {trial.path: trial.name for trial in catalog.trials})
    return _export(catalog, backend, options or MediaOptions(), progress)


def _loaded(path: str | Path, filesystem: pyarrow.fs.FileSystem | None, progress: Callable[[str], None]) -> Catalog:
    a_function("a trial's name").check("progress=", progress)
    return load(path, filesystem)


def _export(
    catalog: Catalog, backend: Backend, options: MediaOptions, progress: Callable[[str], None]
) -> ExportSummary:
    from tune_media.callbacks.backend import Context
    from tune_media.callbacks.finished_trial import AlreadyThereError, ExportSummary, FinishedTrial, log_trial

    exported = ExportSummary()
    backend.prepare_export()
    backend.context = Context(options, exported.problems, catalog.trials)
    try:
        for trial in catalog.trials:
            if trial.is_abandoned:
                exported.left_alone[trial.name] = "abandoned: Tune started it again under another id"
                continue
            progress(trial.name)
            try:
                log_trial(backend, FinishedTrial.of(trial), exported)
            except AlreadyThereError as error:
                exported.left_alone[trial.name] = str(error)
            except Exception as error:  # of one trial; the others are logged
                exported.problems.append(f"{trial.name}: {error_text(error)}")
                if backend.is_away(error):
                    exported.problems.append("the tracker does not answer; export again when it does")
                    break
    finally:
        with backend.context.guard("finishing"):
            backend.finish()
    return exported
