"""Folders of clips whose names no known recorder gave: they open as they are, with what a table beside them says."""

import json
import urllib.request

import av
import numpy as np
import pytest
from PIL import Image

import tune_media as tm
from tests.support.browser import opened
from tests.support.browser import watched as serving
from tests.support.commands import command
from tests.support.viewing import write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.watch import make_watch_server

CLIP = tm.Video(np.zeros((3, 16, 16, 3), np.uint8), fps=10).data
NAMES = {
    "LeRobot": [f"eval_episode_{number}.mp4" for number in (0, 2, 10)],
    "strands": [f"eval_ep{number}.mp4" for number in (0, 2, 10)],
    "PufferLib": [f"puffer_breakout_{number}.mp4" for number in (0, 2, 10)],
    "plain": ["a.mp4", "b.mp4", "c 1.mp4"],
    "stamped": ["2026-01-01_9.mp4", "2026-01-01_10.mp4"],
    "upper": ["A.MP4", "b.mp4"],
}


def write_clips(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in reversed(names):
        (folder / name).write_bytes(CLIP)


def write_webm(path):
    with av.open(str(path), "w", format="webm") as container:
        stream = container.add_stream("libvpx", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for shade in (0, 80, 160):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), shade, np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def write_gif(path):
    shots = [Image.fromarray(np.full((32, 32, 3), shade, np.uint8)) for shade in (0, 80, 160)]
    shots[0].save(path, save_all=True, append_images=shots[1:], duration=100)


def tree(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*")}


def watched(folder, **options):
    return Trials([LogDirectory(LogDirectory.of(str(folder)).folder, **options)]).all()


@pytest.mark.parametrize("tool", NAMES)
def test_clips_of_any_name_open_in_natural_order_without_a_step(tmp_path, tool):
    write_clips(tmp_path / "clips", NAMES[tool])
    before = tree(tmp_path)
    for folder in (tmp_path, tmp_path / "clips"):
        catalog = tm.load(folder)
        assert [row["path"] for row in catalog] == NAMES[tool]
        assert [(row.get("step"), row["frames"], row["trial"]) for row in catalog] == [(None, 3, "clips")] * len(
            catalog
        )
        (trial,) = watched(folder)
        assert [line["path"] for line in trial.lines] == NAMES[tool]
        make_watch_server(str(folder)).server_close()
        assert NAMES[tool][0] in command("list", "--all", folder)
    assert {row["section"] for row in catalog} == {"evaluation" if tool in ("LeRobot", "strands") else "train"}
    assert tree(tmp_path) == before


def test_folders_by_task_are_trials(tmp_path):
    for task in ("lift_0", "push_0"):
        write_clips(tmp_path / "run" / "videos" / task, NAMES["LeRobot"])
    for folder in (tmp_path / "run", tmp_path / "run" / "videos"):
        names = [trial.name for trial in tm.load(folder).trials]
        assert [name.removeprefix("videos/") for name in names] == ["lift_0", "push_0"]
        assert [trial.name for trial in watched(folder)] == names
    assert len(tm.load(tmp_path / "run")) == 6


def test_webm_and_gif_open_with_their_size(tmp_path):
    write_webm(tmp_path / "a.webm")
    write_gif(tmp_path / "b.gif")
    catalog = tm.load(tmp_path)
    assert [(row["format"], row["width"], row["frames"], row["fps"]) for row in catalog] == [
        ("webm", 32, 3, 10),
        ("gif", 32, 3, 10),
    ]
    assert [row.get("note") for row in catalog] == [None, "GIF: no time line, no sync"]


TABLES = {
    "results.csv": "video,sum_reward,seed,success,global_step\na.mp4,1.5,7,True,1000\n./b.mp4,-2,8,0,1000\n",
    "results.jsonl": (
        '{"video": "a.mp4", "return": 1.5, "seed": 7, "success": true, "step": 1000}\n\n'
        '{"video": "out/x/clips/b.mp4", "return": -2, "seed": 8, "success": false, "step": 1000}\n'
    ),
    "episodes.json": json.dumps(
        {
            "seed": 1,
            "best": "a.mp4",
            "episodes": [
                {"path": "a.mp4", "return": 1.5, "seed": 7, "is_success": 1, "step": 1000},
                {"path": "/data/clips/b.mp4", "return": -2, "seed": 8, "is_success": 0, "step": 1000},
            ],
        }
    ),
    "by_name.json": json.dumps(
        {
            "a.mp4": {"return": 1.5, "seed": 7, "success": True, "step": 1000},
            "b.mp4": {"return": -2, "seed": 8, "success": False, "step": 1000},
        }
    ),
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_names_the_clips_gives_their_facts(tmp_path, table):
    write_clips(tmp_path / "clips", ["a.mp4", "b.mp4", "c.mp4"])
    (tmp_path / "clips" / table).write_text(TABLES[table])
    catalog = tm.load(tmp_path)
    names = ("path", "episode_return", "seed", "success", "step")
    assert sorted([row.get(name) for name in names] for row in catalog) == [
        ["a.mp4", 1.5, 7, True, 1000],
        ["b.mp4", -2.0, 8, False, 1000],
        ["c.mp4", None, None, None, None],
    ]
    assert catalog.best()["path"] == "a.mp4"
    assert f"of {table}" in command("list", tmp_path)


def test_a_seed_of_a_table_is_exact_and_a_column_without_a_name_is_none(tmp_path):
    write_clips(tmp_path / "clips", ["a.mp4", "b.mp4"])
    rows = f",file,seed\n12,a.mp4,{2**53 - 1}\n13,b.mp4,{2**63 - 2}.0\n"  # as pandas writes its index
    (tmp_path / "clips" / "t.csv").write_text(rows)
    first, second = sorted(tm.load(tmp_path), key=lambda row: row["path"])
    assert first["seed"] == 2**53 - 1 and "seed" not in second  # a float may be another one
    assert not {"episode_return", "step", "episode_length"} & {**first, **second}.keys()


WRONG = {
    "other folders": ("t.csv", "file,return\nelsewhere/a.mp4,9\n../a.mp4,9\n"),
    "another file": ("t.csv", "file,return\nca.mp4,9\na,9\n"),
    "two that differ": ("t.csv", "file,return\na.mp4,1\na.mp4,2\n"),
    "two clips": ("t.json", '{"best": "a.mp4", "worst": "b.mp4", "return": 9}'),
    "unknown columns": ("t.csv", "file,reward,score,length\na.mp4,1,2,3\n"),
    "no numbers": ("t.csv", "file,return,seed,step\na.mp4,nan,1.5,-3\na.mp4,,x,1e3x\n"),
    "a list for all": ("t.json", '{"video_paths": ["a.mp4"], "return": [9]}'),
    "larger than a seed": ("t.csv", f"file,seed\na.mp4,{2**64}\nb.mp4,{'9' * 5000}\n"),
    "no float": ("t.json", '{"file": "a.mp4", "return": 1' + "0" * 400 + "}"),
    "broken": ("t.json", '{"file": "a.mp4", "return": '),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_a_table_does_not_clearly_say_is_not_taken(tmp_path, case):
    write_clips(tmp_path / "clips", ["a.mp4", "b.mp4"])
    table, content = WRONG[case]
    (tmp_path / "clips" / table).write_text(content)
    for row in tm.load(tmp_path):
        assert not {"episode_return", "seed", "step", "columns"} & row.keys()


def test_columns_with_names_of_their_own_are_named(tmp_path):
    write_clips(tmp_path / "clips", ["a.mp4", "b.mp4"])
    rows = "clip,reference,score,return\na.mp4,b.mp4,3,1\nb.mp4,b.mp4,4,1\n"
    (tmp_path / "clips" / "t.csv").write_text(rows)
    assert [row.get("episode_return") for row in tm.load(tmp_path)] == [None, 1]
    columns = {"file": "clip", "return": "score"}
    assert [row["episode_return"] for row in tm.load(tmp_path, columns=columns)] == [3, 4]
    output = command("list", "--columns", "file=clip,return=score", tmp_path)
    assert "2 clips: return=score of t.csv" in output
    (trial,) = watched(tmp_path, columns=columns)
    assert [line["episode_return"] for line in trial.lines] == [3, 4]
    assert "columns are file" in command("list", "--columns", "reward=x", tmp_path, code=2)
    with pytest.raises(ValueError, match="columns are file"):
        tm.load(tmp_path, columns={"reward": "x"})
    wrong = {"return=scor": "'scor'; did you mean 'score'?", "return=score,file=x": "'x'; there are 'clip',"}
    for names, told in wrong.items():
        for words in (["list"], ["watch", "--port", "0"]):
            assert told in command(*words, "--columns", names, tmp_path, code=2)
    (tmp_path / "clips" / "t.csv").unlink()
    assert "'score'; there are none." in command("list", "--columns", "return=score", tmp_path, code=2)
    make_watch_server(str(tmp_path), wait=True, columns={"return": "score"}).server_close()  # its table may come later


def test_a_table_that_comes_later_is_read(tmp_path):
    write_clips(tmp_path / "clips", ["a.mp4"])
    trials = Trials([LogDirectory.of(str(tmp_path))])
    assert "episode_return" not in trials.all(max_age=0)[0].lines[0]
    (tmp_path / "clips" / "t.csv").write_text("file,return\na.mp4,3\n")
    assert trials.all(max_age=0)[0].lines[0]["episode_return"] == 3


def test_clips_of_any_name_beside_trials_are_no_trial(tmp_path):
    for sweep in ("one", "two"):
        write_trial(tmp_path / "results" / sweep / "trial_0", 0)
        write_clips(tmp_path / "results" / sweep / "plots", ["a.mp4"])
    for folder in (tmp_path / "results" / "one", tmp_path / "results", tmp_path / "results" / "videos"):
        write_clips(folder, ["grid.mp4", "b.mp4"])
    write_clips(tmp_path / "results" / "old" / "videos", ["a.mp4"])
    for folder, count in ((tmp_path / "results", 2), (tmp_path / "results" / "one", 1)):
        names = [trial.path.rpartition("/")[2] for trial in tm.load(folder).trials]
        assert names == ["trial_0"] * count
        assert [trial.path.rpartition("/")[2] for trial in watched(folder)] == names
    assert len(tm.load(tmp_path / "results" / "videos")) == 2  # if it is named, it opens


@pytest.mark.slow
def test_the_page_plays_webm_and_shows_a_gif_without_a_time_line(browser, tmp_path):
    for name, write in (("a.webm", write_webm), ("b.gif", write_gif), ("c.mp4", lambda path: path.write_bytes(CLIP))):
        (tmp_path / "clips" / name[0]).mkdir(parents=True)
        write(tmp_path / "clips" / name[0] / name)
    with opened(browser, tmp_path / "clips", tmp_path, "cards=trials", host="gallery") as viewer:
        viewer.wait(
            "[...document.querySelectorAll('article video')].filter((video) => video.readyState > 1).length == 2"
        )
        viewer.wait("document.querySelector('article img')?.naturalWidth == 32")
        assert viewer.all("article .note") == ["GIF: no time line, no sync"]
        text = viewer.frame.inner_text("main")
        assert all(name in text for name in ("a.webm", "b.gif", "c.mp4"))
        viewer.frame.click("article[data-trial=b] .screen")
        viewer.wait("document.querySelector('.clip-view img')?.naturalWidth == 32")
        assert viewer.all(".strip-row, .frame") == []
        assert "no time line" in viewer.frame.inner_text(".under")


@pytest.mark.slow
def test_a_trial_without_steps_has_its_clips_by_name_with_their_returns(browser, tmp_path):
    names = ["ep1.mp4", "ep2.mp4", "ep10.mp4"]
    for task in ("lift", "push"):
        write_clips(tmp_path / "clips" / task, names)
        (tmp_path / "clips" / task / "t.csv").write_text("file,return\nep1.mp4,5\nep2.mp4,9\nep10.mp4,7\n")
    with opened(browser, tmp_path / "clips", tmp_path, "view=trial&trial=lift") as viewer:
        viewer.wait("document.querySelectorAll('.film video').length == 3")
        assert viewer.all(".film", "e.dataset.clip") == names
        assert viewer.all(".film-facts span") == names
        assert viewer.all(".film-facts b") == ["5", "9", "7"]
        assert viewer.frame.inner_text(".step-shown") == "ep10.mp4"
        viewer.frame.click(".film[data-clip='ep2.mp4'] .film-facts")
        viewer.wait("document.querySelectorAll('.strip-row').length == 1")
        assert "return=return of t.csv" in viewer.frame.inner_text(".under")


def test_a_server_of_other_clips_gives_webm_as_such(tmp_path):
    write_webm(tmp_path / "a.webm")
    (trial,) = watched(tmp_path)
    with serving(tmp_path) as url, urllib.request.urlopen(f"{url}media/{trial.id}/a.webm") as answer:
        assert answer.headers["Content-Type"] == "video/webm"
        assert answer.read() == (tmp_path / "a.webm").read_bytes()


def test_no_link_out_of_a_part_of_a_run_is_served(tmp_path):
    write_clips(tmp_path / "secret", ["a.mp4"])
    run = tmp_path / "logs" / "run"
    write_clips(run / "eval" / "videos_step_10" / "lift_0", ["eval_episode_0.mp4"])
    write_clips(run / "eval" / ".hidden", ["b.mp4"])
    (run / "eval_info.json").write_text(json.dumps({"per_episode": [], "video_paths": ["../../secret/a.mp4"]}))
    (run / "eval" / "videos_step_10" / "eval_episode_1.mp4").symlink_to(tmp_path / "secret" / "a.mp4")
    (run / "eval" / "videos_step_10" / "push_0").symlink_to(tmp_path / "secret")
    (run / "videos").symlink_to(tmp_path / "secret")
    (trial,) = watched(tmp_path / "logs")
    served = [line["path"] for line in trial.lines if trial.media_file(line["path"])]
    assert served == ["eval/videos_step_10/lift_0/eval_episode_0.mp4"]
    others = ["eval/videos_step_10/eval_episode_1.mp4", "eval/videos_step_10/push_0/a.mp4", "videos/a.mp4"]
    for path in [*others, "eval/.hidden/b.mp4", "../../secret/a.mp4", "eval/../../../secret/a.mp4"]:
        assert trial.media_file(path) is None
        with pytest.raises(FileNotFoundError):
            trial.read_media(path)
