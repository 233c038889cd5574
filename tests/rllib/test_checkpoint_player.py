"""Checkpoints of RLlib's, played without an Algorithm: the episodes are those that RLlib's own env runners play."""

import dataclasses
import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module import FlattenObservations, MeanStdFilter, PrevActionsPrevRewards
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule

import tune_media as tm
from tests.support.rllib_configs import built, env_runner_of, multi_agent, on_old_stack, own_env
from tune_media.replay.player import ReplayDiffers
from tune_media.replay.playing import CheckpointError, PlayerSettings, same_process_state
from tune_media.replay.prefix import ForkPoint
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.rllib.checkpoint_player import player_of

SEEDS = (3, 0, 3)
LEARN = {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 1}


class Picture(gym.ObservationWrapper):
    """CartPole whose observation is a picture, as frames to stack must be."""

    def __init__(self, config):
        super().__init__(gym.make("CartPole-v1", **config))
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (8, 8, 1), np.float32)

    def observation(self, observation):
        return np.resize(observation, (8, 8, 1))


def filtered(env=None, spaces=None, device=None):
    return [MeanStdFilter()]


def stacked(env=None, spaces=None, device=None):
    return [FrameStackingEnvToModule(num_frames=3)]


def ppo():
    return PPOConfig().environment("CartPole-v1").training(**LEARN).env_runners(env_to_module_connector=filtered)


def recurrent():
    model = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 8, "fcnet_hiddens": [8]}
    return PPOConfig().environment("CartPole-v1").training(**LEARN).rl_module(model_config=model)


def frames_stacked():
    config = (
        PPOConfig()
        .environment(Picture, env_config={"render_mode": "rgb_array"})
        .env_runners(env_to_module_connector=stacked)
    )
    return config.rl_module(model_config={"conv_filters": [[4, 4, 2]], "head_fcnet_hiddens": [8]})


def dqn():
    """Explore with an epsilon that falls from step to step, so the count of steps matters."""
    config = DQNConfig().environment("CartPole-v1").training(epsilon=[(0, 1.0), (2000, 0.0)])
    return config.evaluation(evaluation_config=DQNConfig.overrides(explore=True))


def sac():
    return SACConfig().environment("Pendulum-v1")


def agents():
    config = PPOConfig().environment(own_env("MultiAgentCountingEnv"), env_config={"render_mode": "rgb_array"})
    return config.training(**LEARN).multi_agent(**multi_agent()).rl_module(model_config={"fcnet_hiddens": [8]})


@pytest.fixture(scope="module")
def filtered_ppo(ray_session, tmp_path_factory):
    """An Algorithm that has trained and evaluated once, and the folder in which it is saved."""
    folder = tmp_path_factory.mktemp("checkpoint")
    config = ppo().env_runners(num_env_runners=0).debugging(seed=1)
    config.evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=2)
    with built(config) as algorithm:
        algorithm.train()
        algorithm.save_to_path(folder)
        yield algorithm, folder


def saved_env_runner(config, folder, seed=1):
    """Return an env runner that has played, saved as an Algorithm saves it and its weights."""
    config.env_runners(num_env_runners=0).debugging(seed=seed)
    config = config.evaluation(evaluation_interval=1).get_evaluation_config_object()
    env_runner = env_runner_of(config)
    env_runner.sample(num_timesteps=100)
    env_runner.set_state({"num_env_steps_sampled_lifetime": 700})
    env_runner.save_to_path(folder / "eval_env_runner")
    modules = folder / "learner_group" / "learner" / "rl_module"
    env_runner.module.save_to_path(modules if config.is_multi_agent else modules / "default_policy")
    return env_runner


def test_random_numbers_go_on_as_if_nothing_had_been_drawn():
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected, threads = draw(), torch.get_num_threads() + 1
    torch.set_num_threads(threads)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with same_process_state():
        assert draw() == expected
    assert draw() == expected
    assert torch.get_num_threads() == threads
    torch.set_num_threads(threads - 1)


def played_by(env_runner, seed):
    """Return the length and the return of an episode that one of RLlib's env runners plays, its filters at rest."""
    for pipeline in (env_runner._env_to_module, env_runner._module_to_env):
        for connector in pipeline.connectors:
            connector._update_stats = False
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    env_runner._seed, env_runner._needs_initial_reset = seed, True
    (episode,) = env_runner.sample(num_episodes=1)
    return len(episode), episode.get_return()


