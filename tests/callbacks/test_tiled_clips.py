"""The tiled clip of a round: made of the kept clips when these are stored, once, and no episode to anybody."""

import functools
import sys

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.faults import wait_until
from tests.support.taped import taped_clip
from tests.support.tapes_to_kill import Tells, calls
from tests.support.tiles_to_kill import PLACES, kill_at
from tests.support.trackers import mlflow_store, read_mlflow
from tune_media.callbacks import tape_renderer
from tune_media.encoding.decode import decode_video, probe_video
from tune_media.recording.choosing import Winners, result_of
from tune_media.recording.episode import Candidate
from tune_media.selection import as_selectors
from tune_media.values.tiled import ClipTile, TiledClips

pytestmark = pytest.mark.usefixtures("sessions_end")


class Grey(gym.Env):
    """Episode ``n`` takes ``n + 3`` steps, has the return 10 n, and is as bright as that."""

    observation_space, action_space = gym.spaces.Discrete(9), gym.spaces.Discrete(2)
    render_mode, metadata, number = "rgb_array", {"render_fps": 10}, -1

    def reset(self, *, seed=None, options=None):
        self.number, self.t = self.number + 1, 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return 0, 10 * self.number if self.t == 1 else 0, self.t == self.number + 3, False, {}

    def render(self):
        return np.full((120, 200, 3), 60 + 60 * self.number, np.uint8)


@pytest.fixture
def taken():
    env = tm.gym.RecordEpisodes(Grey(), keep=("worst", "median", "best"), tiled=True)
    for _ in range(3):
        env.reset()
        while not env.step(0)[2]:
            pass
    return env.take()


def tiles_of(content, count=3):
    """Return the brightness of the middle of each tile in the last frame."""
    frame = list(decode_video(content))[-1].astype(float)
    width = frame.shape[1] // count
    return [frame[90:110, n * width + 60 : n * width + 100].mean() for n in range(count)]


def test_the_kept_clips_play_in_step_and_reach_the_storage_and_a_tracker_once(tmp_path, taken, capsys):
    got = []

    class Notes(tm.Backend):
        name = "notes"

        def media(self, trial, entry):
            got.append((entry.key, entry.medium.kind, entry.step))

        def end(self, trial, status):
            got.append("end")

    sweep = Sweep(tmp_path, backend=Notes(), strict=True)
    path = sweep.report(1, timesteps_total=7, env_runners={"episodes": taken})["env_runners"]["episodes"]["tiled"]
    sweep.report(2, env_runners={"episodes": taken})  # RLlib repeats its last evaluation
    sweep.end()
    content = (sweep.path / path).read_bytes()
    assert tiles_of(content) == pytest.approx([60, 120, 180], abs=4)  # worst, median, best
    assert probe_video(content).frames == 6  # the longest clip; the others hold their last frame
    (line,) = [line for line in sweep.lines() if line["kind"] == "tiled"]
    assert [line[name] for name in ("key", "status", "step", "fps")] == ["episodes/tiled", "stored", 7, 10.0]
    assert got.count(("episodes/tiled", "tiled", 7)) == 1
    assert got[-1] == "end"
    assert "lost" not in capsys.readouterr().out


def test_it_is_no_clip_of_an_episode_for_any_reader(tmp_path, taken):
    sweep = Sweep(tmp_path)
    sweep.report(1, env_runners={"episodes": taken})
    sweep.end()
    catalog = tm.load(tmp_path / "storage")
    assert [row["kind"] for row in catalog] == ["video", "video", "tiled", "video"]
    assert len(catalog.clips) == 3
    assert catalog.best()["key"] == "episodes/best"
    assert catalog.trials[0].contents.unrendered == 0


def test_a_loop_without_tune_has_it_too(taken):
    assert tiles_of(taken["tiled"].content()) == pytest.approx([60, 120, 180], abs=4)


def test_trackers_show_it_as_a_clip(tmp_path, taken):
    store = mlflow_store(tmp_path)
    callback = tm.MLflowMediaLoggerCallback(tracking_uri=store)
    sweep = Sweep(tmp_path, backend=callback.backend)
    sweep.report(1, env_runners={"episodes": taken})
    sweep.end()
    assert tiles_of(read_mlflow(store, "train_t1").clips["train/episodes/tiled"][1])[2] == pytest.approx(180, abs=4)


