"""Hostile input, made up by hypothesis: nothing raises, nothing leaves the trial folder, nothing is lost for it."""

import contextlib
import json
import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ray import tune

import tune_media as tm
from tests.support.experiment import fit
from tests.support.fake_trial import FakeTrial, run
from tests.support.index_lines import parse_index
from tests.support.properties import few, many
from tune_media.cli import main
from tune_media.results.clean import clean_result
from tune_media.results.old_api_stack import Windows, new_episodes
from tune_media.results.reader import replace_media
from tune_media.storage.episode_files import EpisodeReport, RecorderEpisodes, report_json, report_parquet
from tune_media.storage.file_names import safe_key
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import LOCATION_FILE
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.values.foreign import whole_characters
from tune_media.values.medium import Medium
from tune_media.values.strict_json import as_plain, json_bytes
from tune_media.values.video import Video, is_whole_mp4
from tune_media.viewing.trials import media_table

hostile = settings(many, max_examples=60)

ODD_TEXTS = (
    "", "/", "..", "../../etc/passwd", "a/../../b", "/etc/passwd", "C:\\Windows\\..\\x", "a\0b", "a\nb\r\nc",
    "\x1b[31mred\x1b[0m\x07", "x" * 500, "/".join("y" * 50 for _ in range(1000)), "😀👩‍👩‍👧 ключ",
    "<script>alert('x')</script>&amp;", "\u202egpj.exe\u200f", "\u2028\u2029\x85", "\ud800 half a character",
    "{curly} %s %(name)s", "CON", "index.jsonl",
)  # fmt: skip
TEXTS = st.integers(0, len(ODD_TEXTS) - 1).map(ODD_TEXTS.__getitem__) | st.text(
    st.characters(exclude_categories=()), max_size=30
)


class NoText:
    def __str__(self):
        raise RuntimeError("hostile")

    __repr__ = __str__


ODD_OBJECTS = st.builds(NoText) | st.builds(object) | st.builds(lambda: 10**5000)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.binary(max_size=20)
    | TEXTS
    | st.sampled_from(
        [np.float16("nan"), np.int8(3), np.datetime64("nat"), np.longdouble(1), np.str_("x"), np.bool_(1)]
    )
)
KEYS = TEXTS | st.integers() | st.binary(max_size=8) | st.none() | st.tuples(TEXTS, st.integers()) | st.builds(NoText)
ARRAYS = (
    hnp.arrays(hnp.scalar_dtypes() | hnp.array_dtypes(max_size=3), hnp.array_shapes(min_dims=0, max_dims=5, min_side=0))
    | st.builds(lambda: np.full((1, 2, 3, 8, 8), np.nan))
    | st.builds(lambda items: _objects(items), st.lists(SCALARS | ODD_OBJECTS, max_size=3))
)


def _objects(items):
    array = np.empty(len(items), object)
    for index, item in enumerate(items):
        array[index] = item
    return array


def histogram():
    return tm.Histogram([1.0, 2.0])


MEDIA = st.builds(histogram)


def trees(leaves):
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(KEYS, inner, max_size=4)
            | st.tuples(inner, inner)
            | st.lists(inner, max_size=3).map(_objects)
        ),
        max_leaves=12,
    )


def media_in(value, seen=None):
    """Yield the media in a structure, in the reader's own order or not, with the containers in it followed once."""
    seen = {} if seen is None else seen
    kind = type(value)
    if issubclass(kind, Medium):
        yield value
    elif id(value) not in seen:
        if issubclass(kind, (dict, list, tuple, set, frozenset)) or kind is np.ndarray:
            seen[id(value)] = value
        if issubclass(kind, dict):
            for item in list(dict.values(value)):
                yield from media_in(item, seen)
        elif kind in (list, tuple, set, frozenset) or (kind is np.ndarray and value.dtype == object):
            for item in value.tolist() if kind is np.ndarray else value:
                yield from media_in(item, seen)


def read(result):
    found, unread = [], []

    def place(item):
        found.append(item)
        return f"path {item.medium.id}"

    clean_result(result)
    replace_media(result, place, unread=lambda key, reason: unread.append((key, reason)))
    for key, reason in unread:
        assert isinstance(key, str)
        assert isinstance(reason, str)
    return found, unread


