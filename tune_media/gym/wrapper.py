"""Records episodes of Gymnasium envs in any loop: clips and statistics in one wrapper."""

from __future__ import annotations

import inspect
from typing import Any, Self, overload

import gymnasium as gym
from typing_extensions import override

from tune_media.gym.episode_statistics import KEY, Reward
from tune_media.gym.recording import Recording, RecordingWrapper
from tune_media.gym.vector_wrapper import RecordVectorEpisodes
from tune_media.gym.wrapper_arguments import Arguments, check_is_env, old_api, takes_arguments
from tune_media.recording.rendering import describe, inside


class RecordEpisodes(RecordingWrapper, gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Records clips and statistics of the episodes of an env. It replaces Gymnasium's ``RecordVideo`` and
    ``RecordEpisodeStatistics``. Given a vector env, it returns a ``RecordVectorEpisodes``.

    Each recorded episode becomes a clip from its reset frame to its last frame, encoded while the episode runs. If
    there is a folder, the clip is written there when the episode ends: ``<prefix>-episode-<n>.mp4``, for vector envs
    ``<prefix>-env-<i>-episode-<n>.mp4``. Existing files are never overwritten. If ``reset`` or ``close`` ends an
    episode early, its clip is called ``...-unfinished.mp4``.

    The folder is a trial's, which ``tune-media watch`` and ``tune_media.load`` open: its index has the return and the
    seed of each clip, and ``episode_data`` has all episodes. These are written about each second, later less often, and
    the last ones by ``close()``, or when the process ends. Several wrappers may share a folder, also of several
    processes, each of which counts its own steps.

    ``take()`` hands over the chosen clips of the episodes that ended since the last call, for ``tune.report``. If you
    do not call it, the wrapper keeps the data of the last episodes only.

    When an episode ends, ``info["episode"]`` holds its return ``r``, its length ``l`` in steps, and its duration ``t``
    in seconds, unless ``statistics=False``. Rewards can be vectors (MO-Gymnasium): then ``r`` is a vector, the record's
    ``episode_return`` is its sum, and the record's metrics ``return/0``, ``return/1``, ... are its components.

    A copy of the wrapper (``copy.deepcopy``, ``pickle``) does not record the episode that is running; it records again
    from its next reset.

    Args:
        env: The env, with ``render_mode="rgb_array"``.
        video_folder: The folder that clips are written to. None: clips are only handed over by ``take()``.
        episode_trigger: Called with the index of an episode (0, 1, ... for each sub-env); decides whether it is
            recorded. None: all episodes, unless there is a ``step_trigger``.
        step_trigger: Called with the number of steps so far, from 0; decides whether a clip starts after this step.
            Such clips are only written to the folder.
        video_length: Frames of a clip. Such a clip continues over resets, and is only written to the folder. Without a
            trigger, one clip follows the other: the next begins with the next episode. An episode that
            ``episode_trigger`` accepts ends the clip that runs, which is then unfinished, and begins the next one. 0: a
            clip ends with its episode.
        name_prefix: The beginning of file names. If it begins with ``eval``, ``test``, ``val`` or ``play``, the folder
            lists the episodes as those of an evaluation, at the step that the training in this folder has reached.
        fps: Frames per second, short for ``video=VideoOptions(fps=...)``. None: the env's ``metadata["render_fps"]``.
        disable_logger, gc_trigger: For code that was written for ``RecordVideo``, whose arguments have the same order.
            They have no effect, because there is no moviepy and no list of frames.
        keep: The episodes that ``take()`` hands over: a selector's name, a selector, or several.
        video: Size, speed, quality and overlays of the clips. None: statistics only.
        frame: The source of frames, instead of ``render()``; see ``tune_media.rllib.record_episodes``.
        collect: Values to take from each step; see ``tune_media.rllib.record_episodes``.
        trajectories: Whether ``take()`` hands over the steps of the chosen episodes, too.
        env_indices: The sub-envs to record. None: all.
        buffer_length: Maximum length of ``return_queue``, ``length_queue`` and ``time_queue``. None: unbounded.
        statistics: Whether to write ``info["episode"]``. Pass False if Gymnasium's ``RecordEpisodeStatistics`` is
            outside of this wrapper, or of the vector env that it is in: it raises if the key is already there.
        strict: Whether to raise if a frame cannot be recorded. By default, it is a warning.
        render: ``"direct"``: frames are rendered while an episode runs. ``"replay"``: only those of the episodes that
            ``take()`` chooses: another process plays them again in an env that ``env_fn`` makes, and compares each
            step, but no frame. ``"auto"``: directly, until that process has played some episodes again and shown the
            same pictures. From then on, a few frames of each episode are rendered while it runs, and a clip is made
            only if the replay shows the same; now and then, a whole episode is compared. If the env does not repeat its
            episodes, all are recorded directly, with a warning.
        env_fn: Makes an env like this one, in the process that renders. It is pickled by cloudpickle, so it may be a
            lambda, or be defined in a script or a notebook.
        success, success_when: Whether an episode succeeded; see ``tune_media.rllib.record_episodes``.
        params: The hyperparameters of the run, by name, for example ``vars(args)``; the folder keeps them as
            ``params.json``. A folder that has other ones is an error.
        tiled: Whether ``take()`` also has the chosen clips side by side; see ``tune_media.rllib.record_episodes``. Its
            ``content()`` is the mp4, for a loop without Tune.

    Raises:
        TypeError: An argument of the wrong type, or a subclass of this class that is given a vector env.
        ValueError: Arguments that contradict each other, or an env that does not render.

    Example:
        >>> env = RecordEpisodes(gym.make("CartPole-v1", render_mode="rgb_array"), keep="best")
        >>> for seed in range(3):
        ...     observation, info = env.reset(seed=seed)
        ...     over = False
        ...     while not over:
        ...         observation, reward, terminated, truncated, info = env.step(0)
        ...         over = terminated or truncated
        >>> clip = env.take()["best"]
        >>> clip.episode.episode_return == max(env.return_queue)
        True
        >>> clip.frames == clip.episode.episode_length + 1
        True
        >>> env.close()
    """

    @overload
    def __new__(cls, env: gym.vector.VectorEnv, *args: Any, **options: Any) -> RecordVectorEpisodes: ...

    @overload
    def __new__(cls, env: Any = None, *args: Any, **options: Any) -> Self: ...

    def __new__(cls, env: Any = None, *args: Any, **options: Any) -> Any:
        """Return a wrapper for the kind of env that is given. Without an env, it is being unpickled."""
        if not isinstance(env, gym.vector.VectorEnv):
            return super().__new__(cls)
        if cls is not RecordEpisodes:
            raise TypeError(
                f"{cls.__name__} is a subclass of RecordEpisodes, which wraps single envs, and {env!r} is a vector "
                "env. Derive a class for it from tune_media.gym.RecordVectorEpisodes, or wrap the envs inside it."
            )
        return RecordVectorEpisodes(env, *args, **options)

    @takes_arguments
    def __init__(self, env: gym.Env[Any, Any], arguments: Arguments) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, **arguments.given())
        check_is_env(type(self).__name__, env, gym.Env)
        gym.Wrapper.__init__(self, env)
        self._recording = Recording(env, 1, arguments)
        self._resets_itself = any(isinstance(wrapper, gym.wrappers.Autoreset) for wrapper in inside(env))
        if self._resets_itself:
            self._recording.resets_itself()
        self._has_ended = False  # whether the last step ended the episode

    @property
    def episode_returns(self) -> Reward:
        """The return so far of the episode that runs."""
        return self._recording.statistics.returns[0]

    @property
    def episode_lengths(self) -> int:
        """The number of steps so far of the episode that runs."""
        return self._recording.statistics.lengths[0]

    @property
    def frames_per_sec(self) -> float:
        """Frames per second of the clips that begin from now on. An env may set it, as highway-env does.

        ``fps=`` and ``VideoOptions(fps=...)`` win over what an env sets.
        """
        return self._recording.fps

    @frames_per_sec.setter
    def frames_per_sec(self, fps: float) -> None:
        self._recording.fps = fps

    def _capture_frame(self) -> None:
        """Record a frame within a step. Envs that simulate several frames a step call it, as of ``RecordVideo``."""
        self._recording.capture()

    @override
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env. An episode that was running is unfinished."""
        self._recording.show_last(0)
        begun = self.env.reset(seed=seed, options=options)
        if not isinstance(begun, tuple | list) or len(begun) != 2:
            raise old_api(self.env)
        observation, info = begun
        self._recording.begin_reset()
        self._recording.start(0, seed, observation, info)
        self._has_ended = False
        return observation, info

    @override
    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the env, and record the step."""
        stepped = self.env.step(action)
        if len(stepped) != 5:
            raise old_api(self.env)
        observation, reward, terminated, truncated, info = stepped
        recording = self._recording
        recording.begin_step()
        if self._has_ended and not (terminated or truncated):
            self._start_again(observation, info)
            return observation, reward, terminated, truncated, info
        recording.step(0, recording.reward(reward), action, info, observation=observation)
        if terminated or truncated:
            self._has_ended = True
            ended = recording.end(0, terminated=bool(terminated), info=info)
            if recording.writes_statistics:
                info = {**info, KEY: ended}
        return observation, reward, terminated, truncated, info

    @override
    def close(self) -> None:
        """Save an unfinished clip and close the env."""
        self._recording.close()
        super().close()

    def _start_again(self, observation: Any, info: Any) -> None:
        """The env has reset itself in the step after the end of an episode."""
        self._has_ended = False
        if not self._resets_itself:
            self._resets_itself = True
            self._recording.resets_itself()
            self._recording.recorder.problems.report(
                f"{describe(self.env)} was stepped after the end of an episode, and not reset. If it resets itself, "
                "leave that to gymnasium.wrappers.Autoreset; otherwise call reset()",
                "the step after the end of an episode is taken for its reset",
            )
        self._recording.start(0, observation=observation, info=info)


# help() and editors take the arguments of a class from __new__, if it has one
RecordEpisodes.__new__.__signature__ = inspect.signature(RecordEpisodes.__init__)  # type: ignore[attr-defined]
