"""Pins each name of RLlib's that is not public and that we lean on. A failure names the release that changed it."""

import inspect
import os
import threading

import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.callbacks.utils import _make_multi_callbacks
from ray.rllib.connectors.agent.mean_std_filter import MeanStdObservationFilterAgentConnector
from ray.rllib.connectors.env_to_module.mean_std_filter import MeanStdFilter
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.evaluation.episode_v2 import EpisodeV2
from ray.rllib.evaluation.metrics import RolloutMetrics
from ray.rllib.evaluation.rollout_worker import RolloutWorker
from ray.rllib.utils.actor_manager import FaultTolerantActorManager

from tune_media.rllib import ray_names

KNOWN = "It is there in Ray 2.50.1 and 2.60.0"


def has(holder, name, used_by):
    """Fail unless a class has a name, and say which release has changed it."""
    assert hasattr(holder, name), (
        f"Ray {ray.__version__} has no {holder.__name__}.{name}. {KNOWN}; {used_by} in tune_media/rllib needs it."
    )


def says(function, text, used_by):
    """Fail unless the source of a function has a text."""
    assert text in inspect.getsource(function), (
        f"Ray {ray.__version__} has no {text!r} in {function.__qualname__}. {KNOWN}; {used_by} in tune_media/rllib "
        "leans on it."
    )


def test_a_groups_env_runners_are_within_reach():
    says(EnvRunnerGroup.__init__, "self._worker_manager", "ray_names.remote_env_runners")
    has(EnvRunnerGroup, "local_env_runner", "ray_names.local_env_runner")
    has(FaultTolerantActorManager, "actors", "ray_names.remote_env_runners")
    has(FaultTolerantActorManager, "healthy_actor_ids", "ray_names.healthy_env_runners")
    says(FaultTolerantActorManager._call_actors, ".apply.remote(", "ray_names.send")


def test_both_hooks_for_restarted_env_runners_are_told_which():
    tells = Algorithm._make_on_env_runners_recreated_callbacks
    for text in ("env_runner_group=", "env_runner_indices=", "worker_set=", "worker_ids=", "is_evaluation="):
        says(tells, text, "callback.on_env_runners_recreated")
    has(RLlibCallback, "on_workers_recreated", "callback.on_workers_recreated")


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


@pytest.mark.parametrize("env_runner", [SingleAgentEnvRunner, MultiAgentEnvRunner])
def test_env_runners_number_their_weights_and_step_their_own_env(env_runner):
    says(env_runner, "self._weights_seq_no", "ray_names.weights_version")
    says(env_runner, "self._try_env_step(", "env_tap.EnvTap")
    says(env_runner._try_env_step, "self.env.step(", "env_tap.EnvTap")


def test_the_old_stack_counts_its_env_steps():
    says(Algorithm, "self._counters", "ray_names.env_steps_lifetime")


def test_a_custom_evaluation_function_is_called_by_a_method():
    says(Algorithm.evaluate, "self._evaluate_with_custom_eval_function()", "ray_names.watch_custom_evaluation")


def test_checkpoints_hold_what_the_algorithm_says_its_state_is():
    says(Algorithm.save_checkpoint, "self.__getstate__()", "ray_names.keep_in_checkpoints")
    says(Algorithm.load_checkpoint, "self.__setstate__(", "ray_names.keep_in_checkpoints")
    says(Algorithm.save_to_path, "self.get_state(", "ray_names.keep_in_checkpoints")
    says(Algorithm.__mro__[0].restore_from_path, "super().restore_from_path(", "ray_names.keep_in_checkpoints")


def test_evaluations_fetch_metrics_with_each_sample():
    for evaluate in (Algorithm._evaluate_with_fixed_duration, Algorithm._evaluate_with_auto_duration):
        says(evaluate, "(w.sample(), w.get_metrics(), algo_iteration)", "counting.watch_fetches")
        says(evaluate, "worker.get_metrics()", "counting.watch_fetches")
        says(evaluate, "if iter != self.iteration", "counting.without_uncounted")
    assert AlgorithmConfig().max_requests_in_flight_per_env_runner >= 1
    assert "episode_faulty" in RolloutMetrics._fields


def test_old_workers_say_which_sub_env_is_new():
    says(RolloutWorker.__init__, "vector_index=0", "callback.on_sub_environment_created")
    says(EpisodeV2.__init__, "self.total_reward", "stacks.OldStackEpisode")
    has(EpisodeV2, "get_agents", "stacks.OldStackEpisode")
    has(EpisodeV2, "last_info_for", "stacks.OldStackEpisode")


def test_a_checkpoint_is_played_by_env_runners_made_by_hand():
    for kind in (SingleAgentEnvRunner, MultiAgentEnvRunner):
        says(kind._reset_envs, "seed=self._seed if self._needs_initial_reset else None", "ray_names.sample_episode")
        says(kind.__init__, "self._env_to_module = ", "ray_names._pipelines")
        says(kind.__init__, "self._module_to_env = ", "ray_names._pipelines")
        says(kind.get_ctor_args_and_kwargs, '{"config": self.config}', "ray_names.config_of_env_runner")
    says(MeanStdFilter.__call__, "update=self._update_stats", "ray_names.frozen_connectors")
    says(MeanStdFilter._get_state_from_filters, '"running_stats"', "ray_names.observations_in")


def test_a_checkpoint_of_the_old_api_stack_is_played_by_a_rollout_worker_made_by_hand():
    has(Algorithm, "_checkpoint_info_to_algorithm_state", "ray_names.old_stack_state")
    has(Algorithm, "_get_env_id_and_creator", "ray_names.rollout_worker")
    says(MeanStdObservationFilterAgentConnector.transform, "update=self._is_training", "ray_names.rollout_worker")
    says(_make_multi_callbacks, "callback_class_list", "ray_names.joined_callbacks")