# The reader


@hostile
@given(st.dictionaries(KEYS, SCALARS | ODD_OBJECTS | trees(SCALARS | ARRAYS | ODD_OBJECTS | MEDIA), max_size=5))
def test_all_media_of_any_result_are_replaced_and_what_is_no_medium_is_left_as_it_was(result):
    clean_result(result)
    before = {key: value for key, value in result.items() if key != "config"}
    expected = {medium.id for medium in media_in(before)}
    others = {key: value for key, value in before.items() if not list(media_in(value))}
    found, _ = read(result)
    assert expected <= {item.medium.id for item in found}
    assert not list(media_in({key: result[key] for key in before}))
    if all(item.medium.id in expected for item in found):  # no array happens to look like a clip
        assert list(result) == list(before)
        assert all(result[key] is value for key, value in others.items())


def test_sets_hold_media_too():
    result = {"a": {histogram(), histogram()}, "b": frozenset([histogram()]), "c": {1, 2}, "d": {histogram(), 5}}
    found, _ = read(result)
    assert len(found) == 4
    assert not list(media_in(result))
    assert result["c"] == {1, 2}
    assert 5 in result["d"]


@hostile
@given(st.data())
def test_cyclic_dicts_and_lists(data):
    """Any graph of dicts and lists, with media in it."""
    nodes = [data.draw(st.sampled_from([dict, list]))() for _ in range(data.draw(st.integers(1, 5)))]
    for _ in range(data.draw(st.integers(0, 15))):
        node = data.draw(st.sampled_from(nodes))
        item = data.draw(st.sampled_from(nodes) | MEDIA | st.integers())
        if isinstance(node, dict):
            node[f"k{len(node)}"] = item
        else:
            node.append(item)
    result = {"root": nodes[0], "other": nodes[-1]}
    result["self"] = result
    clean_result(result)
    expected = {medium.id for medium in media_in(result)}
    found, _ = read(result)
    assert {item.medium.id for item in found} == expected
    assert len(found) == len(expected) or len({id(i.medium) for i in found}) == len(expected)
    assert not list(media_in(result))


def test_tuples_sets_and_arrays_that_hold_themselves_end():
    inner: list = []
    holder = (histogram(), inner)
    inner.append(holder)
    array = np.empty(6, object)
    array[:] = [array] * 5 + [histogram()]  # six to the power of the depth, were it followed
    found, _ = read({"tuple": holder, "array": array})
    assert len(found) == 2


def test_arrays_of_objects_are_not_taken_for_one_another():
    """Their items are lists that live for a moment, and Python gives the next one the same id."""
    medium = [histogram() for _ in range(20)]
    result = {"outer": [{f"a{i}": _objects([m])} for i, m in enumerate(medium)]}
    read(result)
    standing = [value for item in result["outer"] for value in item.values()]
    assert standing == [(f"path {m.id}",) for m in medium]


def test_what_goes_with_media_in_a_list_keeps_its_shape():
    pair = (1, (2, 3))
    result = {"x": [histogram(), pair, [histogram()]]}
    found, _ = read(result)
    assert len(found) == 2
    assert result["x"] == [f"path {found[0].medium.id}", pair, (f"path {found[1].medium.id}",)]
    assert result["x"][1] is pair


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"k": x}, lambda x: {"k": [x]}])
def test_two_thousand_levels_end(wrap):
    deep = histogram()
    for _ in range(2000):
        deep = wrap(deep)
    found, _ = read({"deep": deep, "evaluation": {"deep": deep}, "x": histogram()})
    assert [item.key for item in found] == ["x"]


def test_shared_lists_are_walked_once():
    laughs = [histogram()]
    for _ in range(25):
        laughs = [laughs, laughs, 1]
    found, _ = read({"x": laughs})
    assert len(found) == 1


def test_what_placing_raises_is_not_swallowed():
    def place(found):
        raise KeyError("strict")

    with pytest.raises(KeyError, match="strict"):
        replace_media({"x": [[histogram()]]}, place)


