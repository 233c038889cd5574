import hashlib
import json

import pytest

import tune_media as tm
from tests.support.stores import LOCAL, index_of, lose_lines
from tune_media.storage.entry import PendingWrite
from tune_media.storage.found_facts import ResultMarks, facts_of_content, kind_of
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import TrialLocation
from tune_media.storage.recovery import heal
from tune_media.storage.trial_store import TrialStore


def test_a_line_that_the_driver_could_not_mark_as_rolled_back_is_marked(trial):
    results = (trial / "result.json").read_text().splitlines()
    again = [json.dumps({**json.loads(results[1]), "clip": "media/evaluation/x/new.mp4"})]
    (trial / "result.json").write_text("\n".join([*results, *again]) + "\n")
    lose_lines(trial, 3)
    heal(LOCAL, str(trial))
    marked = {
        line["training_iteration"]: line.get("rolled_back") for line in index_of(trial) if line["kind"] == "video"
    }
    assert marked == {1: None, 2: True, 3: True}


def test_results_of_another_trial_in_the_same_folder_take_nothing_back(trial):
    results = (trial / "result.json").read_text()
    other = json.dumps({"training_iteration": 1, "trial_id": "t2", "clip": "media/evaluation/x/new.mp4"})
    (trial / "result.json").write_text(results + other + "\n")
    lose_lines(trial)
    heal(LOCAL, str(trial))
    assert not [line for line in index_of(trial) if line.get("rolled_back")]


def test_histograms_pictures_and_records_keep_their_kind(tmp_path, frames):
    location = TrialLocation(LOCAL, str(tmp_path / "sweep/trial"), tmp_path / "driver/trial", "t1")
    store = TrialStore(location)
    store.load()
    values = [
        tm.Image(frames()[0]),
        tm.Histogram([1, 2, 3]),
        tm.EpisodeRecord("e", 1.0, 2),
        tm.Artifact(b"x", name="x.bin"),
    ]
    for value in values:
        _, entry = store.registry.register(value, "train", value.kind, 1, 1)
        store.write(PendingWrite("t1", [entry]))
    store.finish()
    folder = tmp_path / "sweep" / "trial"
    before = index_of(folder)
    (folder / INDEX_PATH).unlink()
    assert heal(LOCAL, str(folder)) == len(values)
    facts = ("kind", "key", "sha256", "width", "height", "count", "episode_return")
    found = {line["path"]: {name: line.get(name) for name in facts} for line in index_of(folder)}
    assert found == {line["path"]: {name: line.get(name) for name in facts} for line in before}


def results(*lines):
    return b"\n".join(json.dumps(line).encode() for line in lines)


def test_the_first_report_of_a_medium_says_its_iteration_and_later_ones_that_it_counts():
    marks = ResultMarks(
        results(
            {"training_iteration": 1, "clip": "media/a.mp4"},
            {"training_iteration": 2, "clip": "media/b.mp4"},
            {"training_iteration": 1, "clip": "media/c.mp4"},
            {"training_iteration": 2, "again": "media/b.mp4"},
        )
    )
    assert marks.facts_of("media/a.mp4") == {"training_iteration": 1, "rolled_back": True}
    assert marks.facts_of("media/b.mp4") == {"training_iteration": 2}
    assert marks.facts_of("media/unknown.mp4") == {}
    assert marks.change_of({"path": "media/a.mp4"}) == {"rolled_back": True}
    assert marks.change_of({"path": "media/a.mp4", "rolled_back": True}) is None


def test_broken_results_are_passed_over():
    whole = results({"training_iteration": 1, "trial_id": "t", "clip": "media/a.mp4"})
    marks = ResultMarks(b'[1]\nnull\n{"training_iteration": "x", "clip": "media/b.mp4"}\n' + whole + b"\n" + whole[:30])
    assert marks.trial_id == "t"
    assert marks.facts_of("media/a.mp4") == {"training_iteration": 1}
    assert marks.facts_of("media/b.mp4") == {}


@pytest.mark.parametrize(
    ("suffix", "content"),
    [("mp4", b"no clip"), ("png", b"\x89PNG"), ("json", b"{half"), ("json", b"[1]"), ("bin", b"")],
)
def test_a_file_that_is_not_what_its_name_says_has_its_checksum_only(suffix, content):
    assert facts_of_content(suffix, content) == {"sha256": hashlib.sha256(content).hexdigest()}


def test_a_clip_tells_its_own_size(frames):
    facts = facts_of_content("mp4", tm.Video(frames(5), fps=12).content())
    assert [facts[name] for name in ("width", "height", "frames", "fps")] == [48, 32, 5, 12]
    assert (kind_of("mp4"), kind_of("png"), kind_of("msgpack")) == ("video", "image", "artifact")
