"""All steps of episodes: read from the files of trajectories, or played again from tapes."""

from __future__ import annotations

import copy
import json
import logging
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.recording.rendering import Renderer, describe
from tune_media.replay.player import ReplayDiffers, replay
from tune_media.replay.recipe import LoadedRecipe
from tune_media.replay.tape import Tape
from tune_media.storage.episode_files import FOLDER
from tune_media.storage.filesystem import open_file
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.problems import FrameError
from tune_media.values.secrets import error_text
from tune_media.viewing.catalog import Catalog
from tune_media.viewing.taped_episodes import TapedEpisode

logger = logging.getLogger("tune_media")

_KEYFRAMES_EVERY = 2  # as LeRobot's own videos: whoever learns from a dataset reads single frames


@dataclass(frozen=True)
class EpisodeSteps:
    """The steps of one episode.

    Attributes:
        row: The facts of the episode, as ``tune_media.load(...).episodes()`` has them.
        observations: The observation of the reset, and the one after each step.
        actions: The action of each step.
        rewards: The reward of each step.
        is_terminated: Whether the episode ended by itself; otherwise it was truncated.
        clips: The frames before each step, by view; empty: they were not wanted, or the env does not render.

    Example:
        >>> EpisodeSteps({"seed": 3.0}, [0, 1], [1], [0.5], True).seed
        3
    """

    row: Mapping[str, Any]
    observations: Sequence[Any]
    actions: Sequence[Any]
    rewards: Sequence[float]
    is_terminated: bool
    clips: Mapping[str, EncodedVideo] = field(default_factory=dict)

    @property
    def seed(self) -> int | None:
        """The seed of its reset; None if it is not known."""
        seed = self.row["seed"]
        return None if seed is None or np.isnan(seed) else int(seed)


class EpisodeReplayer:
    """Plays tapes again in this process, and checks each step. That runs the code that made the envs.

    Args:
        with_clips: Whether the envs are rendered.
        before_code: Called before the first env is made.

    Attributes:
        fps: Steps per second of the first env, a whole number, as LeRobot counts them.
        env_name: What the first env is called.
    """

    def __init__(self, *, with_clips: bool = False, before_code: Callable[[], None] = lambda: None) -> None:
        self._with_clips, self._has_clips, self._before_code = with_clips, False, before_code
        self._renderers: dict[Any, Renderer] = {}  # by recipe and place
        self.fps, self.env_name = 1, ""

    def __enter__(self) -> EpisodeReplayer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for renderer in self._renderers.values():
            renderer.env.close()

    @property
    def env(self) -> Any:
        """The env of the first tape; None if none has been made."""
        return next((renderer.env for renderer in self._renderers.values()), None)

    def steps_of_all(
        self, rows: Mapping[str, Mapping[str, Any]], taped: Sequence[TapedEpisode]
    ) -> Iterator[EpisodeSteps]:
        """Yield the steps of the taped episodes of which ``rows`` has the facts, by id.

        An episode that cannot be played again is left out, with a warning.
        """
        wanted = {one.id: one for one in taped if one.id in rows}
        if wanted:
            self._before_code()
        for episode in wanted.values():
            try:
                yield self.steps(episode, rows[episode.id])
            except Exception as error:  # of one episode; the others are taken
                logger.warning("tune_media: episode %s is left out: %s", episode.id, error_text(error))

    def steps(self, episode: TapedEpisode, row: Mapping[str, Any]) -> EpisodeSteps:
        """Play an episode again, and return its steps, with its facts in ``row``.

        Raises:
            ReplayDiffers: The replay is not the episode.
            ValueError: It has several agents.
            RenderError: Nobody knows how its env is made.
            Exception: Whatever making the env raises.
        """
        tape, place = Tape.unpacked(episode.tape()), episode.place()
        key = (episode.row["recipe"], *place.values())
        try:
            return self._played(key, episode, tape, row)
        except ReplayDiffers:  # the env may carry something over from the episodes that were played in it
            self._renderers.pop(key).env.close()
            return self._played(key, episode, tape, row)

    def _played(self, key: Any, episode: TapedEpisode, tape: Tape, row: Mapping[str, Any]) -> EpisodeSteps:
        renderer = self._renderer(key, episode)
        encoders: dict[str, VideoEncoder] = {}
        observations, actions, rewards = [], [], []
        try:
            for step in replay(renderer.env, tape):
                if isinstance(step.reward, Mapping):
                    raise ValueError("it has several agents, and a dataset is of one")
                observations.append(copy.deepcopy(step.observation))
                if step.step:
                    actions.append(step.action)
                    rewards.append(float(step.reward))
                if self._with_clips and step.step < len(tape):
                    self._film(renderer, encoders)
        except BaseException:
            for encoder in encoders.values():
                encoder.cancel()
            raise
        clips = {view: encoder.finish() for view, encoder in encoders.items()}
        self._has_clips |= bool(clips)
        return EpisodeSteps(row, observations, actions, rewards, bool(episode.row["terminated"]), clips)

    def _renderer(self, key: Any, episode: TapedEpisode) -> Renderer:
        if key not in self._renderers:
            recipe = LoadedRecipe.of(episode.recipe())
            self._renderers[key] = renderer = Renderer(recipe.make(**episode.place()), recipe.frame)
            if not self.env_name:
                self.fps, self.env_name = max(1, round(renderer.fps(0))), describe(renderer.env).strip("'")
        return self._renderers[key]

    def _film(self, renderer: Renderer, encoders: dict[str, VideoEncoder]) -> None:
        """Encode the current frame of each view.

        Raises:
            FrameError: There is no frame, and earlier episodes have pictures.
        """
        renderer.new_step()
        try:
            frames = renderer.frames(0)
        except FrameError as error:
            if self._has_clips:  # this episode is left out; the others have pictures
                raise
            logger.warning("tune_media: the dataset has no pictures: %s", error)
            self._with_clips = False
            for encoder in encoders.values():
                encoder.cancel()
            encoders.clear()
            return
        for view, frame in frames.items():
            if view not in encoders:
                encoders[view] = VideoEncoder(self.fps, keyframes_every=_KEYFRAMES_EVERY)
            encoders[view].feed(frame)