@hostile
@given(trees(SCALARS | ODD_OBJECTS), trees(SCALARS | ODD_OBJECTS))
def test_counters_of_any_kind_identify_a_raw_clip(iteration, steps):
    for hidden in (iteration, steps):
        clip = np.zeros((1, 2, 3, 8, 8), np.uint8)
        counters = {"num_env_steps_sampled_lifetime": hidden, "num_episodes_lifetime": 10**400, "clip": clip}
        evaluation = {"num_healthy_workers": 1, "clip": clip + np.uint8(1)}
        result = {"training_iteration": hidden, "env_runners": counters, "evaluation": evaluation}
        found, _ = read(result)
        assert len(found) == 2


# Values


def mp4():
    return tm.Video([np.zeros((16, 24, 3), np.uint8)] * 3).data


MP4 = mp4()
NO_MP4 = (
    st.binary(max_size=200)
    | st.integers(0, len(MP4) - 1).map(lambda end: MP4[:end])
    | st.binary(min_size=1, max_size=100).map(lambda tail: b"\0\0\0\x20ftyp" + tail)
)


@few
@given(NO_MP4)
@example(b"")
@example(b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
@example(b"ffconcat version 1.0\nfile /etc/passwd\n")
@example(MP4[:-1])
def test_bytes_that_are_no_mp4_are_refused_or_a_failed_line(data):
    with pytest.raises(ValueError, match="from_file"):
        tm.Video(data)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "clip.mp4").write_bytes(data)
        with pytest.raises(ValueError, match=r"clip\.mp4"):
            tm.Video.from_file(Path(folder) / "clip.mp4")
    video = Video.__new__(Video)  # one that came past the checks
    video.__dict__.update(tm.Video([np.zeros((16, 24, 3), np.uint8)]).__dict__, data=data)
    with trial() as place:
        place.log({"clip": video})
        (line,) = place.lines()
        assert line["status"] == "failed"
        assert "not a complete mp4" in line["note"]
        assert place.files() == []


def test_whole_mp4s_pass():
    assert is_whole_mp4(MP4)
    assert is_whole_mp4(MP4 + b"what some cameras leave at the end")
    at = MP4.index(b"mdat") - 4
    assert is_whole_mp4(MP4[:at] + b"\0\0\0\0" + MP4[at + 4 :])  # the last box may say that it reaches to the end
    large = len(MP4) - at + 8
    assert is_whole_mp4(MP4[:at] + b"\0\0\0\x01mdat" + large.to_bytes(8, "big") + MP4[at + 8 :])


@few
@given(TEXTS, TEXTS, trees(SCALARS | ODD_OBJECTS), st.dictionaries(KEYS, SCALARS | ODD_OBJECTS, max_size=3))
def test_captions_names_and_facts(text, other, odd, metrics):
    media = [
        tm.Image(np.zeros((8, 8), np.uint8), caption=text),
        tm.Artifact(b"x", name=text or "x"),
        tm.EpisodeRecord(text, math.nan, 10**30, seed=10**5000, task=odd, agent=other, metrics=metrics, note=text),
    ]
    with trial() as place:
        place.log(*({other: medium} for medium in media))
        lines = place.lines()
        assert [line["status"] for line in lines] == ["stored"] * len(media)
        assert same_text(lines[0]["caption"], text)
        assert same_text(lines[1]["name"], text or "x")
        assert same_text(lines[2]["episode_id"], text)
        assert len(place.files()) == len(media)


@hostile
@given(TEXTS, trees(SCALARS | ODD_OBJECTS), st.dictionaries(TEXTS, st.floats(), max_size=3), st.integers())
def test_files_of_episodes(text, task, metrics, seed):
    record = tm.EpisodeRecord(text, 1.0, 2, seed=seed, task=task, metrics=metrics, note=text)
    batch = EpisodeBatch((EpisodeData(record, values={text: text}),))
    report = EpisodeReport("trial", 1, 1, [RecorderEpisodes("train", text, batch)])
    (row,) = strict_json(report_json(report, "episode_data/data-1.json"))
    assert same_text(row["episode_id"], text)
    assert report_parquet(report)[:4] == b"PAR1"


