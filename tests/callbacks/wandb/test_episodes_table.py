import json
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.wandb.episodes_table import WandbTable, trial_line
from tune_media.callbacks.wandb.values import best_item

wandb = pytest.importorskip("wandb")


@pytest.fixture
def clip(tmp_path):
    file = tmp_path / "clip.mp4"
    file.write_bytes(tm.Video(iter(np.zeros((3, 16, 16, 3), np.uint8)), fps=5).content())
    return file


def written(table):
    artifact = wandb.Artifact("tables", type="tables")
    artifact.add(table, "table")
    content = json.loads(Path(artifact.manifest.entries["table.table.json"].local_path).read_text())
    types = content["column_types"]["params"]["type_map"]
    names = {name: str(found) for name, found in types.items()}
    return names, [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def test_the_line_of_a_trial_has_its_clip_with_its_return(clip):
    line = {"section": "evaluation", "training_iteration": 2, "episode_return": 9.5, "episode_length": 3}
    best = best_item({**line, "path": "media/clip.mp4"}, None)
    video = wandb.Video(str(clip), caption=best["caption"], format="mp4")
    types, (row,) = written(trial_line(wandb, "the_trial", {"lr": 0.1, "kind": "a"}, best, video, {}))
    shown = row.pop("clip")
    assert (shown["_type"], shown["caption"]) == ("video-file", "return 9.5, length 3, step 2")
    assert "video-file" in types["clip"]
    assert "number" in types["best_return"]
    assert row == {
        **{"trial": "the_trial", "score": 9.5, "score_is": "best return of a clip"},
        **{"section": "evaluation", "best_return": 9.5},
        **{"episode_length": 3, "step": 2, "lr": 0.1, "kind": "a"},
    }


def test_odd_values_leave_the_table_whole(clip):
    table = WandbTable()
    facts = {"section": "train", "episode_length": 3, "seed": None}
    odd = [float("nan"), float("inf"), 1, True, "text"]
    for number, value in enumerate(odd):
        episode = {"episode_id": f"e{number}", "episode_return": 1.0 * number}
        table.add(number, [{**facts, **episode, "metrics": {"odd": value, "even": number}}])
    table.add_clip("e1", clip, "return 1")
    types, rows = written(table.make(wandb, "t"))
    assert [row["odd"] for row in rows] == [None, None, "1", "True", "text"]
    assert [row["even"] for row in rows] == [0, 1, 2, 3, 4]
    assert "number" in types["even"]
    assert [row["clip"] is not None for row in rows] == [False, True, False, False, False]
    assert {row["trial"] for row in rows} == {"t"}


def test_the_table_says_which_episodes_succeeded_if_that_is_known():
    facts = {"section": "train", "episode_length": 3, "episode_return": 1.0, "metrics": {}}
    told = WandbTable()
    told.add(1, [{**facts, "episode_id": "a", "success": True}, {**facts, "episode_id": "b"}])
    _, rows = written(told.make(wandb, "t"))
    assert [row["success"] for row in rows] == ["True", None]
    silent = WandbTable()
    silent.add(1, [{**facts, "episode_id": "a"}])
    assert "success" not in written(silent.make(wandb, "t"))[1][0]
