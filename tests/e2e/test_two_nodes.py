"""Env runners on another node than the driver: their clips and what they know of episodes arrive as on one node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.experiment import assert_whole_episode, media_files, rows_of
from tests.support.processes import driver

pytest.importorskip("ray.rllib")
SUPPORT = Path(__file__).parents[1] / "support"


def test_clips_come_from_the_other_node(tmp_path):
    (tmp_path / "played").mkdir()
    with driver(SUPPORT / "two_nodes.py", str(tmp_path), log=tmp_path / "log") as script:
        script.finish(seconds=240)
    nodes = json.loads((tmp_path / "nodes.json").read_text())
    assert nodes["driver"] != nodes["runners"]

    played = [json.loads(file.read_text()) for file in (tmp_path / "played").iterdir()]
    returns = {(one["env"], one["episode"]): one["return"] for one in played}
    catalog = tm.load(tmp_path / "two_nodes")
    for section in ("train", "evaluation"):
        for selector in ("best", "last"):
            rows = rows_of(catalog, section=section, key=f"episodes/{selector}")
            assert [row["training_iteration"] for row in rows] == [1, 2]
            for row in rows:
                shown = assert_whole_episode(row["file"], row["episode_length"])
                assert row["episode_return"] == pytest.approx(returns[shown.env, shown.episode])
    assert {str(path) for path in media_files(tmp_path / "two_nodes")} == {row["file"] for row in catalog}

    table = tm.load(tmp_path / "two_nodes").episodes()
    assert len(table[table["section"] == "evaluation"]) >= 6
    assert {values["node"] for values in table["values"]} == {nodes["runners"]}
    known = [pytest.approx(value) for value in returns.values()]
    assert all(value in known for value in table["episode_return"])
