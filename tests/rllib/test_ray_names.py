"""Pins each name of RLlib's that is not public and that we lean on. A failure names the release that changed it."""

import inspect
import os
import threading

import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks import utils as callbacks_utils
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.agent.mean_std_filter import MeanStdObservationFilterAgentConnector
from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from ray.rllib.connectors.env_to_module.prev_actions_prev_rewards import PrevActionsPrevRewards
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.evaluation.episode_v2 import EpisodeV2
from ray.rllib.evaluation.metrics import RolloutMetrics
from ray.rllib.evaluation.rollout_worker import RolloutWorker
from ray.rllib.utils.actor_manager import FaultTolerantActorManager

from tune_media.rllib import ray_names

ENV_RUNNERS = (SingleAgentEnvRunner, MultiAgentEnvRunner)
EVALUATIONS = ("_evaluate_with_fixed_duration", "_evaluate_with_auto_duration")
RECREATED = ("env_runner_group=", "env_runner_indices=", "worker_set=", "worker_ids=", "is_evaluation=")
PINNED = [  # a class or module, a name in it (or None), a text in its source (or None), and who leans on it
    (EnvRunnerGroup, "__init__", "self._worker_manager", "ray_names.remote_env_runners"),
    (EnvRunnerGroup, "local_env_runner", None, "ray_names.local_env_runner"),
    (FaultTolerantActorManager, "actors", None, "ray_names.remote_env_runners"),
    (FaultTolerantActorManager, "healthy_actor_ids", None, "ray_names.healthy_env_runners"),
    (FaultTolerantActorManager, "_call_actors", ".apply.remote(", "ray_names.send"),
    # Both hooks for restarted env runners are told which.
    *((Algorithm, "_make_on_env_runners_recreated_callbacks", text, "callback.py") for text in RECREATED),
    (RLlibCallback, "on_workers_recreated", None, "callback.on_workers_recreated"),
    # Env runners number their weights and step their own env.
    *((kind, None, "self._weights_seq_no", "ray_names.weights_version") for kind in ENV_RUNNERS),
    *((kind, None, "self._try_env_step(", "env_tap.EnvTap") for kind in ENV_RUNNERS),
    *((kind, "_try_env_step", "self.env.step(", "env_tap.EnvTap") for kind in ENV_RUNNERS),
    # The old stack counts its env steps.
    (Algorithm, None, "self._counters", "ray_names.env_steps_lifetime"),
    # A custom evaluation function is called by a method.
    (Algorithm, "evaluate", "self._evaluate_with_custom_eval_function()", "ray_names.watch_custom_evaluation"),
    # Checkpoints hold what the Algorithm says its state is.
    (Algorithm, "save_checkpoint", "self.__getstate__()", "ray_names.keep_in_checkpoints"),
    (Algorithm, "load_checkpoint", "self.__setstate__(", "ray_names.keep_in_checkpoints"),
    (Algorithm, "save_to_path", "self.get_state(", "ray_names.keep_in_checkpoints"),
    (Algorithm, "restore_from_path", "super().restore_from_path(", "ray_names.keep_in_checkpoints"),
    # Evaluations fetch metrics with each sample.
    *((Algorithm, one, "(w.sample(), w.get_metrics(), algo_iteration)", "counting.py") for one in EVALUATIONS),
    *((Algorithm, one, "worker.get_metrics()", "counting.watch_fetches") for one in EVALUATIONS),
    *((Algorithm, one, "if iter != self.iteration", "counting.without_uncounted") for one in EVALUATIONS),
    (AlgorithmConfig, "__init__", "self.max_requests_in_flight_per_env_runner = 1", "counting.FetchedEpisodes"),
    (RolloutMetrics, "episode_faulty", None, "counting.watch_fetches"),
    # Old workers say which sub-env is new.
    (RolloutWorker, "__init__", "vector_index=0", "callback.on_sub_environment_created"),
    (EpisodeV2, "__init__", "self.total_reward", "stacks.OldStackEpisode"),
    (EpisodeV2, "get_agents", None, "stacks.OldStackEpisode"),
    (EpisodeV2, "last_info_for", None, "stacks.OldStackEpisode"),
    # A checkpoint is played by env runners made by hand.
    *(
        (kind, name, text, used_by)
        for kind in ENV_RUNNERS
        for name, text, used_by in (
            ("_reset_envs", "seed=self._seed if self._needs_initial_reset else None", "ray_names.sample_episode"),
            ("__init__", "self._env_to_module = ", "ray_names._PIPELINES"),
            ("__init__", "self._module_to_env = ", "ray_names._PIPELINES"),
            ("get_ctor_args_and_kwargs", '{"config": self.config}', "ray_names.config_of_env_runner"),
        )
    ),
    (MeanStdFilter, "__call__", "update=self._update_stats", "ray_names.frozen_connectors"),
    (MeanStdFilter, "_get_state_from_filters", '"running_stats"', "ray_names.observations_in"),
    (PrevActionsPrevRewards, "__init__", "self.n_prev_actions =", "ray_names.takes_previous_actions"),
    # A checkpoint of the old API stack is played by a rollout worker made by hand.
    (Algorithm, "_checkpoint_info_to_algorithm_state", None, "ray_names.old_stack_state"),
    (Algorithm, "_get_env_id_and_creator", None, "ray_names.rollout_worker"),
    (MeanStdObservationFilterAgentConnector, "transform", "update=self._is_training", "ray_names.rollout_worker"),
    (callbacks_utils, "_make_multi_callbacks", "callback_class_list", "ray_names.joined_callbacks"),
]


@pytest.mark.parametrize(("holder", "name", "text", "used_by"), PINNED)
def test_a_private_name_is_there_and_means_what_we_lean_on(holder, name, text, used_by):
    path = holder.__name__ if name is None else f"{holder.__name__}.{name}"
    needed = f"It is there in Ray 2.50.1 and 2.60.0; {used_by} in tune_media/rllib needs it."
    found = holder if name is None else getattr(holder, name, None)
    assert found is not None, f"Ray {ray.__version__} has no {path}. {needed}"
    assert text is None or text in inspect.getsource(found), (
        f"Ray {ray.__version__} has no {text!r} in {path}. {needed}"
    )


class Actor:
    def __init__(self):
        self.is_open = threading.Event()

    def apply(self, function):
        return function(self)


def exits(actor):
    os._exit(1)


def test_answers_and_errors_are_told_apart_and_a_slow_one_is_not_waited_for(ray_session):
    requests = (lambda actor: "an answer", lambda actor: {}["x"], exits, lambda actor: actor.is_open.wait())
    actors = [ray.remote(num_cpus=0)(Actor).remote() for _ in requests]
    references = {index: ray_names.send(actors[index], request) for index, request in enumerate(requests)}
    found = ray_names.finished({index: references[index] for index in range(3)}, None) | ray_names.finished(
        references, 0
    )
    assert sorted(found) == [0, 1, 2]
    assert found[0] == "an answer"
    assert ray_names.raised_by(found[1]) == "KeyError: 'x'"
    assert ray_names.raised_by(found[2]) is None
    assert ray_names.finished({}, None) == {}
    for actor in actors:
        ray.kill(actor)
