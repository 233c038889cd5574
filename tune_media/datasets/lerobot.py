"""Writes a LeRobot dataset, in the files of its format v3.0: Parquet, one mp4 for each episode and view, and JSON.

A frame is what the policy saw, what it did, and what came of it: observation and picture before the step, action,
reward and end after it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from tune_media.datasets.episode_steps import EpisodeSteps
from tune_media.encoding import EncodedVideo, decode_video

VERSION = "v3.0"
_PER_CHUNK = 1000  # files of a folder
_DATA_MB, _VIDEO_MB = 100, 200
_PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
_DATA_PATH, _VIDEO_PATH = f"data/{_PLACE}.parquet", f"videos/{{video_key}}/{_PLACE}.mp4"
_EPISODES_PATH = f"meta/episodes/{_PLACE}.parquet"
_OWN = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}
_QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
_PICTURES = 30  # of an episode and a view, for the statistics
_FACTS = ("trial", "episode_id", "training_iteration", "episode_return")

Array: TypeAlias = npt.NDArray[Any]
Stats: TypeAlias = dict[str, Array]
"""The statistics of a feature by their name: min, max, mean, std, count and quantiles."""


class LeRobotWriter:
    """Writes a dataset, episode by episode. All episodes have the features of the first one.

    Args:
        folder: The folder to write.

    Raises:
        FileExistsError: The folder is there, and not empty.

    Attributes:
        episodes, frames: Their numbers so far.
    """

    def __init__(self, folder: Path) -> None:
        if folder.is_dir() and any(folder.iterdir()):
            raise FileExistsError(f"{str(folder)!r} is not empty: pass another folder")
        self._folder = folder
        self._features: dict[str, dict[str, Any]] = {}
        self._rows: list[dict[str, Any]] = []
        self._stats: list[dict[str, Stats]] = []
        self._file: pyarrow.parquet.ParquetWriter | None = None
        self._file_number, self._file_bytes = -1, 0
        self._fps = 1
        self.episodes = self.frames = 0

    def __enter__(self) -> LeRobotWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file; after an error, remove what was written, so that the folder can be written again."""
        if self._file is not None:
            self._file.close()
        for name in ("data", "videos", "meta") if error is not None else ():
            shutil.rmtree(self._folder / name, ignore_errors=True)

    def add(self, steps: EpisodeSteps, fps: int) -> None:
        """Write an episode.

        Args:
            steps: Its steps.
            fps: Steps per second, the same for all episodes.

        Raises:
            ValueError: LeRobot has no feature for its values, or its features are not those of the first episode.
        """
        columns = _columns(steps, fps)
        features = {name: _feature(name, values) for name, values in columns.items()}
        features |= {_video_key(view): _video_feature(clip) for view, clip in steps.clips.items()}
        if not self._features:
            self._features, self._fps = features, fps
        if features != self._features:
            other = [name for name in {**features, **self._features} if features.get(name) != self._features.get(name)]
            raise ValueError(f"it has other features than the first episode: {', '.join(other)}")
        count, number = len(steps.actions), self.episodes
        columns["index"] = columns["index"] + self.frames
        columns["episode_index"] = np.full(count, number)
        row: dict[str, Any] = {"episode_index": number, "length": count}
        row |= {"dataset_from_index": self.frames, "dataset_to_index": self.frames + count}
        row |= self._write_steps(columns)
        stats = {name: _stats(values) for name, values in columns.items()}
        for view, clip in steps.clips.items():
            row |= self._write_clip(_video_key(view), clip, count / fps)
            stats[_video_key(view)] = _stats_of_pictures(clip)
        row |= {f"stats/{name}/{key}": value.tolist() for name, of in stats.items() for key, value in of.items()}
        row |= {name: steps.row[name] for name in _FACTS} | {"seed": steps.seed}
        self._rows.append(row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        self._stats.append(stats)
        self.episodes, self.frames = number + 1, self.frames + count

    def finish(self, task: str) -> None:
        """Write what is known of all episodes, and what the agent is to do; only then the folder is a dataset."""
        if self._file is not None:
            self._file.close()
            self._file = None
        episodes = self._folder / _EPISODES_PATH.format(chunk_index=0, file_index=0)
        episodes.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pa.Table.from_pylist([{**row, "tasks": [task]} for row in self._rows]), episodes)
        tasks = pd.DataFrame({"task_index": [0]}, index=[task])  # its readers look for tasks in the index
        tasks.to_parquet(self._folder / "meta/tasks.parquet")
        stats = _joined(self._stats)
        self._write_json("stats", {name: {key: value.tolist() for key, value in stats[name].items()} for name in stats})
        has_videos = any(feature["dtype"] == "video" for feature in self._features.values())
        info: dict[str, Any] = {"codebase_version": VERSION, "robot_type": None, "fps": self._fps}
        info |= {"total_episodes": self.episodes, "total_frames": self.frames, "total_tasks": 1}
        info |= {"chunks_size": _PER_CHUNK, "data_files_size_in_mb": _DATA_MB, "video_files_size_in_mb": _VIDEO_MB}
        info |= {"splits": {"train": f"0:{self.episodes}"}, "data_path": _DATA_PATH}
        info |= {"video_path": _VIDEO_PATH if has_videos else None, "features": self._features}
        self._write_json("info", info)

    def _write_steps(self, columns: Mapping[str, Array]) -> dict[str, int]:
        """Write the steps of an episode, and return in which file they are."""
        table = pa.table({name: _arrow(values) for name, values in columns.items()})
        if self._file is None or self._file_bytes + table.nbytes > _DATA_MB * 2**20:
            if self._file is not None:
                self._file.close()
            self._file_number, self._file_bytes = self._file_number + 1, 0
            path = self._folder / _DATA_PATH.format(**_place(self._file_number))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pyarrow.parquet.ParquetWriter(path, table.schema)
        self._file.write_table(table)
        self._file_bytes += table.nbytes
        return {f"data/{name}": value for name, value in _place(self._file_number).items()}

    def _write_clip(self, key: str, clip: EncodedVideo, seconds: float) -> dict[str, Any]:
        place = _place(self.episodes)
        path = self._folder / _VIDEO_PATH.format(video_key=key, **place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clip.data)
        facts = {**place, "from_timestamp": 0.0, "to_timestamp": seconds}
        return {f"videos/{key}/{name}": value for name, value in facts.items()}

    def _write_json(self, name: str, content: Any) -> None:
        (self._folder / f"meta/{name}.json").write_text(json.dumps(content, indent=4) + "\n", encoding="utf-8")


