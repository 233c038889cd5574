"""Records episodes of Gymnasium envs, single or vectorised, in any loop: clips and statistics in one wrapper.

env = tune_media.gym.RecordEpisodes(gym.make("CartPole-v1", render_mode="rgb_array"), "videos")
"""

from __future__ import annotations

import functools
import itertools
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tune_media.checks import as_indices, as_seeds, check_recording
from tune_media.encoding import VideoEncoder
from tune_media.episodes import EpisodeBatch, thinned
from tune_media.recorder import DATA, EpisodeRecorder, Plan, Taken, laid_out
from tune_media.rendering import FrameFunction, Renderer, reset_seed, sub_env
from tune_media.seeding import SeededResets, seeded
from tune_media.selection import RenderBudget, Selector, Trigger, as_selectors, winners
from tune_media.steps import Collect
from tune_media.values import Video, VideoOptions, new_id

try:
    import gymnasium as gym
except ImportError as error:
    raise ImportError("tune_media.gym needs Gymnasium: pip install gymnasium") from error

_SAME_STEP_NOTE = "the vector env resets in the step that ends an episode: the final frame is missing"


class FixedSeeds(gym.Wrapper):
    """Gives each reset of an env the next of its seeds, whatever seed the caller passes.

    Args:
        env: The env.
        seeds: The seeds, used in turn, then from the start again; a number n stands for 0, ..., n-1.
    """

    def __init__(self, env: gym.Env, seeds: int | Sequence[int]) -> None:
        super().__init__(env)
        self._resets = SeededResets(env, as_seeds(seeds))