@hostile
@given(trees(SCALARS | ARRAYS | ODD_OBJECTS))
def test_json_of_anything_is_one_strict_line_and_a_value_of_an_episode_is_plain_or_a_type_error(value):
    content = json_bytes({"x": value})
    assert len(content.decode().splitlines()) == 1
    strict_json(content)
    with contextlib.suppress(TypeError):
        json_bytes(as_plain(value, "name"))


def test_json_of_a_value_that_has_no_end():
    cyclic: list = [1]
    cyclic += [cyclic, {"again": cyclic}]
    array = np.empty(3, object)
    array[:] = [array, array, 1]
    deep: list = []
    for _ in range(2000):
        deep = [deep]
    itself = "<contains itself>"
    expected = {"a": [1, itself, {"again": itself}], "b": [itself, itself, 1]}
    assert strict_json(json_bytes({"a": cyclic, "b": array})) == expected
    strict_json(json_bytes(deep))
    with pytest.raises(TypeError, match="levels"):
        as_plain(deep, "name")


@few
@given(st.data())
def test_legacy_episodes_of_any_kind(data):
    odd = trees(SCALARS | ARRAYS | ODD_OBJECTS)
    lists = st.lists(SCALARS | ODD_OBJECTS | odd, max_size=4) | ARRAYS | odd

    told: list[str] = []
    windows = Windows()
    for _ in range(2):
        histograms = {"episode_reward": data.draw(lists | st.just([1.0, 2.0])), "episode_lengths": data.draw(lists)}
        place = {
            "hist_stats": {**histograms, data.draw(TEXTS): data.draw(lists)},
            "custom_metrics": data.draw(st.dictionaries(KEYS, lists, max_size=2) | odd),
            "episode_media": data.draw(st.dictionaries(KEYS, lists, max_size=2) | odd),
            "episodes_this_iter": data.draw(odd | st.just(1)),
        }
        result = {"env_runners": place, "evaluation": data.draw(odd), "training_iteration": data.draw(odd)}
        for new in new_episodes(result, windows, told.append):
            report_json(EpisodeReport("trial", 1, 1, [RecorderEpisodes(new.section, "rllib", new.batch)]), "x.json")
            new.put("path")


# The store


class LoggedTrial:
    def __init__(self, folder):
        self.trial = FakeTrial(folder)
        self.path = Path(self.trial.storage.trial_fs_path)
        self.index = self.path / INDEX_PATH

    def log(self, *results):
        run([tm.JsonMediaLoggerCallback()], self.trial, [{"timesteps_total": 1, **result} for result in results])

    def lines(self):
        content = self.index.read_bytes()
        assert content.endswith(b"\n")
        assert len(content.decode().splitlines()) == content.count(b"\n")
        return [strict_json(line) for line in content.splitlines()]

    def files(self):
        files = (path for path in self.path.rglob("*") if path.is_file() and path.name != "index.jsonl")
        return sorted(str(path.relative_to(self.path)) for path in files)


@contextlib.contextmanager
def trial():
    """Yield a trial; all that is written is in its folder, but for the files of Tune and the experiment's log."""
    with tempfile.TemporaryDirectory() as folder:
        place = LoggedTrial(Path(folder))
        yield place
        others = [f"driver/staging/t1/{name}" for name in (LOCATION_FILE, "params.json", "params.pkl", "result.json")]
        files = [path.resolve() for path in Path(folder).rglob("*") if path.is_file()]
        everything = {str(file.relative_to(Path(folder).resolve())) for file in files}
        logs = re.compile(r"storage/\.tune_media_log/([-0-9a-f]+\.(jsonl|done\.json)|delivered\.json)")
        outside = {p for p in everything if not p.startswith("storage/t1/") and not logs.fullmatch(p)}
        assert outside == set(others)


def strict_json(content):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(content.decode("utf-8", "strict"), parse_constant=refuse)


def same_text(one, other):
    """Return whether texts are the same in JSON, which has no two halves of a character beside one another."""
    return one.encode("utf-16", "surrogatepass") == other.encode("utf-16", "surrogatepass")


def assert_inside(path):
    parts = path.split("/")
    assert path.isascii()
    assert path.isprintable()
    assert len(path) <= 600
    assert all(part not in ("", ".", "..") and len(part) <= 255 and not set(part) & set('\\:*?"<>| ') for part in parts)


