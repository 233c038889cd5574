"""A finished experiment that is logged afterwards, read back from each tracker: once, twice, and after a first half."""

import functools
import json
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import loops
from tests.support.commands import command
from tests.support.envs import CountingEnv
from tests.support.experiment import tensorboard_events
from tests.support.fake_trial import FakeTrial
from tests.support.fake_trial import run as play
from tests.support.faults import episodes
from tests.support.stores import StoredTrial
from tests.support.trackers import mlflow_store, read_mlflow, read_wandb, wandb_runs
from tune_media.callbacks import finished_trial as export_module
from tune_media.callbacks.backend import clips_best_first

pytestmark = pytest.mark.slow

ITERATIONS = [1, 2, 3, 2, 3, 4]  # the trial went back to the first
COUNTING = [1, 2, 3, 4]


def write_trial(experiment, number):
    """Write a trial as Tune and our callbacks do: results, a snapshot's facts, media of each kind at each iteration."""
    id, name = f"abcde_0000{number}", f"train_abcde_0000{number}_{number}_lr={number}_2026"
    folder = experiment / name
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps({"lr": number, "deep": {"list": [1, 2]}}))
    store = StoredTrial.in_folder(folder, id)
    rows = []
    for row, iteration in enumerate(ITERATIONS):
        store.goes_on(iteration)
        frames = np.random.default_rng(row).integers(0, 255, (3, 16, 16, 3), np.uint8)
        record = tm.EpisodeRecord(f"clip {row}", 10.0 * row + number, 3)
        media = {
            "rollout": tm.Video(iter(frames), fps=5, episode=record),
            "map": tm.Image(frames[0], caption="a map"),
            "weights": tm.Histogram(np.arange(10.0 * iteration)),
            "notes": tm.Artifact(b"text", name="notes.txt"),
        }
        result = {"score": float(row), "list": [1, 2], "training_iteration": iteration, "trial_id": id}
        for key, medium in media.items():
            result[key] = store.add(medium, "train", key, iteration)
        store.add(episodes("speed", iteration), "train", "episodes/data", iteration)
        config = {"lr": number, "deep": {"list": [1, 2]}}
        rows.append({**result, "timestamp": 1_700_000_000 + 10 * row, "config": config, "done": row == 5})
    store.finish()
    (folder / "result.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"trial_id": id, "relative_logdir": name, "status": "TERMINATED", "evaluated_params": {"lr": number}}


@pytest.fixture
def experiment(tmp_path):
    folder = tmp_path / "sweep"
    states = [write_trial(folder, number) for number in (1, 2)]
    states[1]["status"] = "ERROR"
    snapshot = {"trial_data": [[json.dumps(state), "{}"] for state in states]}
    (folder / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps(snapshot))
    return folder


def trials_of(experiment):
    return sorted(path for path in experiment.iterdir() if path.is_dir())


def clips_of(trial):
    return {row["training_iteration"]: row.read_bytes() for row in tm.load(trial).clips if not row.get("rolled_back")}


def scores():
    return dict(zip(COUNTING, (0.0, 3.0, 4.0, 5.0), strict=True))


run = functools.partial(command, "export", catch_exceptions=False)


def mlflow_state(uri, experiment_name):
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    found = {}
    for one in client.search_runs([client.get_experiment_by_name(experiment_name).experiment_id]):
        points = {
            name: sorted((p.step, p.timestamp, p.value) for p in client.get_metric_history(one.info.run_id, name))
            for name in one.data.metrics
        }
        files, folders = [], [None]
        while folders:
            for info in client.list_artifacts(one.info.run_id, folders.pop()):
                (folders if info.is_dir else files).append(info.path)
        contents = {path: Path(client.download_artifacts(one.info.run_id, path)).read_bytes() for path in files}
        found[one.info.run_name] = (one.info.status, one.data.params, points, contents)
    return found


def test_mlflow_has_the_whole_experiment_once_however_often_it_is_exported(experiment, tmp_path):
    pytest.importorskip("mlflow")
    uri = mlflow_store(tmp_path)
    options = ["--to", "mlflow", "--tracking-uri", uri, "--artifact-location", f"file://{tmp_path}/artifacts"]
    output = run(experiment, *options)
    assert "mlflow has 2 trials, with 8 results and 32 media." in output
    once = mlflow_state(uri, "sweep")
    assert [state[0] for _, state in sorted(once.items())] == ["FINISHED", "FAILED"]
    for trial in trials_of(experiment):
        held = read_mlflow(uri, trial.name[:17])
        assert dict(held.clips["train/rollout"]) == clips_of(trial)
        assert held.scalars["score"] == scores()
        assert held.images["train/map"] == COUNTING
        assert held.histograms["train/weights"] == {step: 10 * step for step in COUNTING}
        assert held.histograms["train/episodes/speed"] == dict.fromkeys(COUNTING, 5)
        assert held.config["lr"] == trial.name[16]
        assert held.config["deep/list"] == "[1, 2]"
    assert [point[2] for point in once["train_abcde_00001"][2]["best_return"]] == [51.0]
    ((_, at, _), *_) = once["train_abcde_00001"][2]["score"]
    assert at == 1000 * 1_700_000_000
    run(experiment, *options)
    assert mlflow_state(uri, "sweep") == once


def test_wandb_has_the_whole_experiment_once_however_often_it_is_exported(experiment):
    pytest.importorskip("wandb")
    left = trials_of(experiment)[0] / "wandb" / "offline-run-20260101_000000-abcde_00001"
    left.mkdir(parents=True)
    (left / "run-abcde_00001.wandb").write_bytes(b"half")  # of a driver that was killed
    for _ in range(2):
        output = run(experiment, "--to", "wandb", "--project", "p", "--offline")
        assert "wandb has 2 trials, with 8 results and 32 media." in output
        for trial, status in zip(trials_of(experiment), (0, 1), strict=True):
            (_,) = wandb_runs(trial)  # each export has replaced what was there
            held = read_wandb(trial)
            assert dict(held.clips["train/rollout"]) == clips_of(trial)
            assert held.scalars["score"] == scores()
            assert held.images == {"train/map": COUNTING}
            assert held.histograms["train/weights"] == {step: 10 * step for step in COUNTING}
            assert held.status == status
            assert held.config["deep"] == {"list": [1, 2]}


def test_tensorboard_has_the_whole_experiment_once_however_often_it_is_exported(experiment, tmp_path):
    for _ in range(2):
        output = run(experiment, "--to", "tensorboard", "-o", tmp_path / "logs")
        assert "tensorboard has 2 trials, with 8 results and 32 media." in output
        for trial in trials_of(experiment):
            events = tensorboard_events(tmp_path / "logs" / trial.name)
            assert {event.step: event.value for event in events.Scalars("ray/tune/score")} == scores()
            assert events.Scalars("ray/tune/score")[0].wall_time == 1_700_000_000
            assert [event.step for event in events.Images("train/rollout")] == COUNTING
            assert [event.step for event in events.Images("train/map")] == COUNTING
            counted = {event.step: event.histogram_value.num for event in events.Histograms("train/weights")}
            assert counted == {step: 10 * step for step in COUNTING}
            assert events.Histograms("train/weights")[-1].histogram_value.max == 39.0
            assert events.Histograms("train/episodes/speed")[0].histogram_value.num == 5


def test_trials_of_several_sweeps_keep_folders_of_their_own_in_tensorboard(tmp_path):
    for score, name in enumerate(("a/lr=1_0", "b/lr=1_0", "b/lr 1_0", "b/lr_1_0")):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        (folder / "params.json").write_text("{}")
        (folder / "result.json").write_text(json.dumps({"training_iteration": 1, "score": score}) + "\n")
    for _ in range(2):
        assert tm.export.to_tensorboard(tmp_path / "results", tmp_path / "tb").trials == 4
        events = [tensorboard_events(file.parent) for file in (tmp_path / "tb").rglob("*tfevents*")]
        assert sorted(one.Scalars("ray/tune/score")[0].value for one in events) == [0, 1, 2, 3]
    assert (tmp_path / "tb" / "a" / "lr=1_0").is_dir()


def test_a_folder_with_event_files_of_another_writer_is_left_alone(experiment):
    first, _ = trials_of(experiment)
    (first / "events.out.tfevents.1.host").write_bytes(b"")
    output = run(experiment, "--to", "tensorboard", "-o", experiment, code=1)
    assert "has event files of another writer" in output
    assert "tensorboard has 1 trial," in output
    assert [path.name for path in first.glob("*tfevents*")] == ["events.out.tfevents.1.host"]


class Calls(tm.Backend):
    def __init__(self):
        self.started, self.results, self.media_of, self.ended = {}, defaultdict(list), defaultdict(list), {}
        self.order = defaultdict(list)

    def start(self, trial):
        self.started[trial.name] = (trial.experiment, dict(trial.config), dict(trial.searched))

    def metrics(self, trial, report):
        self.order[trial.name].append(report.training_iteration)
        self.results[trial.name].append((report.training_iteration, report.flat["score"], report.config))

    def media(self, trial, entry):
        self.order[trial.name].append(entry.training_iteration)
        assert entry.content()
        self.media_of[trial.name].append((entry.training_iteration, entry.key))

    def end(self, trial, status):
        self.ended[trial.name] = status


def test_a_backend_of_the_users_gets_the_calls_of_a_sweep_without_what_was_rolled_back(experiment):
    backend = Calls()
    done = tm.export.to_tracker(experiment, tm.MediaLoggerCallback(backend))
    assert (done.trials, done.results, done.media, done.problems) == (2, 8, 32, [])
    name = "train_abcde_00001"
    assert backend.started[name] == ("sweep", {"lr": 1, "deep": {"list": [1, 2]}}, {"lr": 1})
    assert backend.results[name] == [(at, score, None) for at, score in scores().items()]
    keys = ("rollout", "map", "weights", "notes", "episodes/data")
    assert sorted(backend.media_of[name]) == sorted((at, key) for at in COUNTING for key in keys)
    assert backend.order[name] == sorted(backend.order[name])
    assert backend.ended == {name: "finished", "train_abcde_00002": "failed"}


def test_a_tracker_that_stays_away_ends_the_export(experiment, monkeypatch):
    class Away(Calls):
        def start(self, trial):
            super().start(trial)
            raise ConnectionRefusedError("port 1")

        def is_away(self, error):
            return isinstance(error, ConnectionRefusedError)

    monkeypatch.setattr(export_module, "log_trial", functools.partial(export_module.log_trial, patience=0.1))
    backend = Away()
    done = tm.export.to_tracker(experiment, tm.MediaLoggerCallback(backend))
    assert (done.trials, done.results, done.media) == (0, 0, 0)
    (name,) = backend.started  # the second trial is not tried
    assert done.problems[0].startswith(name) and done.problems[0].endswith(": ConnectionRefusedError: port 1")
    assert done.problems[1:] == ["the tracker does not answer; export again when it does"]


def test_an_experiment_of_rays_own_loggers_is_exported_too(tmp_path):
    folder = tmp_path / "plain" / "trial_1"
    folder.mkdir(parents=True)
    (folder / "params.json").write_text('{"lr": 0.5}')
    lines = [{"training_iteration": at, "score": at, "config": {"lr": lr}} for at, lr in ((1, 0.5), (2, 0.5), (3, 0.9))]
    (folder / "result.json").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    backend = Calls()
    done = tm.export.to_tracker(folder.parent, tm.MediaLoggerCallback(backend))
    assert (done.trials, done.results, done.media, done.problems) == (1, 3, 0, [])
    assert backend.results["trial_1"] == [(1, 1, None), (2, 2, None), (3, 3, {"lr": 0.9})]
    assert backend.ended["trial_1"] == "interrupted"


def test_a_file_that_is_gone_is_named_and_costs_itself(experiment):
    images = (row["file"] for row in tm.load(experiment) if row["kind"] == "image" and not row.get("rolled_back"))
    clip = Path(next(images))
    clip.unlink()
    done = tm.export.to_tracker(experiment, tm.MediaLoggerCallback(Calls()))
    assert done.media == 31
    (problem,) = done.problems
    assert clip.name in problem


def test_an_abandoned_trial_is_not_exported(experiment):
    first, _ = trials_of(experiment)
    shutil.copytree(first, experiment / "left")
    (experiment / "left" / "result.json").unlink()
    index = experiment / "left" / "media" / "index.jsonl"
    index.write_text(index.read_text().replace("abcde_00001", "other_00000"))
    done = tm.export.to_tracker(experiment, tm.MediaLoggerCallback(Calls()))
    assert done.trials == 2
    assert list(done.left_alone) == ["left"]


def test_nothing_outside_a_trials_folder_is_exported(experiment, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    first, _ = trials_of(experiment)
    (first / "media" / "link.mp4").symlink_to(tmp_path / "secret.txt")
    index = first / "media" / "index.jsonl"
    line = next(line for line in map(json.loads, index.read_text().splitlines()) if line["kind"] == "video")
    with index.open("a") as file:
        for path in ("media/link.mp4", "params.json", "wandb/x.mp4"):
            file.write(json.dumps({**line, "id": path, "path": path, "rolled_back": False}) + "\n")
    done = tm.export.to_tracker(experiment, tm.MediaLoggerCallback(Calls()))
    assert len(done.problems) == 3
    assert all("has no media file" in problem for problem in done.problems)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "tensorboard"], "--to tensorboard needs -o"),
        (["--to", "mlflow", "--project", "p"], "--to mlflow does not take --project"),
        (["--to", "wandb", "-o", "x"], "--to wandb does not take -o"),
    ],
)
def test_options_of_another_tracker_are_refused(experiment, arguments, said):
    assert said in run(experiment, *arguments, code=2)


