"""Infinity, NaN, None, what is not set, what is unknown, and texts that say so are different hyperparameters."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.browser import opened
from tests.support.commands import command
from tests.support.page_code import Filtered
from tests.support.viewing import write_results, write_trial
from tune_media.experiment.params import UNKNOWN, UNSET
from tune_media.values.strict_json import json_bytes, read_apart, told_apart
from tune_media.viewing.configurations import configurations, short
from tune_media.viewing.payload import ShownParams, config_payload

CASES = [  # a value, how strict JSON has it, its title, and filters that find it and no other
    (0.5, 0.5, "0.5", ["0.5", "0.4..0.6", '"0.5"']),
    (math.inf, "Infinity", "inf", ["inf", "Infinity", "INF", "1.."]),
    (-math.inf, "-Infinity", "-inf", ["-inf", "-Infinity", "..-1"]),
    (math.nan, "NaN", "nan", ["nan", "NaN"]),
    (None, None, "None", ["None", "null"]),
    (UNSET, None, "unset", ["unset"]),
    (UNKNOWN, {}, "unknown", ["unknown"]),
    ("NaN", '"NaN"', '"NaN"', ['"NaN"']),
    ("Infinity", '"Infinity"', '"Infinity"', ['"Infinity"']),
    ("None", "None", '"None"', ['"None"']),
    ("unset", "unset", '"unset"', ['"unset"']),
    ("relu", "relu", "relu", ["relu", '"relu"']),
    ("a b", "a b", "a b", ['"a b"']),
]
VALUES = [value for value, *_ in CASES]
STRICT = [{} if value is UNSET else {"p": strict} for value, strict, *_ in CASES]
TITLES = [title for _, _, title, _ in CASES]
FILTERS = [(f"p={text}", place) for place, (*_, texts) in enumerate(CASES) for text in texts]


def same(a, b):
    return repr(a) == repr(b) and type(a) is type(b)


def test_strict_json_tells_them_apart_and_is_read_back():
    shown = [ShownParams().all({"p": value}) for value in VALUES]
    assert shown == STRICT
    assert json.loads(json_bytes(shown)) == STRICT  # strict: no token that JSON has not
    for value in [*VALUES[:5], *VALUES[7:], '"NaN"', '""-Infinity""', '"', "inf", np.float32("inf").item(), 3, True]:
        assert same(read_apart(json.loads(json.dumps(told_apart(value), allow_nan=False))), value)
    assert told_apart(np.float32("nan")) == "NaN"


def test_titles_and_configurations_tell_them_apart():
    assert [short(value) for value in VALUES] == TITLES
    found = configurations([{"p": v} if v is not UNSET else {"q": 1} for v in VALUES for _ in range(2)], ["p"])
    assert [one.title for one in found] == [f"p {title}" for title in TITLES]


def test_a_filter_finds_each_of_them_in_the_table_and_on_the_page(page_code):
    trials = Filtered(page_code, STRICT, [str(number) for number in range(len(CASES))])
    not_nan = [place for place in range(len(CASES)) if place != 3]
    for text, places in [*((text, [place]) for text, place in FILTERS), ("p>0", [0, 1]), ("p!=nan", not_nan)]:
        assert trials.found(text) == places, text
    ordered = trials.table.rows(sort="p")["rows"]
    assert [row[trials.table.names.index("config/p")] for row in ordered][:3] == ["-inf", "0.5", "inf"]
    title = "(own) => tuneMedia.filter.shown(tuneMedia.filter.readAll(own).p)"
    assert [page_code(title, own) for own in STRICT] == TITLES


@pytest.fixture
def sweep(tmp_path):
    texts = ["Infinity", "NaN", "null", '"NaN"', "0.5", None, "damaged"]
    for number, text in enumerate(texts):
        folder = write_trial(tmp_path / "exp" / f"t{number}", number, steps=(1,))
        clip = "" if text is None else f', "clip": {text}'
        (folder / "params.json").write_text("{" if text == "damaged" else f'{{"seed": {number}{clip}}}')
        write_results(folder, {"episode_return_mean": -number})
    return tmp_path / "exp"


def test_the_catalog_and_its_tables_tell_them_apart(sweep, caplog):
    catalog = tm.load(sweep)
    assert len(catalog.compare()) == 7
    assert "params.json" in caplog.text
    values = catalog.compare()["config/clip"].tolist()
    assert values[0] == math.inf and math.isnan(values[1]) and values[2] is None and values[3:5] == ["NaN", 0.5]
    assert values[5] is pd.NA
    assert config_payload(catalog.trials[0])["clip"] == "Infinity"
    cells = ["inf", "nan", "None", '"""NaN"""', "0.5", "", "unknown"]
    for rows in ("trials", "configurations"):
        lines = command("list", sweep, "--csv", "--rows", rows).splitlines()
        at = lines[0].split(",").index("config/clip")
        assert [line.split(",")[at] for line in lines[1:]] == cells
        found = [json.loads(line) for line in command("list", sweep, "--json", "--rows", rows).splitlines()]
        told = ["Infinity", "NaN", None, '"NaN"', 0.5, "left out", {}]
        assert [row.get("config/clip", "left out") for row in found] == told
    table = command("list", sweep, "--rows", "configurations")
    for word in ("inf", "nan", "None", '"NaN"', "0.5", "unset", "unknown"):
        assert f"{word} " in table


LOSSES = [0.5, math.nan, math.inf, -math.inf, None]  # None: it reports none
TOLD = ["0.5", "nan", "inf", "-inf", ""]
RETURNS = [3.0, math.nan, 4.0, math.inf, 5.0]


@pytest.fixture
def diverged(tmp_path):
    """Five trials whose losses and returns are told apart; one metric is NaN in all of them."""
    for number, (loss, score) in enumerate(zip(LOSSES, RETURNS, strict=True)):
        folder = write_trial(tmp_path / "exp" / f"t{number}", number, steps=(1,))
        last = {"episode_return_mean": score, "gap": math.nan}
        last |= {} if loss is None else {"loss": loss}
        write_results(folder, {"episode_return_mean": 2.0, "success_rate": math.nan}, last)
    return tmp_path / "exp"


def test_a_metric_that_is_not_finite_is_shown_and_is_no_score(diverged):
    catalog = tm.load(diverged)
    assert [trial.last_metrics.get("loss") for trial in catalog.trials] == pytest.approx(LOSSES, nan_ok=True)
    frame = catalog.to_pandas(metrics=["loss", "episode_return_mean"]).drop_duplicates("trial")
    assert frame["last/loss"].tolist() == pytest.approx([*LOSSES[:4], math.nan], nan_ok=True)
    assert frame["last/episode_return_mean"].tolist() == pytest.approx(RETURNS, nan_ok=True)
    assert frame["best/episode_return_mean"].tolist() == [3.0, 2.0, 4.0, 2.0, 5.0]
    assert catalog.scores.values == [3.0, None, 4.0, None, 5.0]
    assert [trial.name for trial, *_ in catalog.best_first()] == ["t4", "t2", "t0", "t1", "t3"]
    assert catalog.winner.name == "t4"
    assert catalog.compare()["why"].tolist()[3:] == ["not_finite"] * 2
    by_loss = catalog.compare(metric="loss", mode="min")
    assert [row["trials"] for _, row in by_loss.iterrows() if row["n"]] == [["t0"]]
    assert by_loss["why"].tolist()[1:4] == ["not_finite"] * 3
    assert not isinstance(by_loss["why"].tolist()[4], str)  # t4 has no loss
    with pytest.raises(ValueError, match="'gap' is a finite number in no trial"):
        catalog.compare(metric="gap")


def test_list_tells_metrics_apart_that_are_not_finite(diverged):
    cells = [line.split()[0:3:2] for line in command("list", diverged).splitlines()[1:6]]
    assert cells == [["t4", "5"], ["t2", "4"], ["t0", "3"], ["t1", "nan"], ["t3", "inf"]]
    rows = [json.loads(line) for line in command("list", diverged, "--json", "--rows", "trials").splitlines()]
    assert [row["score"] for row in rows] == [5.0, 4.0, 3.0, "NaN", "Infinity"]
    assert {row["success_rate"] for row in rows} == {None}
    lines = command("list", diverged, "--csv", "--rows", "trials").splitlines()
    at = lines[0].split(",").index("score")
    assert [line.split(",")[at] for line in lines[1:]] == ["5.0", "4.0", "3.0", "nan", "inf"]
    table = command("list", diverged, "--rows", "configurations")
    assert table.count("1 left out: not finite") == 2
    for folder in diverged.iterdir():  # without clips and returns, the table has the trial's own metrics
        shutil.rmtree(folder / "media")
        results = folder / "result.json"
        results.write_text(results.read_text().replace("episode_return_mean", "deep/return"))
    lines = command("list", diverged).splitlines()
    assert lines[0].split()[-2:] == ["gap", "loss"]
    assert [line.split()[-2:] for line in lines[1:5]] == [["nan", told] for told in TOLD[:4]]


def test_only_nan_is_no_score_and_is_shown(diverged):
    for folder in diverged.iterdir():
        write_results(folder, {"episode_return_mean": math.nan})
    assert tm.load(diverged).scores.label == "best return of a clip"
    for folder in diverged.iterdir():
        shutil.rmtree(folder / "media")
    rows = [json.loads(line) for line in command("list", diverged, "--json", "--rows", "trials").splitlines()]
    assert {row["score"] for row in rows} == {"NaN"}
    catalog = tm.load(diverged)
    assert (catalog.verdict.sentence, catalog.winner) == ("No score: nothing to compare.", None)


@pytest.mark.slow
def test_the_page_shows_metrics_that_are_not_finite_and_ranks_by_none(browser, diverged, tmp_path):
    ranks = "[...document.querySelectorAll('.run-table tbody tr')].map((row) => row.dataset.trial).join(' ')"
    with opened(browser, diverged, tmp_path, "cards=table", "gallery") as viewer:
        viewer.wait("document.querySelectorAll('td.of-score').length === 5")
        assert viewer.frame.evaluate(ranks) == "t4 t2 t0 t1 t3"
        assert viewer.all("td.of-score") == ["5", "4", "3", "nan", "inf"]
        assert [text[:1] == "#" or "★" in text for text in viewer.all(".run-table .rank")] == [True] * 3
        viewer.frame.fill(".filter", "loss=nan")
        viewer.wait(f"{ranks} === 't1'")
        viewer.frame.fill(".filter", "score=inf")
        viewer.wait(f"{ranks} === 't3'")
        for order in ("", "&descending=false"):
            viewer.open(viewer.url, f"cards=table&columns=metric:loss&sort=metric:loss{order}")
            viewer.wait(f"{ranks} === 't0 t1 t2 t3 t4'")
            assert viewer.all(".run-table tbody td")[:4] == TOLD[:4]
        viewer.open(viewer.url, "score=gap")  # it ranks by none that is finite nowhere
        viewer.wait("document.querySelectorAll('.trial-facts .score dd').length === 5")
        assert viewer.all(".trial-facts .score dd") == ["5", "4", "3", "nan", "inf"]
        viewer.open(viewer.url, "view=trial&trial=t3")
        viewer.wait("document.querySelector('.heading p.muted')?.innerText.includes('mean return inf')")