def assert_same_episodes(env_runner, folder):
    with same_process_state():
        wanted = [played_by(env_runner, seed) for seed in SEEDS]
        player = player_of(folder, PlayerSettings(), SEEDS)
        episodes = [player.play(seed) for seed in SEEDS]
    found = [(one.record.episode_length, one.record.episode_return) for one in episodes]
    assert [length for length, _ in found] == [length for length, _ in wanted]
    np.testing.assert_allclose([total for _, total in found], [total for _, total in wanted])
    assert [one.record.seed for one in episodes] == list(SEEDS)
    assert {one.record.explored for one in episodes} == {env_runner.config.explore}
    assert player.played_as.connectors == "evaluation"
    if env_runner.config.env_config:  # the envs that show pictures; of the others, the tape is no different
        with RenderProcess(player.recipes[episodes[0].recipe]) as process:
            clips = process.render(episodes[0].tape)
        assert {clip.frames for clip in clips.values()} == {episodes[0].record.episode_length + 1}
    player.close()


MAKERS = [
    ppo,
    recurrent,
    agents,
    *(pytest.param(make, marks=pytest.mark.any_ray) for make in (frames_stacked, dqn, sac)),
]


@pytest.fixture(scope="module", params=MAKERS)
def saved(request, tmp_path_factory):
    """Return the maker of a config, an env runner that has played, and the folder in which it is saved."""
    folder = tmp_path_factory.mktemp("saved")
    return request.param, saved_env_runner(request.param(), folder), folder


def test_the_episodes_are_those_of_rllibs_own_env_runner(saved):
    assert_same_episodes(*saved[1:])


def fork_of(player, episode, at):
    return ForkPoint(episode.tape, at, Recipe(episode.recipe, player.recipes[episode.recipe]), seed=episode.record.seed)


def forked(folder, point, number=0, explore=None):
    """Return the episode that a checkpoint makes of another one, its tape, and the player that made it."""
    player = player_of(folder, PlayerSettings(explore, fork=point), (number,))
    episode = player.play(number)
    player.close()
    return episode, Tape.unpacked(episode.tape), player


def steps_of(tape):
    return [repr(tape.actions[at]) for at in range(len(tape))], tape.checks.packed(), tape.rewards


