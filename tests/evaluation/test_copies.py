"""Copies of an episode count once: recorded episodes, from their tapes to the table of an evaluation and its page."""

import gymnasium as gym
import numpy as np
import pyarrow.parquet
import pytest

import tune_media as tm
from tests.support import aim
from tune_media.evaluation.evaluation import Progress
from tune_media.evaluation.evaluation_table import remarks
from tune_media.evaluation.gate import GateProgress, sentence
from tune_media.evaluation.request import in_order
from tune_media.replay.tape import Tape
from tune_media.viewing.copies import TapeEnds

pytestmark = pytest.mark.any_ray
SEEDS = 12
ONE = "12 seeds, one episode: the env ignores its seed."


class Starts(aim.Aim):
    """Has only so many starts up to a seed, if ``config`` says so; and chance in its steps, if ``config`` says so."""

    def reset(self, *, seed=None, options=None):
        starts = self.config.get("starts") if seed is None or seed < self.config.get("up_to", 999) else None
        observation, info = super().reset(seed=seed % starts if starts else seed, options=options)
        self.chance = np.random.default_rng(seed if self.config.get("has_chance") else 0)
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + self.chance.integers(2), *rest


def evaluated(folder, *skills, told=(), **env_config):
    """Return an evaluation of policies with these skills; what it tells meanwhile is added to ``told``."""
    aim.saved_sweep(folder, *skills)
    progress = Progress()
    progress.tells = lambda text: told.append(text)
    given = {"policy": aim.load_only_file, "env": Starts, "seeds": SEEDS, "clips": (), "name": "e"}
    return tm.evaluate(folder, env_config=env_config, progress=progress, **given)


def test_an_env_that_ignores_its_seed_tells_nothing_of_policies(tmp_path):
    found = evaluated(tmp_path, 1, 0.5, told=(told := []), starts=1)
    assert told == [ONE]
    table = found.to_pandas()
    assert list(table["why"][table["trial"] == "trial_0.5"]) == ["one_seed"]
    assert table[["return_low", "return_high", "success_low", "behind_low"]].isna().all(None)
    assert f"Note: {ONE}" in remarks(found)
    assert found.catalog.verdict.sentence.startswith("Best so far: skill 1") and ONE in found.catalog.verdict.sentence


def test_copies_count_once_and_the_mean_is_that_over_all_seeds(tmp_path):
    found = evaluated(tmp_path, 1, 0.5, starts=6)
    table, verdict = found.to_pandas(), found.catalog.verdict
    assert table["seeds_compared"].max() == 6
    means = found.catalog.episodes().groupby("trial")["episode_return"].mean()
    assert list(table.set_index("trial")["return_mean"].sort_index()) == pytest.approx(list(means.sort_index()))
    assert "on 12 evaluation seeds" in verdict.sentence and "12 seeds, 6 different episodes." in verdict.sentence
    assert verdict.is_clear and "on 6 different episodes" in " ".join(verdict.why)


@pytest.mark.parametrize("env_config", [{}, {"starts": 1, "has_chance": True}])
def test_all_seeds_count_if_they_or_chance_decide_episodes(tmp_path, env_config):
    found = evaluated(tmp_path, 1, 0.5, **env_config)
    assert found.to_pandas()["seeds_compared"].max() == SEEDS and found.to_pandas()["note"].isna().all()
    assert "different" not in found.catalog.verdict.sentence


def gated(folder, *, load=aim.load_policy, seeds="0:200", stochastic=False, **env_config):
    """Return the only verdict of a gate of two policies that differ by 0.3, and what was told meanwhile."""
    told = []
    progress = GateProgress()
    progress.tells = told.append
    sides, place = [aim.saved(folder, well) for well in (1, 0.9)], {"env": Starts, "env_config": env_config}
    given = {"policy": load, "stochastic": stochastic, "seeds": seeds, "output": f"{folder}/gate", **place}
    gate = tm.gate(*sides, margin=3.0, clips=0, progress=progress, **given)
    return gate.verdicts[0], told


def test_a_gate_bets_once_on_each_different_pair_of_episodes(tmp_path):
    found, told = gated(tmp_path, starts=3)
    assert (found.verdict, found.standing.seeds, found.copies) == ("undecided", 3, 197)
    assert found.notes == ("200 seeds, 3 different episodes: too few for this margin",)
    facts = found.facts()
    assert (facts["seeds"], facts["different"]) == (200, 3) and len(facts["seeds_lost"]) + len(facts["seeds_won"]) == 0
    assert sentence(found, "return").endswith(", after 3 different episodes.")
    assert not told
    given = {"policy": aim.load_policy, "env": Starts, "env_config": {"starts": 3}, "seeds": 40, "clips": 0}
    (floor,) = tm.gate(aim.saved(tmp_path, 1), at_least=30, output=str(tmp_path / "floor"), **given).verdicts
    assert floor.notes == ("40 seeds, 3 different episodes: too few for this floor",)


def test_a_gate_of_one_start_counts_one_episode_and_says_so_early(tmp_path):
    found, told = gated(tmp_path, starts=1, seeds=40)
    assert (found.verdict, found.standing.seeds, found.candidate) == ("undecided", 1, pytest.approx(found.base - 0.3))
    assert found.notes == ("40 seeds, one episode: the env ignores its seed",)
    assert told == ["12 seeds, one episode: the env ignores its seed."]


