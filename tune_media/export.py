"""A finished experiment for other tools: a tracker, TensorBoard, or a dataset for offline learning."""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from tune_media.experiment.state import Snapshots
from tune_media.ray_compat import check_ray
from tune_media.values.checks import as_shown
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import error_text
from tune_media.viewing.catalog import load

if TYPE_CHECKING:
    from tune_media.callbacks.backend import Backend
    from tune_media.callbacks.callback import MediaLoggerCallback
    from tune_media.callbacks.export import Exported
    from tune_media.datasets.lerobot import LeRobotWriter

logger = logging.getLogger("tune_media")


def to_tracker(
    path: str | Path,
    callback: MediaLoggerCallback,
    *,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Callable[[str], None] = lambda trial: None,
) -> Exported:
    """Log a finished experiment to W&B, MLflow or a tracker of your own, as if the tracker had been there all the time.

    Each trial is logged from its files: the results in ``result.json``, the hyperparameters, and the media if there are
    any. So experiments of Ray's own loggers can be exported, too. Results and media that were rolled back are left out.
    What the tracker has already is not doubled: see "After a sweep" in the docs.

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
    return _export(path, filesystem, callback.backend, callback.given_options or MediaOptions(), progress)


def to_tensorboard(
    path: str | Path,
    output: str | Path,
    *,
    options: MediaOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Callable[[str], None] = lambda trial: None,
) -> Exported:
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
    check_ray("to_tensorboard")
    from tune_media.callbacks.tensorboard.folder import TensorBoardFolder

    backend = TensorBoardFolder(_folder("to_tensorboard", output))
    return _export(path, filesystem, backend, options or MediaOptions(), progress)


def _folder(function: str, output: Any) -> Path:
    """Return the folder that a user wants to be written."""
    if not isinstance(output, (str, os.PathLike)):
        raise TypeError(f"{function}(output=...) takes the path of a folder, got {as_shown(output)}.")
    folder = Path(output).expanduser()
    if folder.is_file():
        raise FileExistsError(f"{function}(output=...) takes a folder, and {str(folder)!r} is a file.")
    return folder


def _export(
    path: str | Path,
    filesystem: pyarrow.fs.FileSystem | None,
    backend: Backend,
    options: MediaOptions,
    progress: Callable[[str], None],
) -> Exported:
    from tune_media.callbacks.backend import Context
    from tune_media.callbacks.export import AlreadyThereError, Exported, FinishedTrial, log_trial

    exported = Exported()
    catalog = load(path, filesystem)
    snapshots = Snapshots()
    backend.prepare_export()
    backend.context = Context(options, exported.problems)
    try:
        for trial in catalog.trials:
            if trial.is_abandoned:
                exported.left_alone[trial.name] = "abandoned: Tune started it again under another id"
                continue
            progress(trial.name)
            try:
                state = snapshots.of(trial.filesystem, trial.experiment)
                log_trial(backend, FinishedTrial.of(trial, catalog.differing_params, state), exported)
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


def to_minari(
    path: str | Path,
    dataset_id: str,
    *,
    where: Callable[[dict[str, Any]], bool] | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    before_code: Callable[[], None] = lambda: None,
    **options: Any,
) -> Any:
    """Make a Minari dataset of the episodes that have tapes, or whose steps were recorded.

    Episodes have tapes after ``tune_media.evaluate``, or if they were recorded with ``record_episodes(tapes=True)``:
    they are played again here, each step is checked, and the dataset gets the observations. That runs the code that
    made the env when the episode was recorded: export only experiments of people whom you trust. Steps that were
    recorded with ``record_episodes(trajectories=True)`` are taken as they are.

    Args:
        path: The experiment's folder, as for ``tune_media.load``.
        dataset_id: Minari's name for it, such as ``"cartpole/ppo-v0"``.
        where: A function of an episode (a dict: ``trial``, ``section``, ``episode_return``, ``seed``, ...) that returns
            whether to take it. None: all.
        filesystem: A pyarrow filesystem that ``path`` is on.
        before_code: Called before the code that made the envs runs.
        **options: Passed on to ``minari.create_dataset_from_buffers``: ``env=`` (an env, its id or spec) or
            ``observation_space=`` and ``action_space=``; ``algorithm_name=``, ``author=``, ``data_format=``, ...
            Without spaces, those of the env in which tapes were played are taken.

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        ValueError: The name has no version, there are no such episodes, or the spaces are missing.

    Example:
        ``to_minari("~/ray_results/my_sweep/evaluations/last-seeds-0-39", "cartpole/ppo-v0")``

        >>> to_minari("results/my_sweep", "cartpole/ppo-v0")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no folder ...
    """
    if not isinstance(dataset_id, str) or not re.search(r"-v\d+$", dataset_id):
        got = as_shown(dataset_id)
        raise ValueError(f"to_minari(dataset=...) takes a name with a version, such as 'cartpole/ppo-v0', got {got}.")
    try:
        import minari
    except ImportError as error:
        raise ImportError("to_minari needs Minari: pip install 'minari[arrow]'") from error
    from tune_media.datasets.episode_steps import EpisodeReplayer, chosen_rows, recorded_steps
    from tune_media.datasets.minari import buffers_of

    catalog = load(path, filesystem)
    rows = chosen_rows(catalog, where)
    recorded = list(recorded_steps(catalog, rows))
    rest = {id: row for id, row in rows.items() if id not in {steps.row["episode_id"] for steps in recorded}}
    with EpisodeReplayer(before_code=before_code) as player:
        buffers = buffers_of(itertools.chain(recorded, player.steps_of_all(rest, catalog.taped_episodes())))
        if not buffers:
            raise ValueError(
                f"{path} has no such episodes with tapes or steps; record them with record_episodes(tapes=True) or "
                "record_episodes(trajectories=True, keep=...)."
            )
        spaces = {}
        if "env" not in options and not {"observation_space", "action_space"} <= options.keys():
            if player.env is None:
                raise ValueError(
                    "to_minari needs env=, or observation_space= and action_space=, to say what the arrays are."
                )
            spaces = {name: getattr(player.env, name) for name in ("observation_space", "action_space")}
        return minari.create_dataset_from_buffers(
            dataset_id=dataset_id, buffer=buffers, **{"data_format": "arrow", **spaces, **options}
        )


def to_lerobot(
    path: str | Path,
    output: str | Path,
    *,
    where: Callable[[dict[str, Any]], bool] | None = None,
    task: str | None = None,
    pictures: bool = True,
    filesystem: pyarrow.fs.FileSystem | None = None,
    before_code: Callable[[], None] = lambda: None,
) -> LeRobotWriter:
    """Make a LeRobot dataset (format v3.0) of the episodes that have tapes.

    The episodes are played again here, and each step is checked, as by ``to_minari``. A frame has the observation and
    the picture before a step, the action, and ``next.reward``, ``next.done`` and ``next.truncated``. Arrays keep their
    types. The seed, the return and the trial of each episode are columns of ``meta/episodes``.

    Args:
        path: The experiment's folder, as for ``tune_media.load``.
        output: The folder to write, which must not be there or be empty. ``LeRobotDataset("any/name", root=output)``
            reads it.
        where: A function of an episode that returns whether to take it, see ``to_minari``. None: all.
        task: What the agent is to do, as text. None: the name of the env.
        pictures: Whether the envs are rendered: ``observation.image``, or ``observation.images.<view>`` if there are
            several views. An env that does not render has no pictures; a warning says so.
        filesystem: A pyarrow filesystem that ``path`` is on.
        before_code: Called before the code that made the envs runs.

    Returns:
        What was written: its ``episodes`` and ``frames`` are their numbers.

    Raises:
        FileExistsError: ``output`` is a file, or not empty.
        ValueError: There are no such episodes.

    Example:
        ``to_lerobot("~/ray_results/my_sweep/evaluations/last-seeds-0-39", "walker_lerobot")``

        >>> to_lerobot("results/my_sweep", "my_dataset")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no folder ...
    """
    from tune_media.datasets.episode_steps import EpisodeReplayer, chosen_rows
    from tune_media.datasets.lerobot import LeRobotWriter

    catalog = load(path, filesystem)
    replayer = EpisodeReplayer(with_clips=pictures, before_code=before_code)
    with LeRobotWriter(_folder("to_lerobot", output)) as writer, replayer as player:
        for steps in player.steps_of_all(chosen_rows(catalog, where), catalog.taped_episodes()):
            try:
                writer.add(steps, player.fps)
            except ValueError as error:  # it has other features; the others are taken
                logger.warning("tune_media: episode %s is left out: %s", steps.row["episode_id"], error_text(error))
        if not writer.episodes:
            raise ValueError(f"{path} has no such episodes with tapes; record them with record_episodes(tapes=True).")
        writer.finish(task or player.env_name)
    return writer
