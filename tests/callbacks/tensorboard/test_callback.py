"""The TensorBoard callback, without Ray: another one beside it, and odd values."""

import numpy as np
import pytest
from ray.tune.logger import TBXLoggerCallback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run


def events(folder):
    """Return the steps of each tag, over all event files of a trial."""
    found: dict[str, list[int]] = {}
    for file in sorted((folder / "driver/staging/t1").glob("events.out.tfevents.*")):
        reader = EventAccumulator(str(file), size_guidance={"images": 0, "scalars": 0}).Reload()
        for tag in reader.Tags()["scalars"]:
            found.setdefault(tag, []).extend(event.step for event in reader.Scalars(tag))
        for tag in reader.Tags()["images"]:
            found.setdefault(tag, []).extend(event.step for event in reader.Images(tag))
    return found


def clip():
    return tm.Video((np.full((16, 24, 3), 9 * t, np.uint8) for t in range(3)), fps=5)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: [tm.TBXMediaLoggerCallback(), TBXLoggerCallback()], "TBXLoggerCallback writes them"),
        (lambda: [tm.TBXMediaLoggerCallback(), tm.TBXMediaLoggerCallback()], "the first one writes them"),
    ],
    ids=["rays", "ours"],
)
def test_two_loggers_show_each_step_once(tmp_path, caplog, make, says):
    """Two event files purged each other's steps."""
    results = [{"score": step, "clip": clip(), "training_iteration": step} for step in (1, 2, 2, 3)]
    run(make(), FakeTrial(tmp_path), results)
    found = events(tmp_path)
    assert sorted(set(found["ray/tune/score"])) == [1, 2, 3]
    assert len(found["ray/tune/score"]) == 3 if "first" in says else 4  # Ray's own shows a repeated step twice
    assert sorted(set(found["train/clip"])) == [1, 2, 3]
    (said,) = [r.getMessage() for r in caplog.records if "TensorBoard scalars" in r.getMessage()]
    assert says in said
    assert "Pass only TBXMediaLoggerCallback" in said


def test_the_command_that_shows_all_clips_is_printed_once(tmp_path, capsys):
    """Tune prints a command before it, with which TensorBoard keeps ten clips a tag."""
    folder = tmp_path / "a folder"
    run([tm.TBXMediaLoggerCallback()], FakeTrial(folder), [{"clip": clip(), "training_iteration": 1}])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "tensorboard --logdir" in line]
    assert line == (
        "To see all clips in TensorBoard, run: "
        f"`tensorboard --logdir '{folder / 'driver/staging'}' --samples_per_plugin images=1000`"
    )
