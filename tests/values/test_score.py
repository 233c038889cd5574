from tune_media.values.score import CLIP_LABEL, Scores, known_returns

EVALUATION, TRAINING = "evaluation/env_runners/episode_return_mean", "env_runners/episode_return_mean"


def test_one_evaluation_makes_the_evaluation_the_score_of_all_trials():
    assert known_returns(["score", TRAINING, "loss", EVALUATION]) == [EVALUATION, TRAINING, "score"]
    scores = Scores.of([{TRAINING: 9.0}, {TRAINING: 1.0, EVALUATION: 2.0}], [7.0, None])
    assert scores == Scores("mean evaluation return", [None, 2.0], EVALUATION)
    assert scores.best_first() == [1, 0]


def test_clips_rank_trials_that_report_no_return():
    scores = Scores.of([{"loss": 1.0}, {}, {}], [7.0, None, 8.0])
    assert scores == Scores(CLIP_LABEL, [7.0, None, 8.0])
    assert (scores.best_first(), scores.best_first(-1)) == ([2, 0, 1], [0, 2, 1])
