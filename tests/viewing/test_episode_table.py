import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.recorded import make_trial
from tests.support.stores import StoredTrial
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.episode_reading import EpisodeFiles
from tune_media.viewing.episode_table import robust_z
from tune_media.viewing.gallery import Gallery

scipy_stats = pytest.importorskip("scipy.stats")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    """Two trials of 50 episodes; in one episode a metric is far from all others. One of them has a clip."""
    experiment = tmp_path_factory.mktemp("table") / "exp"
    rng = np.random.default_rng(0)
    for name, lr in (("a", 0.1), ("b", 0.2)):
        store = StoredTrial.in_folder(make_trial(experiment / name, {"lr": lr, "seed": 1}, {}))
        for step in (10, 20):
            records = [
                tm.EpisodeRecord(
                    f"{name}{step}{number}",
                    float(rng.normal(100 * lr, 5)),
                    int(rng.integers(10, 200)),
                    seed=number,
                    metrics={"distance_avg": 1e6 if (name, step, number) == ("b", 20, 7) else float(rng.normal())}
                    | ({"rare": 1.0} if number == 3 else {}),
                )
                for number in range(25)
            ]
            store.add(episodes_of(*records), "evaluation", "x/data", step)
        store.finish()
    return tm.load(experiment)


@pytest.fixture(scope="module")
def table(catalog):
    return EpisodeFiles().table(catalog.trials)


def test_filters_and_orders_are_those_of_pandas(catalog, table):
    frame = catalog.episodes()
    rare = frame["metrics/rare"].notna()
    filters = {
        "": np.ones(100, bool),
        "return < 20 and distance_avg > 0": (frame["episode_return"] < 20) & (frame["metrics/distance_avg"] > 0),
        "length>=100 not trial=a": (frame["episode_length"] >= 100) & (frame["trial"] != "a"),
        "(seed = 3 or seed=4) and config/lr=0.1": frame["seed"].isin([3, 4]) & (frame["config/lr"] == 0.1),
        "rare = None": ~rare,
        'rare!=None and "trial"=b': rare & (frame["trial"] == "b"),
        "length=50..100 B20 | seed=..1": frame["episode_length"].between(50, 100)
        & frame["episode_id"].str.contains("b20")
        | (frame["seed"] <= 1),
        "unknown": ~frame["trial"].isin(["a", "b"]),
    }
    for where, expected in filters.items():
        found = table.rows(where, "return", descending=True, limit=10)
        own = frame[expected].sort_values("episode_return", ascending=False)
        assert (found["count"], found["total"]) == (len(own), 100), where
        ids = [row[found["columns"].index("episode_id")] for row in found["rows"]]
        assert ids == list(own["episode_id"][:10])
    second = table.rows("", "trial", offset=50, limit=50)
    assert {row[0] for row in second["rows"]} == {"b"}


def test_texts_of_episodes_are_columns_that_a_filter_takes(tmp_path):
    store = StoredTrial.in_folder(make_trial(tmp_path / "exp" / "a", {}, {}))
    ends = [{"end": "crash"}, {"end": 'a "goal"', "map": [1]}, {}, {"end": "x" * 300, "map": "crash site"}]
    for step, values in enumerate(([], ends[:3], ends[3:]), 1):
        records = [tm.EpisodeRecord(f"{step}{at}", 1.0, 2) for at in range(len(values))]
        batch = EpisodeBatch(tuple(EpisodeData(one, {}, own) for one, own in zip(records, values, strict=True)))
        store.add(batch, "train", "x/data", step)
    store.finish()
    table = EpisodeFiles().table(tm.load(tmp_path / "exp").trials)
    assert table.values_of("values/end", np.arange(4)) == ["crash", 'a "goal"', None, None]
    assert table.values_of("values/map", np.arange(4)) == [None, None, None, "crash site"]
    assert [table.found(where).tolist() for where in ("end=crash", "crash", "end!=crash")] == [[0], [0, 3], [1, 2, 3]]


