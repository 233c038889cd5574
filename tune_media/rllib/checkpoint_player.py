"""Plays episodes with the policy of a checkpoint: in RLlib's own env runner, without an Algorithm and its learners.

The env runner is made from the ``AlgorithmConfig`` that the checkpoint holds, and gets its state from the checkpoint.
So observation filters, frame stacks, clipping, recurrent states and exploration are RLlib's own code.

A checkpoint is executable: it holds pickles, which run code when they are read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from typing_extensions import override

from tune_media.recording.plan import Plan
from tune_media.recording.rendering import sub_env
from tune_media.replay.player import ReplayDiffers
from tune_media.replay.playing import (
    CONNECTORS,
    EVALUATED,
    TRAINED,
    CheckpointError,
    PlayedAs,
    PlayerSettings,
    on_fork,
    seed_everything,
)
from tune_media.replay.prefix import ForkPoint, Prefix
from tune_media.replay.tape_recorder import tape_recorder_of
from tune_media.rllib import ray_names
from tune_media.rllib.env_runner_requests import begin_round, recordings_of
from tune_media.rllib.record import EpisodeRecorder
from tune_media.rllib.recorder_callback import EpisodeRecorderCallback
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.stacks import NewStackEpisode
from tune_media.selection import as_selectors
from tune_media.values.episodes import EpisodeData
from tune_media.values.foreign import of_type
from tune_media.values.medium import joined
from tune_media.values.number import counted
from tune_media.values.problems import argument, message_of, remedy
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION, TRAIN

_NAME = "tune_media.evaluation"  # of the recorder: no name that record_episodes takes
_FOLDERS = {EVALUATED: "eval_env_runner", TRAINED: "env_runner"}
_CONSTRUCTOR, _STATE = "class_and_ctor_args.pkl", "state.pkl"
_MODULES = "learner_group/learner/rl_module"
_VERSIONS = "rllib_checkpoint.json"
_COPY_AGAIN = "Copy the checkpoint again, or evaluate another one: " + argument("checkpoint=, or --checkpoint")


class CheckpointPlayer:
    """Plays episodes with the policy of an RLlib checkpoint.

    Each episode depends on the checkpoint, the settings and its seed alone: the env is reset with the seed, the
    generators of Python, NumPy and torch are seeded, and no step changes the checkpoint's observation filters.
    """

    def __init__(self, env_runner: Any, played_as: PlayedAs) -> None:
        self._env_runner, self.played_as = env_runner, played_as
        self._recording = recordings_of(env_runner)[_NAME]
        self._prefix: Prefix | None = None
        self.seed = 0  # of the episode that is played, or was last
        begin_round(env_runner, _NAME)

    @property
    def recipes(self) -> dict[str, bytes]:
        """The recipe that makes the envs again, by its hash, to which the tapes of the episodes refer."""
        recipe = self._recording.replays.recipe
        return {} if recipe is None else {recipe.hash: recipe.content}

    def play(self, seed: int) -> EpisodeData:
        """Play the episode of a seed, or the continuation of this number."""
        prefix, self.seed = self._prefix, seed
        if prefix is not None:
            prefix.number = seed
        seed_everything(seed if prefix is None else prefix.point.seed)
        self._sample(seed)
        self._env_runner.get_metrics()
        answer = self._recording.answer(())
        self._recording.take((), [episode.record.id for episode in answer.data])
        if not answer.data:
            reasons = "; ".join(problem.text for problem in answer.problems) or "it is not known why"
            raise CheckpointError(f"the episode of seed {seed} was not recorded: {reasons}")
        data = answer.data[0]
        self.played_as = self.played_as.noted(self._recording.recorder.success)
        record = dataclasses.replace(data.record, seed=seed, explored=self.played_as.explore, weights_version=None)
        if prefix is not None:
            if prefix.others and ray_names.takes_previous_actions(self._env_runner):
                raise CheckpointError(
                    f"the policy takes its previous actions as an input, and would have acted otherwise in "
                    f"{counted(prefix.others, 'step')} before the fork: it would see actions that were not made"
                )
            record = on_fork(record, prefix)
        return dataclasses.replace(data, record=record)

    def close(self) -> None:
        """Close the env."""
        with contextlib.suppress(Exception):
            self._env_runner.stop()

    def _sample(self, seed: int) -> None:
        """Play one episode on the env runner."""
        raise NotImplementedError


class NewStackPlayer(CheckpointPlayer):
    """Plays a checkpoint of the new API stack. Raises CheckpointError if it is none, or its env is not known here."""

    def __init__(self, checkpoint: Path, settings: PlayerSettings) -> None:
        connectors = _connectors_of(checkpoint, settings.connectors)
        folder = checkpoint / _FOLDERS[connectors]
        evaluated = checkpoint / _FOLDERS[EVALUATED] / _CONSTRUCTOR
        # the policy as trained is played in the envs of the evaluations, too
        file = evaluated if evaluated.is_file() else folder / _CONSTRUCTOR
        made_by = _unpickled(file)
        if not isinstance(made_by, dict):
            raise CheckpointError(
                f"{file.name} of the checkpoint holds {of_type(made_by)}, not what makes an env runner: it is "
                "damaged. " + _COPY_AGAIN
            )
        before = ray_names.config_of_env_runner(made_by)
        config = _for_one_env(before, settings)
        config.callbacks_class = _with_recorder(config.callbacks_class, (), settings)
        env_runner = made_by["class"](config=config, worker_index=0, num_workers=0)
        ray_names.load_policy(env_runner, checkpoint / _MODULES, folder)
        self._connectors = ray_names.frozen_connectors(env_runner)
        note = joined(_short_episodes_note(before), _filter_note(checkpoint) if connectors == EVALUATED else None)
        super().__init__(env_runner, PlayedAs(bool(config.explore), connectors, note))
        if settings.fork is not None:
            self._put_prefix(settings.fork)

    def _put_prefix(self, point: ForkPoint) -> None:
        """Let the env play the first steps of a tape."""
        env, tap = sub_env(self._env_runner.env, 0), NewStackEpisode.tap_of_all(self._env_runner)
        recorder = tape_recorder_of(env)
        if tap is None or recorder is None:
            raise CheckpointError("its env is out of reach: it is in another process, or in a batch")
        tap.batch = recorder.batch = None  # its tapes would have the actions of the policy, and not those of the prefix
        self._prefix = tap.prefix = Prefix(env, point, seed_everything)

    @override
    def _sample(self, seed: int) -> None:
        ray_names.set_connectors(self._env_runner, self._connectors)
        try:
            ray_names.sample_episode(self._env_runner, seed)
        except RuntimeError as error:  # RLlib's own, without a word of what the env raised
            if not isinstance(error.__cause__, ReplayDiffers):
                raise
            raise error.__cause__ from None


class OldStackPlayer(CheckpointPlayer):
    """Plays a checkpoint of the old API stack. Its filters are those of the training: it has no others.

    ``seeds`` are those that ``play`` will be given, in this order: RLlib resets the env for the next episode when an
    episode ends. Raises CheckpointError.
    """

    def __init__(self, checkpoint: Path, settings: PlayerSettings, seeds: Sequence[int]) -> None:
        if settings.fork is not None:
            raise CheckpointError(
                "it is of RLlib's old API stack; only checkpoints of the new one, and policies of other libraries, can "
                "go on with an episode"
            )
        if settings.connectors == EVALUATED:
            raise CheckpointError(
                "a checkpoint of the old API stack has no filters of the evaluation workers; "
                + remedy("pass connectors='training'")
            )
        state = ray_names.old_stack_state(checkpoint)
        config = _for_one_env(state["config"].get_evaluation_config_object() or state["config"], settings)
        config.batch_mode, config.rollout_fragment_length = "complete_episodes", 1
        if isinstance(config.env, str) and not ray_names.is_registered(config.env):  # Gymnasium's own, for the clips
            config.env_config.setdefault("render_mode", "rgb_array")
        callbacks = _with_recorder(config.callbacks_class, seeds, settings)
        config.callbacks_class = callbacks[0] if len(callbacks) == 1 else ray_names.joined_callbacks(callbacks)
        worker = ray_names.rollout_worker(config, state)
        super().__init__(worker, PlayedAs(bool(config.explore), TRAINED))

    @override
    def _sample(self, seed: int) -> None:
        self._env_runner.sample()


def player_of(checkpoint: Path, settings: PlayerSettings, seeds: Sequence[int]) -> CheckpointPlayer:
    """Return the player of a checkpoint of either API stack, for the seeds of its episodes in this order.

    Raises CheckpointError if it is no checkpoint of RLlib's, or its env is not known here. Of one that another release
    of Ray has saved, any error is such a one, and names both releases.
    """
    try:
        if (checkpoint / _MODULES).is_dir():
            return NewStackPlayer(checkpoint, settings)
        if (checkpoint / "policies").is_dir():
            return OldStackPlayer(checkpoint, settings, seeds)
        raise CheckpointError(
            f"{checkpoint.name} is no checkpoint of RLlib's: it has neither {_MODULES} nor policies. For other "
            "libraries, pass a function that loads the policy: " + argument("policy=, or --policy") + " module:function"
        )
    except Exception as error:
        saved_by = _ray_version(checkpoint)
        if saved_by in (None, ray.__version__):
            raise
        why = message_of(error) if isinstance(error, CheckpointError) else error_text(error)
        both = f". Ray {saved_by} has saved it, and this is Ray {ray.__version__}: "
        raise CheckpointError(why + both + remedy(f"if that is the reason, install ray=={saved_by}")) from error


def _ray_version(checkpoint: Path) -> str | None:
    """Return the release of Ray that has saved a checkpoint; None if it does not say."""
    try:
        facts = json.loads((checkpoint / _VERSIONS).read_bytes())
    except (OSError, ValueError):
        return None
    version = facts.get("ray_version") if isinstance(facts, dict) else None
    return version if isinstance(version, str) else None


def _with_recorder(callbacks: Any, seeds: Sequence[int], settings: PlayerSettings) -> list[Any]:
    """Return an env runner's callbacks with a recorder that keeps the tapes of all episodes, and renders none.

    It takes the place of the training's own recorder: the same values are taken from the steps, and the same source of
    frames is noted. Without ``seeds``, the envs have seeds.
    """
    classes = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    recorders = [callback for callback in classes if isinstance(callback, EpisodeRecorder)]
    collect, frame, success, when, video = None, None, settings.success, settings.success_when, settings.video
    if recorders:
        trained: RecorderSettings = recorders[0].args[0]
        collect, frame = trained.plan.collect, trained.frame
        if settings.fork is not None:  # a clip of the fork is made as the trained one's
            video = video or trained.plan.video
        if success is None:
            success, when = trained.plan.success, when or trained.plan.success_when
    how: dict[str, Any] = {"collect": collect, "success": success, "success_when": when, "later": video}
    plan = Plan(_NAME, as_selectors("last"), video=None, tapes=True, **how)
    recording = RecorderSettings(plan, (EVALUATION, TRAIN), frame, seeds=tuple(seeds), check_frame=False)
    others = [callback for callback in classes if not isinstance(callback, EpisodeRecorder)]
    return [*others, EpisodeRecorder(EpisodeRecorderCallback, recording)]


def _for_one_env(config: Any, settings: PlayerSettings) -> Any:
    """Return the configuration of an env runner that plays in one env in this process."""
    config = config.copy(copy_frozen=False)
    config.num_env_runners, config.num_envs_per_env_runner = 0, 1
    config.seed, config.in_evaluation = None, True
    config.restart_failed_sub_environments = config.remote_worker_envs = False
    if "vector_entry_point" not in str(config.gym_env_vectorize_mode).lower():
        config.gym_env_vectorize_mode = "sync"
    if settings.explore is not None:
        config.explore = settings.explore
    if settings.env is not None:
        config.env = ray_names.registered(settings.env)
    config.env_config = {**config.env_config, **settings.env_config}
    if settings.fork is not None:
        config.env, config.gym_env_vectorize_mode = ray_names.registered(settings.fork.env), "sync"
    _check_env(config.env)
    return config


def _check_env(env: Any) -> None:
    """Raise unless an env of this name can be made here."""
    if not isinstance(env, str) or ray_names.is_registered(env):
        return
    import gymnasium as gym

    try:
        gym.spec(env)
    except (gym.error.Error, ImportError) as error:
        how = "Pass a function of the env_config that makes it: " + argument("env=, or --env") + " module:function"
        raise CheckpointError(
            f"the env {env!r} was registered by the training script, and is not known here ({error}). " + remedy(how)
        ) from error


def _connectors_of(checkpoint: Path, wanted: str | None) -> str:
    """Return whose connectors a checkpoint is played with."""
    there = [name for name in CONNECTORS if (checkpoint / _FOLDERS[name] / _CONSTRUCTOR).is_file()]
    if not there:
        raise CheckpointError(
            f"{checkpoint.name} has neither the state of an env runner nor of an evaluation env runner "
            "(create_local_env_runner=False): its connectors are not known"
        )
    if wanted is not None and wanted not in there:
        has_none = f"{checkpoint.name} has no connectors of the {wanted} env runner; "
        raise CheckpointError(has_none + remedy(f"pass connectors={there[0]!r}"))
    return wanted or there[0]


def _short_episodes_note(config: Any) -> str | None:
    """Return that the trial's own evaluations favoured short episodes; None if they did not, or there were none."""
    envs = config.num_envs_per_env_runner
    if envs < 2 or not config.in_evaluation or config.evaluation_duration_unit != "episodes":
        return None
    return (
        f"the trial's own evaluations stepped {envs} envs at a time and counted the episodes that ended first, which "
        "favours short ones; here each seed is one episode"
    )


def _filter_note(checkpoint: Path) -> str | None:
    """Return that the evaluations' filter is another one than that of the training; None if it is not."""
    evaluated, trained = (_observations_seen(checkpoint / _FOLDERS[name]) for name in CONNECTORS)
    if evaluated is None or trained is None or evaluated == trained:
        return None
    return (
        f"the observation filter is that of the trial's evaluations, which saw {evaluated:,} observations; the one of "
        f"the training saw {trained:,}, and connectors='training' plays with it"
    )


def _observations_seen(folder: Path) -> int | None:
    """Return how many observations the filter of an env runner has seen; None if it has none."""
    for file in sorted(folder.glob("env_to_module_connector/*/" + _STATE)):
        if (count := ray_names.observations_in(_unpickled(file))) is not None:
            return count
    return None


def _unpickled(file: Path) -> Any:
    try:
        with file.open("rb") as opened:
            return pickle.load(opened)
    except ImportError as error:
        raise CheckpointError(
            f"the checkpoint needs a module that is not here ({error}); "
            + remedy("run where the training script's modules can be imported, for example in its folder")
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"{file.name} of the checkpoint cannot be read ({error_text(error)}): it is damaged, or of "
            "another release of Ray. " + _COPY_AGAIN
        ) from error