def recorded_steps(catalog: Catalog, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[EpisodeSteps]:
    """Yield the recorded trajectories of the episodes of which ``rows`` has the facts, by id; each episode once."""
    taken: set[str] = set()
    for filesystem, path in _step_files(catalog):
        try:
            found = _episodes_in(filesystem, path, rows)
        except Exception as error:  # of one file: it is gone, or broken
            warn_passed_over(path, error_text(error))
            continue
        for episode in found:
            if episode.row["episode_id"] not in taken:  # two recorders may have kept the same episode
                taken.add(episode.row["episode_id"])
                yield episode


def _episodes_in(
    filesystem: pyarrow.fs.FileSystem, path: str, rows: Mapping[str, Mapping[str, Any]]
) -> list[EpisodeSteps]:
    with open_file(filesystem, path) as file:
        table = pyarrow.parquet.read_table(file)
    found = []
    for recorder, id in dict.fromkeys(
        zip(*(table[name].to_pylist() for name in ("recorder", "episode_id")), strict=True)
    ):
        if id in rows:
            of_recorder = pa.compute.equal(table["recorder"], recorder)
            steps = table.filter(pa.compute.and_(of_recorder, pa.compute.equal(table["episode_id"], id)))
            found.append(
                EpisodeSteps(
                    rows[id],
                    _values(steps, "observation"),
                    _values(steps.slice(1), "action"),
                    steps["reward"].to_pylist()[1:],
                    bool(steps["terminated"].to_pylist()[-1]),
                )
            )
    return found


def chosen_rows(catalog: Catalog, where: Callable[[dict[str, Any]], bool] | None) -> dict[str, dict[str, Any]]:
    """Return the facts of the episodes for which ``where`` is true, or of all if it is None, by their ids."""
    rows: list[dict[str, Any]] = catalog.episodes().to_dict("records")  # type: ignore[assignment]
    return {row["episode_id"]: row for row in rows if where is None or where(row)}


def _step_files(catalog: Catalog) -> Iterator[tuple[pyarrow.fs.FileSystem, str]]:
    """Yield the files of steps of an experiment, each with its filesystem."""
    for trial in catalog.trials:
        for folder in dict.fromkeys(map(posixpath.dirname, trial.report_paths)):
            filesystem = trial.media_filesystem
            for info in filesystem.get_file_info(pyarrow.fs.FileSelector(folder)):
                if posixpath.basename(folder) == FOLDER and info.base_name.startswith("steps-"):
                    yield filesystem, info.path


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
