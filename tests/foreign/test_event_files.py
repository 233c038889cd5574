"""Curves of TensorBoard's event files, as the writers of torch and tensorboardX write them."""

import importlib.metadata
import sys

import numpy as np
import pyarrow.fs
import pytest
import tensorboardX
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar import summary_v2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard import SummaryWriter

from tests.support.foreign_run import curves_in, run_in
from tune_media.foreign.finding import find_runs
from tune_media.foreign.reading import read_run
from tune_media.foreign.return_tags import RETURN_TAGS, WINDOW

WRITERS = {"torch": SummaryWriter, "tensorboardX": tensorboardX.SummaryWriter}


@pytest.fixture(params=WRITERS)
def writer(request, tmp_path):
    writer = WRITERS[request.param](str(tmp_path))
    yield writer
    writer.close()


def event_file(folder, suffix=""):
    (path,) = folder.glob(f"*tfevents*{suffix}")
    return path


def test_the_scalars_are_those_that_tensorboards_own_loader_reads(writer, tmp_path):
    for step in range(50):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_scalar("a/b", step, step * 10)
        writer.add_text("note", "no number", step)
        writer.add_histogram("weights", np.arange(10.0), step)
    writer.add_image("large", np.random.default_rng(0).integers(0, 255, (3, 700, 700), np.uint8), 3)
    writer.add_scalar("loss", 7.0, 50)
    writer.close()
    theirs = {}
    for event in EventFileLoader(str(event_file(tmp_path))).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                theirs.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0], event.wall_time))
    release = importlib.metadata.version("tensorboard")
    curves = curves_in(tmp_path)
    ours = {name: list(zip(curve.steps, curve.values, curve.times, strict=True)) for name, curve in curves.items()}
    assert ours == theirs, f"TensorBoard {release} reads other scalars than event_files.py"