LONG_KEYS = st.lists(TEXTS, min_size=1, max_size=1000).map("/".join)


def test_long_keys_that_differ_at_their_end_differ():
    keys = ["/".join(["part"] * 1000 + [str(i)]) for i in range(10)] + ["x" * 2000 + str(i) for i in range(10)]
    assert len({safe_key(key) for key in keys}) == len(keys)
    assert safe_key(keys[0]).startswith("part/part/")


class Odd(Medium):
    kind = "odd"

    def __init__(self, id, suffix, data):
        self.id, self._suffix, self.data = id, suffix, data

    @property
    def suffix(self):
        return self._suffix

    def content(self):
        return self.data

    def facts(self):
        return {"nan": math.nan, "data": self.data}


@few
@given(st.lists(st.tuples(TEXTS, TEXTS | LONG_KEYS, TEXTS), min_size=1, max_size=6, unique_by=lambda item: item[0]))
@example([("a" * 12 + "1", "k", ".x"), ("a" * 12 + "2", "k", ".x")])
@example([("\ud800", "k", ".x"), ("\ud801", "k", ".x"), ("?", "k", ".x")])
def test_keys_ids_and_suffixes_of_any_kind_are_stored_apart_and_given_back(items):
    with trial() as place:
        contents = [f"content {index}".encode() for index in range(len(items))]
        media = [Odd(id, suffix, content) for (id, _, suffix), content in zip(items, contents, strict=True)]
        results = [{"evaluation": {key: medium}} for (_, key, _), medium in zip(items, media, strict=True)]
        place.log(*results)
        keys = [whole_characters(key) for _, key, _ in items]
        paths = [result["evaluation"][key] for result, key in zip(results, keys, strict=True)]
        for path, content in zip(paths, contents, strict=True):
            assert_inside(path)
            assert (place.path / path).read_bytes() == content
        listed = list(parse_index(place.index.read_bytes()))
        assert listed == place.lines()
        assert [line["path"] for line in listed] == paths
        assert [line["key"] for line in listed] == keys
        assert all(same_text(line["id"], id) for line, (id, _, _) in zip(listed, items, strict=True))
        assert {line["step"] for line in listed} == {1}
        place.log({"evaluation": {items[0][1]: media[0]}})  # a restart reads it again
        assert place.files() == sorted(paths)
        assert len(tm.load(place.path.parent)) == len(items)


# The index

