"""The TensorBoard callback, without Ray: another one beside it, and odd values."""

import dataclasses
import threading

import numpy as np
import pytest
from ray import tune
from ray.tune.logger import TBXLoggerCallback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tune_media as tm
from tests.support.experiment import image_steps
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip
from tests.support.reader import PlainContext, a_trial, calls_of, renewed
from tests.support.trial_life import assert_tensorboard_shows_once
from tune_media.callbacks.tensorboard.event_file import read_events


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
        f"`tensorboard --logdir '{folder / 'storage'}' --samples_per_plugin images=1000`"
    )


class Slow(tm.Video):
    """A clip whose GIF is made late: after a flag is set."""

    def __init__(self, level, flag):
        super().__init__((np.full((16, 24, 3), 9 * t + level, np.uint8) for t in range(3)), fps=5)
        self._flag = flag

    def content(self):
        self._flag.wait(60)
        return super().content()


@pytest.mark.parametrize("late", [False, True])
def test_clips_of_a_trial_that_went_back_are_shown_once(tmp_path, late):
    """The steps of the images were 1, 2, 3, 4, 2: late clips came after the restart that was to purge them."""
    flag, results = threading.Event(), []
    for number, iteration in enumerate((1, 2, 3, 4, 2, 3), 1):
        results.append({"score": number, "clip": Slow(number, flag), "training_iteration": iteration})
    results[-1 if late else 0]["flag"] = 1

    class Sets(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if "flag" in result:
                flag.set()

    options = tm.MediaOptions(strict=True)
    run([tm.TBXMediaLoggerCallback(media=options), Sets()], FakeTrial(tmp_path), results)
    found = assert_tensorboard_shows_once(tmp_path / "driver/staging/t1")
    assert found["train/clip"] == found["ray/tune/score"] == [1, 2, 3]


def started(folder, context=None, **ray):
    """Return a backend that has begun a trial, the trial, and the entries of its media."""
    (_, trial), *calls = calls_of(a_trial(folder), [1, 2, 3])
    backend, live = tm.TBXMediaLoggerCallback().backend, FakeTrial(folder)
    live.last_result = ray
    backend.context, trial = context or PlainContext(), dataclasses.replace(trial, ray=live)
    backend.start(trial)
    return backend, trial, [call for call in calls if call[0] == "media"]


STEPS = {"train/rollout": [100, 200, 300], "train/map": [100, 200, 300]}


def test_the_same_calls_write_the_same_bytes(tmp_path):
    files = []
    for name in ("once", "again"):
        backend, trial, media = started(tmp_path / name)
        for _, entry in map(renewed, media) if name == "again" else media:
            backend.media(trial, entry)
        backend.end(trial, "finished")
        (file,) = (tmp_path / name / "driver/staging/t1").glob("events.out.*")
        files.append(file.read_bytes())
        assert {event.wall_time for event in read_events(file.open("rb"))} == {1010.0, 1020.0, 1030.0}
        assert image_steps(tmp_path / name / "storage/t1") == STEPS
    assert files[0] == files[1]


def test_an_older_state_that_tunes_last_sync_put_on_the_storage_is_replaced_at_the_end(tmp_path):
    backend, trial, media = started(tmp_path)
    for _, entry in media:
        backend.media(trial, entry)
    backend.end(trial, "finished")
    (stored,) = (tmp_path / "storage/t1").glob("events.out.*")
    whole = stored.read_bytes()
    stored.write_bytes(whole[: len(whole) // 2])
    backend.finish()
    assert stored.read_bytes() == whole


def test_a_trial_that_begins_waits_for_no_storage(tmp_path):
    class Away(PlainContext):
        def wait_for_storage(self):
            return False

    # As of Ray's trials before their first result.
    backend, trial, media = started(tmp_path, Away(), trial_id="t1", training_iteration=0)
    for _, entry in media:
        backend.media(trial, entry)
    assert image_steps(tmp_path / "driver/staging/t1") == STEPS