def test_scalars_that_are_tensors(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("new", 0.5, 1, new_style=True)
    events = EventFileWriter(str(tmp_path / "eval"))
    for step, number in enumerate((np.float32(1.5), np.float64(2.5))):
        events.add_event(Event(step=step, summary=summary_v2.scalar_pb("of_tf2", number)))
    events.close()
    curves = curves_in(tmp_path)
    assert curves["new"].values == [0.5]
    assert curves["eval/of_tf2"].values == [1.5, 2.5]


@pytest.mark.parametrize("entry", RETURN_TAGS, ids=lambda entry: entry.tag)
def test_the_usual_return_of_a_tool_has_its_name_in_results_and_its_unit(entry, tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_scalar("losses/value", step, step)
            writer.add_scalar(entry.tag, step, step)
    name = "evaluation/episode_return_mean" if entry.section == "evaluation" else "episode_return_mean"
    curve = curves_in(tmp_path)[name]
    assert (curve.tag, curve.unit, curve.steps) == (entry.tag, entry.unit, [0, 1, 2])
    assert curve.values == ([0, 0.5, 1] if entry.is_each_episode else [0, 1, 2])
    assert run_in(tmp_path).return_from == (entry.tag, entry.unit)


def test_returns_of_single_episodes_are_averaged_over_the_last_ones(writer, tmp_path):
    for step in range(WINDOW + 50):
        writer.add_scalar("charts/episodic_return", step, step)
    writer.close()
    curves = curves_in(tmp_path)
    assert curves["episode_return_mean"].values[-1] == np.mean(np.arange(50, WINDOW + 50))
    assert curves["charts/episodic_return"].values[-1] == WINDOW + 49


def test_a_number_that_may_be_no_return_is_not_taken_for_one(writer, tmp_path, caplog):
    for tag in ("train/reward", "reward", "returns", "score", "a/return_scale"):
        writer.add_scalar(tag, 1.0, 1)
    writer.close()
    assert run_in(tmp_path).return_from == ("", "")
    assert "no column for a return (a/return_scale, returns, reward, score, train/reward); name" in caplog.text
    named = run_in(tmp_path, {"return": "train/reward"})
    assert named.return_from == ("train/reward", "steps")
    assert "train/reward" in named.columns


@pytest.mark.parametrize("others", [[], ["b/episode_reward"]])
def test_a_tag_that_says_it_is_the_return_of_episodes_is_taken_if_it_is_the_only_one(others, tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        for tag in ("eval/mean_episode_return", "a/episode_reward", *others):
            writer.add_scalar(tag, 1.0, 1)
    of_training = ["a/episode_reward", *others] if others else ["episode_return_mean"]
    assert curves_in(tmp_path).keys() == {"evaluation/episode_return_mean", *of_training}


def test_the_same_numbers_over_seconds_or_iterations_are_left_out(writer, tmp_path):
    """As rsl_rl and rl_games write them."""
    for tag, step in (("Train/mean_reward", 1), ("Train/mean_reward/time", 70), ("time/fps", 1)):
        writer.add_scalar(tag, 3.0, step)
    for end, step in (("step", 1000), ("iter", 10), ("time", 60)):
        writer.add_scalar(f"episode_lengths/{end}", 3.0, step)
    writer.close()
    assert curves_in(tmp_path).keys() == {"episode_return_mean", "episode_lengths/step", "time/fps"}


def test_numbers_that_rl_games_logs_over_epochs_are_shown_over_frames(writer, tmp_path):
    for epoch in range(1, 5):
        writer.add_scalar("rewards/step", epoch, 1000 * epoch)
        writer.add_scalar("info/epochs", epoch, 1000 * epoch)
        writer.add_scalar("Episode/Episode_Reward/alive", 0.5, epoch)
    writer.close()
    curve = curves_in(tmp_path)["Episode/Episode_Reward/alive"]
    assert (curve.steps, curve.unit) == ([1000, 2000, 3000, 4000], "env steps")


def test_several_files_of_a_run_are_one_curve_without_what_was_logged_again(tmp_path):
    """A run that was killed at step 5, and goes on from its checkpoint of step 3."""
    for start, steps in ((1, range(6)), (2, range(3, 8))):
        with SummaryWriter(str(tmp_path), filename_suffix=f".part-{start}") as writer:
            for step in steps:
                writer.add_scalar("loss", start, step)
        event_file(tmp_path, f".part-{start}").rename(tmp_path / f"events.out.tfevents.{start:010d}.host")
    curve = curves_in(tmp_path)["loss"]
    assert curve.steps == [0, 1, 2, 3, 4, 5, 6, 7]
    assert curve.values == [1, 1, 1, 2, 2, 2, 2, 2]


def test_folders_that_add_scalars_makes_are_curves_of_the_run(writer, tmp_path):
    writer.add_scalar("rollout/ep_rew_mean", 1.0, 5)
    writer.add_scalars("losses/two", {"actor": 1.0, "critic": 2.0}, 5)
    writer.close()
    curves = curves_in(tmp_path)
    assert curves.keys() == {"episode_return_mean", "losses/two/actor", "losses/two/critic"}
    assert curves["losses/two/critic"].values == [2.0]


def test_folders_of_a_runs_own_writer_are_no_runs(writer, tmp_path):
    writer.add_scalar("rollout/ep_rew_mean", 1.0, 5)
    writer.add_scalars("losses/two", {"actor": 1.0, "critic": 2.0}, 5)
    writer.add_hparams({"lr": 0.5}, {"final": 1.0})
    writer.close()
    for folder in ("seed_1", "seed_2"):
        with SummaryWriter(str(tmp_path / "others" / folder)) as other:
            other.add_scalar("loss", 1.0, 1)
    with SummaryWriter(str(tmp_path / "others")) as other:
        other.add_scalar("loss", 1.0, 1)
    found = find_runs(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert sorted(run.name for run in found.runs) == ["others/seed_1", "others/seed_2"]
    ours = tmp_path / "ours"
    ours.mkdir()
    for path in [path for path in tmp_path.iterdir() if path.name not in ("others", "ours")]:
        path.rename(ours / path.name)
    found = find_runs(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert sorted(run.name for run in found.runs) == ["others/seed_1", "others/seed_2", "ours"]
    (run,) = (read_run(run.files) for run in found.runs if run.name == "ours")
    assert {"episode_return_mean", "losses/two/actor", "losses/two/critic"} < {curve.name for curve in run.curves}
    assert run.config == {"lr": 0.5}


def test_an_evaluation_in_a_folder_of_its_own_and_summaries_of_rl_games(tmp_path):
    for folder, number in (("summaries", 1.0), ("summaries/eval", 2.0)):
        with SummaryWriter(str(tmp_path / folder)) as writer:
            writer.add_scalar("rewards/step", number, 100)
    curves = curves_in(tmp_path)
    assert {name: curve.values for name, curve in curves.items()} == {
        "episode_return_mean": [1.0],
        "evaluation/episode_return_mean": [2.0],
    }


def test_a_damaged_event_is_left_out_and_named(writer, tmp_path, caplog):
    for step in range(5):
        writer.add_scalar("loss", step, step)
    writer.close()
    path = event_file(tmp_path)
    content = bytearray(path.read_bytes())
    places = [index for index in range(len(content)) if content[index : index + 4] == b"loss"]
    content[places[2]] ^= 1
    path.write_bytes(content)
    assert curves_in(tmp_path)["loss"].values == [0, 1, 3, 4]
    assert "1 event that cannot be read" in caplog.text
    path.write_bytes(bytes(content[: places[1]]) + b"\0" * 40)
    assert curves_in(tmp_path)["loss"].values == [0]


def test_the_table_of_hyperparameters_that_cleanrl_writes(writer, tmp_path):
    args = {"env_id": "Hopper-v4", "seed": 3, "learning_rate": 2.5e-4, "anneal_lr": True, "target_kl": None, "a": "b|c"}
    rows = "\n".join(f"|{name}|{value}|" for name, value in args.items())
    writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")
    writer.close()
    run = run_in(tmp_path)
    assert run.config == args
    assert run.env_id == "Hopper-v4"


def test_the_hyperparameters_of_tensorboards_own_page(writer, tmp_path):
    writer.add_hparams({"lr": 0.5, "env": "Ant-v5", "anneal": True}, {"final": 1.0})
    writer.close()
    run = run_in(tmp_path)
    assert run.config == {"lr": 0.5, "env": "Ant-v5", "anneal": True}
    assert run.env_id == "Ant-v5"


def test_without_tensorboard_one_sentence_says_how_to_get_it(writer, tmp_path, monkeypatch):
    writer.add_scalar("loss", 1.0, 1)
    writer.close()
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    run = run_in(tmp_path)
    assert not run.curves
    (sentence,) = run.not_understood
    assert sentence.startswith("1 event file: pip install ")
    assert sentence.remedy.endswith("[folders]'")
