"""The picture of the verdict: what its rows say, and what a reader can do with them."""

import math
import re

import pytest

from tests.support.browser import opened
from tests.support.commands import command
from tests.support.viewing import write_results, write_run, write_snapshot, write_trial
from tune_media.viewing.configurations import FAILED, RUNNING, Configuration, Run, judge
from tune_media.viewing.verdict_picture import axes, rows


def ranked(*scores, sign=1, statuses=(), steps=()):
    """Return the judged configurations of some lists of scores, one of each run."""
    numbers = iter(range(1000))
    groups = [Configuration({"lr": lr}, [next(numbers) for _ in own]) for lr, own in enumerate(scores)]
    flat = [score for own in scores for score in own]
    runs = [
        Run(score, status=statuses[at] if statuses else "", step=steps[at] if steps else None)
        for at, score in enumerate(flat)
    ]
    return judge(groups, runs, sign=sign)


def drawn(*scores, **more):
    return rows(ranked(*scores, **more), [])


def test_a_row_has_its_runs_its_mean_and_the_lead_of_the_best_one():
    best, close, worse = drawn([300.0, 310.0, 320.0], [295.0, 305.0, 316.0], [10.0, 11.0, 12.0])
    assert [run.score for run in best.runs.values()] == [300.0, 310.0, 320.0]
    assert (best.mean.value, best.lead, best.words) == (310.0, None, "")
    assert (close.words, worse.words) == ("not clear: chance may explain it", "clearly worse")
    assert worse.lead.value == pytest.approx(299.0)
    assert 0 < worse.lead.half_runs == pytest.approx(worse.lead.high - worse.lead.value)


def test_the_lowest_is_ahead_by_a_positive_number_if_it_is_the_best():
    best, other = drawn([5.0, 5.1, 5.2], [1.0, 1.1, 1.2], sign=-1)
    assert (best.mean.value, other.lead.value) == pytest.approx((1.1, 4.0))


def test_runs_that_failed_or_go_on_are_drawn_and_a_row_that_is_not_judged_says_why():
    scores = [300.0, 310.0, 320.0, 999.0], [200.0, 201.0, 202.0], [250.0, 251.0, 252.0], [50.0], [400.0]
    statuses = ["", RUNNING, "", FAILED, "", "", "", "", "", "", "", FAILED]
    steps = [480.0] * 7 + [100.0] * 3 + [480.0] * 2
    found = drawn(*scores, statuses=statuses, steps=steps)
    assert [run.status for run in found[0].runs.values()] == ["", RUNNING, "", FAILED]
    assert [row.words for row in found] == [
        "",
        "clearly worse",
        "set apart: stopped at step 100",
        "set apart: one run",
        "failed",
    ]
    assert [row.is_judged for row in found] == [True, True, False, False, False]
    assert [row.lead is None for row in found] == [True, False, True, True, True]


def test_nothing_is_compared_if_one_configuration_has_a_score():
    (row,) = drawn([1.0, 2.0])
    assert (row.is_judged, math.isnan(row.mean.value), len(row.runs)) == (False, True, 2)
    assert axes([row])[1] is None


def test_the_axis_of_scores_has_room_for_intervals_and_leaves_out_one_far_dot():
    near = drawn([10.0, 200.0], [100.0, 104.0])  # Student's interval is 13 times as wide as the runs
    assert axes(near)[0] == (10.0 - 190.0, 200.0 + 190.0)
    far = drawn([300.0, 310.0, 320.0], [290.0, 280.0, -5000.0])
    (low, _), lead = axes(far)
    assert low > 200
    assert lead == pytest.approx((-(310 + 4430 / 3), 2 * (310 + 4430 / 3)))


def test_the_figure_has_the_rows_of_the_page(tmp_path):
    pytest.importorskip("matplotlib")
    for number in range(6):
        result = {"episode_return_mean": 10.0 * (number // 3) + number % 3}
        write_run(tmp_path / "exp" / f"t{number}", {"lr": number // 3, "seed": number % 3}, result)
    told = command("figure", tmp_path / "exp", "-o", tmp_path / "x.svg", "--verdict")
    assert told.splitlines() == [
        f"The verdict on 2 configurations in {tmp_path / 'x.svg'}",
        "Clearly the best: lr 1.",
    ]
    texts = re.findall(r"<!-- (.+?) -->", (tmp_path / "x.svg").read_text())
    assert {"lr 0", "lr 1", "mean return", "ahead by", "clearly worse  10 [7.73, 12.3]"} <= set(texts)
    assert "leave one of them out" in command(
        "figure", tmp_path / "exp", "-o", tmp_path / "x.svg", "--verdict", "--iqm", code=2
    )


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Fourteen configurations of three runs; one run has failed, and one goes on."""
    experiment = tmp_path_factory.mktemp("picture") / "exp"
    for number in range(42):
        lr, seed = number // 3, number % 3
        folder = write_trial(experiment / f"t{number:02d}", number, steps=(10,), lr=lr / 100, seed=seed)
        write_results(folder, {"training_iteration": 10, "episode_return_mean": 100.0 - 10 * lr + seed})
    (experiment / "t03" / "error.txt").write_text("ValueError: stuck\n")
    others = {f"t{number:02d}": "TERMINATED" for number in range(42)}
    write_snapshot(experiment, **{**others, "t03": "ERROR", "t04": "RUNNING"})
    return experiment


@pytest.mark.slow
def test_a_reader_finds_the_lead_of_each_and_goes_on_to_cards_clips_and_runs(browser, sweep, tmp_path):
    with opened(browser, sweep, tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('li.verdict-row').length === 12")
        viewer.wait("document.querySelector('.curves .u-over') && document.querySelectorAll('.card').length === 14")
        first, second = viewer.all("li.verdict-row")[:2]
        assert first.startswith("★ lr 0\n") and "101" in first
        assert "clearly worse 10" in second and "So far clearly the best" in viewer.all(".winner-line")[0]
        assert viewer.all(".card .ribbon") == ["★ Winner"]
        assert viewer.all(".dot.failed, .dot.running", "e.getAttribute('aria-label')") == [
            "seed 0: 90, failed at step 10",
            "seed 1: 91, running at step 10",
        ]
        assert viewer.axe_violations() == {}
        viewer.frame.focus("li.verdict-row:nth-child(3) .name")  # by keys: a clip, a run, the card
        viewer.wait("document.querySelector('.verdict-row .peek video')")
        told = "document.querySelector('.verdict-row .peek').innerText"
        assert "best clip: return" in viewer.frame.evaluate(told)
        viewer.press("w")
        viewer.wait(f"{told}.includes('worst clip: return')")
        assert viewer.frame.evaluate("tuneMedia.app.instance.state.view") == "grid"
        viewer.press("Enter")
        viewer.wait("document.activeElement.matches('.card.configuration[aria-label^=\"lr 0.02\"]')")
        viewer.frame.focus("li.verdict-row:nth-child(3) .name")
        viewer.press("o")
        viewer.press("Enter")
        viewer.wait("document.querySelector('.trial-view')?.innerText.includes('t06')")
        viewer.page.go_back()
        viewer.wait("document.querySelector('.legend .link')?.innerText === '2 more'")
        viewer.frame.click(".legend .link")
        viewer.wait("document.querySelectorAll('li.verdict-row').length === 14")