def test_a_policy_that_goes_on_with_its_own_episode_makes_it_again_to_the_last_bit(saved):
    make, _, folder = saved
    explore = make in (frames_stacked, dqn, sac)
    with same_process_state():
        player = player_of(folder, PlayerSettings(explore), SEEDS)
        own = [player.play(seed) for seed in SEEDS][1]
        tape = Tape.unpacked(own.tape)
        for at in (0, 1, len(tape) // 2, len(tape) - 1):
            episode, found, made_by = forked(folder, fork_of(player, own, at), explore=explore)
            assert steps_of(found) == steps_of(tape)
            assert episode.record.episode_return == own.record.episode_return
            assert made_by._prefix.others == 0
        episode, found, made_by = forked(folder, fork_of(player, own, len(tape) // 2), 1, explore)
        assert steps_of(found)[0][: len(tape) // 2] == steps_of(tape)[0][: len(tape) // 2]
    assert (steps_of(found) != steps_of(tape)) is explore
    if make is frames_stacked:  # it has pictures
        with RenderProcess(made_by.recipes[episode.recipe]) as process:
            (clip,) = process.render(episode.tape).values()
        assert clip.frames == episode.record.episode_length + 1
    player.close()


def collected(step):
    return {"action": float(np.asarray(step.action).sum())}


def test_what_is_recorded_before_the_fork_are_the_actions_that_were_made(tmp_path):
    config = sac().callbacks(tm.rllib.record_episodes(collect=collected, video=None, check_frame=False))
    saved_env_runner(config, tmp_path / "own")
    saved_env_runner(config.copy(copy_frozen=False), tmp_path / "other", seed=2)
    with same_process_state():
        player = player_of(tmp_path / "own", PlayerSettings(), (0,))
        own = player.play(0)
        episode, tape, made_by = forked(tmp_path / "other", fork_of(player, own, 20))
    assert made_by._prefix.others == 20
    actions = [float(tape.actions[at].sum()) for at in range(len(tape))]
    assert actions[:20] == list(own.series["action"].values[:20])
    assert actions[20:] != list(own.series["action"].values[20:])
    assert list(episode.series["action"].values) == actions


def test_an_env_that_does_not_repeat_the_episode_ends_the_play(tmp_path):
    saved_env_runner(ppo(), tmp_path)
    with same_process_state():
        player = player_of(tmp_path, PlayerSettings(), (0,))
        own = player.play(0)
        tape = Tape.unpacked(own.tape)
        first = tape.checks.values[1]
        for step, change in ((0, {"seed": tape.seed + 1}), (1, {"check": first ^ 1})):
            other = Tape.unpacked(own.tape)
            other.seed, other.checks.values[1] = change.get("seed", tape.seed), change.get("check", first)
            point = dataclasses.replace(fork_of(player, own, 3), tape=other.packed())
            with pytest.raises(ReplayDiffers) as raised:
                forked(tmp_path, point)
            assert raised.value.step == step


def with_previous_actions(env=None, spaces=None, device=None):
    return [PrevActionsPrevRewards(), FlattenObservations()]


def test_a_policy_that_would_be_told_of_actions_that_were_not_made_is_refused(tmp_path):
    config = ppo().env_runners(env_to_module_connector=with_previous_actions)
    config.evaluation(evaluation_config=PPOConfig.overrides(explore=False))
    saved_env_runner(config, tmp_path / "own")
    saved_env_runner(config.copy(copy_frozen=False), tmp_path / "other", seed=2)
    with same_process_state():
        player = player_of(tmp_path / "own", PlayerSettings(), (0,))
        own = player.play(0)
        point = fork_of(player, own, own.record.episode_length - 1)
        _, found, _ = forked(tmp_path / "own", point)
        assert steps_of(found) == steps_of(Tape.unpacked(own.tape))
        with pytest.raises(CheckpointError, match="takes its previous actions as an input, and would have acted"):
            forked(tmp_path / "other", point)


def test_the_episodes_are_those_of_an_algorithms_evaluation_env_runner(filtered_ppo):
    algorithm, folder = filtered_ppo
    assert_same_episodes(algorithm.eval_env_runner, folder)


def test_the_policy_as_trained_has_the_filter_of_the_training_and_says_which(filtered_ppo):
    algorithm, folder = filtered_ppo
    with same_process_state():
        wanted = [played_by(algorithm.env_runner, seed) for seed in SEEDS]
        player = player_of(folder, PlayerSettings(connectors="training"), SEEDS)
        found = [player.play(seed).record for seed in SEEDS]
        evaluated = player_of(folder, PlayerSettings(), SEEDS)
    assert [(one.episode_length, one.episode_return) for one in found] == wanted
    assert player.played_as.note is None
    assert "observation filter is that of the trial's evaluations" in evaluated.played_as.note


def test_evaluations_that_favoured_short_episodes_are_named(tmp_path):
    saved_env_runner(ppo().env_runners(num_envs_per_env_runner=2), tmp_path)
    with same_process_state():
        player = player_of(tmp_path, PlayerSettings(), SEEDS)
        player.close()
    assert "stepped 2 envs at a time" in player.played_as.note


def test_the_old_api_stack_plays_too_and_each_seed_is_one_episode(ray_session, tmp_path):
    config = PPOConfig().environment("CartPole-v1").env_runners(observation_filter="MeanStdFilter", num_env_runners=0)
    on_old_stack(config).training(train_batch_size=128, minibatch_size=64, num_epochs=1)
    config.evaluation(evaluation_interval=1, evaluation_duration=2, evaluation_config={"explore": False})
    config.callbacks(tm.rllib.record_episodes(check_frame=False, seeds=4, video=None))
    with built(config) as algorithm:
        result = algorithm.train()
        algorithm.save(tmp_path)
        own = result["evaluation"]["env_runners"]["episodes"]["data"].episodes
        with same_process_state():
            player = player_of(tmp_path, PlayerSettings(), (0, 1, 2))
            episodes = [player.play(seed) for seed in (0, 1, 2)]
            player.close()
            again = player_of(tmp_path, PlayerSettings(), (2,))
            assert again.play(2).record.episode_return == episodes[2].record.episode_return
            with pytest.raises(CheckpointError, match="old API stack"):
                player_of(tmp_path, PlayerSettings(fork=fork_of(player, episodes[0], 1)), (0,))
    assert [one.record.seed for one in episodes] == [0, 1, 2]
    assert player.played_as.connectors == "training"
    assert player.played_as.explore is False
    assert {one.record.seed for one in own} <= {0, 1, 2, 3}
    with RenderProcess(player.recipes[episodes[0].recipe]) as process:
        (clip,) = process.render(episodes[0].tape).values()
    assert clip.frames == episodes[0].record.episode_length + 1


def test_what_is_no_checkpoint_says_what_to_do(tmp_path):
    with pytest.raises(CheckpointError, match="--policy module:function"):
        player_of(tmp_path, PlayerSettings(), (0,))


def test_an_env_that_only_the_training_script_knows_says_what_to_do(filtered_ppo):
    with pytest.raises(CheckpointError, match="--env module:function"):
        player_of(filtered_ppo[1], PlayerSettings(env="only_there"), (0,))
