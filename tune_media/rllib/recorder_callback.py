"""The RLlib callback that ``record_episodes`` configures: RLlib's hooks, passed to the classes that do the work.

Nothing travels through the episode object or the MetricsLogger (they copy, lose and repeat). Frames are encoded beside
the env. When an evaluation ends, the Algorithm asks its evaluation env runners for their finished episodes, chooses
over all of them, fetches the clips it chose, and puts them into this evaluation's result and no other.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from tune_media.replay.child_processes import child_processes
from tune_media.rllib.env_runner import EnvRunnerRecording
from tune_media.rllib.env_runner_requests import recordings_of
from tune_media.rllib.rounds import Rounds
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.stacks import index_of, section_of
from tune_media.values.installing import pip_install
from tune_media.values.sections import EVALUATION, TRAIN

try:
    from ray.rllib.callbacks.callbacks import RLlibCallback
except ImportError as error:
    raise ImportError("tune_media.rllib needs RLlib: " + pip_install("rllib")) from error

logger = logging.getLogger(__name__)

_DOUBLE = "record_episodes: two recorders are named %r, and only the first records; give one of them another name=."


class EpisodeRecorderCallback(RLlibCallback):
    """RLlib makes one for each env runner, whose thread calls the hooks of envs and episodes; one for the Algorithm.

    The new API stack passes ``env_runner`` and ``env``, the old one ``worker`` and ``base_env``.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        super().__init__()
        self._settings, self._name = settings, settings.plan.name
        self._rounds = Rounds(settings)
        self._has_warned_of_double = False
        self._asked: Callable[[], Any] = lambda: None  # returns the last env runner asked for; a weak reference
        self._recording_of_asked: EnvRunnerRecording | None = None
        # RLlib makes the env runner's envs after this: they may start processes, and threads that draw
        self.children, self.threads = child_processes(), threading.enumerate()

    def __reduce__(self) -> Any:
        """Copies start empty: they are for other env runners."""
        return type(self), (self._settings,)

    def __repr__(self) -> str:
        return f"EpisodeRecorderCallback({self._name!r})"

    @override
    def on_environment_created(self, *, env_runner: Any, env: Any, **kwargs: Any) -> None:
        if (recording := self._recording(env_runner)) is not None:
            recording.new_env(env_runner, env)

    @override
    def on_sub_environment_created(
        self, *, worker: Any, sub_environment: Any, env_context: Any = None, **kwargs: Any
    ) -> None:
        if (recording := self._recording(worker)) is not None:
            recording.new_sub_env(worker, sub_environment, getattr(env_context, "vector_index", None) or 0)

    @override
    def on_episode_start(
        self, *, episode: Any, env_index: int, env_runner: Any = None, env: Any = None, **hooked: Any
    ) -> None:
        if env_runner is None:  # the old API stack
            env_runner, env = hooked["worker"], hooked["base_env"]
        if (recording := self._recording(env_runner, env_index)) is not None:
            recording.start(episode, env_runner, env, env_index)

    @override
    def on_episode_step(
        self, *, episode: Any, env_index: int, env_runner: Any = None, env: Any = None, **hooked: Any
    ) -> None:
        last = self._recording_of_asked
        if last is not None and self._asked() is env_runner and last.count(env_index):
            return  # nearly always, if it is taped
        if env_runner is None:
            env_runner, env = hooked["worker"], hooked["base_env"]
        if (recording := self._recording(env_runner, env_index)) is not None:
            recording.step(episode, env_runner, env, env_index)

    @override
    def on_episode_end(
        self,
        *,
        episode: Any,
        env_index: int,
        env_runner: Any = None,
        env: Any = None,
        prev_episode_chunks: Sequence[Any] = (),
        **hooked: Any,
    ) -> None:
        if env_runner is None:
            env_runner, env = hooked["worker"], hooked["base_env"]
        recording = self._recording(env_runner, env_index)
        if recording is not None and isinstance(episode, Exception):  # the old API stack says that the env failed
            recording.fail(env_index)
        elif recording is not None:
            recording.end(episode, env_runner, env, env_index, prev_episode_chunks)

    @override
    def on_sample_end(self, *, env_runner: Any = None, worker: Any = None, **kwargs: Any) -> None:
        if (recording := self._recording(env_runner or worker)) is not None:
            recording.pause(env_runner or worker)

    @override
    def on_algorithm_init(self, *, algorithm: Any, **kwargs: Any) -> None:
        self._rounds.begin(algorithm)

    @override
    def on_env_runners_recreated(
        self, *, env_runner_group: Any, env_runner_indices: list[int], is_evaluation: bool, **kwargs: Any
    ) -> None:
        self._rounds.env_runners_are_new(env_runner_group, EVALUATION if is_evaluation else TRAIN, env_runner_indices)

    @override
    def on_workers_recreated(
        self, *, worker_set: Any, worker_ids: list[int], is_evaluation: bool, **kwargs: Any
    ) -> None:
        """Do the same: RLlib calls both, but ``make_multi_callbacks`` of the old API stack hands on only this one."""
        self._rounds.env_runners_are_new(worker_set, EVALUATION if is_evaluation else TRAIN, worker_ids)

    @override
    def on_evaluate_start(self, *, algorithm: Any, **kwargs: Any) -> None:
        self._rounds.begin_evaluation(algorithm)

    @override
    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: dict[str, Any], **kwargs: Any) -> None:
        self._rounds.end_evaluation(algorithm, evaluation_metrics)

    @override
    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **kwargs: Any) -> None:
        self._rounds.end_iteration(algorithm, result)

    def _recording(self, env_runner: Any, env_index: int | None = None) -> EnvRunnerRecording | None:
        """Return the recording of an env runner, or None if the env runner or the sub-env is not recorded."""
        if self._asked() is not env_runner:  # it is nearly always the same one, and each step asks
            self._asked, self._recording_of_asked = weakref.ref(env_runner), self._find_recording(env_runner)
        indices = self._settings.env_indices
        return self._recording_of_asked if env_index is None or indices is None or env_index in indices else None

    def _find_recording(self, env_runner: Any) -> EnvRunnerRecording | None:
        if not self._settings.records_on(section_of(env_runner), index_of(env_runner)):
            return None
        recordings = recordings_of(env_runner)
        if self._name not in recordings:
            recordings[self._name] = EnvRunnerRecording(self._settings, env_runner, owner=self)
        recording = recordings[self._name]
        if recording.owner is self:
            return recording
        if not self._has_warned_of_double:
            self._has_warned_of_double = True
            logger.warning(_DOUBLE, self._name)
        return None