GOOD = {"v": 4, "id": "a" * 32, "kind": "video", "section": "train", "key": "k", "path": "media/train/k/x.mp4"}
GOOD |= {"row": 1, "step": 1, "training_iteration": 1, "status": "stored"}
ODD_PATHS = st.sampled_from(["../../etc/passwd", "/etc/passwd", "a/../../b", "a\0b", "", ".", "..", "a//b", "\\\\h\\x"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | ODD_PATHS | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
LINES = st.builds(
    lambda changed, missing: {k: v for k, v in (GOOD | changed).items() if k not in missing},
    st.dictionaries(st.sampled_from([*GOOD, "frames", "episode_return", "params", "file", "trial"]), JSON_VALUES),
    st.sets(st.sampled_from(list(GOOD)), max_size=2),
).map(lambda line: json.dumps(line).encode())
RAW_LINES = (
    LINES
    | LINES.map(lambda line: line[: len(line) // 2])
    | st.binary(max_size=50)
    | st.sampled_from(
        [b"[" * 100_000, b'{"a":' * 50_000, b"null", b"\xff\xfe[\0]\0", b"1" * 5000, b"NaN", b"\xef\xbb\xbf{}"]
    )
)
INDICES = st.lists(RAW_LINES, max_size=6).map(b"\n".join)
PARAMS = (
    JSON_VALUES.map(lambda value: json.dumps(value).encode())
    | st.sampled_from([b"[1]", b"[" * 100_000])
    | st.binary(max_size=20)
)


@few
@given(st.lists(st.tuples(INDICES, PARAMS), min_size=1, max_size=3))
def test_any_experiment_is_loaded_listed_and_shown(trials):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for number, (index, params) in enumerate(trials):
            path = root / f"<b>\x1b[31mtrial\u202e{number}"
            (path / "media").mkdir(parents=True)
            (path / INDEX_PATH).write_bytes(index)
            (path / "params.json").write_bytes(params)
        catalog = tm.load(root)
        for row in catalog:
            assert Path(row["file"]).is_absolute()
            assert Path(row["file"]).resolve().is_relative_to(root / row["trial"])
        table = media_table(catalog)
        assert all(line.isprintable() for line in table.split("\n"))
        assert len(table.split("\n")) == len(catalog) + 1
        table.encode()
        output = CliRunner().invoke(main, ["list", folder])
        codes = (0,) if len(catalog) else (0, 1)  # a trial without clips is listed if it has results
        assert output.exit_code in codes, output.exception
        assert output.exception is None or isinstance(output.exception, SystemExit)
        assert len(catalog.to_pandas()) == len(catalog)
        html = catalog._repr_html_()
        html.encode()
        assert "<b>" not in html
        assert "<script" not in html
        catalog.episodes()
        repr(catalog)


@pytest.mark.parametrize(("key", "shown"), [("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("😀 ключ", "😀 ключ")])
def test_table_shows_escapes_as_text(tmp_path, key, shown):
    (tmp_path / "trial" / "media").mkdir(parents=True)
    (tmp_path / "trial" / INDEX_PATH).write_text(json.dumps(GOOD | {"key": key}))
    assert shown in media_table(tm.load(tmp_path))


def test_a_folder_whose_name_is_no_text_is_passed_over(tmp_path):
    (tmp_path / "trial" / "media").mkdir(parents=True)
    (tmp_path / "trial" / INDEX_PATH).write_text(json.dumps(GOOD))
    try:
        Path(bytes(tmp_path).decode() + "/\udcff").mkdir()
    except (OSError, UnicodeError):
        pytest.skip("this filesystem has no such names")
    assert len(tm.load(tmp_path)) == 1


def test_episodes_whose_file_is_gone_or_broken_are_left_out(tmp_path, caplog):
    episodes = GOOD | {"kind": "episodes", "status": "stored"}
    for name, content in (("gone", None), ("broken", b"no parquet")):
        folder = tmp_path / name
        (folder / "media").mkdir(parents=True)
        (folder / "episode_data").mkdir()
        path = "episode_data/data-00000001.json"
        (folder / INDEX_PATH).write_text(json.dumps(episodes | {"path": path}))
        if content is not None:
            (folder / path).with_suffix(".parquet").write_bytes(content)
    assert len(tm.load(tmp_path).episodes()) == 0
    assert caplog.text.count("cannot read the episodes") == 2


# A real run


class Unasked:
    """Raises whatever nobody has a reason to ask.

    Ray, without any callback, ends a sweep at a result whose ``__repr__`` raises, and at its next snapshot of the
    experiment's state where a list contains itself: such results are left out of the run.
    """

    __eq__ = __len__ = __bool__ = __iter__ = __array__ = __float__ = __int__ = NoText.__str__
    __hash__ = None


def hostile_results(config):
    rng = np.random.default_rng(config["trial"])
    for step in range(3):
        clip = tm.Video(rng.integers(0, 255, (3, 16, 24, 3), np.uint8))
        media = {text or "empty": tm.Artifact(b"x", name=text or "x") for text in RUN_TEXTS}
        caption = RUN_TEXTS[step]
        forged = Video.__new__(Video)
        forged.__dict__.update(tm.Video([np.zeros((16, 24, 3), np.uint8)]).__dict__, data=b"no mp4")
        tune.report(
            {
                "score": step,
                **media,
                "nested": {RUN_TEXTS[0]: {RUN_TEXTS[1]: [tm.Image(np.zeros((8, 8), np.uint8), caption=caption)]}},
                "mixed": [clip, [{"deep": [[[[1]]]]}]],
                "set": {tm.Histogram([1, 2])},
                "odd": Unasked(),
                "odd_list": [Unasked(), tm.Histogram([1, 2])],
                "nan": [float("nan"), np.float16("inf")],
                "arrays": [np.zeros((0, 3)), np.array(3.0), np.array([None, 1], object)],
                "bytes": b"\xff" * 100,
                "forged": forged,
            }
        )


RUN_TEXTS = [text for text in ODD_TEXTS if "\ud800" not in text and len(text) <= 500]


@pytest.mark.ray
def test_a_sweep_of_hostile_results(ray_session, tmp_path):
    names = ["a b\n\x1b[31m", "<b>\u202e😀", "..%2f..", "x" * 100]
    name_of = lambda trial: names[trial.config["trial"]]  # noqa: E731
    results = fit(
        hostile_results,
        tmp_path,
        [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        space={"trial": tune.grid_search(list(range(len(names))))},
        tune_config={"trial_name_creator": name_of, "trial_dirname_creator": name_of},
    )
    assert not results.errors
    assert len(results) == len(names)
    catalog = tm.load(tmp_path / "exp")
    of_a_result = len(RUN_TEXTS) + 4  # artifacts, and the picture, the clip and two histograms
    for result in results:
        assert result.metrics["training_iteration"] == 3
        rows = [row for row in catalog if row["trial"] == Path(result.path).name]
        assert len(rows) == len({row["id"] for row in rows}) == 3 * of_a_result
        assert {row["key"] for row in rows} >= {text for text in RUN_TEXTS if text}
        files = {Path(row["file"]).resolve() for row in rows}
        assert len(files) == len(rows)
        assert all(file.is_file() and file.is_relative_to(Path(result.path).resolve()) for file in files)
        lines = list(parse_index((Path(result.path) / INDEX_PATH).read_bytes()))
        assert [line["key"] for line in lines if line["status"] == "failed"] == ["forged"] * 3
        assert not list(media_in(result.metrics))
    written = {path.resolve() for path in (tmp_path / "exp").glob("*/media/**/*") if path.is_file()}
    assert written == {Path(row["file"]).resolve() for row in catalog} | {
        Path(result.path).resolve() / INDEX_PATH for result in results
    }
    assert {path.name for path in tmp_path.iterdir()} == {"exp"}
    assert all(line.isprintable() for line in media_table(catalog).split("\n"))


# Nothing is unpickled

PACKAGE = Path(tm.__file__).parent


def test_nothing_is_unpickled_from_disk():
    """Copies in memory aside, the pickles that are read are recipes, by the process that renders, and checkpoints."""
    unpickles = re.compile(
        r"\b(?:c?pickle|cloudpickle|dill|joblib|marshal|shelve|torch|jsonpickle)\.(?:load|loads|open|Unpickler)\b"
        r"|allow_pickle|\bnp\.load\b|read_pickle|\beval\(|\bexec\(|yaml\.(?:unsafe_)?load\b"
        r"|from (?:pickle|cloudpickle|marshal|shelve|torch|numpy|joblib|dill) import .*\bloads?\b"
    )
    found = [
        (path.name, line.strip())
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in path.read_text().splitlines()
        if unpickles.search(line)
    ]
    assert found == [
        ("checkpoints.py", "state = {} if content is None else pickle.loads(content)"),
        # arrays alone: where a file has pickles, it raises
        ("curve_cache.py", "with np.load(kept, allow_pickle=False) as arrays:"),
        ("sb3.py", "with np.load(io.BytesIO(content), allow_pickle=False) as file:"),
        # of the process that asks, and of a fork of the process that renders
        ("child.py", "message: dict[str, Any] | None = pickle.loads(base64.b64decode(line)) if line else None"),
        ("forks.py", "outcome: T | Exception = pickle.loads(content)"),
        ("recipe.py", "fields = pickle.loads(content)"),
        ("recipe.py", 'make_env = pickle.loads(fields["creator"]) if creator is None else creator'),
        ("recipe.py", 'config, frame, video = (pickle.loads(fields[name]) for name in ("config", "frame", "video"))'),
        ("checkpoint_player.py", "return pickle.load(opened)"),
        ("ray_names.py", "env_runner.set_state(pickle.load(file))"),
        ("will_record.py", "choose = pickle.loads(cloudpickle().dumps(selector.choose))"),
        ("convert.py", 'pickle.loads(pickle.dumps(figure)).savefig(file, format="png")'),
    ]