class _Recording:
    """What the wrappers share: the sub-envs' statistics, clips of episodes, clips of fixed length, and their files."""

    def __init__(
        self,
        env: Any,
        count: int,
        folder: str | Path | None,
        prefix: str,
        step_trigger: Callable[[int], bool] | None,
        video_length: int,
        plan: Plan,
        frame: Any,
        env_indices: frozenset[int] | None,
        buffer_length: int | None,
    ) -> None:
        self.env, self.count, self.plan = env, count, plan
        self.folder = Path(folder) if folder is not None else None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.prefix, self.step_trigger, self.video_length = prefix, step_trigger, video_length
        self.renderer = Renderer(env, frame)
        # Clips of a fixed length are made by the wrapper itself, and the recorder keeps the records.
        self.fixed = step_trigger is not None or video_length > 0
        self.recorder = EpisodeRecorder(plan, None if self.folder is None else self._on_finished)
        self.indices = frozenset(range(count)) if env_indices is None else env_indices
        self.episodes = [-1] * count
        self.returns, self.lengths = np.zeros(count), np.zeros(count, int)
        self.started = np.zeros(count)
        self.ended: dict[int, dict[str, Any]] = {}  # what info["episode"] says of the sub-envs' last episodes
        self.steps = 0
        self.clips: dict[int, tuple[VideoEncoder, str]] = {}
        self.return_queue: deque[float] = deque(maxlen=buffer_length)
        self.length_queue: deque[int] = deque(maxlen=buffer_length)
        self.time_queue: deque[float] = deque(maxlen=buffer_length)

    def start(self, index: int, seed: int | None = None, observation: Any = None) -> None:
        """The sub-env has been reset."""
        self._break_off(index, "unfinished: the env was reset in mid-episode")
        if self.video_length == 0:
            self._close_clip(index, whole=False)
        self.episodes[index] += 1
        self.returns[index], self.lengths[index] = 0.0, 0
        self.started[index] = time.perf_counter()
        if index not in self.indices:
            return
        with self.recorder.guard(index, "the start of an episode"):
            inner = sub_env(self.env, index)
            given = seeded(inner)
            recorded = self.recorder.start(
                index,
                new_id(),
                None if self.fixed else functools.partial(self.renderer.frames, index),
                self.renderer.fps(index),
                env=inner,
                seed=given.last if given else seed if seed is not None else reset_seed(inner),
                seed_is_new=given is not None or seed is not None,
                observation=observation,
                env_index=index,
            )
            if recorded and self.fixed and self.step_trigger is None:
                self._open_clip(index, f"episode-{self.episodes[index]}")
            self._feed_clip(index)

    def step(
        self,
        index: int,
        reward: float,
        action: Any,
        info: Any,
        terminated: bool,
        truncated: bool,
        *,
        observation: Any = None,
        picture: bool = True,
    ) -> None:
        """The sub-env has been stepped; where the episode is over, it is counted and saved."""
        self.returns[index] += reward
        self.lengths[index] += 1
        if index in self.indices:
            self.recorder.step(index, reward, action, info, picture=picture, observation=observation, env_index=index)
            with self.recorder.guard(index, "a step"):
                if self.step_trigger is not None and index not in self.clips and self.step_trigger(self.steps):
                    self._open_clip(index, f"step-{self.steps}")
                if picture:
                    self._feed_clip(index)
        if terminated or truncated:
            self._end(index, terminated, None if picture else _SAME_STEP_NOTE)

    def _end(self, index: int, terminated: bool, note: str | None) -> None:
        duration = round(time.perf_counter() - self.started[index], 6)
        self.ended[index] = {"r": float(self.returns[index]), "l": int(self.lengths[index]), "t": duration}
        self.return_queue.append(float(self.returns[index]))
        self.length_queue.append(int(self.lengths[index]))
        self.time_queue.append(duration)
        self.recorder.end(index, terminated=terminated, note=note)
        if self.video_length == 0:
            self._close_clip(index)

    def _on_finished(self, taken: Taken) -> None:
        shown = next(iter(taken.values())) if isinstance(taken, dict) else taken
        record = shown.episode if isinstance(shown, Video) else shown
        if record is not None and record.env_index is not None:
            self._save(record.env_index, taken, whole=True)

    def _break_off(self, index: int, note: str) -> None:
        """Save an episode that is over before its end, unless it has not made a step."""
        if self.lengths[index] == 0:
            self.recorder.abandon(index)
        with self.recorder.guard(index, "saving an unfinished episode"):
            self._save(index, self.recorder.break_off(index, note), whole=False)

    def take(self) -> dict[str, Any]:
        """Hand over the chosen ones of the episodes that ended since the last time."""
        episodes = self.recorder.data()
        records = self.recorder.records()
        chosen = winners(records, self.plan.selectors)
        ids = [record.id for record in records] + [episode.record.id for episode in episodes]
        kept = self.recorder.take({record.id for found in chosen.values() for record in found}, ids)
        result = laid_out(self.plan, chosen, kept)
        if not episodes:
            return result
        trajectories = {id: taken.trajectory for id, taken in kept.items() if taken.trajectory is not None}
        batch = EpisodeBatch(tuple(thinned(episodes)), trajectories)
        metrics = batch.metrics()
        return result | {DATA: batch} | ({"custom_metrics": metrics} if metrics else {})

    def close(self) -> None:
        """Save what is unfinished, marked as such."""
        for index in range(self.count):
            self._break_off(index, "unfinished: the env was closed")
            self._close_clip(index, whole=False)

    def _open_clip(self, index: int, name: str) -> None:
        if self.plan.video is not None and index not in self.clips:
            options = self.plan.video
            encoder = VideoEncoder(options.fps or self.renderer.fps(index), **options.encoder_keywords())
            self.clips[index] = (encoder, name)

    def _feed_clip(self, index: int) -> None:
        if index not in self.clips:
            return
        encoder, _ = self.clips[index]
        try:
            encoder.feed(next(iter(self.renderer.frames(index).values())))
        except Exception:
            del self.clips[index]
            encoder.cancel()
            raise
        if 0 < self.video_length <= encoder.frames:
            self._close_clip(index)

    def _close_clip(self, index: int, *, whole: bool = True) -> None:
        encoder, name = self.clips.pop(index, (None, ""))
        if encoder is None or encoder.frames == 0:
            return
        whole = whole or 0 < self.video_length == encoder.frames
        with self.recorder.guard(index, "saving a clip"):
            self._write(index, Video.from_encoded(encoder.finish()), name if whole else f"{name}-unfinished")

    def _save(self, index: int, taken: Taken | None, *, whole: bool) -> None:
        """Write the clips of an episode to the folder, if there is one."""
        videos = {"": taken} if isinstance(taken, Video) else taken if isinstance(taken, dict) else {}
        for view, video in videos.items():
            part = re.sub(r"[^0-9A-Za-z_.=-]", "_", view)
            name = f"episode-{self.episodes[index]}" + (f"-{part}" if part else "") + ("" if whole else "-unfinished")
            self._write(index, video, name)

    def _write(self, index: int, video: Video, name: str) -> None:
        """Write a clip; a name that is taken by an earlier run is never written over."""
        if self.folder is None:
            return
        stem = f"{self.prefix}-{name}" if self.count == 1 else f"{self.prefix}-env-{index}-{name}"
        try:
            file = (self.folder / f"{stem}.mp4").open("xb")
        except FileExistsError:
            file = (self.folder / f"{stem}-{video.id[:12]}.mp4").open("xb")
        with file:
            file.write(video.data)


