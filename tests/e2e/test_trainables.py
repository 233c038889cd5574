from pathlib import Path

import numpy as np
import pytest
from ray import tune

import tune_media as tm
from tests.support.experiment import fit, image_steps, media_files, rows_of, tensorboard_events, trial_folders
from tests.support.fake_trial import FakeTrial, run
from tests.support.trackers import mlflow_store, read_wandb
from tune_media.encoding.decode import decode_video

STRICT = tm.MediaOptions(strict=True)


def clip(level: int, count: int = 3) -> list[np.ndarray]:
    return [np.full((16, 24, 3), min(255, level + 40 * index), np.uint8) for index in range(count)]


STEPS = [1, 2, 3]


def nested(config):
    for step in STEPS:
        level = config["trial"] * 20 + step
        tune.report(
            {
                "score": config["trial"] * step,
                "rollout": tm.Video(clip(level), fps=10),
                "deep": {"list": [{"clips": [tm.Video(clip(level), fps=10), tm.Video(clip(level), fps=10)]}]},
                "evaluation": {"picture": tm.Image(clip(level)[0])},
                "weights": [float(value) for value in range(step)],
                "histogram": tm.Histogram(np.arange(step * 10)),
            }
        )


def test_nothing_is_missing_or_double_of_eight_trials_at_once(ray_session, tmp_path):
    results = fit(
        nested,
        tmp_path,
        [tm.TBXMediaLoggerCallback(STRICT), tm.JsonMediaLoggerCallback(STRICT)],
        space={"trial": tune.grid_search(list(range(8)))},
    )
    assert not results.errors
    catalog = tm.load(tmp_path / "exp")
    for result in results:
        rows = [row for row in catalog if row["trial"] == Path(result.path).name]
        assert [row["step"] for row in rows_of(rows, key="rollout")] == STEPS
        assert [row["step"] for row in rows_of(rows, key="deep/list/0/clips")] == sorted(STEPS * 2)
        assert [row["step"] for row in rows_of(rows, key="picture", section="evaluation")] == STEPS
        assert len(rows) == 5 * len(STEPS)
        assert len({row["id"] for row in rows}) == len(rows)
        for row in rows_of(rows, key="rollout"):  # the right clip of the right trial
            level = float(next(iter(decode_video(Path(row["file"]).read_bytes()))).mean())
            assert level == pytest.approx(result.config["trial"] * 20 + row["step"], abs=3)
        assert image_steps(result.path) == {
            "train/rollout": STEPS,
            "train/deep/list/0/clips": STEPS,  # of two at a step, its page shows one
            "evaluation/picture": STEPS,
        }
        events = tensorboard_events(result.path)
        assert {"ray/tune/weights", "train/histogram"} <= set(events.Tags()["histograms"])
        assert [event.histogram_value.num for event in events.Histograms("train/histogram")] == [10 * s for s in STEPS]
        assert isinstance(result.metrics["rollout"], str)
        assert isinstance(result.metrics["deep"]["list"][0]["clips"], tuple)
    assert len(media_files(tmp_path / "exp")) == len(catalog)


@pytest.mark.any_ray
def test_raw_arrays_are_stored_and_a_faulty_value_costs_one_warning(tmp_path, caplog):
    frames = np.random.default_rng(0).integers(0, 255, (1, 4, 3, 16, 24), np.uint8)
    trial = FakeTrial(tmp_path)
    results = [
        {
            "clip": frames + np.uint8(step),
            "ragged": [frames[:, :2] + np.uint8(step), frames[:, :3] + np.uint8(step)],
            "two_channels": np.zeros((4, 16, 24, 2), np.uint8),  # ends a run with Ray's own logger
            "number": step,
        }
        for step in range(3)
    ]
    run([tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()], trial, results)
    catalog = tm.load(tmp_path / "storage")
    assert [row["training_iteration"] for row in rows_of(catalog, key="clip")] == [1, 2, 3]
    assert [row["frames"] for row in rows_of(catalog, key="ragged")] == [2, 3] * 3
    assert len([record for record in caplog.records if "TensorBoard" in record.getMessage()]) == 1
    assert "number" in " ".join(tensorboard_events(trial.local_path).Tags()["scalars"])


@pytest.mark.any_ray
def test_no_result_keeps_the_bytes_of_a_clip_that_cannot_be_stored(tmp_path, monkeypatch):
    def broken(self, *arguments, **more):
        raise OSError("the storage is away")

    monkeypatch.setattr("tune_media.storage.known_media.KnownMedia.register", broken)
    result = {"clip": np.full((1, 4, 3, 16, 24), 9, np.uint8)}
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [result])
    assert result["clip"] == "not stored: video train/clip"


@pytest.mark.any_ray
def test_the_first_options_that_are_given_count(tmp_path):
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(tm.MediaOptions(gif_width=8))]
    trial = FakeTrial(tmp_path)
    run(callbacks, trial, [{"again": tm.Video(clip(9), fps=10)}])
    events = tensorboard_events(trial.storage.trial_fs_path)
    assert int.from_bytes(events.Images("train/again")[0].encoded_image_string[6:8], "little") == 8


