"""A thread of the user's draws random numbers beside RLlib: it gets those that it would get without a recorder."""

import random
import threading
import time

import pytest
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support import odd_envs
from tests.support.rllib_configs import built, evaluation, small

LEARN = {"train_batch_size": 60, "minibatch_size": 60, "num_epochs": 1}


class StartsAThread(odd_envs.Slow):
    """Its thread draws as long as the process lives."""

    drawn: list[float] = []  # noqa: RUF012 - of the process

    def __init__(self, config=None):
        super().__init__(config)
        if not StartsAThread.drawn:
            threading.Thread(target=self._draw, name="loader", daemon=True).start()
            while not StartsAThread.drawn:
                time.sleep(0.001)

    def _draw(self):
        while True:
            StartsAThread.drawn.append(random.random())
            time.sleep(0.001)


def test_the_numbers_of_a_thread_that_an_env_starts_in_an_env_runner_are_left_alone_and_it_is_said(ray_session):
    recorder = tm.rllib.record_episodes(sections=("train",))
    config = small(PPOConfig, LEARN, StartsAThread, evaluation={})({}).callbacks(recorder)
    with built(config.env_runners(num_env_runners=1)) as algorithm:
        results = [algorithm.train() for _ in range(3)]
        (drawn,) = algorithm.env_runner_group.foreach_env_runner(
            lambda env_runner: list(StartsAThread.drawn), local_env_runner=False
        )
    assert len(drawn) > 50
    assert len(set(drawn)) == len(drawn), "numbers came twice"
    problems = [problem.text for problem in results[0]["env_runners"]["episodes"]["problems"]]
    assert len(problems) == 1
    assert "by render() itself, or by another thread (loader)" in problems[0]


@pytest.mark.parametrize("render", ["auto", "direct"])
def test_the_numbers_of_another_thread_are_left_alone_once_the_frame_check_knows_that_rendering_draws_none(
    ray_session, render
):
    recorder = tm.rllib.record_episodes(sections=("evaluation", "train"), render=render)
    config = small(PPOConfig, LEARN, odd_envs.Slow, evaluation=evaluation(0, 3))({}).callbacks(recorder)
    with built(config) as algorithm:
        results = [algorithm.train()]  # its end waits for the check
        with odd_envs.drawing() as drawn:
            results += [algorithm.train(), algorithm.train()]
    assert len(drawn) > 50
    assert len(set(drawn)) == len(drawn), "numbers came twice"
    sections = [
        section for result in results for section in (result["env_runners"], result["evaluation"]["env_runners"])
    ]
    assert [section["episodes"].get("problems") for section in sections] == [None] * 6