def _make_recording(
    env: Any,
    count: int,
    video_folder: str | Path | None = None,
    name_prefix: str = "rl-video",
    episode_trigger: Trigger | RenderBudget | None = None,
    step_trigger: Callable[[int], bool] | None = None,
    video_length: int = 0,
    keep: str | Selector | Iterable[str | Selector] = "last",
    video: VideoOptions | None = VideoOptions(),  # noqa: B008 - frozen
    frame: FrameFunction | str | Mapping[str, FrameFunction | str] | None = None,
    collect: Collect | None = None,
    trajectories: bool = False,
    env_indices: Iterable[int] | None = None,
    buffer_length: int | None = 100,
    strict: bool = False,
) -> _Recording:
    check_recording(episode_trigger, video, frame)
    if step_trigger is not None and not callable(step_trigger):
        raise TypeError(f"RecordEpisodes(step_trigger=...) takes a callable, got {step_trigger!r}.")
    if video_length < 0 or video_length != int(video_length):
        raise ValueError(f"RecordEpisodes(video_length=...) counts frames, 0 for whole episodes; got {video_length}.")
    if step_trigger is not None and episode_trigger is not None:
        raise ValueError("RecordEpisodes takes an episode_trigger or a step_trigger; wrap the env twice to have both.")
    if step_trigger is not None or video_length:
        _check_fixed_length(video_folder, video_length, episode_trigger, video, frame)
    if "/" in name_prefix or "\\" in name_prefix:
        raise ValueError(f"RecordEpisodes(name_prefix=...) is part of a file name, got {name_prefix!r}.")
    render_mode = getattr(env, "render_mode", None)
    if video is not None and frame is None and render_mode != "rgb_array":
        has = "no render_mode" if render_mode is None else f"render_mode={render_mode!r}"
        raise ValueError(
            f"RecordEpisodes: the env has {has}; create it with render_mode='rgb_array', for example "
            "gymnasium.make('CartPole-v1', render_mode='rgb_array'), or pass frame= or video=None."
        )
    plan = Plan(name_prefix, as_selectors(keep), episode_trigger, video, collect, trajectories, strict=strict)
    return _Recording(
        env,
        count,
        video_folder,
        name_prefix,
        step_trigger,
        int(video_length),
        plan,
        frame,
        as_indices("env_indices", env_indices, count),
        buffer_length,
    )


def _check_fixed_length(folder: Any, length: int, trigger: Any, video: VideoOptions | None, frame: Any) -> None:
    """Check what clips that are not whole episodes do not have.

    Raises:
        ValueError: Arguments contradict each other.
    """
    if folder is None:
        raise ValueError("RecordEpisodes(step_trigger=..., video_length=...) writes files: pass a video_folder.")
    if isinstance(trigger, RenderBudget):
        raise ValueError("RecordEpisodes: a RenderBudget is for whole episodes; leave video_length out.")
    if isinstance(frame, Mapping):
        raise ValueError("RecordEpisodes: several views are for whole episodes; leave video_length out.")
    if video is None:
        raise ValueError("RecordEpisodes(step_trigger=..., video_length=...) makes clips, and video=None wants none.")
    if video.overlay:
        raise ValueError("RecordEpisodes draws overlays into clips of whole episodes only; leave one of them out.")
    if video.max_frames is not None and video.max_frames < length:
        raise ValueError(f"VideoOptions(max_frames={video.max_frames}) is less than video_length={length}.")


