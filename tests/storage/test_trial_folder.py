"""The writer of a trial's folder outside Tune: everybody reads what it has written as one of Tune's."""

import enum
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.episode_files import RecorderEpisodes
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.trial_folder import TrialFolder
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData


class Algorithm(str, enum.Enum):  # noqa: UP042 - its str() is no content
    PPO = "ppo"


FRAMES = np.zeros((2, 16, 16, 3), np.uint8)
CONFIG = {
    "clip": math.inf,
    "decay": -math.inf,
    "seed": math.nan,
    "norm": None,
    "net": (np.int64(3), np.ones(2)),
    "f": len,
    "algorithm": Algorithm.PPO,
    "wide": np.array([0.5], np.longdouble),
}
READ = {"clip": math.inf, "decay": -math.inf, "norm": None, "net": [3, [1.0, 1.0]], "f": "<built-in function len>"}
READ |= {"algorithm": "ppo", "wide": [0.5]}


@pytest.fixture(params=["here", "elsewhere"])
def place(request, tmp_path):
    """A filesystem and a trial's folder on it: on this machine's disk, and on another one, which has one writer."""
    here = pyarrow.fs.LocalFileSystem(), str(tmp_path / "sweep" / "trial_1")
    filesystem, folder = here if request.param == "here" else (pyarrow.fs._MockFileSystem(), "bucket/sweep/trial_1")
    filesystem.create_dir(folder)
    return filesystem, folder


def test_what_one_writer_and_then_another_wrote_is_read_as_a_trial(place):
    for number in (1, 2):
        trial = TrialFolder(*place)
        trial.write_params(CONFIG)
        record = EpisodeRecord(f"e{number}", float(number), 3, env_steps=3 * number, finished_at=number)
        batch = EpisodeBatch((EpisodeData(record),))
        trial.add_episodes(RecorderEpisodes("train", "mine", batch), 3 * number, number, f"{number}")
        clip = tm.Video(FRAMES, fps=5)
        (line,) = trial.add_clip(clip.of_episode(record), "train", "clips", 3 * number, number).lines
        trial.add_result({"training_iteration": number, "loss": math.inf if number == 1 else math.nan})
    trial.add_lines([replace(line, undone=trial.next_row())])
    files = TrialFiles("trial_1", *place).read()
    config = files.read_config()
    assert math.isnan(config.pop("seed"))
    assert config == READ
    assert [line["episode_id"] for line in files.lines if not line.get("rolled_back")] == ["e1"]
    assert [line["episode_id"] for line in files.lines] == ["e1", "e2"]
    assert files.read_media(files.lines[1]["path"]) == clip.data
    assert files.loop_episodes() is None  # its episodes belong to results
    returns = [files.episodes(path, ["episode_return"])["episode_return"].to_pylist() for path in files.report_files]
    assert returns == [[1.0], [2.0]]
    assert files.curves()["step"] == [1, 2]
    assert math.isnan(files.metrics["loss"].last)


def test_params_are_other_params_if_one_value_is(place):
    trial = TrialFolder(*place)
    assert not trial.has_other_params(CONFIG)
    assert trial.params() is None
    trial.write_params(CONFIG)
    assert not trial.has_other_params(dict(reversed(CONFIG.items())))
    assert [trial.has_other_params({**CONFIG, "clip": value}) for value in (None, math.nan, -math.inf)] == [True] * 3


def test_a_line_of_which_a_kill_left_half_costs_itself(tmp_path):
    place = pyarrow.fs.LocalFileSystem(), str(tmp_path)
    TrialFolder(*place).add_result({"training_iteration": 1})
    with (tmp_path / "result.json").open("a") as file:
        file.write('{"training_iter')
    TrialFolder(*place).add_result({"training_iteration": 2})
    assert [result["training_iteration"] for result in TrialFolder(*place).results()] == [1, 2]


def test_results_in_place_of_others_are_not_those_that_are_added_to(place):
    trial = TrialFolder(*place)
    trial.add_result({"training_iteration": 2})
    trial.replace_results([{"training_iteration": 1}])
    trial.add_result({"training_iteration": 3})
    lines = read_if_there(place[0], trial.place("result.json")).splitlines()
    assert [json.loads(line)["training_iteration"] for line in lines] == [1, 3]
