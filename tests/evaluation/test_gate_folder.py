"""A gate plays anew each time, into a folder of its own, or into one that it empties first."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.own_modules import OwnModules
from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.gate import GateProgress

pytestmark = pytest.mark.any_ray

LOADER = """
from tests.support import aim

def load(path):
    policy = aim.load_policy(path)
    return lambda observation: policy(observation) * {gain}
"""


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """Return a function that runs a gate of a user's module; its ``modules`` can be edited."""
    base, candidate = aim.saved(tmp_path, 1), aim.saved(tmp_path, 0.9)
    modules = OwnModules(tmp_path / "code", monkeypatch)
    modules.write(gate_loader=LOADER.format(gain=1.0))

    def play(**given):
        modules.write()
        given = {"seeds": "0:12", "clips": 0, "output": str(tmp_path / "gate"), **given}
        return tm.gate(base, candidate, policy="gate_loader:load", env=aim.make_env, **given)

    play.modules = modules
    yield play
    modules.end()


class Interrupts(GateProgress):
    def stands(self, condition, found, seeds):
        raise KeyboardInterrupt


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_folder_that_holds_a_gate_is_refused_and_anew_empties_it(gate, tmp_path, is_killed):
    if is_killed:
        with pytest.raises(KeyboardInterrupt):
            gate(progress=Interrupts())
    before = None if is_killed else gate()
    content = (tmp_path / "gate" / "gate.json").read_bytes()
    with pytest.raises(ValueError, match=r"holds a gate; pass another folder: output=, or -o; or empty .*: anew=, or"):
        gate()
    assert (tmp_path / "gate" / "gate.json").read_bytes() == content
    (tmp_path / "gate" / "baseline").mkdir()
    (tmp_path / "gate" / "notes.txt").write_text("mine")
    gate.modules.write(gate_loader=LOADER.format(gain=0.0))
    again = gate(anew=True, seeds="0:5")
    assert len(tm.load(again.path).episodes()) == 2 * 5
    assert before is None or again.verdicts[0].candidate != before.verdicts[0].candidate
    assert (tmp_path / "gate" / "notes.txt").read_text() == "mine" and (tmp_path / "gate" / "baseline").is_dir()


def test_no_older_verdict_outlives_a_gate_that_fails_and_a_wrong_argument_deletes_none(gate, tmp_path):
    gate()
    with pytest.raises(ValueError, match="margin"):
        gate(anew=True, margin="x")
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["verdict"]
    gate.modules.write(gate_loader="1 +")
    with pytest.raises(ValueError, match="SyntaxError"):
        gate(anew=True)
    assert list((tmp_path / "gate").iterdir()) == []
    gate.modules.write(gate_loader=LOADER.format(gain=1.0))
    assert gate().verdict  # an empty folder holds none


def test_without_a_folder_each_gate_has_a_new_one(gate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda *given: "2030-01-01_00-00-00")
    paths = [gate(output=None, seeds="0:3").path for _ in range(3)]
    name = "aim_0.9.json-2030-01-01_00-00-00"
    assert paths == [str(Path("gates", f"{name}{end}").resolve()) for end in ("", "_2", "_3")]


def test_only_what_is_needed_to_play_tells_checkpoints_apart(tmp_path):
    files = ("learner_group/learner/rl_module/net.pkl", "env_runner/state.pkl", "learner_group/learner/optimizer.pkl")
    for number, name in enumerate(files):
        (file := tmp_path / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([number]))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    a, b = (StoredCheckpoint(pyarrow.fs.LocalFileSystem(), str(tmp_path / name), 0) for name in "ab")
    assert a.digest() == b.digest()
    (tmp_path / "b" / files[2]).write_bytes(b"other")
    assert a.digest() == b.digest()
    (tmp_path / "b" / files[1]).rename(tmp_path / "b" / "env_runner" / "other.pkl")
    assert a.digest() != b.digest()


class Asks(GateProgress):
    """Starts another gate in the same folder while one plays."""

    refused = ""

    def __init__(self, gate):
        self.gate = gate

    def stands(self, condition, found, seeds):
        with pytest.raises(ValueError) as refused:
            self.gate(anew=True)
        self.refused = str(refused.value)


def test_one_gate_at_a_time_plays_in_a_folder(gate, tmp_path):
    asks = Asks(gate)
    found = gate(progress=asks, seeds="0:5")
    assert asks.refused.startswith(f"another gate plays in {str(tmp_path / 'gate')!r}; wait for it, or pass another")
    assert len(tm.load(found.path).episodes()) == 2 * 5
    assert gate(anew=True, seeds="0:5").verdict == found.verdict


def test_a_folder_is_free_when_the_process_of_its_gate_is_killed(gate, tmp_path):
    folder = tmp_path / "gate"
    folder.mkdir()
    holds = f"import fcntl, os, time; fcntl.flock(os.open({str(folder)!r}, 0), fcntl.LOCK_EX); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{holds}; time.sleep(99)"], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(ValueError, match="another gate plays in"):
            gate()
        process.kill()
    assert gate(seeds="0:5").verdict
