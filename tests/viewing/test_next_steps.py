import os

from tests.support.recorded import make_experiment
from tune_media.viewing.next_steps import newest_experiment, next_steps


def test_the_newest_experiment_comes_first(tmp_path):
    for age, name in enumerate(("new one", "old")):
        experiment = make_experiment(tmp_path / name)
        for index in experiment.glob("*/media/index.jsonl"):
            os.utime(index, (10**9 - age, 10**9 - age))
    assert newest_experiment(tmp_path) == tmp_path / "new one"
    assert f"tune-media watch --open '{tmp_path / 'new one'}'" in next_steps(str(tmp_path))


def test_without_experiments_there_is_the_demo_and_the_doctor(tmp_path):
    text = next_steps(str(tmp_path / "nothing"))
    assert "tune-media demo" in text
    assert "tune-media doctor" in text
    assert "tm.rllib.record_episodes" in text
    assert "tm.gym.RecordEpisodes" in text
    assert "watch" not in text
