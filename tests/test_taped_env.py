"""What holds of each taped env: in RLlib's env runners of both API stacks, a wrapped env and a wrapped vector env."""

import itertools
import os

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support import games
from tests.support.envs import CountingEnv
from tests.support.envs.multi_agent import MultiAgentCountingEnv
from tests.support.experiment import read_clip
from tests.support.lake import MADE, Lake, Refuses
from tests.support.odd_envs import NotesItsEpisodes
from tests.support.taped_env import SETTINGS, WITH_AGENTS, taped_env
from tune_media.replay.player import RenderError

with_agents = pytest.mark.parametrize("setting", WITH_AGENTS, indirect=True)


@pytest.fixture(params=SETTINGS)
def setting(request):
    """Return a function that returns an env in a setting."""
    opened = []

    def make(env, *config, of_agents=None, **arguments):
        env = of_agents if request.param == "agents" else env
        opened.append(taped_env(request.param, env, *config, **arguments))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@with_agents
@pytest.mark.parametrize(("every", "shown"), [(1, [*range(11)]), (4, [0, 4, 8, 10])])
def test_a_clip_shows_a_whole_episode_of_its_env_and_its_record_has_the_return(setting, every, shown):
    env = setting(CountingEnv, {"length": 10}, of_agents=MultiAgentCountingEnv, video=tm.VideoOptions(every=every))
    played = env.play(4)
    assert sorted(record.episode_return for record in played.records) == pytest.approx(played.returns)
    assert len(played.clips()) == len(played.records) >= 4
    assert not any(episode.tape for episode in played.episodes)
    envs = {}
    for clip in played.clips():
        counts = read_clip(clip)
        assert [count.step for count in counts] == shown
        assert len({(count.env, count.episode, count.agent) for count in counts}) == 1
        assert clip.fps == CountingEnv.metadata["render_fps"] / every
        envs.setdefault(clip.episode.env_index or 0, set()).add(counts[0].env)
    assert [len(numbers) for numbers in envs.values()] == [1] * len(envs)
    assert len(set.union(*envs.values())) == len(envs)


def test_the_best_and_the_worst_are_made_of_tapes_elsewhere_and_no_env_is_made_or_rendered_here(setting):
    MADE.clear()
    env = setting(Lake, keep=("best", "worst"), render="replay")
    made = list(MADE)
    for _ in range(2):
        played = env.play(6)
        for selector, value in (("best", played.returns[-1]), ("worst", played.returns[0])):
            (clip,) = played.clips(selector)
            assert (clip.episode.episode_return, clip.episode.rendered) == (value, "replay")
            assert clip.frames == clip.episode.episode_length + 1
            assert (clip.compared, clip.content()[4:8]) == ("steps only", b"ftyp")
        assert played.problems == []
        data = played.chosen["data"]
        assert all(episode.tape for episode in data.episodes)
        assert {episode.recipe for episode in data.episodes} == data.recipes.keys()
    assert made == MADE
    assert [one.renders for one in made] == [0] * len(made)


@pytest.mark.any_ray
def test_clips_are_rendered_directly_until_the_env_is_proven_and_none_is_lost(setting):
    env, ways = setting(Lake, render="auto"), []
    while {"replay"} not in ways:
        played = env.play(4)
        env.prove()
        ways.append(played.rendered)
        assert len(played.clips()) == len(played.records)
        assert played.problems == []
        assert len(ways) < 8
    assert ways[0] == {"direct"}
    (*_, clip) = played.clips()
    assert clip.frames == clip.episode.episode_length + 1


@pytest.mark.parametrize("render", ["direct", "replay"])
def test_views_are_clips_of_one_episode(setting, render):
    frame = {"front": "render", "half": lambda env: env.render()[::2]}
    clips = setting(Lake, keep="last", render=render, frame=frame).play().chosen["last"]
    assert {view: clip.episode.view for view, clip in clips.items()} == {"front": "front", "half": "half"}
    assert {clip.frames for clip in clips.values()} == {clips["front"].episode.episode_length + 1}
    assert clips["front"].height == 2 * clips["half"].height
    assert len({clip.id for clip in clips.values()} | {clip.episode.id for clip in clips.values()}) == 3
    assert len({getattr(clip, "tape", None) for clip in clips.values()}) == 1


