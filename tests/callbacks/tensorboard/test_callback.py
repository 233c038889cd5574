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


def events(folder):
    found: dict[str, list[int]] = {}
    for file in (*(folder / "storage/t1").glob("events.out.*"), *(folder / "driver/staging/t1").glob("events.out.*")):
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
    def __init__(self, level, flag):
        super().__init__((np.full((16, 24, 3), 9 * t + level, np.uint8) for t in range(3)), fps=5)
        self._flag = flag

    def content(self):
        self._flag.wait(60)
        return super().content()


@pytest.mark.parametrize("late", [False, True])
def test_clips_of_a_trial_that_went_back_are_shown_once(tmp_path, late):
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
    assert assert_tensorboard_shows_once(tmp_path / "driver/staging/t1")["ray/tune/score"] == [1, 2, 3]
    assert assert_tensorboard_shows_once(tmp_path / "storage/t1")["train/clip"] == [1, 2, 3]


def test_a_medium_that_a_trial_records_again_after_it_went_back_is_shown_again(tmp_path):
    frames = [np.random.default_rng(step).integers(0, 255, (3, 16, 24, 3), np.uint8) for step in range(6)]
    order = ((1, 1), (2, 2), (3, 3), (5, 2), (3, 3), (4, 4))
    played = [{"raw": frames[at], "training_iteration": step} for at, step in order]
    run([tm.TBXMediaLoggerCallback(media=tm.MediaOptions(strict=True))], FakeTrial(tmp_path), played)
    assert image_steps(tmp_path / "storage/t1") == {"train/raw": [1, 2, 3, 4]}


STEPS = {"train/rollout": [100, 200, 300], "train/map": [100, 200, 300]}


def test_calls_that_are_repeated_after_a_kill_show_each_medium_once(tmp_path):
    (_, trial), *calls = calls_of(a_trial(tmp_path), [1, 2, 3])
    media = [call for call in calls if call[0] == "media"]
    for repeated in (0, 2):  # the second process begins two calls before the end of the first one
        backend = tm.TBXMediaLoggerCallback().backend
        backend.context = PlainContext()
        for _, entry in [renewed(call) for call in (media[-repeated:] if repeated else media)]:
            backend.media(trial, entry)
        backend.finish()
    assert len(list((tmp_path / "storage/t1").iterdir())) == 2
    assert image_steps(tmp_path / "storage/t1") == STEPS
    assert not list((tmp_path / "driver/t1").iterdir()), "Tune would copy it again and again"


def test_media_that_wait_for_the_storage_do_not_fill_the_memory(tmp_path, monkeypatch):
    class Away(PlainContext):
        def on_storage(self, what, work, key=None):
            """Do nothing: the storage is away."""

    monkeypatch.setattr("tune_media.callbacks.tensorboard.callback._MOST_WAITING", 100)
    (_, trial), *calls = calls_of(a_trial(tmp_path), [1])
    backend = tm.TBXMediaLoggerCallback().backend
    backend.context = Away()
    (entry, other, *_) = [entry for method, entry in calls if method == "media"]
    backend.media(trial, entry)
    with pytest.raises(OSError, match="has taken no clip") as raised:
        backend.media(trial, other)
    assert backend.is_away(raised.value)
