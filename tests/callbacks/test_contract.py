"""What every callback of the family promises: the same clips, steps and histograms of a run, each in its own way."""

import csv
import importlib.util
import json
import runpy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from ray import tune
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback

import tune_media as tm
from tests.support.experiment import fit, image_steps, tensorboard_events, trial_folders
from tests.support.trackers import Held, mlflow_store, read_mlflow, read_trackio, read_wandb, trackio_project
from tune_media.encoding.decode import probe_video
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series
from tune_media.values.tiled import ClipTile, TiledClips


class Kind(NamedTuple):
    make: Callable[[Path, tm.MediaOptions], tm.MediaLoggerCallback]  # of a test's folder
    read: Callable[[Path, Path, str], Held]  # a trial, of the test's folder, its own folder, and its name


KINDS = {
    "json": Kind(lambda _, media: tm.JsonMediaLoggerCallback(media), lambda _, trial, name: read_files(trial)),
    "tensorboard": Kind(lambda _, media: tm.TBXMediaLoggerCallback(media), lambda _, trial, name: read_events(trial)),
    "wandb": Kind(
        lambda _, media: tm.WandbMediaLoggerCallback(project="contract", mode="offline", media=media),
        lambda _, trial, name: read_wandb(trial),
    ),
    "mlflow": Kind(
        lambda folder, media: tm.MLflowMediaLoggerCallback(
            tracking_uri=mlflow_store(folder), artifact_location=f"file://{folder}/mlruns", media=media
        ),
        lambda folder, trial, name: read_mlflow(mlflow_store(folder), name),
    ),
    "own": Kind(
        lambda folder, media: tm.MediaLoggerCallback(own_backend(folder / "own"), media=media),
        lambda folder, trial, name: read_folder(folder / "own" / name),
    ),
}
if importlib.util.find_spec("trackio"):  # .ci/beside trackio has it: it needs an older Pillow than constraints.txt has
    KINDS["trackio"] = Kind(
        lambda folder, media: tm.TrackioMediaLoggerCallback(trackio_project(folder), media=media),
        lambda folder, trial, name: read_trackio(trackio_project(folder), name),
    )
STEPS = 4


def make(kind, folder):
    return KINDS[kind].make(folder, tm.MediaOptions(strict=True))


def own_backend(folder):
    names = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_backend.py"))
    return names["FolderBackend"](folder)


def clip(level, length):
    return (np.full((16, 24, 3), min(255, level + 10 * index), np.uint8) for index in range(length))


def episodes(step):
    speeds = [np.full(5, float(step)), np.arange(7.0)]
    data = [
        EpisodeData(
            tm.EpisodeRecord(
                f"e{step}-{index}", float(step + index), len(values), metrics={"speed_avg": values.mean()}
            ),
            {"speed": Series(values, 1, len(values))},
        )
        for index, values in enumerate(speeds)
    ]
    return EpisodeBatch(tuple(data))


def is_first(file):
    """Return whether no trial has asked before, also if two ask at once."""
    try:
        Path(file).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def train(config):
    start = 1
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        start = json.loads((Path(checkpoint.path) / "step.json").read_text()) + 1
    for step in range(start, STEPS + 1):
        if config.get("fail_once") and step == 3 and is_first(config["fail_once"]):
            raise RuntimeError("as it was told to")
        clips = {"best": tm.Video(clip(20 * step, step + 2), fps=10), "data": episodes(step)}
        clips["tiled"] = TiledClips([ClipTile("best", f"return {step}", clips["best"])])
        result = {
            "score": config["lr"] * step,
            "evaluation": {"env_runners": {"episodes": clips}},
            "rollout": [tm.Video(clip(step, 3), fps=5)],
            "heat": tm.Image.heatmap(np.eye(4)),
            "weights": tm.Histogram(np.arange(10.0 * step)),
        }
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "step.json").write_text(json.dumps(step))
            tune.report(result, checkpoint=tune.Checkpoint.from_directory(folder))


def run(folder, callbacks, name="contract", **config):
    return fit(train, folder, callbacks, space={"lr": tune.grid_search([0.5, 2.0]), **config}, name=name)


def read_files(trial):
    held = Held()
    for row in tm.load(trial):
        key = f"{row['section']}/{row['key']}"
        if row["kind"] in ("video", "tiled"):
            held.clips[key][row["training_iteration"]] = Path(row["file"]).read_bytes()
        elif row["kind"] == "image":
            held.images[key].append(row["training_iteration"])
        elif row["kind"] == "histogram":
            held.histograms[key][row["training_iteration"]] = json.loads(Path(row["file"]).read_text())["count"]
    for _, row in tm.load(trial).episodes().iterrows():
        for name in ("speed", "episode_return"):
            counted = held.histograms[f"{row['section']}/episodes/{name}"]
            more = len(row["series"]["speed"]) if name == "speed" else 1
            counted[row["training_iteration"]] = counted.get(row["training_iteration"], 0) + more
    for line in (trial / "result.json").read_text().splitlines():
        result = json.loads(line)
        held.scalars["score"][result["training_iteration"]] = result["score"]
    return held