def test_tapes_are_rendered_before_their_tiles(tmp_path):
    sweep, gate = Sweep(tmp_path, strict=True), tmp_path / "gate"
    best, worst = (taped_clip(level, episode_return=level, gate=str(gate)) for level in (3, 1))
    tiles = TiledClips([ClipTile("best", "return 3", best), ClipTile("worst", "return 1", worst)])
    sweep.report(1, tiled=tiles, best=best, worst=worst)
    sweep.settle()
    assert {line["status"] for line in sweep.lines()} == {"waiting"}
    gate.touch()
    sweep.end()
    lines = {line["key"]: line for line in sweep.lines()}
    assert {line["status"] for line in lines.values()} == {"stored"}
    assert lines["tiled"]["row"] < lines["best"]["row"]  # that of the result, whenever it was made


def test_the_tile_of_a_missing_clip_says_why(tmp_path, taken):
    selectors = as_selectors(("worst", "best"))
    worst, best = (taken[name].episode for name in ("worst", "best"))
    lost = Winners({best.id: Candidate(best, {}, unrendered={"": taken["best"]})}, {worst.id: "no clip: no frame"})
    result = result_of(selectors, {"worst": [worst], "best": [best]}, lost, (), {}, is_tiled=True)
    assert [(tile.title, tile.clip is None, tile.why) for tile in result["tiled"].tiles] == [
        ("worst", True, "no clip: no frame"),
        ("best", False, "no clip: its env runner did not hand it over"),
    ]
    assert tiles_of(result["tiled"].content(), 2)[1] == pytest.approx(180, abs=4)


def test_a_clip_that_the_storage_lost_is_named_in_its_tile(tmp_path, taken, monkeypatch):
    sweep = Sweep(tmp_path)
    monkeypatch.setattr(tape_renderer.Tiler, "may_make", lambda self, row: False)
    shown = sweep.report(1, env_runners={"episodes": taken})["env_runners"]["episodes"]
    sweep.settle()
    (sweep.path / shown["median"]).unlink()
    monkeypatch.undo()
    sweep.end()
    line = next(line for line in sweep.lines() if line["kind"] == "tiled")
    assert (line["status"], line["note"]) == ("stored", "median: its file is gone")


def test_if_rendering_is_behind_the_older_is_dropped_and_counted(tmp_path, monkeypatch, capsys):
    sweep, gate = Sweep(tmp_path), tmp_path / "gate"
    monkeypatch.setattr(tape_renderer, "_STALE_SECONDS", 0.0)
    for iteration in (1, 2):
        clip = taped_clip(1, gate=str(gate))
        sweep.report(iteration, best=clip, tiled=TiledClips([ClipTile("best", "", clip)]))
    wait_until(lambda: any(line["status"] == "dropped" for line in sweep.lines()))
    gate.touch()
    sweep.end()
    tiled = [(line["status"], line.get("note")) for line in sweep.lines() if line["kind"] == "tiled"]
    why = "not made: rendering is slower than recording, and newer clips waited"
    assert tiled == [("dropped", why), ("stored", None)]
    assert "media/train/tiled/step_000000001-" in capsys.readouterr().out  # it is named as lost


def test_without_pillow_the_recorder_refuses(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="drawn with Pillow: pip install"):
        tm.rllib.record_episodes(tiled=True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"keep": "best"}, "tiled=True puts 2 to 4 clips of a round side by side, and keep= (best) keeps 1 clip; "),
        ({"keep": "all"}, "keep= (all) keeps any number of clips"),
        ({"keep": tm.selection.best(5)}, "keeps 5 clips"),
        ({"video": None}, "tiled=True puts clips side by side, and video=None makes none"),
        ({"keep": tm.selection.best(1, name="tiled")}, "a selector cannot be named 'tiled'"),
    ],
)
def test_what_cannot_be_tiled_is_refused_where_it_is_given(arguments, told):
    make = functools.partial(tm.gym.RecordEpisodes, Grey())
    for record in (make, tm.rllib.record_episodes):
        with pytest.raises(ValueError) as refused:
            record(**arguments, tiled=True)
        assert told in str(refused.value)
        with pytest.raises(TypeError, match="tiled="):
            record(tiled="yes")


@pytest.mark.parametrize("place", PLACES)
def test_a_driver_that_ends_on_the_way_yields_it_once(tmp_path, place):
    state = kill_at(tmp_path, place)
    again = Sweep(tmp_path, state, backend=Tells(tmp_path), last=1)
    again.report(2, score=1.0)
    again.end()
    (line,) = [line for line in again.lines() if line["kind"] == "tiled"]
    assert (line["status"], line["training_iteration"], "rolled_back" in line) == ("stored", 1, False)
    assert [file.name for file in (again.path / "media/train/tiled").iterdir()] == [line["path"].rpartition("/")[2]]
    told = [call for call in calls(tmp_path) if call[-1] == line["id"]]
    assert told == [["media", 1, line["id"]]] * max(1, len(told))
    assert calls(tmp_path)[-1] == ["end", "finished"]
    assert not list((tmp_path / "outbox").iterdir())
