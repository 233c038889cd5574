"""Envs whose pictures depend on what no observation shows: each clip is its episode, or there is none.

``python -m tests.hidden_state`` runs all kinds in all ways; these are a few that no earlier check has seen.
"""

import logging

import pytest

from tests.support import hidden_state_runs
from tests.support.hidden_state_runs import Cell

CELLS = [
    Cell("plain", "rllib-new"),
    pytest.param(Cell("set-before-evaluation", "rllib-new", 3), marks=pytest.mark.any_ray),
    pytest.param(Cell("theme-class", "rllib-new"), marks=pytest.mark.any_ray),
    pytest.param(Cell("from-frame-41", "gym"), marks=pytest.mark.any_ray),
    pytest.param(Cell("set-on-wrapper", "gym", 3), marks=pytest.mark.any_ray),
    pytest.param(Cell("behind-aec-env", "gym"), marks=pytest.mark.any_ray),
    pytest.param(Cell("namespace", "gym", placement="first-two", steps=24), marks=pytest.mark.any_ray),
    pytest.param(Cell("pipe", "gym", 3, placement="last", steps=24, keep=("median",)), marks=pytest.mark.any_ray),
    Cell("shell", "rllib-new", 3, placement="first-two", steps=24),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_each_clip_is_its_episode(cell, ray_session, tmp_path, caplog):
    caplog.set_level(logging.INFO, "tune_media")  # why clips are rendered directly, if none is made of a tape
    (outcome,) = hidden_state_runs.run([cell], tmp_path, evaluations=14)
    assert outcome.is_good, outcome
    if cell.kind == "plain":
        assert outcome.replay > 0
        assert outcome.right == outcome.clips


@pytest.mark.any_ray
def test_each_clip_of_a_sweep_is_its_episode(ray_session, tmp_path):
    cells = [Cell("score-board", "tune"), Cell("new-env-config", "tune"), Cell("set-before-evaluation", "tune")]
    outcomes = list(hidden_state_runs.run(cells, tmp_path, evaluations=14))
    assert all(outcome.is_good for outcome in outcomes), outcomes
