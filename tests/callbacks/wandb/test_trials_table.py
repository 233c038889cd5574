import json
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.wandb.trials_table import trial_line
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