def raw(config):
    for level in range(2):
        tune.report({"clip": np.full((1, 3, 3, 16, 16), level, np.uint8)})


def test_one_variable_is_enough(ray_session, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", "tune_media.JsonMediaLoggerCallback")
    fit(raw, tmp_path, None)
    assert len(tm.load(tmp_path / "exp")) == 2


class OtherLibraries(tune.Trainable):
    """Reports figures, images, tensors and frames as they are (tune.report would refuse a tensor)."""

    def step(self):
        import pandas as pd
        import PIL.Image
        import torch
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2, 1), dpi=50)
        figure.subplots().plot([self.iteration, 1, 2])
        return {
            "figure": figure,
            "deep": {"picture": [PIL.Image.new("RGB", (12, 8), (50 * self.iteration, 0, 0))]},
            "tensor": torch.full((5,), float(self.iteration)),
            "loss": torch.tensor(0.5 + self.iteration, requires_grad=True),
            "clip": torch.zeros(1, 4, 3, 16, 24, dtype=torch.uint8) + 10 * self.iteration,
            "table": pd.DataFrame({"a": [self.iteration, 2]}),
            "done": self.iteration == 1,
        }

    def save_checkpoint(self, folder):
        return {}


@pytest.mark.any_ray
def test_values_of_other_libraries_are_logged_as_what_they_are(ray_session, tmp_path):
    results = fit(OtherLibraries, tmp_path, [tm.JsonMediaLoggerCallback(media=STRICT), tm.TBXMediaLoggerCallback()])
    assert not results.errors
    catalog = tm.load(tmp_path / "exp")
    kinds = {key: [row["kind"] for row in rows_of(catalog, key=key)] for key in {row["key"] for row in catalog}}
    assert kinds == {
        "figure": ["image"] * 2,
        "deep/picture": ["image"] * 2,
        "clip": ["video"] * 2,
        "table": ["artifact"] * 2,
    }
    (trial,) = trial_folders(tmp_path / "exp")
    assert image_steps(trial) == {"train/figure": [1, 2], "train/deep/picture": [1, 2], "train/clip": [1, 2]}
    events = tensorboard_events(trial)
    assert [event.value for event in events.Scalars("ray/tune/loss")] == [0.5, 1.5]
    assert [event.histogram_value.num for event in events.Histograms("ray/tune/tensor")] == [5, 5]


def told_by_a_wrapper(config):
    """Play six episodes with a wrapper around the env, and report the best of every second."""
    from tests.support.envs.telling import TellingEnv

    def heat(step):
        return {"heat": tm.Image.heatmap(np.eye(6) * step.step), "phase": "late" if step.step > 4 else "early"}

    env = tm.gym.RecordEpisodes(TellingEnv({"log_dir": config["log_dir"]}), collect=heat, keep="best", strict=True)
    for _ in range(3):
        for _ in range(2):
            env.reset()
            over = False
            while not over:
                *_, over, _, _ = env.step(0)
        tune.report({"rollout": env.take()})


@pytest.fixture(scope="module")
def wrapped(ray_session, tmp_path_factory):
    """Return the folder of a run with three trackers, its episodes and its trial's folder."""
    folder = tmp_path_factory.mktemp("wrapped")
    store = {"tracking_uri": mlflow_store(folder), "artifact_location": f"file://{folder}/mlruns"}
    callbacks = [
        tm.TBXMediaLoggerCallback(media=STRICT),
        tm.WandbMediaLoggerCallback(media=STRICT, project="p", mode="offline"),
        tm.MLflowMediaLoggerCallback(media=STRICT, **store),
    ]
    results = fit(told_by_a_wrapper, folder, callbacks, space={"log_dir": str(folder)})
    assert not results.errors
    (trial,) = trial_folders(results.experiment_path)
    return folder, tm.load(results.experiment_path), trial


@pytest.mark.any_ray
def test_a_wrapper_in_a_trainable_tells_of_every_episode(wrapped):
    from tests.support.envs.telling import told_by

    folder, catalog, trial = wrapped
    wrote = told_by(folder, "train")
    table = catalog.episodes().sort_values("episode_return")
    assert [series["speed"] for series in table["series"]] == [one["speed"] for one in wrote]
    assert {values["phase"] for values in table["values"]} == {"late"}
    assert image_steps(trial) == {"train/rollout/best": [1, 2, 3], "train/rollout/heat/best": [1, 2, 3]}
    events = tensorboard_events(trial)
    assert len(events.Scalars("ray/tune/rollout/custom_metrics/speed_avg_mean")) == 3
    steps = sum(one["length"] for one in wrote)
    assert sum(e.histogram_value.num for e in events.Histograms("train/rollout/speed")) == steps
    (text, *_) = events.Tensors("train/rollout/phase/text_summary")
    assert b"late" in text.tensor_proto.string_val[0]


@pytest.mark.any_ray
def test_wandb_has_the_clips_and_pictures_of_a_wrapper_in_a_trainable(wrapped):
    _, _, trial = wrapped
    held = read_wandb(trial)
    assert sorted(held.clips) == ["train/rollout/best"]
    assert sorted(held.images) == ["train/rollout/heat/best"]
