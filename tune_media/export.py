"""Recorded steps of chosen episodes as a Minari dataset, for offline learning."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet

from tune_media.storage.episode_files import FOLDER
from tune_media.viewing.catalog import load


def to_minari(
    path: str | Path,
    dataset_id: str,
    *,
    where: Callable[[dict[str, Any]], bool] | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    **options: Any,
) -> Any:
    """Make a Minari dataset of the episodes whose steps were recorded (``record_episodes(trajectories=True)``).

    Args:
        path: The experiment's folder, as for ``tune_media.load``.
        dataset_id: Minari's name for it, such as ``"cartpole/ppo-v0"``.
        where: A function of an episode (a dict: ``trial``, ``section``, ``episode_return``, ``seed``, ...) that returns
            whether to take it. None: all.
        filesystem: A pyarrow filesystem that ``path`` is on.
        **options: Passed on to ``minari.create_dataset_from_buffers``: ``env=`` (an env, its id or spec) or
            ``observation_space=`` and ``action_space=``; ``algorithm_name=``, ``author=``, ``data_format=``, ...

    Returns:
        The ``minari.MinariDataset``.

    Raises:
        ImportError: Minari is not installed.
        ValueError: There are no such episodes, or the spaces are missing.

    Example:
        ``to_minari("~/ray_results/my_sweep", "cartpole/ppo-v0", env="CartPole-v1")``

        >>> to_minari("results/my_sweep", "cartpole/ppo-v0")
        Traceback (most recent call last):
        ValueError: to_minari needs env=, or observation_space= and action_space=, to say what the arrays are.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise ImportError("to_minari needs Minari: pip install 'minari[arrow]'") from error
    if "env" not in options and not {"observation_space", "action_space"} <= options.keys():
        raise ValueError("to_minari needs env=, or observation_space= and action_space=, to say what the arrays are.")
    options.setdefault("data_format", "arrow")
    catalog = load(path, filesystem)
    rows: list[dict[str, Any]] = catalog.episodes().to_dict("records")  # type: ignore[assignment]
    episodes = {row["episode_id"]: row for row in rows}
    buffers: list[Any] = []
    taken: set[str] = set()
    for table in _step_tables(catalog):
        pairs = zip(table["recorder"].to_pylist(), table["episode_id"].to_pylist(), strict=True)
        for recorder, id in dict.fromkeys(pairs):
            facts = episodes.get(id)
            if facts is None or id in taken or (where is not None and not where(facts)):
                continue
            taken.add(id)  # two recorders may have kept the same episode
            of_recorder = pa.compute.equal(table["recorder"], recorder)
            steps = table.filter(pa.compute.and_(of_recorder, pa.compute.equal(table["episode_id"], id)))
            seed = facts["seed"]
            buffers.append(
                EpisodeBuffer(
                    id=len(buffers),
                    seed=None if seed is None or np.isnan(seed) else int(seed),
                    observations=_values(steps, "observation"),
                    actions=_values(steps.slice(1), "action"),
                    rewards=steps["reward"].to_pylist()[1:],
                    terminations=steps["terminated"].to_pylist()[1:],
                    truncations=steps["truncated"].to_pylist()[1:],
                    infos={},
                )
            )
    if not buffers:
        raise ValueError(
            f"{path} has no steps of such episodes; record them with record_episodes(trajectories=True, keep=...)."
        )
    return minari.create_dataset_from_buffers(dataset_id=dataset_id, buffer=buffers, **options)


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
