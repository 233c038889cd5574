"""Copies of an episode count once: recorded episodes, from their tapes to the table of an evaluation and its page."""

import numpy as np
import pyarrow.parquet
import pytest

import tune_media as tm
from tests.support import aim
from tune_media.evaluation.evaluation_table import remarks
from tune_media.viewing.copies import copies_of

pytestmark = pytest.mark.any_ray
SEEDS = 12
ONE = "12 seeds, one episode: the env ignores its seed."


class Starts(aim.Aim):
    """Has only so many starts, if ``config`` says so; and chance in its steps, if ``config`` says so."""

    def reset(self, *, seed=None, options=None):
        starts = self.config.get("starts")
        observation, info = super().reset(seed=seed % starts if starts else seed, options=options)
        self.chance = np.random.default_rng(seed if self.config.get("has_chance") else 0)
        return observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward + self.chance.integers(2), *rest


def evaluated(folder, *skills, **env_config):
    aim.saved_sweep(folder, *skills)
    given = {"policy": aim.load_only_file, "env": Starts, "seeds": SEEDS, "clips": (), "name": "e"}
    return tm.evaluate(folder, env_config=env_config, **given)


def test_an_env_that_ignores_its_seed_tells_nothing_of_policies(tmp_path):
    found = evaluated(tmp_path, 1, 0.5, starts=1)
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


def test_tapes_are_read_only_if_two_episodes_look_alike_and_without_one_nothing_is_a_copy(tmp_path, monkeypatch):
    (trial,) = evaluated(tmp_path, 1, starts=3).catalog.trials
    (report,) = trial.report_files
    rows = trial.episodes(report, ["episode_id", "seed", "episode_return", "episode_length"]).to_pylist()
    copies = copies_of(trial, [report], rows)
    assert copies == {seed: seed % 3 for seed in range(SEEDS)}
    assert copies_of(trial, [report], [{**rows[0], "seed": None}, *rows[1:]]) == {}
    path = f"{trial.media_path}/{report.removesuffix('.json')}.parquet"
    table = pyarrow.parquet.read_table(path)
    tapes = table["tape"].to_pylist()
    place = table.schema.get_field_index("tape")
    pyarrow.parquet.write_table(table.set_column(place, "tape", [[None, *tapes[1:]]]), path)
    assert copies_of(trial, [report], rows) == {}
    monkeypatch.setattr(trial, "episodes", None)
    assert copies_of(trial, [report], rows[:3]) == {}  # three starts
