"""What is drawn over the frames of an RLlib evaluation's clips is the episode's."""

import time

import pytest
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support import games

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.any_ray]


def text(step):
    """RLlib's episode is there from the reset on."""
    assert len(step.episode.id_) > 3
    return games.text(step)


def test_a_text_is_the_episodes_whenever_its_frames_are_rendered():
    """14 of 14 replays said «games 1» where the data of the same episode said 11 to 27."""
    recorder = tm.rllib.record_episodes(
        video=tm.VideoOptions(overlay=text), collect={"games": tm.steps.final("games")}, strict=True
    )
    config = (
        PPOConfig()
        .environment(games.Game, disable_env_checking=True)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=48, minibatch_size=48, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .evaluation(evaluation_interval=1, evaluation_duration=3, evaluation_num_env_runners=0)
        .callbacks(recorder)
    )
    algorithm = config.build_algo()
    try:
        ways = []
        while ways.count("replay") < 4:
            found = algorithm.train()["evaluation"]["env_runners"]["episodes"]
            assert "problems" not in found
            for clip in (found["best"], found["worst"]):
                number = clip.episode.metrics["games"]
                assert [games.number_on(clip.content(), frame) for frame in (0, 5, games.STEPS)] == [number] * 3
                assert clip.fps == 10 + number
                ways.append(clip.episode.rendered)
            assert len(ways) < 100
            time.sleep(0.2)
        assert ways[0] == "direct"
    finally:
        algorithm.stop()
