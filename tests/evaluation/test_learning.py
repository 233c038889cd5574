"""One seed through all checkpoints of a trial: one clip and one picture, under the iterations."""

import re
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import tune_media as tm
from tests.support import pushes
from tune_media.cli import main
from tune_media.encoding import decode_video


def test_the_clips_follow_each_other_under_their_iterations(tmp_path):
    trial = tmp_path / "sweep" / "trial"
    for push in (0, 1):
        folder = trial / f"checkpoint_{push:06d}"
        folder.mkdir(parents=True)
        (folder / "push.txt").write_text(str(push))
    (trial / "params.json").write_text("{}")
    functions = ["--policy", f"{pushes.__name__}:load_policy", "--env", f"{pushes.__name__}:make_env"]
    command = ["evaluate", str(trial.parent), "--checkpoint", "all", "--seeds", "7", "--name", "learn", *functions]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    clips = list(tm.load(trial.parent / "evaluations" / "learn"))
    assert [(row["training_iteration"], row["key"]) for row in clips] == [(1, "episodes/best"), (2, "episodes/best")]
    video, picture = (Path(path) for path in re.findall(r"Watch it learn: (.+)", result.output))
    frames = list(decode_video(video.read_bytes()))
    held = round(clips[0]["fps"] / 2)
    assert len(frames) == sum(row["frames"] + held for row in clips)
    height = clips[0]["height"]
    for row, frame in zip(clips, (frames[0], frames[clips[0]["frames"] + held]), strict=True):
        assert np.abs(frame[-height:].astype(int) - next(row.frames())).mean() < 3  # below the caption
        assert (frame[:-height] < 128).any()
    assert next(decode_video(picture.read_bytes())).shape[0] > len(clips) * 100
    written = video.stat().st_mtime_ns
    assert CliRunner().invoke(main, command).output.endswith(result.output[result.output.index("Watch it learn") :])
    assert video.stat().st_mtime_ns == written
