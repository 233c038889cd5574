"""A gate's folder answers for what was played in it, and for nothing else."""

import importlib.metadata
import json
import os
import shutil
from xml.etree import ElementTree

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.own_modules import OwnModules
from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.gate import GateProgress
from tune_media.evaluation.sources import sources_of

pytestmark = pytest.mark.any_ray

LOADER = """
from tests.support import aim

def load(path):
    import {helper}
    policy = aim.load_policy(path)
    return lambda observation: policy(observation) * {helper}.GAIN

def make(config):
    import importlib
    return importlib.import_module("{env}").Env(config)
"""
HELPER = "from {constants} import GAIN"
ENV = """
from tests.support import aim

BONUS = {bonus}

class Env(aim.Aim):
    def step(self, action):
        observation, reward, *others = super().step(action)
        return observation, reward + BONUS, *others
"""


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """Return a function that runs a gate of a user's modules; its ``modules`` can be edited."""
    base, candidate = aim.saved(tmp_path, 1), aim.saved(tmp_path, 0.9)
    modules = OwnModules(tmp_path / "code", monkeypatch)
    names = {"helper": "gate_helper", "env": "gate_env"}
    modules.write(
        gate_loader=LOADER.format(**names),
        gate_helper=HELPER.format(constants="gate_constants"),
        gate_constants="GAIN = 1.0",
        gate_env=ENV.format(bonus=0),
    )

    def play(**given):
        modules.write()
        given = {"seeds": "0:12", "clips": 0, "output": str(tmp_path / "gate"), **given}
        return tm.gate(base, candidate, policy="gate_loader:load", env="gate_loader:make", **given)

    play.modules = modules
    yield play
    modules.end()


def mean_of_candidate(found):
    return found.verdicts[0].candidate


@pytest.mark.parametrize(
    ("edited", "source", "named"),
    [
        ("gate_loader", LOADER.format(helper="gate_helper", env="gate_env") + "\n", "gate_loader"),
        ("gate_constants", "GAIN = 2.0", "gate_constants"),  # imported by a module that a function imports
        ("gate_env", ENV.format(bonus=5), "gate_env"),  # imported by a text, and known from the env's recipe
    ],
)
def test_edited_source_is_refused_until_all_is_played_anew(gate, edited, source, named):
    before = gate()
    assert not before.is_answered and gate().is_answered
    gate.modules.write(**{edited: source})
    with pytest.raises(ValueError, match=rf"something else \(the source of '{named}'\); .*play all again: anew=, or"):
        gate()
    again = gate(anew=True)
    assert not again.is_answered
    assert (mean_of_candidate(again) == mean_of_candidate(before)) == (edited == "gate_loader")
    assert gate().is_answered


def test_source_that_was_edited_while_an_interrupted_gate_waited_is_refused(gate):
    class Interrupts(GateProgress):
        def stands(self, condition, found, seeds):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gate(progress=Interrupts())
    gate.modules.write(gate_env=ENV.format(bonus=5))
    with pytest.raises(ValueError, match="the source of 'gate_env'"):
        gate()


def test_another_version_is_refused_and_named(gate, monkeypatch):
    gate()
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.1" if name == "gymnasium" else real(name))
    with pytest.raises(ValueError, match=rf"something else \(gymnasium {real('gymnasium')}, now 0\.1\)"):
        gate()


def test_a_floor_without_the_base_that_it_had_is_another_gate(tmp_path):
    base, candidate = aim.saved(tmp_path, 1), aim.saved(tmp_path, 0.9)
    given = {"policy": aim.load_policy, "env": aim.make_env, "seeds": 12, "at_least": -99.0, "clips": 0}
    tm.gate(base, candidate, output=str(tmp_path / "gate"), **given)
    with pytest.raises(ValueError, match=r"asked for something else .the base"):
        tm.gate(candidate, output=str(tmp_path / "gate"), **given)


def test_a_touch_or_a_copy_elsewhere_is_the_same_gate_and_goes_on_there(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    given = {"policy": aim.load_policy, "env": aim.make_env, "clips": 0}
    aim.saved(here, 1), aim.saved(here, 0.9)

    def gate(folder, seeds):
        sides = folder / "aim_1.json", folder / "aim_0.9.json"
        return tm.gate(*sides, seeds=seeds, output=str(folder / "gate"), **given)

    gate(here, "0:20")
    shutil.copytree(here, there)
    for file in there.glob("*.json"):
        os.utime(file, ns=(1, 1))
    shutil.rmtree(here)
    assert gate(there, "0:20").is_answered
    ids = set(tm.load(there / "gate").episodes()["episode_id"])
    gate(there, "0:25")
    assert len(ids) == 40 and ids < set(tm.load(there / "gate").episodes()["episode_id"])


def test_an_answer_without_playing_says_so_to_programs_and_the_file_stays(gate, tmp_path):
    first = gate()
    file = (tmp_path / "gate" / "gate.json").read_bytes()
    found = gate()
    assert found.facts() == {**first.facts(), "answered": True}
    said = f"Answered from {tmp_path / 'gate'}, nothing was played."
    assert [of.text for of in ElementTree.fromstring(found.junit()).iter("system-out")][-1] == said
    assert (tmp_path / "gate" / "gate.json").read_bytes() == file
    assert json.loads(file)["answered"] is False and "Answered" not in first.junit()


def test_anew_deletes_what_the_gate_has_written_and_nothing_else(gate, tmp_path):
    gate()
    (tmp_path / "gate" / "baseline").mkdir()
    (tmp_path / "gate" / "notes.txt").write_text("mine")
    gate(anew=True, margin=3)
    assert (tmp_path / "gate" / "notes.txt").read_text() == "mine" and (tmp_path / "gate" / "baseline").is_dir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "base").mkdir()
    with pytest.raises(ValueError, match="has files of no gate"):
        gate(anew=True, output=str(tmp_path / "other"))


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


def test_the_source_of_packages_and_of_relative_imports_is_found_and_nothing_is_imported(tmp_path, monkeypatch):
    package = tmp_path / "own_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit")
    (package / "inner" / "__init__.py").write_text("from . import near")
    (package / "inner" / "near.py").write_text("from ..far import VALUE\nimport numpy, tune_media, os.path, no_such")
    (package / "far.py").write_text("this is no Python")
    monkeypatch.syspath_prepend(tmp_path)
    names = {"own_package.inner", "own_package.inner.near", "own_package.far", "own_package"}
    (tmp_path / "own_script.py").write_text("def f():\n    from own_package.inner import near")
    assert set(sources_of(["own_script"])) == {"own_script", *names}
    assert sources_of(["numpy", "os", "no_such", "tune_media.evaluation", ""]) == {}