@pytest.mark.any_ray
def test_the_text_of_an_overlay_function_and_the_speed_are_the_episodes_whenever_its_frames_are_rendered(setting):
    """The function got the replay's info: 88 of 88 clips said «games 1», and had the first level's speed."""
    seen = set()

    def text(step):
        seen.add(type(step.episode).__name__)
        return games.text(step)

    env = setting(
        games.Game,
        render="auto",
        keep="best",
        video=tm.VideoOptions(overlay=text),
        collect={"games": tm.steps.final("games")},
    )
    ways = []
    while "replay" not in ways:
        (clip,) = env.play(4).clips("best")
        env.prove()
        number = clip.episode.metrics["games"]
        assert [games.number_on(clip.content(), frame) for frame in (0, 5, games.STEPS)] == [number] * 3
        assert (clip.fps, clip.note) == (10 + number, None)
        ways.append(clip.episode.rendered)
        assert len(ways) < 8
    assert ways[0] == "direct"
    episodes = {"OnNewStack": "SingleAgentEpisode", "OnOldStack": "EpisodeV2"}  # RLlib's is there from the reset on
    assert seen == {episodes.get(type(env).__name__, "NoneType")}


def test_an_env_that_takes_no_seed_is_replayed_from_the_states_of_its_generators(setting):
    played = setting(Refuses, render="replay").play(3)
    assert played.rendered == {"replay"}
    assert all(clip.frames == clip.episode.episode_length + 1 for clip in played.clips()[:2])


def test_the_seed_of_an_episode_stands_in_its_record_and_says_all_of_it(setting):
    env = setting(CountingEnv, seeds=[7, 11], video=None, section="evaluation", sub_envs=1)
    records = [record for _ in range(3) for record in env.play(2).records]
    seeds = [record.seed for record in records]
    assert {*itertools.pairwise(seeds)} == {(7, 11), (11, 7)}
    assert len({(record.seed, record.episode_length, record.episode_return) for record in records}) == 2


class TellsItsSeed(CountingEnv):
    """Tells the seed of its last reset, or -1 if it was given none."""

    def reset(self, *, seed=None, options=None):
        self.given = -1 if seed is None else seed
        return super().reset(seed=seed, options=options)


def test_the_seed_of_an_episode_is_the_one_of_its_last_reset(setting):
    """On the old stack the first episode had the seed of a reset that RLlib repeats without a seed."""
    env = setting(TellsItsSeed, collect=lambda step: {"given": step.env.unwrapped.given}, video=None, first_seed=5)
    records = [record for _ in range(2) for record in env.play(2).records]
    assert all(record.seed in (None, record.metrics["given_last"]) for record in records)
    assert records[0].seed is not None or records[0].metrics["given_last"] == -1


class Flaky(gym.Wrapper):
    """Its picture fails now and then, and that of the env inside it does not."""

    def __init__(self, config):
        super().__init__(CountingEnv(config))

    def render(self):
        if self.unwrapped.counter.step_count == 3:
            raise AttributeError("a bug of its own")
        return self.env.render()


def test_a_picture_that_cannot_be_rendered_costs_the_clips_and_not_the_data(setting, caplog):
    env = setting(Flaky, {"length": 4}, trajectories=True)
    played = env.play(2)
    assert played.chosen.keys() == {"data"}
    assert sorted(record.episode_return for record in played.records) == pytest.approx(played.returns)
    assert all(record.note.startswith("no clip: ") and "a bug of its own" in record.note for record in played.records)
    assert [problem.lost for problem in played.problems] == [len(played.records)]
    assert not played.chosen["data"].trajectories
    assert caplog.text.count("a bug of its own") == env.warns


def test_a_clip_that_cannot_be_encoded_is_lost_and_its_record_says_why(setting, monkeypatch):
    def finish(self):
        raise RuntimeError("no memory")

    monkeypatch.setattr("tune_media.encoding.encoder.VideoEncoder.finish", finish)
    played = setting(CountingEnv, keep="best").play(3)
    assert played.chosen.keys() == {"data"}
    why = "no clip: encoding its frames raised RuntimeError: no memory"
    assert sorted((record.note or "" for record in played.records), reverse=True)[:2] == [why, ""]
    assert [(problem.lost, "no memory" in problem.text) for problem in played.problems] == [(1, True)]


class Dark(CountingEnv):
    """Is not to be rendered."""

    def render(self):
        raise AssertionError("nobody asked for a picture")


class Telling(Dark):
    """Tells its speed, in its second step a number more, and in its last steps that it has reached its goal."""

    def step(self, action):
        *rest, _ = super().step(action)
        info = {"data": {"speed": 2.0 * self.counter.step_count}}
        return *rest, info | ({"rare": 1} if self.counter.step_count == 2 else {})


def of_step(step):
    return {"data/speed": 2.0 * step.step, "rare": int(step.step == 2), "reward": step.reward}


