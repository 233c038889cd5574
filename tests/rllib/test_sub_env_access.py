import gc
import weakref
from types import SimpleNamespace

import gymnasium as gym
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.external_env import ExternalEnv

from tests.support.envs import CountingEnv
from tests.support.envs.batch import Batch
from tune_media import VideoOptions
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.recording.seeding import seeded
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.sub_env_access import SubEnvAccess
from tune_media.selection import as_selectors


def access(section="evaluation", index=0, trigger=None, video=None, **options):
    """Return the access of an env runner, and the recorder that it tells of problems."""
    plan = Plan("episodes", as_selectors("best"), trigger=trigger, video=video)
    recorder = Recorder(plan, problems_are_collected=True)
    return SubEnvAccess(RecorderSettings(plan, **options), section, index, recorder), recorder


def env_runner(runners=0, sub_envs=2, **env_config):
    config = PPOConfig().environment(CountingEnv, env_config=env_config)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=sub_envs)
    return SimpleNamespace(config=config, worker_index=1)


def vector_env(count=2):
    return gym.vector.SyncVectorEnv([CountingEnv] * count)


def seeds_of_resets(env, resets):
    taken = []
    for _ in range(resets):
        env.reset()
        taken.append(tuple(seeded(inner).last for inner in env.envs))
    return taken


def texts(recorder):
    return [problem.text for problem in recorder.problems.take()]


def test_training_envs_keep_their_own_seeds():
    envs, (some, _) = vector_env(), access("train", seeds=(5,))
    some.are_new(env_runner(), envs)
    assert [seeded(inner) for inner in envs.envs] == [None, None]


def test_two_recorders_of_one_env_share_the_seeds_of_the_first():
    envs = vector_env()
    for seeds in ((5, 6), (7, 8)):
        some, _ = access(seeds=seeds)
        some.are_new(env_runner(), envs)
    assert seeds_of_resets(envs, 1) == [(5, 6)]


def test_seeds_that_cannot_reach_the_sub_envs_are_a_problem_with_a_remedy():
    some, recorder = access(seeds=(5, 6))
    some.are_new(env_runner(), Batch(2))
    (text,) = texts(recorder)
    assert text.startswith("seeds= has no effect: the sub-envs of 'Batch' are in other processes or in one batch")
    assert "tune_media.gym.FixedSeeds" in text


def test_a_frame_function_that_cannot_reach_the_sub_envs_is_known_when_they_are_created():
    some, recorder = access(video=VideoOptions(), frame=lambda env: env.render())
    some.are_new(env_runner(), Batch(2))
    (text,) = texts(recorder)
    assert "frame= is a function of the sub-env" in text
    assert "in other processes" in text


def test_envs_that_replace_failed_ones_replace_their_seeds():
    """Each failure of a sub-env kept the old env in memory."""
    some, _ = access(seeds=(5, 6, 7, 8))
    old = [vector_env() for _ in range(3)]
    for envs in old:
        some.are_new(env_runner(), envs)
    gone = [weakref.ref(inner) for envs in old[:2] for inner in envs.envs]
    del envs, old[:2]
    gc.collect()
    assert [ref() for ref in gone] == [None] * 4
    assert seeds_of_resets(old[0], 1) == [(5, 6)]
    some.start_seeds_over()
    assert seeds_of_resets(old[0], 1) == [(5, 6)]


def test_seeds_cannot_reach_an_external_env():
    """It has no ``reset``, and training ended with an AttributeError."""
    some, recorder = access(seeds=(5, 6))
    some.are_new(env_runner(), ExternalEnv(gym.spaces.Discrete(2), gym.spaces.Discrete(2)))
    (text,) = texts(recorder)
    assert text.startswith("seeds= has no effect: nobody resets 'ExternalEnv' here")