def read_events(trial):
    held, events = Held(), tensorboard_events(trial)
    for key, steps in image_steps(trial).items():
        if key == "train/heat":
            held.images[key] = steps
        else:
            held.clips[key] = dict.fromkeys(steps)
    for key in events.Tags()["histograms"]:
        held.histograms[key] = {event.step: round(event.histogram_value.num) for event in events.Histograms(key)}
    held.scalars["score"] = {event.step: event.value for event in events.Scalars("ray/tune/score")}
    return held


def read_folder(folder):
    held = Held()
    for file in sorted(folder.rglob("[0-9]*-*.*")):
        key, iteration = str(file.parent.relative_to(folder)), int(file.name[:6])
        if file.suffix == ".mp4":
            held.clips[key][iteration] = file.read_bytes()
        else:
            held.images[key].append(iteration)
    for file in folder.rglob("*.json"):
        if file.name != "config.json":
            key = str(file.parent.relative_to(folder))
            held.histograms[key][int(file.stem)] = json.loads(file.read_text())["count"]
    for iteration, name, value in csv.reader((folder / "metrics.csv").read_text().splitlines()):
        held.scalars[name][int(iteration)] = float(value)
    held.status = (folder / "status.txt").read_text()
    return held


def read(kind, folder, trial):
    trial = Path(trial)
    return KINDS[kind].read(folder, trial, "_".join(trial.name.split("_")[:3]))


def assert_kept(held, lr):
    iterations = list(range(1, STEPS + 1))
    assert {key: sorted(steps) for key, steps in held.clips.items()} == {
        "evaluation/episodes/best": iterations,
        "evaluation/episodes/tiled": iterations,
        "train/rollout": iterations,
    }
    for step, data in held.clips["evaluation/episodes/best"].items():
        if data is not None:  # a GIF in TensorBoard
            found = probe_video(data)
            assert (found.frames, found.fps, found.width, found.height) == (step + 2, 10, 24, 16)
            tiled = held.clips["evaluation/episodes/tiled"][step]
            assert (probe_video(tiled).frames, probe_video(tiled).fps) == (step + 2, 10)
    assert held.images == {"train/heat": iterations}
    assert {step: held.scalars["score"][step] for step in iterations} == {step: lr * step for step in iterations}
    assert held.histograms["train/weights"] == {step: 10 * step for step in iterations}
    assert held.histograms["evaluation/episodes/speed"] == dict.fromkeys(iterations, 12)
    assert held.histograms["evaluation/episodes/episode_return"] == dict.fromkeys(iterations, 2)


def lr_of(trial):
    return json.loads((Path(trial) / "params.json").read_text())["lr"]


@pytest.fixture(scope="module")
def together(ray_session, tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    callbacks = [make(kind, folder) for kind in KINDS]
    results = run(folder, callbacks)
    assert not results.errors
    return folder, trial_folders(results.experiment_path), callbacks


@pytest.mark.parametrize("kind", KINDS)
def test_each_holds_the_same(together, kind):
    folder, trials, _ = together
    assert len(trials) == 2
    for trial in trials:
        assert_kept(read(kind, folder, trial), lr_of(trial))


@pytest.mark.any_ray
def test_two_experiments_in_one_process_with_the_same_callbacks(together):
    folder, trials, callbacks = together
    results = run(folder, callbacks, name="second")
    assert not results.errors
    for trial in [*trials, *trial_folders(results.experiment_path)]:
        for kind in KINDS:
            assert_kept(read(kind, folder, trial), lr_of(trial))


def test_a_restored_subset_in_another_order_with_rays_own_beside_it_goes_on_where_it_was(ray_session, tmp_path):
    from ray.air.integrations.mlflow import MLflowLoggerCallback  # takes a trial that imports this file a second

    kinds, others = [*KINDS][:0:-1], [CSVLoggerCallback(), JsonLoggerCallback()]
    others.append(MLflowLoggerCallback(mlflow_store(tmp_path, "rays.db"), experiment_name="rays"))
    callbacks = [*(make(kind, tmp_path) for kind in kinds), *others]
    results = run(tmp_path, callbacks, fail_once=str(tmp_path / "failed"))
    assert len(results.errors) == 1
    tuner = tune.Tuner.restore(results.experiment_path, train, resume_errored=True)
    results = tuner.fit()
    assert not results.errors
    for trial in trial_folders(results.experiment_path):
        for kind in (*kinds, "json"):  # the files are there whoever logs
            held = read(kind, tmp_path, trial)
            assert_kept(held, lr_of(trial))
            if isinstance(held.status, str):  # in words
                assert held.status.lower() == "finished"
