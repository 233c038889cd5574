import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.properties import many
from tune_media.callbacks.mlflow.valid_names import clip_path, valid_name

pytest.importorskip("mlflow")
NAMES = st.text(st.sampled_from("a_0x4@/. -\u00fc(,") | st.characters(codec="utf-8"), min_size=1, max_size=30)


@many
@example(["_0x40@", "@0x40_", "a//b", "a/_0x_/b"])
@given(st.lists(NAMES, unique=True))
@example(["a@b", "a_0x40_b", "_0x40_", "@", "a/../b", "a/b", "..", "a//b", "x" * 400, "x" * 401])
def test_names_are_valid_and_different_names_stay_different(names):
    from mlflow.utils.validation import _validate_metric_name

    valid = list(map(valid_name, names))
    for name in valid:
        _validate_metric_name(name)
    assert len(set(valid)) == len(valid)
    assert valid_name("plain/name-1.0 x") == "plain/name-1.0 x"


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (-12.5, "step_1-return_-12.5-abc.mp4"),
        (1e9, "step_1-return_1e09-abc.mp4"),
        (None, "step_1-abc.mp4"),
        (True, "step_1-abc.mp4"),
        ("high", "step_1-abc.mp4"),
    ],
)
def test_an_artifact_of_a_clip_says_its_return(found, name):
    assert clip_path("media/a-b/step_1-abc.mp4", {"episode_return": found}) == f"media/a-b/{name}"
    assert clip_path("media/a-b/notes.txt", {"episode_return": found}) == "media/a-b/notes.txt"
