from types import SimpleNamespace

import tune_media as tm
from tune_media.callbacks.retention_check import RetentionCheck
from tune_media.values.options import Retention


def entry(**metrics):
    return SimpleNamespace(medium=tm.EpisodeRecord("e", 1.0, 3, metrics=metrics))


def problems(policy, *rounds):
    check = RetentionCheck(policy)
    return [problem.text for result, entries in rounds for problem in check.look(result, entries)]


def test_a_misspelt_value_is_named_once_with_the_values_that_there_are():
    (text,) = problems(Retention(best=2, by="typo"), *[({}, [entry(speed=1.0)])] * 9)
    assert text.startswith("Retention(by='typo') keeps no clip as one of the best: none of the first 4 clips has this")
    assert "episode_return, episode_length, speed" in text


def test_a_value_that_comes_late_is_no_typo():
    late = [({}, [entry()])] * 3 + [({}, [entry(goals=1.0)])] + [({}, [entry()])] * 9
    assert problems(Retention(best=2, by="goals"), *late) == []
    assert problems(Retention(best=2), *[({}, [entry()])] * 9) == []
    assert problems(Retention(last=2, by="typo"), *[({}, [entry()])] * 9) == []


def test_a_misspelt_metric_of_the_best_trial_is_named_with_the_main_metrics():
    result = {"env_runners": {"episode_return_mean": 3.0}, "pid": 7}
    (text,) = problems(Retention(best_trial_by="episode_return_mean"), *[(result, [])] * 9)
    assert "none of the first 4 results has this metric. Their main metrics: env_runners/episode_return_mean" in text
    assert problems(Retention(best_trial_by="env_runners/episode_return_mean"), *[(result, [])] * 9) == []
