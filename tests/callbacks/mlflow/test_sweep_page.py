"""The page of a sweep."""

import base64
import re

from tune_media.callbacks.best_clip import BestClip
from tune_media.callbacks.mlflow.sweep_chart import color_of
from tune_media.callbacks.mlflow.sweep_page import TrialLine, best_first, sweep_page


def best(episode_return, section="evaluation"):
    return BestClip(episode_return, 5, section, 2, "media/a.mp4")


def test_the_best_trial_is_the_first_line_and_names_stay_text():
    lines = [
        TrialLine("worse", "FINISHED", {"lr": "0.1"}, best(1.0)),
        TrialLine("none", "FAILED", {}, None),
        TrialLine("<b>better</b>", "FINISHED", {"<i>lr": "<script>"}, best(2.0)),
    ]
    page = sweep_page("<u>sweep", lines, lambda line: b"mp4" if line.name == "worse" else bytes(5_000_000))
    assert page.index("&lt;b&gt;better") < page.index("worse") < page.index("none")
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>", "<script>"))
    assert page.count("<video") == 1  # the other one is too large for a page
    assert base64.b64encode(b"mp4").decode() in page
    assert "evaluation, return 2, length 5, step 2: media/a.mp4" in page


def test_trials_are_ranked_by_their_score_not_by_their_luckiest_clip():
    name = "evaluation/env_runners/episode_return_mean"
    lines = [
        TrialLine("lucky", "FINISHED", {}, best(99.0), metrics={name: 10.0, "score": 50.0}),
        TrialLine("steady", "FINISHED", {}, best(50.0), metrics={name: 40.0}),
        TrialLine("broken", "FAILED", {}, None, metrics={name: float("nan")}),
    ]
    label, ranked = best_first(lines)
    assert label == "mean evaluation return"
    assert [(line.name, score) for line, score in ranked] == [("steady", 40.0), ("lucky", 10.0), ("broken", None)]
    page = sweep_page("sweep", lines, lambda line: b"")
    assert "<th>trial</th><th>mean evaluation return</th><th>best return</th>" in page
    assert "<td>steady</td><td>40</td><td>50</td>" in page
    assert page.index("steady") < page.index("lucky") < page.index("<td>broken</td><td></td><td></td>")


def test_a_line_of_the_chart_has_the_colour_of_its_row():
    lines = [
        TrialLine("worse", "FINISHED", {}, best(1.0), curve=[(1, 1.0)]),
        TrialLine("better", "FINISHED", {}, best(2.0), curve=[(1, 0.5), (2, 2.0)]),
    ]
    page = sweep_page("sweep", lines, lambda line: b"")
    assert page.index("<svg") < page.index("<table")
    for number, name in enumerate(("better", "worse")):
        assert re.search(rf"<polyline [^>]*{re.escape(color_of(number))}[^>]*><title>{name}:", page)
        assert re.search(rf"<tr [^>]*{re.escape(color_of(number))}[^>]*><td>{name}<", page)