@pytest.mark.parametrize(
    ("env", "collect"),
    [(Dark, of_step), (Telling, ["data/speed", "rare", "missing"])],
    ids=["a function", "paths"],
)
def test_numbers_are_taken_of_each_step_of_an_episode_without_a_clip(setting, env, collect):
    played = setting(env, collect=collect, video=None).play(3)
    assert len(played.records) >= 3
    for record in played.records:
        numbers = {name: record.metrics[f"data/speed_{name}"] for name in ("min", "max", "avg")}
        length = record.episode_length
        assert numbers == {"min": 2.0, "max": 2.0 * length, "avg": pytest.approx(1.0 + length)}
        assert record.metrics["rare_sum"] == 1
        assert record.metrics.get("reward_sum", record.episode_return) == pytest.approx(record.episode_return)
        assert not any(name.startswith("missing") for name in record.metrics)


class ReachedAndLost(CountingEnv):
    """Has reached its goal at the reset, and after some of its steps."""

    AFTER = range(4, 7)

    def reset(self, **options):
        observation, _ = super().reset(**options)
        return observation, {"success": True}

    def step(self, action):
        *rest, _ = super().step(action)
        return *rest, {"success": self.counter.step_count in self.AFTER}


class ReachedAndLostByAgents(MultiAgentCountingEnv):
    def reset(self, **options):
        observations, infos = super().reset(**options)
        return observations, {agent: {"success": True} for agent in infos}

    def step(self, actions):
        *rest, infos = super().step(actions)
        return *rest, {agent: {"success": self.counter.step_count in ReachedAndLost.AFTER} for agent in infos}


@with_agents
@pytest.mark.parametrize("options", [{}, {"collect": lambda step: {"reward": step.reward}}], ids=["counted", "seen"])
def test_success_once_and_at_the_end_are_read_of_the_reset_and_of_each_step(setting, options):
    env = setting(
        ReachedAndLost,
        {"length": 10},
        of_agents=ReachedAndLostByAgents,
        video=None,
        success_when="once",
        **options,
    )
    played = env.play(4)
    found = {(record.success, record.success_once, record.success_at_end) for record in played.records}
    assert found == {(True, True, False)}
    (problem,) = played.problems
    assert "success is true at the reset or after the first step in more than 1 of 100" in problem.text


class Echo(CountingEnv):
    """Its observations are the number of the step and the action."""

    action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, **options):
        super().reset(**options)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        _, *rest = super().step(action)
        return np.float32([self.counter.step_count / 100, action[0] / 2]), *rest


def test_the_steps_of_a_chosen_episode_are_the_envs_own(setting):
    played = setting(Echo, video=None, trajectories=True).play(3)
    trajectories = played.chosen["data"].trajectories
    assert len(trajectories) == len(played.records) >= 3
    for record in played.records:
        columns = trajectories[record.id].columns
        numbers, actions = np.stack(columns["observation"]).T
        assert np.round(100 * numbers).tolist() == columns["step"] == list(range(record.episode_length + 1))
        assert np.stack(columns["action"][1:])[:, 0] == pytest.approx(2 * actions[1:])
        assert sum(columns["reward"][1:]) == pytest.approx(record.episode_return)


@pytest.mark.parametrize("setting", ["new stack", "vector"], indirect=True)
def test_sub_envs_in_other_processes_are_recorded_directly_and_it_is_said_once(setting):
    env = setting(CountingEnv, {"length": 3}, render="replay", in_processes=True)
    rounds = [env.play(2), env.play(2)]
    assert [played.rendered for played in rounds] == [{"direct"}] * 2
    (text,) = [problem.text for played in rounds for problem in played.problems if "rendered" in problem.text]
    assert text.startswith("episodes are rendered while they run: the sub-envs of ") and "in other processes" in text


def why_without(clip):
    """Return why a clip cannot be made, or None if it can."""
    try:
        return clip.frames and None
    except RenderError as error:
        return str(error)


@pytest.mark.any_ray
def test_a_replay_touches_no_file_of_the_run_and_costs_no_more_than_the_clip(setting, tmp_path):
    file, picture = tmp_path / "episodes.txt", tm.Image(np.zeros((8, 8), np.uint8))
    more = {"trajectories": True, "collect": lambda step: {"map": picture}}
    played = setting(NotesItsEpisodes, {"file": str(file)}, render="replay", **more).play()
    reasons = [*filter(None, (record.note for record in played.records)), *map(why_without, played.clips())]
    assert len(reasons) == len(played.records)
    assert all(f"opens {file} for writing" in reason for reason in reasons)
    assert {*file.read_text().split()} == {str(os.getpid())}
    assert {record.id for record in played.records} == played.chosen["data"].trajectories.keys()
    assert len(played.chosen["map"]["all"]) == len(played.records)
