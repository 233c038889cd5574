"""A finished experiment for other tools: a tracker, TensorBoard, or a Minari dataset for offline learning."""

from __future__ import annotations

import copy
import json
import logging
import posixpath
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet

from tune_media.experiment.state import Snapshots
from tune_media.storage.episode_files import FOLDER
from tune_media.values.checks import as_shown
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import error_text
from tune_media.viewing.catalog import load

if TYPE_CHECKING:
    from tune_media.callbacks.backend import Backend
    from tune_media.callbacks.callback import MediaLoggerCallback
    from tune_media.callbacks.export import Exported
    from tune_media.viewing.taped_episodes import TapedEpisode

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

    Example:
        ``to_tensorboard("s3://bucket/my_sweep", "my_sweep_tensorboard")``
    """
    from tune_media.callbacks.tensorboard.folder import TensorBoardFolder

    backend = TensorBoardFolder(Path(output).expanduser())
    return _export(path, filesystem, backend, options or MediaOptions(), progress)


def _export(
    path: str | Path,
    filesystem: pyarrow.fs.FileSystem | None,
    backend: Backend,
    options: MediaOptions,
    progress: Callable[[str], None],
) -> Exported:
    from tune_media.callbacks.export import AlreadyThereError, ExportContext, Exported, FinishedTrial, export_trial

    exported = Exported()
    catalog = load(path, filesystem)
    snapshots = Snapshots()
    backend.prepare_export()
    backend.context = ExportContext(exported, options)
    try:
        for trial in catalog.trials:
            if trial.is_abandoned:
                exported.left_alone[trial.name] = "abandoned: Tune started it again under another id"
                continue
            progress(trial.name)
            try:
                state = snapshots.of(trial.filesystem, posixpath.dirname(trial.path.rstrip("/")))
                export_trial(backend, FinishedTrial.of(trial, catalog.differing_params, state), exported)
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
        **options: Passed on to ``minari.create_dataset_from_buffers``: ``env=`` (an env, its id or spec) or
            ``observation_space=`` and ``action_space=``; ``algorithm_name=``, ``author=``, ``data_format=``, ...
            Without spaces, those of the env in which tapes were played are taken.

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        ValueError: There are no such episodes, or the spaces are missing.

    Example:
        ``to_minari("~/ray_results/my_sweep/evaluations/last-seeds-0-39", "cartpole/ppo-v0")``

        >>> to_minari("results/my_sweep", "cartpole/ppo-v0")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no folder ...
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise ImportError("to_minari needs Minari: pip install 'minari[arrow]'") from error
    options.setdefault("data_format", "arrow")
    catalog = load(path, filesystem)
    rows: list[dict[str, Any]] = catalog.episodes().to_dict("records")  # type: ignore[assignment]
    episodes = {row["episode_id"]: row for row in rows if where is None or where(row)}
    buffers: list[Any] = []
    taken: set[str] = set()
    for table in _step_tables(catalog):
        pairs = zip(table["recorder"].to_pylist(), table["episode_id"].to_pylist(), strict=True)
        for recorder, id in dict.fromkeys(pairs):
            if id not in episodes or id in taken:
                continue
            taken.add(id)  # two recorders may have kept the same episode
            of_recorder = pa.compute.equal(table["recorder"], recorder)
            steps = table.filter(pa.compute.and_(of_recorder, pa.compute.equal(table["episode_id"], id)))
            buffers.append(
                EpisodeBuffer(
                    id=len(buffers),
                    seed=_seed(episodes[id]),
                    observations=_values(steps, "observation"),
                    actions=_values(steps.slice(1), "action"),
                    rewards=steps["reward"].to_pylist()[1:],
                    terminations=steps["terminated"].to_pylist()[1:],
                    truncations=steps["truncated"].to_pylist()[1:],
                    infos={},
                )
            )
    taped = [one for one in catalog.taped_episodes() if one.id in episodes and one.id not in taken]
    envs: dict[Any, Any] = {}
    for episode in {one.id: one for one in taped}.values():
        try:
            steps_again = _played_again(episode, envs)
        except Exception as error:  # of one episode; the others are taken
            logger.warning("to_minari: episode %s is left out: %s", episode.id, error_text(error))
            continue
        buffers.append(EpisodeBuffer(id=len(buffers), seed=_seed(episodes[episode.id]), **steps_again, infos={}))
    if not buffers:
        raise ValueError(
            f"{path} has no such episodes with tapes or steps; record them with record_episodes(tapes=True) or "
            "record_episodes(trajectories=True, keep=...)."
        )
    if "env" not in options and not {"observation_space", "action_space"} <= options.keys():
        if not envs:
            raise ValueError(
                "to_minari needs env=, or observation_space= and action_space=, to say what the arrays are."
            )
        env = next(iter(envs.values()))
        options |= {"observation_space": env.observation_space, "action_space": env.action_space}
    dataset = minari.create_dataset_from_buffers(dataset_id=dataset_id, buffer=buffers, **options)
    for env in envs.values():
        env.close()
    return dataset


def _played_again(episode: TapedEpisode, envs: dict[Any, Any]) -> dict[str, Any]:
    """Play an episode again, and return its observations, actions, rewards and ends.

    Args:
        episode: The episode.
        envs: The envs that have been made, by recipe and place; it gets the one of this episode.

    Raises:
        ReplayDiffers: The replay is not the episode.
        ValueError: Nobody knows how the env is made.
        Exception: Whatever making the env raises.
    """
    from tune_media.replay.player import ReplayDiffers, replay
    from tune_media.replay.recipe import LoadedRecipe
    from tune_media.replay.tape import Tape

    tape, place = Tape.unpacked(episode.tape()), episode.place()
    key = (episode.row["recipe"], *place.values())

    def steps() -> list[Any]:
        if key not in envs:
            recipe = episode.recipe()
            if recipe is None:
                raise ValueError("how its env is made is not stored with it")
            envs[key] = LoadedRecipe.of(recipe).make(**place)
        return [(step.action, copy.deepcopy(step.observation), step.reward) for step in replay(envs[key], tape)]

    try:
        played = steps()
    except ReplayDiffers:  # the env may carry something over from the episodes that were played in it
        envs.pop(key).close()
        played = steps()
    before_the_end, terminated = [False] * (len(played) - 2), bool(episode.row["terminated"])
    return {
        "observations": [observation for _, observation, _ in played],
        "actions": [action for action, _, _ in played[1:]],
        "rewards": [float(reward) for _, _, reward in played[1:]],
        "terminations": [*before_the_end, terminated],
        "truncations": [*before_the_end, not terminated],
    }


def _seed(facts: Mapping[str, Any]) -> int | None:
    seed = facts["seed"]
    return None if seed is None or np.isnan(seed) else int(seed)


def _step_tables(catalog: Any) -> Iterator[pa.Table]:
    """Yield the files of steps of an experiment."""
    for trial in catalog.trials:
        for folder in dict.fromkeys(map(posixpath.dirname, trial.report_paths)):
            filesystem = trial.media_filesystem
            for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder)):
                if posixpath.basename(folder) == FOLDER and info.base_name.startswith("steps-"):
                    with filesystem.open_input_file(info.path) as file:
                        yield pyarrow.parquet.read_table(file)


def _values(steps: pa.Table, name: str) -> Any:
    """Return a column as a list of arrays or numbers; columns ``<name>/<key>`` as a dict, or a tuple, of these."""
    if name in steps.column_names:
        field = steps.schema.field(name)
        shape = (field.metadata or {}).get(b"shape")
        values = steps[name].to_pylist()
        if shape is None:
            return values
        dtype = field.type.value_type.to_pandas_dtype()
        return [np.asarray(value, dtype).reshape(json.loads(shape)) for value in values]
    inside = [column[len(name) + 1 :] for column in steps.column_names if column.startswith(f"{name}/")]
    keys = list(dict.fromkeys(column.partition("/")[0] for column in inside))
    if all(key.isdigit() for key in keys):
        return tuple(_values(steps, f"{name}/{key}") for key in sorted(keys, key=int))
    return {key: _values(steps, f"{name}/{key}") for key in keys}