def _columns(steps: EpisodeSteps, fps: int) -> dict[str, Array]:
    """Return the values of each feature but the pictures, one a frame."""
    count = len(steps.actions)
    columns = dict(_named("observation", steps.observations[:-1], "state"))
    columns |= _named("action", steps.actions, "")
    last = np.arange(count) == count - 1
    columns["next.reward"] = np.asarray(steps.rewards, np.float64)
    columns["next.done"] = last
    columns["next.truncated"] = last & (not steps.is_terminated)
    order = np.arange(count)
    own = {"timestamp": order / fps, "frame_index": order, "episode_index": order, "index": order}
    own["task_index"] = np.zeros(count)
    return columns | {name: values.astype(_OWN[name]) for name, values in own.items()}


def _named(name: str, values: Sequence[Any], only: str) -> Iterator[tuple[str, Array]]:
    """Yield the features of observations or actions, which may be dicts and tuples.

    >>> [(name, values.shape) for name, values in _named("observation", [{"a": 1, "b": [2, 3]}], "state")]
    [('observation.a', (1,)), ('observation.b', (1, 2))]
    """
    if isinstance(values[0], Mapping):
        parts: dict[Any, Sequence[Any]] = {key: [value[key] for value in values] for key in values[0]}
    elif isinstance(values[0], tuple):
        parts = {number: [value[number] for value in values] for number in range(len(values[0]))}
    else:
        yield f"{name}.{only}" if only else name, np.asarray(values)
        return
    for key, part in parts.items():
        yield from _named(f"{name}.{key}".replace("/", "."), part, "")


def _feature(name: str, values: Array) -> dict[str, Any]:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"LeRobot has no feature for {name}, which is no array of numbers of one shape")
    return {"dtype": str(values.dtype), "shape": list(values.shape[1:]) or [1], "names": None}


