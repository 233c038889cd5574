import pytest

from tune_media.callbacks.mlflow.valid_names import clip_path, valid_name

pytest.importorskip("mlflow")


def test_names_are_valid_and_different_names_stay_different():
    from mlflow.utils.validation import _validate_metric_name

    names = ["a@b", "a_0x40_b", "loss (train), x", "_0x40_", "@", "ü/ß", "a/../b", "a/b", "..", "a//b"]
    valid = list(map(valid_name, [*names, "plain/name-1.0 x", "x" * 400, "x" * 401]))
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
