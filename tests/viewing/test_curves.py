"""Means over runs over training: on the page, and in the figure that ``tune-media figure`` draws."""

import itertools
import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tune_media as tm
from tests.support.browser import opened
from tests.support.commands import command
from tests.support.viewing import write_results, write_run, write_snapshot
from tune_media.values.installing import pip_install
from tune_media.values.rates import wilson
from tune_media.viewing.curves import Curves
from tune_media.viewing.figure import write_figure
from tune_media.viewing.statistics import bootstrapped, interquartile_mean

RETURN = "evaluation/env_runners/episode_return_mean"
RATE = "evaluation/env_runners/custom_metrics/success_rate"


def write_curve(folder, params, points, **more):
    """Write a trial with returns at some steps, and with success rates of ten episodes if ``wins`` has counts."""
    lines = []
    for number, (step, value) in enumerate(points):
        numbers = {"episode_return_mean": value}
        if wins := more.get("wins"):
            low, high = wilson(wins[number], 10)
            rates = {"success_rate": wins[number] / 10, "success_rate_low": low, "success_rate_high": high}
            numbers["custom_metrics"] = rates
        lines.append({"timesteps_total": step, "evaluation": {"env_runners": numbers}})
    write_run(folder, {"env": "E", **params}, *lines)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Three configurations of five runs, which are evaluated at steps of their own, and a run that failed."""
    experiment, noise = tmp_path_factory.mktemp("curves") / "exp", np.random.default_rng(0)
    for lr in (0.1, 0.2, 0.3):
        for seed in range(5):
            steps = 100 * np.arange(1, 11) + noise.integers(0, 20, 10)
            values = steps * lr + noise.normal(0, 20, 10)
            points = list(zip(steps.tolist(), values.tolist(), strict=True))
            write_curve(experiment / f"{lr}_{seed}", {"lr": lr, "seed": seed}, points, wins=[9 + (lr > 0.1)] * 10)
    write_curve(experiment / "failed", {"lr": 0.1, "seed": 9}, [(100, 9e9), (1000, 9e9)])
    write_snapshot(experiment, failed="ERROR")
    return experiment


def by_pandas(experiment, lr):
    """Return the curves of the runs that count, a column each, on the lines between their points."""
    runs = {}
    for folder in sorted(experiment.glob(f"{lr}_*")):
        results = pd.read_json(folder / "result.json", lines=True)
        returns = [one["env_runners"]["episode_return_mean"] for one in results["evaluation"]]
        runs[folder.name] = pd.Series(returns, index=results["timesteps_total"])
    return pd.DataFrame(runs).interpolate("index", limit_area="inside").dropna()


def test_the_mean_and_its_interval_are_those_of_scipy_at_the_steps_that_all_runs_have(sweep):
    catalog = tm.load(sweep)
    found = {one.configuration.params["lr"]: one for one in Curves().means(catalog.trials, catalog.statuses, RETURN)}
    assert list(found) == [0.3, 0.2, 0.1]
    for lr, one in found.items():
        frame = by_pandas(sweep, lr)
        assert one.step == frame.index.tolist()
        assert [mean.value for mean in one.mean] == pytest.approx(frame.mean(axis=1).tolist())
        low, high = stats.t.interval(0.95, 4, frame.mean(axis=1), frame.sem(axis=1))
        assert [mean.low for mean in one.mean] == pytest.approx(low.tolist())
        assert [mean.high for mean in one.mean] == pytest.approx(high.tolist())


def test_the_interquartile_mean_is_that_of_scipy(sweep):
    catalog = tm.load(sweep)
    for one in Curves().means(catalog.trials, catalog.statuses, RETURN, iqm=True):
        frame = by_pandas(sweep, one.configuration.params["lr"])
        expected = stats.trim_mean(frame.to_numpy(), 0.25, axis=1)
        assert [mean.value for mean in one.mean] == pytest.approx(expected.tolist())
        assert one.mean[-1] == bootstrapped(frame.iloc[-1].to_numpy(), interquartile_mean)


def test_runs_that_all_succeed_leave_room_for_chance(sweep):
    catalog = tm.load(sweep)
    best, *_, worst = Curves().means(catalog.trials, catalog.statuses, RATE)
    end = best.mean[-1]
    assert (end.value, end.high) == (1.0, 1.0)
    assert end.low < 0.95
    assert worst.mean[-1].value == pytest.approx(0.9)
    assert worst.mean[-1].high <= 1


def figure_text(path):
    """Return the texts of an SVG, which matplotlib has as comments beside their glyphs."""
    return re.findall(r"<!-- (.+?) -->", path.read_text())


def test_the_figure_names_each_configuration_and_says_what_a_line_is(sweep, tmp_path):
    for name in ("curves.pdf", "curves.png", "new/curves.svg"):
        told = command("figure", sweep, "-o", tmp_path / name)
        shown = f"Mean over 5 runs, with its 95 % interval, of 3 configurations in {tmp_path / name}"
        failed = "1 run of lr 0.1 failed while ahead: its last mean evaluation return was 9e+09."
        assert told.splitlines() == [failed, shown, "Clearly the best: lr 0.3."]
    texts = figure_text(tmp_path / "new/curves.svg")
    assert {"lr 0.1", "lr 0.2", "lr 0.3", "mean evaluation return"} <= set(texts)
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")
    command("figure", sweep, "-o", tmp_path / "rate.svg", "--metric", "success_rate", "--by", "env", "--iqm")
    assert {"env E", "success rate"} <= set(figure_text(tmp_path / "rate.svg"))
    assert "Interquartile mean over 15 runs, with its 95 % interval" in figure_text(tmp_path / "rate.svg")


@pytest.fixture
def many(tmp_path, monkeypatch):
    """30 configurations, their figure, and the options with which it is saved."""
    for number in range(30):  # all end at one value
        params = {"lr": number, "a_hyperparameter_with_a_long_name": f"a value ${number}_that$ is long, too"}
        write_curve(tmp_path / "exp" / f"t{number}", params, [(1, 0.0), (2, 5.0)])
    drawn = []
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: drawn.append((self, options)))
    write_figure(tm.load(tmp_path / "exp"), tmp_path / "x.png")
    return tmp_path / "exp", *drawn[0]


def test_no_name_is_cut_or_covers_another(many):
    _, figure, options = many
    names = [text for text in figure.axes[0].texts if text.get_text()]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert len(boxes) == 30
    assert all(above.y0 >= below.y1 - 1 for below, above in itertools.pairwise(boxes))
    assert options["bbox_inches"] == "tight"


def test_figure_and_page_have_the_same_colors_and_no_two_lines_look_alike(browser, many, tmp_path):
    experiment, figure, _ = many
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() > 1]
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == 30
    colors = {re.search(r"lr (\d+)", text.get_text())[1]: None for text in figure.axes[0].texts}
    colors |= dict(zip(colors, (line.get_color() for line in lines), strict=True))
    with opened(browser, experiment, tmp_path) as viewer:
        viewer.wait("tuneMedia.app.instance.judged && document.querySelector('.curves .u-over')")
        page = viewer.frame.evaluate("tuneMedia.app.instance.judged.all.map(({ params, color }) => [params.lr, color])")
        assert {str(lr): color for lr, color in page} == colors
        same = [lr for lr, color in colors.items() if color == colors["0"]]
        assert len(same) == 2
        viewer.frame.evaluate("""() => { window.uPlot = class extends uPlot {
            constructor(options, ...more) { super(options, ...more); window.made = options.series.slice(1); }
        }; }""")
        viewer.frame.fill(".filter", " OR ".join(f"lr={lr}" for lr in same))
        viewer.wait("window.made?.length === 2")
        first, second = viewer.frame.evaluate("made.map(({ stroke, dash }) => [stroke(), dash.join()])")
        assert first[0] == second[0] == colors["0"] and first[1] != second[1]


def test_a_mean_ends_where_its_first_run_ends_and_the_command_says_so(tmp_path):
    for seed, last in enumerate((4, 10)):
        points = [(step, 1.0) for step in range(1, last + 1)]
        write_curve(tmp_path / "exp" / f"a{seed}", {"lr": 1, "seed": seed}, points)
        write_curve(tmp_path / "exp" / f"b{seed}", {"lr": 2, "seed": seed}, [(9 * seed + 1, 1.0), (9 * seed + 2, 2.0)])
    catalog = tm.load(tmp_path / "exp")
    made = write_figure(catalog, tmp_path / "x.png")
    assert "of 1 configuration" in made.shown
    assert [line.partition(":")[0] for line in sorted(made.lacking)] == [
        "lr 1 is drawn up to step 4 of 10",
        "lr 2 is drawn not at all",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-o", "x.jpg"), "a .pdf or .png or .svg file, not 'x.jpg'"),
        (("-o", "x.pdf", "--metric", "loss"), "no trial has the metric 'loss'"),
        (("-o", "x.pdf", "--by", "lrr"), "has 'lrr', which is no hyperparameter; did you mean 'lr'?"),
    ],
)
def test_a_mistake_is_told(sweep, words, told):
    assert told in command("figure", sweep, *words, code=2)


def test_without_a_return_a_metric_must_be_chosen(tmp_path):
    write_run(tmp_path / "exp" / "t", {}, {"loss": 1.0, "other": 2.0})
    told = command("figure", tmp_path / "exp", "-o", tmp_path / "x.pdf", code=2)
    assert "No trial reports a mean return: pass --metric, the name of a metric." in told
    assert "of 1 configuration in" in command("figure", tmp_path / "exp", "-o", tmp_path / "x.pdf", "--metric", "loss")


def test_one_run_that_was_evaluated_has_the_interval_of_its_episodes(tmp_path):
    """It has no other runs; each of its checkpoints has played the same seeds."""
    for name, lr in (("a", 0.1), ("b", 0.2)):
        write_curve(tmp_path / name, {"lr": lr}, [(100, 5.0), (200, 7.0)])
        ends = {"episode_return_mean_low": 4.0, "episode_return_mean_high": 9.0}
        results = [json.loads(line) for line in (tmp_path / name / "result.json").read_text().splitlines()]
        for result in results if name == "a" else ():
            result["evaluation"]["env_runners"] |= ends
        write_results(tmp_path / name, *results)
    catalog = tm.load(tmp_path)
    (band,) = Curves().bands(catalog.trials, catalog.statuses, RETURN)
    (trial,) = (trial for trial in catalog.trials if trial.name == "a")  # the other one was not evaluated
    assert band == {"trials": [trial.id], "step": [100, 200], "value": [5, 7], "low": [4, 4], "high": [9, 9]}
    assert not Curves().bands(catalog.trials, catalog.statuses, RETURN, iqm=True)


def test_without_matplotlib_the_command_says_how_to_install_it(sweep, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = command("figure", sweep, "-o", tmp_path / "x.pdf", code=2)
    assert pip_install("figure") in told


BANDS = """() => [...tuneMedia.app.instance.curves.bands.values()].map((band) =>
  [band.step.at(-1), band.low.at(-1), band.high.at(-1)])"""


@pytest.mark.slow
def test_the_page_has_the_interval_as_a_band(browser, sweep, tmp_path):
    catalog = tm.load(sweep)
    with opened(browser, sweep, tmp_path, host="gallery") as viewer:
        viewer.frame.click("text=Charts")
        for name in ("mean", "IQM"):
            viewer.frame.click(f"[aria-label=Line] >> text={name}")
            viewer.wait("(iqm) => tuneMedia.app.instance.curves.iqm === iqm", name == "IQM")
            means = Curves().means(catalog.trials, catalog.statuses, RETURN, iqm=name == "IQM")
            expected = [[one.step[-1], one.mean[-1].low, one.mean[-1].high] for one in means]
            assert np.array(viewer.frame.evaluate(BANDS)) == pytest.approx(np.array(expected))
            assert "95 % interval" in viewer.all(".curves .panel-head .muted")[0]
        viewer.open(viewer.url, f"score={RETURN}&cards=trials")
        viewer.wait("document.querySelector('.curves .u-over')")