def test_callbacks_that_write_files_are_refused(experiment):
    for callback in (tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()):
        with pytest.raises(TypeError):
            tm.export.to_tracker(experiment, callback)


def test_what_mlflow_got_during_training_is_not_doubled_and_what_it_missed_is_added(tmp_path):
    pytest.importorskip("mlflow")
    uri = mlflow_store(tmp_path)
    options = {"tracking_uri": uri, "artifact_location": f"file://{tmp_path}/artifacts"}
    config = {"lr": 0.5, "sizes": [1, 2]}

    def results(count):
        for at in range(1, count + 1):
            frames = np.random.default_rng(at).integers(0, 255, (3, 16, 16, 3), np.uint8)
            record = tm.EpisodeRecord(f"e{at}", float(at), 3)
            media = {"rollout": tm.Video(iter(frames), fps=5, episode=record), "map": tm.Image(frames[0])}
            media |= {"weights": tm.Histogram(np.arange(10.0 * at)), "episodes": {"data": episodes("speed", at)}}
            yield {
                **media,
                "score": at,
                "config": config,
                "timestamp": 1_700_000_000 + at,
                "trial_id": "t1",
                "done": at == 4,
            }

    whole = FakeTrial(tmp_path, **config)
    whole.experiment_dir_name = whole.storage.experiment_dir_name = "storage"
    callbacks = [tm.JsonMediaLoggerCallback(), tm.MLflowMediaLoggerCallback(**options, experiment_name="whole")]
    play([*callbacks], whole, list(results(4)))
    shutil.copy(Path(whole.local_path, "result.json"), whole.storage.trial_fs_path)
    shutil.copy(Path(whole.local_path, "params.json"), whole.storage.trial_fs_path)

    def export_to(name):
        callback = tm.MLflowMediaLoggerCallback(**options, experiment_name=name)
        done = tm.export.to_tracker(whole.storage.experiment_fs_path, callback)
        assert (done.trials, done.results, done.media, done.problems) == (1, 4, 12, [])
        return mlflow_state(uri, name)

    during = mlflow_state(uri, "whole")
    assert export_to("whole") == during
    ((status, *afterwards),) = export_to("nowhere before").values()
    assert [status, *afterwards] == list(during["train_t1"])


