"""What a text of a user's names, wherever code of theirs goes afterwards."""

import os

import pyarrow.fs
import pytest

from tune_media.experiment.named import named
from tune_media.experiment.places import find_folders

pytestmark = pytest.mark.any_ray


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder: two runs with models, one with an odd name, and an experiment."""
    for path in ("runs/a/model_1.zip", "runs/b/model_2.zip", "runs/b[1]?/model_3.zip", "exp/trial_0/params.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "place", "part", "pattern"),
    [
        ("exp", "exp", "", ""),
        ("exp/:trial_0", "exp", "trial_0", ""),
        ("exp:trial_0", "exp", "trial_0", ""),
        ("runs/a/model_1.zip", "runs/a/model_1.zip", "", ""),
        ("runs/*/model_*.zip", "runs", "", "*/model_*.zip"),
        ("runs/a/*.zip", "runs/a", "", "*.zip"),
        ("*/a/model_1.zip", "", "", "*/a/model_1.zip"),
    ],
)
@pytest.mark.parametrize("filesystem", [None, pyarrow.fs.LocalFileSystem()])
def test_a_text_names_a_place_that_stays_when_the_current_folder_changes(here, text, place, part, pattern, filesystem):
    if text == "exp/:trial_0":  # as a shell's completion leaves it
        (here / "exp" / ":trial_0").mkdir()
        place, part = "exp/:trial_0", ""
    found = named(text, filesystem)
    os.chdir("/")
    assert (found.place.path, found.part, found.pattern) == (str(here / place), part, pattern)
    assert found.is_file == text.startswith("runs/a/model_1") and found.text == text


def test_a_pattern_matches_in_each_folder_and_only_an_asterisk_has_a_meaning(here):
    assert [path for path, _ in named("runs/*/model_*.zip").folders()] == ["a", "b", "b[1]?"]
    assert [path for path, _ in named("runs/b[1]?*/model_*.zip").folders()] == ["b[1]?"]
    assert [path for path, _ in named("runs/*.zip").folders()] == [""]
    (here / "runs" / "a*").mkdir()
    assert named("runs/a*").pattern == ""  # a folder of that name


@pytest.mark.parametrize("text", ["no", "no:trial_0", "no/*.zip", "exp/no/*/x.zip", ""])
def test_a_name_of_nothing_says_so_and_a_uri_may_have_a_pattern(here, text):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        named(text)
    found = named(f"{(here / 'runs').as_uri()}/*/model_*.zip")
    assert (found.place.path, found.pattern) == (str(here / "runs"), "*/model_*.zip")
    assert find_folders(found.place) == [found.place]
