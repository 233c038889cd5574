"""Infinity, NaN, None, what is not set, what is unknown, and texts that say so are different hyperparameters."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.viewing import write_trial
from tune_media.experiment.params import UNKNOWN, UNSET
from tune_media.values.strict_json import json_bytes, read_apart, told_apart
from tune_media.viewing.configurations import configurations, short
from tune_media.viewing.episode_table import EpisodeTable
from tune_media.viewing.payload import ShownParams, config_payload

STATIC = Path(tm.__file__).parent / "viewing" / "static"
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


def test_a_filter_of_episodes_finds_each_of_them():
    trials = [str(number) for number in range(len(CASES))]
    table = EpisodeTable.of_rows([{"trial": trial, "episode_return": 1.0} for trial in trials])
    table = EpisodeTable(table.columns, params=STRICT, configs=["p"])
    for text, place in FILTERS:
        assert table.found(text).tolist() == [place], text
    assert table.found("p>0").tolist() == [0, 1]
    assert table.found("p!=nan").tolist() == [place for place in range(len(CASES)) if place != 3]
    ordered = table.rows(sort="p")["rows"]
    assert [row[table.names.index("config/p")] for row in ordered][:3] == ["-inf", "0.5", "inf"]


SCRIPT = """
global.window = {};
require(process.argv[1] + "/filter.js");
const tm = window.tuneMedia;
tm.ui = { number: (value) => String(value) };
const { strict, filters } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const values = strict.map((one) => tm.filter.readAll(one).p);
const found = (text) => {
  const { test, problem } = tm.filter.parse(text, (name) => (name === "p" ? (row) => row.p : null), () => "", ["p"]);
  return problem || values.map((p, place) => (test({ p }) ? place : -1)).filter((place) => place >= 0);
};
console.log(JSON.stringify({ titles: values.map(tm.filter.shown), found: filters.map(found),
  tokens: values.map((value) => found(tm.filter.token("p", value))), larger: found("p>0"), infinite: found("p<inf") }));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="the page's code is run by Node.js")
def test_the_page_tells_them_apart_in_the_same_words():
    given = json.dumps({"strict": STRICT, "filters": [text for text, _ in FILTERS]})
    done = subprocess.run(["node", "-e", SCRIPT, str(STATIC)], input=given, capture_output=True, text=True, check=True)
    page = json.loads(done.stdout)
    assert page["titles"] == TITLES
    assert page["found"] == [[place] for _, place in FILTERS]
    assert page["tokens"] == [[place] for place in range(len(CASES))]  # the filter of a click on a value
    assert (page["larger"], page["infinite"]) == ([0, 1], [0, 2])


@pytest.fixture
def sweep(tmp_path):
    texts = ["Infinity", "NaN", "null", '"NaN"', "0.5", None, "damaged"]
    for number, text in enumerate(texts):
        folder = write_trial(tmp_path / "exp" / f"t{number}", number, steps=(1,))
        clip = "" if text is None else f', "clip": {text}'
        (folder / "params.json").write_text("{" if text == "damaged" else f'{{"seed": {number}{clip}}}')
        (folder / "result.json").write_text(json.dumps({"training_iteration": 1, "episode_return_mean": -number}))
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
