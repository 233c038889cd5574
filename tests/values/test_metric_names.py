from tune_media.values.metric_names import main_metrics


def test_returns_and_lengths_of_rllib_the_evaluations_first():
    names = [
        "env_runners/episode_len_mean",
        "evaluation/env_runners/episode_len_mean",
        "num_iterations",
        "env_runners/episode_return_mean",
        "evaluation/env_runners/episode_return_mean",
    ]
    assert main_metrics(names) == [names[4], names[1], names[3], names[0]]


def test_a_trainables_own_numbers_and_none_of_tunes():
    assert main_metrics(["score", "time_total_s", "pid", "perf/cpu", "loss"]) == ["loss", "score"]
    assert main_metrics([]) == []