def test_an_experiment_on_s3_is_exported_from_there_and_its_offline_runs_are_stored_there(s3, experiment, tmp_path):
    pytest.importorskip("wandb")
    for file in (path for path in experiment.rglob("*") if path.is_file()):
        with s3.open_output_stream(f"results/sweep/{file.relative_to(experiment).as_posix()}") as stream:
            stream.write(file.read_bytes())
    assert "1 trials" not in run("s3://results/sweep", "--to", "tensorboard", "-o", tmp_path / "logs")
    for trial in trials_of(experiment):
        events = tensorboard_events(tmp_path / "logs" / trial.name)
        assert [event.step for event in events.Images("train/rollout")] == COUNTING
    output = run("s3://results/sweep", "--to", "wandb", "--project", "p", "--offline")
    assert "wandb has 2 trials, with 8 results and 32 media." in output
    for trial in trials_of(experiment):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        pyarrow.fs.copy_files(
            f"results/sweep/{trial.name}/wandb",
            str(tmp_path / "copy" / "wandb"),
            source_filesystem=s3,
            destination_filesystem=pyarrow.fs.LocalFileSystem(),
        )
        (_,) = wandb_runs(tmp_path / "copy")
        held = read_wandb(tmp_path / "copy")
        assert dict(held.clips["train/rollout"]) == clips_of(trial)
        assert held.scalars["score"] == scores()
    s3.delete_dir("results/sweep")  # moto's buckets live as long as the process


