"""Results of the old API stack, in the layouts of all Ray versions that people still have."""

import copy

import numpy as np
import pytest

from tune_media.results.old_api_stack import Windows, new_episodes

LEVELS = [(), ("env_runners",), ("sampler_results",)]


class Sampler:
    """Makes results as RLlib does: a window of the last episodes, and how many of them are new."""

    def __init__(self, level, count_name="episodes_this_iter", seed=0):
        self.level, self.count_name = level, count_name
        self.generator = np.random.default_rng(seed)
        self.history, self.iteration = [], 0

    def episodes(self, count, *, sometimes=False):
        made = []
        for _ in range(count):
            length = int(self.generator.integers(2, 6))
            episode = {"reward": float(self.generator.normal()), "length": length}
            episode["speed"] = self.generator.normal(size=length).tolist()
            episode["media"] = None if sometimes and self.generator.random() < 0.5 else {"track": np.arange(length)}
            made.append(episode)
        self.history = (self.history + made)[-max(10, count) :]
        self.iteration += 1
        return made

    def result(self, new):
        shown = self.history
        place = {
            "hist_stats": {
                "episode_reward": [episode["reward"] for episode in shown],
                "episode_lengths": [episode["length"] for episode in shown],
                "speed": [value for episode in shown for value in episode["speed"]],
                "goals": [float(episode["length"]) for episode in shown],
            },
            "episode_media": {"data": [episode["media"] for episode in shown if episode["media"] is not None]},
            "custom_metrics": {"speed_mean": 1.0, "fell": [-episode["reward"] for episode in shown]},
        }
        if self.count_name:
            place[self.count_name] = len(new)
        result = {"training_iteration": self.iteration, "episodes_total": 100 * self.iteration}
        for name in self.level:
            result[name] = place
        return result if self.level else {**result, **place}


def read(result, windows):
    return {new.section: new for new in new_episodes(result, windows, pytest.fail)}


def returns(new):
    return [episode.record.episode_return for episode in new.batch.episodes]


@pytest.mark.parametrize("level", LEVELS, ids=str)
@pytest.mark.parametrize("count_name", ["num_episodes", "episodes_this_iter", None])
def test_each_episode_is_new_once(level, count_name):
    sampler, windows = Sampler(level, count_name=count_name), Windows()
    for count in (4, 4, 0, 3, 12, 1):
        made = sampler.episodes(count)
        new = read(sampler.result(made), windows)["train"]
        assert returns(new) == [episode["reward"] for episode in made]
        assert [list(e.series["speed"].values) for e in new.batch.episodes] == [e["speed"] for e in made]
        assert [e.record.metrics["goals"] for e in new.batch.episodes] == [e["length"] for e in made]
        assert [e.record.metrics["fell"] for e in new.batch.episodes] == [-e["reward"] for e in made]
        assert [e.values["data"] for e in new.batch.episodes] == [{"track": list(range(e["length"]))} for e in made]
        assert new.lists[(*level, "hist_stats", "speed")] == [value for e in made for value in e["speed"]]


def test_both_sections_are_told_apart():
    train, held_out = Sampler(("env_runners",)), Sampler(("env_runners",), seed=1)
    made, evaluated = train.episodes(3), held_out.episodes(2)
    result = {**train.result(made), "evaluation": held_out.result(evaluated)}
    new = read(result, Windows())
    assert returns(new["train"]) == [episode["reward"] for episode in made]
    assert returns(new["evaluation"]) == [episode["reward"] for episode in evaluated]
    assert new["train"].batch.id != new["evaluation"].batch.id


def test_what_only_some_episodes_have_is_new_once_and_said_to_be_nobodys():
    sampler, windows, seen = Sampler(("env_runners",)), Windows(), []
    told = 0
    for _ in range(6):
        made = sampler.episodes(4, sometimes=True)
        told += sum(episode["media"] is not None for episode in made)
        new = read(sampler.result(made), windows)["train"]
        for episode in new.batch.episodes:
            if "data" in episode.values and isinstance(episode.values["data"], list):
                seen += episode.values["data"]
                assert "which is whose" in episode.record.note
            elif "data" in episode.values:
                seen.append(episode.values["data"])
    assert len(seen) == told


def test_all_values_are_new_if_all_episodes_are_though_the_last_evaluation_had_the_same():
    windows = Windows()
    for iteration in (1, 2):
        place = {
            "hist_stats": {
                "episode_reward": [1.0 * iteration, 2.0],
                "episode_lengths": [9, 9],
                "speed": [1.0, 2.0, 5.0],
            },
            "episode_media": {"note": ["fell"]},
            "num_episodes": 2,
        }
        result = {"training_iteration": iteration, "evaluation": {**place, "num_healthy_workers": 1}}
        new = read(result, windows)["evaluation"]
        (*_, unknown) = new.batch.episodes
        assert unknown.series["speed"].values.tolist() == [1.0, 2.0, 5.0]
        assert unknown.values["note"] == ["fell"]


def test_a_repeated_evaluation_has_the_same_identity():
    sampler = Sampler(("env_runners",))
    made = sampler.episodes(2)
    result = {"training_iteration": 2, "evaluation": {**sampler.result(made), "num_healthy_workers": 1}}
    repeated = copy.deepcopy(result) | {"training_iteration": 3}
    del repeated["evaluation"]["num_healthy_workers"]
    first, again = (read(r, Windows())["evaluation"].batch for r in (result, repeated))
    assert again.may_repeat is not None
    assert first.id.startswith(again.may_repeat)


def test_the_paths_of_what_was_stored_stand_for_the_media():
    sampler = Sampler(("env_runners",))
    result = sampler.result(sampler.episodes(2))
    read(result, Windows())["train"].put("episode_data/data-00000001.json")
    assert result["env_runners"]["episode_media"] == {"data": "episode_data/data-00000001.json"}


@pytest.mark.parametrize(
    "result", [{}, {"env_runners": {"episode_return_mean": 1.0}}, {"hist_stats": {}}, {"evaluation": 3}]
)
def test_results_of_others_have_no_such_episodes(result):
    assert read({"training_iteration": 1, **result}, Windows()) == {}


def test_what_cannot_be_stored_is_named():
    sampler, told = Sampler(("env_runners",)), []
    result = sampler.result(sampler.episodes(1))
    result["env_runners"]["episode_media"]["data"] = [{"socket": lambda: 0}]
    (new,) = new_episodes(result, Windows(), told.append)
    assert told == ["episode_media/data/socket is a function"]
    assert "data" not in new.batch.episodes[0].values


def test_a_repeated_evaluation_with_lists_of_its_own_lengths_is_the_same():
    windows = Windows()
    place = {"hist_stats": {"episode_reward": [1.0, 2.0], "episode_lengths": [3, 4], "odd": [0.1, float("nan"), 0.3]}}
    ids = []
    for iteration, health in ((1, {"num_healthy_workers": 1}), (2, {})):
        result = {"training_iteration": iteration, "evaluation": {**copy.deepcopy(place), "num_episodes": 2, **health}}
        ids.append(read(result, windows)["evaluation"].batch)
    assert ids[0].id.startswith(ids[1].may_repeat)
