"""Checkpoints that are damaged, or of people whom nobody knows, and trials with odd names."""

import json
import pickle

import pytest
import ray
from click.testing import CliRunner

import tune_media as tm
from tests.support import pushes
from tests.support.viewing import write_trial
from tune_media.cli import main
from tune_media.evaluation.evaluation import Progress
from tune_media.evaluation.gate import GateProgress
from tune_media.replay.playing import CheckpointError, PlayerSettings
from tune_media.rllib.checkpoint_player import player_of

FUNCTIONS = {"env": f"{pushes.__name__}:make_env", "policy": f"{pushes.__name__}:load_policy"}
STATES = {"a list": pickle.dumps([1]), "noise": b"\x80\x04\xff", "empty": b"", "another module's": b"cnowhere\nx\n."}


def checkpoint(trial, state):
    folder = trial / "checkpoint_000003"
    folder.mkdir()
    (folder / "push.txt").write_text("1")
    (folder / "algorithm_state.pkl").write_bytes(state)
    return folder


@pytest.mark.any_ray
@pytest.mark.parametrize("state", STATES)
def test_a_state_that_is_none_costs_no_evaluation_and_is_named(tmp_path, caplog, state):
    """It was ``AttributeError: 'list' object has no attribute 'get'``, for all trials."""
    checkpoint(write_trial(tmp_path / "exp" / "bad", 0), STATES[state])
    checkpoint(write_trial(tmp_path / "exp" / "good", 1), pickle.dumps({"training_iteration": 20}))
    found = tm.evaluate(tmp_path / "exp", seeds=1, clips=None, **FUNCTIONS)
    assert [one.training_iteration for one in found.checkpoints] == [4, 20]
    assert not [one.error for one in found.checkpoints if one.error]
    assert "bad/checkpoint_000003/algorithm_state.pkl" in caplog.text
    assert "guessed from its number" in caplog.text


class Warns(Progress, GateProgress):
    """Prints when code of checkpoints is about to run."""

    def reads_checkpoints(self, path):
        print("warned")

    def plays(self, *names):
        print("warned")


@pytest.mark.any_ray
@pytest.mark.parametrize("is_named_itself", [True, False])
def test_no_state_is_read_before_the_warning_that_it_runs_code(tmp_path, capsys, is_named_itself):
    """A checkpoint that was named itself ran its pickle first, and each side of a gate."""
    state = b"cbuiltins\nprint\n(S'code runs'\ntR."
    sides = [checkpoint(write_trial(tmp_path / name / "trial", 0), state) for name in ("a", "b")]
    (sides[1] / "push.txt").write_text("0")
    sources = sides if is_named_itself else [side.parents[1] for side in sides]
    given = {**FUNCTIONS, "progress": Warns()}
    found = tm.evaluate(sources[0], seeds=1, clips=None, **given)
    assert found.checkpoints[0].training_iteration == 4 and not found.checkpoints[0].error
    assert capsys.readouterr().out.split("\n")[0] == "warned"
    tm.gate(*sources, seeds="0:2", output=str(tmp_path / "gate"), clips=0, **given)
    assert capsys.readouterr().out.split("\n")[:2] == ["warned", "code runs"]


@pytest.mark.parametrize("content", STATES.values())
def test_an_env_runner_that_cannot_be_read_is_a_message_that_names_its_file(tmp_path, content):
    folder = checkpoint(write_trial(tmp_path / "exp" / "bad", 0), pickle.dumps({}))
    (folder / "learner_group" / "learner" / "rl_module").mkdir(parents=True)
    for name in ("env_runner", "eval_env_runner"):
        (folder / name).mkdir()
        (folder / name / "class_and_ctor_args.pkl").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"class_and_ctor_args.pkl of the checkpoint|needs a module"):
        player_of(folder, PlayerSettings(None, None, None, {}), [0])


def test_a_checkpoint_of_another_release_of_ray_is_said_to_be_one(tmp_path):
    folder = checkpoint(write_trial(tmp_path / "exp" / "bad", 0), pickle.dumps({}))
    (folder / "learner_group" / "learner" / "rl_module").mkdir(parents=True)
    (folder / "env_runner").mkdir()
    (folder / "env_runner" / "class_and_ctor_args.pkl").write_bytes(b"cray.rllib.not_there\nEnvRunner\n.")
    settings = PlayerSettings(None, "training", None, {})
    for version, message in (
        ("9.9.0", r"^the checkpoint needs a module.*\. Ray 9\.9\.0 has saved it.*install ray==9\.9\.0$"),
        (ray.__version__, "^the checkpoint"),
    ):
        (folder / "rllib_checkpoint.json").write_text(json.dumps({"ray_version": version}))
        with pytest.raises(CheckpointError, match=message):
            player_of(folder, settings, [0])


@pytest.mark.any_ray
def test_the_command_says_whose_code_runs_before_it_reads_a_checkpoint_and_takes_names_with_blanks(tmp_path):
    """Without a word, the code in a stranger's checkpoint ran; a name was split at its blanks."""
    ran = tmp_path / "ran"
    code = f"import pathlib; pathlib.Path({str(ran)!r}).touch()"

    class Runs:
        def __reduce__(self):
            return exec, (code,)

    checkpoint(write_trial(tmp_path / "exp" / "a b, c", 0), pickle.dumps(Runs()))
    functions = [part for name, text in FUNCTIONS.items() for part in (f"--{name}", text)]
    command = ["evaluate", str(tmp_path / "exp"), "--trials", "a b, c", "--seeds", "0:1", "--no-clips", *functions]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    first, second = result.output.splitlines()[:2]
    assert first == (
        f"This runs code that is stored in {tmp_path / 'exp'}, in its checkpoints: go on only if you trust the people "
        "who made it."
    )
    assert second.startswith("Evaluation ")
    assert ran.exists()
    result = CliRunner().invoke(main, [*command[:3], "nobody", *command[4:]])
    assert "There is no trial 'nobody'" in result.output
    assert "This runs code" not in result.output


@pytest.mark.any_ray
def test_of_one_seed_each_checkpoint_has_one_clip(tmp_path):
    trial = tmp_path / "sweep" / "trial"
    for push in (0, 1):
        folder = trial / f"checkpoint_{push:06d}"
        folder.mkdir(parents=True)
        (folder / "push.txt").write_text(str(push))
    (trial / "params.json").write_text("{}")
    clips = list(tm.evaluate(tmp_path / "sweep", checkpoint="all", seeds=[7], **FUNCTIONS).catalog)
    assert [(row["training_iteration"], row["key"]) for row in clips] == [(1, "episodes/best"), (2, "episodes/best")]