class Steps(tm.Backend):
    def __init__(self):
        self.calls = []

    def metrics(self, trial, report):
        self.calls.append((report.training_iteration, "result"))

    def media(self, trial, entry):
        self.calls.append((entry.training_iteration, entry.medium.kind))


def test_loops_whose_folders_have_one_name_are_runs_of_their_own_and_the_same_when_they_come_again(tmp_path):
    ids = []

    class Ids(tm.Backend):
        name = "ids"

        def start(self, trial):
            ids.append((trial.trial_id, len(clips_best_first(trial, self.context))))

    for sweep in "xy":
        env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path / sweep / "seed_1", lambda number: True)
        loops.play(env, 2)
        env.close()
    for sweep in "xyx":
        assert tm.export.to_tracker(tmp_path / sweep, tm.MediaLoggerCallback(Ids())).problems == []
    assert ids[0] == ids[2] != ids[1]
    assert [clips for _, clips in ids] == [2, 2, 2]


def test_a_folder_of_a_loop_without_tune_has_its_curve_and_each_clip_at_its_step(tmp_path):
    for prefix in ("rl-video", "eval"):
        env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path / "runs" / "a", params={"lr": 1}, name_prefix=prefix)
        loops.play(env, 2)
        env.close()
    (trial,) = tm.load(tmp_path / "runs").trials
    done = tm.export.to_tensorboard(tmp_path / "runs", tmp_path / "tb")
    assert (done.results, done.media, done.problems) == (len(trial.result_lines()), len(trial.lines), [])
    events = tensorboard_events(tmp_path / "tb" / "a")
    curves = trial.curves()["metrics"]
    for name in ("episode_return_mean", "evaluation/episode_return_mean"):
        values = [event.value for event in events.Scalars(f"ray/tune/{name}")]
        assert values == pytest.approx([value for value in curves[name] if value is not None])
    backend = Steps()
    assert tm.export.to_tracker(tmp_path / "runs", tm.MediaLoggerCallback(backend)).problems == []
    steps = [step for step, _ in backend.calls]
    assert steps == sorted(steps)
    assert [step for step, kind in backend.calls if kind == "result"] == [
        event.step for event in events.Scalars("ray/tune/timesteps_total")
    ]
    assert sorted(step for step, kind in backend.calls if kind == "video") == [line["step"] for line in trial.lines]