def test_a_table_has_no_column_of_success_unless_somebody_tells_it(table):
    assert "success" not in table.names
    assert "terminated" in table.names


@pytest.mark.parametrize(("once", "is_shown"), [(True, True), (False, False), (None, False)])
def test_a_table_has_success_once_and_at_the_end_only_where_they_differ(tmp_path, once, is_shown):
    at_end = [True, None if once is None else False]
    records = [
        tm.EpisodeRecord(str(number), 1.0, 2, success=end, success_once=end or once, success_at_end=end)
        for number, end in enumerate(at_end)
    ]
    with StoredTrial.in_folder(make_trial(tmp_path / "exp" / "a", {}, {})) as store:
        store.add(episodes_of(*records), "train", "x/data", 10)
    table = EpisodeFiles().table(tm.load(tmp_path / "exp").trials)
    assert "success" in table.names
    assert [name in table.names for name in ("success_once", "success_at_end")] == [is_shown] * 2
    if is_shown:
        assert table.found("success_once=yes success_at_end=no").tolist() == [1]


def test_what_cannot_be_read_says_why(table):
    wrong = {"foo < 3": "no column 'foo'", "return <": "needs a value", "< 3": "needs a comparison", "(seed=1": "lacks"}
    wrong |= {"seed=1)": "too much", "return < many": "compares numbers", "trial < b": "texts"}
    for where, message in wrong.items():
        with pytest.raises(ValueError, match=message):
            table.rows(where)


def test_a_histogram_counts_all_and_marks_outliers(table):
    found = table.histogram("distance_avg")
    assert sum(found["counts"]) == 100
    assert found["outliers"][-1] == 1
    values = table.columns["metrics/distance_avg"]
    distance = scipy_stats.median_abs_deviation(values, scale="normal")
    assert robust_z(values) == pytest.approx((values - np.median(values)) / distance, rel=1e-3)
    assert table.histogram("trial")["counts"] == []


def test_a_new_report_is_read_and_a_rolled_back_one_is_left_out(tmp_path):
    folder = make_trial(tmp_path / "exp" / "a", {}, {})
    store = StoredTrial.in_folder(folder)
    files = EpisodeFiles()

    def report(step):
        store.add(episodes_of(tm.EpisodeRecord(f"e{step}", 1.0, 2)), "train", "x/data", step)
        store.finish()
        return files.table(tm.load(tmp_path / "exp").trials).rows()["total"]

    assert [report(10), report(20)] == [1, 2]
    store.goes_on(10)
    store.finish()
    assert files.table(tm.load(tmp_path / "exp").trials).rows()["rows"] == []


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        ("seed", pa.array(["many"])),
        ("metrics", pa.array(["x"])),
    ],
)
def test_a_file_with_episodes_of_other_types_is_left_out_with_a_warning(tmp_path, caplog, column, wrong):
    for name in ("a", "b"):
        with StoredTrial.in_folder(make_trial(tmp_path / "exp" / name, {}, {})) as store:
            store.add(episodes_of(tm.EpisodeRecord(name, 1.0, 2)), "train", "x/data", 10)
    (file,) = (tmp_path / "exp" / "a").rglob("data-*.parquet")
    table = pyarrow.parquet.read_table(file)
    pyarrow.parquet.write_table(table.set_column(table.column_names.index(column), column, wrong), file)
    found = EpisodeFiles().table(tm.load(tmp_path / "exp").trials).rows()
    assert ([row[0] for row in found["rows"]], found["read"]) == (["b"], 1.0)
    assert f"passed over in {str(file)!r}: cannot read the episodes" in caplog.text
    Gallery.of(str(tmp_path / "exp")).write(tmp_path / "gallery")
    assert tm.load(tmp_path / "exp").episodes()["episode_id"].tolist() == ["b"]
