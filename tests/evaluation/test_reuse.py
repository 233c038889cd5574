"""Numbers are of the bytes that are there now: which episodes an evaluation and a gate take from the storage."""

import json
from pathlib import Path

import pytest

import tune_media as tm
from tests.support import aim
from tune_media.evaluation.gate import GateProgress

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}


def lines(folder, name="result.json"):
    return [json.loads(line) for line in Path(folder, name).read_text().splitlines()]


def test_an_evaluation_and_a_gate_say_which_bytes_they_played(tmp_path):
    """A history of a policy's episodes finds them by the digest."""
    one, other = aim.saved(tmp_path, 1), aim.saved(tmp_path, 0)
    evaluated = tm.evaluate(one, seeds=2, clips=None, **FUNCTIONS)
    gated = tm.gate(one, other, seeds="0:3", output=str(tmp_path / "gate"), clips=0, **FUNCTIONS)
    folders = [Path(evaluated.path, one.name), *(Path(gated.path, role) for role in ("base", "candidate"))]
    noted = [json.loads((folder / "played_as.json").read_text())["0"]["digest"] for folder in folders]
    assert noted == [result["digest"] for folder in folders for result in lines(folder)]
    assert noted[0] == noted[1] != noted[2]


class Overwrites(GateProgress):
    """Writes another policy over one as soon as both have played."""

    def __init__(self, path):
        self._path = path

    def stands(self, condition, standing, seeds):
        if standing.seeds:
            self._path.write_text('{"aim": 1.5}')


def test_a_gate_of_a_file_that_is_overwritten_meanwhile_is_an_error(tmp_path, monkeypatch):
    for name in ("SOONEST", "SHARE_OF_TIME"):
        monkeypatch.setattr(f"tune_media.evaluation.jobs.{name}", 0.0)  # each episode is stored at once
    one, other = aim.saved(tmp_path, 1), aim.saved(tmp_path, 0.9)
    given = {"seeds": "0:40", "output": str(tmp_path / "gate"), "clips": 0, **FUNCTIONS}
    found = tm.gate(one, other, progress=Overwrites(other), **given)
    assert (found.verdict, found.exit_code) == ("error", 2)
    assert "the candidate cannot be played: the checkpoint was overwritten while it was played" in str(found.facts())