def _video_key(view: str) -> str:
    return f"observation.images.{view.replace('/', '.')}" if view else "observation.image"


def _video_feature(clip: EncodedVideo) -> dict[str, Any]:
    codec = {"libx264": "h264", "libvpx-vp9": "vp9"}.get(clip.codec, clip.codec)
    facts = {"height": clip.height, "width": clip.width, "codec": codec, "pix_fmt": "yuv420p"}
    facts |= {"is_depth_map": False, "fps": round(clip.fps), "channels": 3}
    info = {**{f"video.{name}": value for name, value in facts.items()}, "has_audio": False}
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": [clip.height, clip.width, 3], "names": names, "info": info}


def _arrow(values: Array) -> pa.Array:
    """Return a column: a number a row, or lists of the same length, in each other for several dimensions."""
    shape = values.shape[1:]
    array = pa.array(np.ascontiguousarray(values).reshape(-1))
    if shape in ((), (1,)):
        return array
    if len(shape) == 1:
        return pa.FixedSizeListArray.from_arrays(array, shape[0])
    for length in reversed(shape):
        array = pa.ListArray.from_arrays(pa.array(np.arange(0, len(array) + 1, length), pa.int32()), array)
    return array


def _stats(values: Array) -> Stats:
    """Return the statistics of the values of an episode, over its frames."""
    numbers = values.reshape(len(values), -1).astype(np.float64)
    shape = values.shape[1:] or (1,)
    found = {"min": numbers.min(0), "max": numbers.max(0), "mean": numbers.mean(0), "std": numbers.std(0)}
    found |= {name: np.quantile(numbers, at, axis=0) for name, at in _QUANTILES.items()}
    return {name: value.reshape(shape) for name, value in found.items()} | {"count": np.array([len(values)])}


def _stats_of_pictures(clip: EncodedVideo) -> Stats:
    """Return the statistics of each channel, 0 to 1, over some of a clip's frames."""
    every = max(1, clip.frames // _PICTURES)
    frames = [frame for number, frame in enumerate(decode_video(clip.data)) if number % every == 0]
    counts = np.stack([sum(np.bincount(frame[..., c].ravel(), minlength=256) for frame in frames) for c in range(3)])
    shares, levels = counts / counts[0].sum(), np.arange(256) / 255
    mean = shares @ levels
    found = {
        "min": levels[(counts > 0).argmax(axis=1)],
        "max": levels[255 - (counts > 0)[:, ::-1].argmax(axis=1)],
        "mean": mean,
        "std": np.sqrt(np.maximum(0.0, shares @ levels**2 - mean**2)),
    }
    upto = shares.cumsum(axis=1)
    found |= {name: levels[(upto < at).sum(axis=1).clip(max=255)] for name, at in _QUANTILES.items()}
    return {name: value.reshape(3, 1, 1) for name, value in found.items()} | {"count": np.array([len(frames)])}


def _joined(stats: Sequence[Mapping[str, Stats]]) -> dict[str, Stats]:
    """Return the statistics over all episodes; quantiles are the means of the episodes', as LeRobot joins them."""
    found = {}
    for name in stats[0]:
        of = [one[name] for one in stats]
        weights = np.array([one["count"][0] for one in of], np.float64)

        def mean(values: Sequence[Array], weights: Array = weights) -> Array:
            return np.asarray(np.average(np.stack(values), axis=0, weights=weights))

        joined = {key: mean([one[key] for one in of]) for key in of[0] if key not in ("min", "max", "std", "count")}
        squares = mean([one["std"] ** 2 + one["mean"] ** 2 for one in of])
        joined["std"] = np.sqrt(np.maximum(0.0, squares - joined["mean"] ** 2))
        joined["min"] = np.min([one["min"] for one in of], axis=0)
        joined["max"] = np.max([one["max"] for one in of], axis=0)
        found[name] = joined | {"count": np.array([int(weights.sum())])}
    return found


def _place(number: int) -> dict[str, int]:
    return {"chunk_index": number // _PER_CHUNK, "file_index": number % _PER_CHUNK}