class RecordEpisodes(gym.Wrapper):
    """Records clips and statistics of the episodes of an env; given a vector env, of all or some of its sub-envs.

    Each recorded episode becomes a clip from its reset frame to its last, encoded while it runs. With a folder, it is
    written there when it ends: ``<prefix>-episode-<n>.mp4``, for vector envs ``<prefix>-env-<i>-episode-<n>.mp4``. A
    file that exists is not written over. An episode that ``reset`` or ``close`` breaks off is written as
    ``...-unfinished.mp4``. ``take()`` hands over the chosen clips of the episodes that ended since it was last called,
    for ``tune.report``.

    ``info["episode"]`` holds the return ``r``, length ``l`` and duration ``t`` (seconds) of an episode that just ended.

    Args:
        env: The env, or vector env, with ``render_mode="rgb_array"``.
        video_folder: Where clips are written. None: nowhere.
        name_prefix: How file names begin.
        episode_trigger: Told the index of an episode (of its sub-env), says whether to record it. None: all.
        step_trigger: Told the number of steps so far, says whether to start a clip that begins there. Instead of
            ``episode_trigger``.
        video_length: Frames of a clip, which then goes on over resets. 0: to the end of its episode.
        keep: What ``take()`` hands over: a selector's name, a selector, or several.
        video: Size, speed, quality and overlays of the clips. None: statistics only.
        frame: Instead of ``render()``; see ``tune_media.rllib.record_episodes``.
        collect: Numbers to take from each step; see there.
        env_indices: The sub-envs to record. None: all.
        buffer_length: Length of ``return_queue``, ``length_queue`` and ``time_queue``. None: unbounded.
        strict: Raise when a frame cannot be recorded, instead of warning once.

    Raises:
        ValueError: Arguments that contradict each other, or an env that does not render.
    """

    def __new__(cls, env: Any = None, *args: Any, **options: Any) -> Any:  # noqa: D102 - which class it is
        if isinstance(env, gym.vector.VectorEnv):
            return RecordVectorEpisodes(env, *args, **options)
        return super().__new__(cls)

    def __init__(self, env: gym.Env, video_folder: str | Path | None = None, **options: Any) -> None:
        super().__init__(env)
        self._recording = _make_recording(env, 1, video_folder, **options)
        self.return_queue = self._recording.return_queue
        self.length_queue = self._recording.length_queue
        self.time_queue = self._recording.time_queue

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env; an episode that was running is unfinished."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._recording.renderer.new_step()
        self._recording.start(0, seed, observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the env."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._recording.renderer.new_step()
        self._recording.steps += 1
        ended = bool(terminated), bool(truncated)
        self._recording.step(0, float(reward), action, info, *ended, observation=observation)
        if terminated or truncated:
            info = {**info, "episode": self._recording.ended[0]}
        return observation, reward, terminated, truncated, info

    def take(self) -> dict[str, Any]:
        """Hand over the chosen clips of the episodes that ended since the last call, by selector."""
        return self._recording.take()

    def close(self) -> None:
        """Save what is unfinished and close the env."""
        self._recording.close()
        super().close()


class RecordVectorEpisodes(gym.vector.VectorWrapper):
    """``RecordEpisodes`` for vector envs; see there. Sub-envs may run in other processes or be one batch."""

    def __init__(self, env: gym.vector.VectorEnv, video_folder: str | Path | None = None, **options: Any) -> None:
        super().__init__(env)
        self._recording = _make_recording(env, env.num_envs, video_folder, **options)
        self._restarts = np.zeros(env.num_envs, bool)  # sub-envs whose next step is a reset
        mode = (env.metadata or {}).get("autoreset_mode")
        self._autoreset = getattr(mode, "name", "NEXT_STEP")
        self.return_queue = self._recording.return_queue
        self.length_queue = self._recording.length_queue
        self.time_queue = self._recording.time_queue

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the sub-envs, all or those of ``options["reset_mask"]``."""
        mask = np.array((options or {}).get("reset_mask", np.ones(self.num_envs)), bool)  # the env takes it out
        observations, infos = self.env.reset(seed=seed, options=options)
        self._recording.renderer.new_step()
        for index in map(int, np.flatnonzero(mask)):
            own = seed + index if isinstance(seed, int) else None if seed is None else seed[index]
            self._recording.start(index, own, self._nth_observation(observations, index))
        self._restarts[mask] = False
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the sub-envs."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        self._recording.renderer.new_step()
        self._recording.steps += 1
        over = np.logical_or(terminations, truncations)
        recorder = self._recording.recorder
        looks, looks_at_info = recorder.looks_at_steps, _has_info(infos, recorder)
        each = list(gym.vector.utils.iterate(self.action_space, actions)) if looks else []
        statistics = {}
        for index in range(self.num_envs):
            if self._restarts[index]:
                self._recording.start(index, observation=self._nth_observation(observations, index))
                continue
            ended = bool(terminations[index]), bool(truncations[index])
            same_step = any(ended) and self._autoreset == "SAME_STEP"
            info = self._nth_info(infos, index) if looks_at_info else None
            observation = self._nth_observation(observations, index)
            if same_step:  # what is there otherwise is the next episode's
                info = (info or {}).get("final_info", info)
                final = infos.get("final_obs") if isinstance(infos, dict) else None
                observation = None if final is None or not looks else final[index]
            self._recording.step(
                index,
                float(rewards[index]),
                each[index] if looks else None,
                info,
                *ended,
                observation=observation,
                picture=not same_step,
            )
            if any(ended):
                statistics[index] = self._recording.ended[index]
                if same_step:
                    self._recording.start(index, observation=self._nth_observation(observations, index))
        self._restarts = over & ~self._restarts if self._autoreset == "NEXT_STEP" else np.zeros(self.num_envs, bool)
        if statistics:
            infos = {**infos, **_vector_statistics(statistics, self.num_envs)}
        return observations, rewards, terminations, truncations, infos

    def take(self) -> dict[str, Any]:
        """Hand over the chosen clips of the episodes that ended since the last call, by selector."""
        return self._recording.take()

    def _nth_info(self, infos: Any, index: int) -> Any:
        """Return the info of one sub-env; what cannot be taken apart costs a warning, not the user's loop."""
        try:
            return _nth_info(infos, index)
        except Exception as error:
            if self._recording.plan.strict:
                raise
            self._recording.recorder.report("infos", f"{type(error).__name__}: {error}", "infos are left out")
            return None

    def _nth_observation(self, observations: Any, index: int) -> Any:
        """Return the observation of one sub-env where it is wanted."""
        if not self._recording.recorder.looks_at_steps:
            return None
        each = gym.vector.utils.iterate(self.observation_space, observations)
        return next(itertools.islice(each, index, None))

    def close(self, **options: Any) -> None:
        """Save what is unfinished and close the env."""
        if hasattr(self, "_recording"):  # Gymnasium also closes envs whose arguments were refused
            self._recording.close()
        super().close(**options)


def _nth_info(infos: Any, index: int) -> Any:
    """Return the info of one sub-env, out of what a vector env makes of all: arrays by name, and masks."""
    if not isinstance(infos, dict):
        return infos[index]
    own = {}
    for name, value in infos.items():
        is_there = infos.get(f"_{name}")
        if str(name).startswith("_") or (is_there is not None and not np.all(is_there[index])):
            continue
        if isinstance(value, dict):
            own[name] = _nth_info(value, index)
        elif isinstance(value, (np.ndarray, list, tuple)) and len(value) > index:
            own[name] = value[index]
        else:  # the same for all sub-envs
            own[name] = value
    return own


def _has_info(infos: Any, recorder: EpisodeRecorder) -> bool:
    """Say whether the infos of a vector env may hold something to collect; taking them apart costs time."""
    if not recorder.looks_at_info:
        return False
    by_convention_only = recorder.plan.collect is None and not recorder.looks_at_steps
    return not by_convention_only or not isinstance(infos, dict) or bool({"data", "media", "final_info"} & infos.keys())


def _vector_statistics(statistics: dict[int, dict[str, Any]], count: int) -> dict[str, Any]:
    """Lay out the statistics of some sub-envs as Gymnasium's vector infos do: arrays, and a mask."""
    arrays = {"r": np.zeros(count), "l": np.zeros(count, int), "t": np.zeros(count)}
    mask = np.zeros(count, bool)
    for index, values in statistics.items():
        mask[index] = True
        for name, value in values.items():
            arrays[name][index] = value
    return {"episode": arrays, "_episode": mask}