def test_a_gate_may_pass_after_enough_different_episodes(tmp_path):
    found, _ = gated(tmp_path, starts=1, up_to=40)
    seeds = in_order(range(200))
    last = seeds[found.copies + found.standing.seeds - 1]
    assert (found.verdict, found.copies > 0, last >= 40) == ("pass", True, True)
    assert found.standing.seeds == sum(seed >= 40 for seed in seeds[: seeds.index(last)]) + 2


class OneOften(Starts):
    """Seven of ten seeds have one start, with wind; nothing blows on the others."""

    def reset(self, *, seed=None, options=None):
        is_common = seed is not None and seed % 10 < 7
        self.config["wind"] = 5 if is_common else 0
        return super().reset(seed=0 if is_common else seed, options=options)


def test_a_gate_passes_nobody_who_is_worse_over_all_seeds(tmp_path):
    sides, given = [aim.saved(tmp_path, well) for well in (0, 1)], {"policy": aim.load_policy, "env": OneOften}
    gate = tm.gate(*sides, seeds=400, margin=3.0, clips=0, output=str(tmp_path / "gate"), **given)
    (found,) = gate.verdicts  # it is better on 120 starts, by 3, and worse by 12 on the one that 280 seeds have
    assert (found.verdict, found.standing.seeds, found.copies) == ("undecided", 121, 279)
    assert found.standing.difference > 0


@pytest.mark.parametrize("which", ["base", "candidate", "chance"])
def test_a_gate_counts_all_seeds_if_more_than_the_start_decides_episodes(tmp_path, which):
    random = np.random.default_rng(0)

    def load(path):
        act = aim.load_policy(path)
        acts_by_chance = which == ("base" if act(None)[0] == 1 else "candidate")
        return lambda observation: act(observation) + np.float32(0.1 * random.random() * acts_by_chance)

    found, told = gated(tmp_path, load=load, stochastic=True, starts=1, has_chance=which == "chance")
    assert (found.verdict, found.copies) == ("pass", 0) and found.standing.seeds < 200
    assert not any(text.partition(" seeds, ")[0].isdecimal() for text in [*found.notes, *told])


def test_tapes_are_read_only_if_two_episodes_look_alike_and_without_one_nothing_is_a_copy(tmp_path, monkeypatch):
    (trial,) = evaluated(tmp_path, 1, starts=3).catalog.trials
    (report,) = trial.report_files
    rows = trial.episodes(report, ["episode_id", "seed", "episode_return", "episode_length"]).to_pylist()
    copies = TapeEnds(trial).copies([report], rows)
    assert copies == {seed: seed % 3 for seed in range(SEEDS)}
    assert TapeEnds(trial).copies([report], [{**rows[0], "seed": None}, *rows[1:]]) == {}
    path = f"{trial.media_path}/{report.removesuffix('.json')}.parquet"
    table = pyarrow.parquet.read_table(path)
    tapes = table["tape"].to_pylist()
    place = table.schema.get_field_index("tape")
    pyarrow.parquet.write_table(table.set_column(place, "tape", [[None, *tapes[1:]]]), path)
    assert TapeEnds(trial).copies([report], rows) == {}
    monkeypatch.setattr(trial, "episodes", None)
    assert TapeEnds(trial).copies([report], rows[:3]) == {}  # three starts


class Bandit(gym.Env):
    """One step, and a reward by chance."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, float(self.np_random.random() < 0.7), True, False, {}


LAKE = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
CLIFF = {35: 2, 36: 0}  # a step up, to the right along the cliff, and down
CLIFF_WALKING = max(name for name in gym.registry if name.startswith("CliffWalking-v"))
MADE = {
    "FrozenLake": (lambda config: gym.make("FrozenLake-v1"), lambda state: LAKE[state]),
    "Blackjack": (lambda config: gym.make("Blackjack-v1"), lambda hand: int(hand[0] < 17)),
    "bandit": (lambda config: Bandit(), lambda state: 0),
    "Taxi": (lambda config: gym.make("Taxi-v3"), lambda state: state % 5),
    "CliffWalking": (lambda config: gym.make(CLIFF_WALKING), lambda state: CLIFF.get(state, 1)),
}


@pytest.mark.parametrize(
    ("name", "resets", "different"),
    [("FrozenLake", 1, 200), ("Blackjack", 113, 159), ("bandit", 1, 2), ("Taxi", 148, 148), ("CliffWalking", 1, 1)],
)
def test_of_toy_envs_copies_count_once_only_where_the_start_decides_all(tmp_path, name, resets, different):
    make, act = MADE[name]
    policy, seeds = aim.saved(tmp_path, 1), 200
    found = tm.evaluate(policy, policy=lambda path: act, env=make, seeds=seeds, clips=None, name="e")
    returns = found.catalog.episodes()["episode_return"]
    checks = [Tape.unpacked(episode.tape()).checks for episode in found.catalog.taped_episodes()]
    assert (len({one[0] for one in checks}), len({one[-1] for one in checks})) == (resets, different)
    (line,) = found.checkpoints
    assert (line.episodes, line.return_mean) == (seeds, pytest.approx(returns.mean()))
    half = 1.97196 * returns.std() / seeds**0.5  # Student's t of 199 degrees of freedom
    if different > resets:
        assert line.note is None and line.return_high - line.return_mean == pytest.approx(half, rel=1e-4)
    elif different > 1:
        assert line.note == f"{seeds} seeds, {different} different episodes"
        assert line.return_high - line.return_mean > half
    else:
        assert line.note == f"{seeds} seeds, one episode: the env ignores its seed" and np.isnan(line.return_high)
