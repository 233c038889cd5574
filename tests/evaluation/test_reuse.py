"""Numbers are of the bytes that are there now: which episodes an evaluation and a gate take from the storage."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.commands import command, split_runner
from tests.support.experiment import media_files
from tests.support.kills_after import KillsAfter
from tune_media.cli import main
from tune_media.evaluation import jobs
from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.evaluation_table import remarks
from tune_media.evaluation.gate import GateProgress
from tune_media.storage.episode_files import RecorderEpisodes
from tune_media.storage.trial_folder import TrialFolder
from tune_media.values.episodes import EpisodeBatch, EpisodeData

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


COMMAND = ["--checkpoint", "all", "--seeds", "0:3", "--no-clips"]
COMMAND += ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env"]


def written(folder, *aims):
    """Write policies that aim so, as the steps 1, 2, ... of a training, and return the pattern of their files."""
    folder.mkdir(parents=True, exist_ok=True)
    for step, well in enumerate(aims, 1):
        (folder / f"aim_{step}.json").write_text(json.dumps({"aim": well}))
    return str(folder / "aim_*.json")


def load_biased(path):
    """Load a policy with code that depends on the process: an edited module."""
    policy = aim.load_policy(path)
    return lambda observation: policy(observation) + float(os.environ.get("BIAS", "0"))


BIASED = {"policy": load_biased, "env": aim.make_env, "checkpoint": "all", "seeds": 4, "clips": None}


def means(found):
    """Return how well each policy aimed, to which its luck on these seeds is added."""
    luck = tm.evaluate(written(Path(found.path).parents[2] / "still", 0.0), **BIASED | {"policy": aim.load_policy})
    return [round((row.return_mean - luck.best.return_mean) / aim.STEPS, 5) for row in found.checkpoints]


def counts(found):
    return found.played, found.reused, found.replaced


def test_a_file_that_is_overwritten_is_played_again_and_edited_code_if_all_is(tmp_path, monkeypatch):
    """The old numbers came back, and JSON said nothing."""
    pattern = written(tmp_path / "models", 0.5, 1.0)
    first = tm.evaluate(pattern, **BIASED)
    assert (means(first), counts(first)) == ([0.5, 1.0], (8, 0, 0))
    written(tmp_path / "models", 0.5, -5.0)
    second = tm.evaluate(pattern, **BIASED)
    assert (second.path, means(second), counts(second)) == (first.path, [0.5, -5.0], (4, 4, 4))
    assert first.reused_from is None and 0 < second.reused_from[0] <= second.reused_from[1]
    told = remarks(second)
    assert any(line.startswith("4 of 8 episodes are from 20") and "--anew plays all again" in line for line in told)
    assert "4 older episodes were replaced." in told
    monkeypatch.setenv("BIAS", "-2")
    third = tm.evaluate(pattern, **BIASED)
    assert (means(third), counts(third)) == ([0.5, -5.0], (0, 8, 0))  # code cannot be seen, and that is said
    fourth = tm.evaluate(pattern, **BIASED, anew=True)
    assert (means(fourth), counts(fourth)) == ([-1.5, -7.0], (8, 0, 8))
    assert len(tm.load(first.path).episodes()) == 8
    assert not any("--anew" in line for line in remarks(fourth))


class Hidden(aim.Aim):
    def render(self):
        return None


def make_hidden(config):
    return Hidden(config, render_mode=None)


def load_nothing(path):
    raise RuntimeError("no such weights")


def test_advice_after_an_evaluation_is_for_the_one_who_called_it(tmp_path):
    pattern, given = written(tmp_path / "models", 0.5, 1.0), ("--checkpoint", "all", "--seeds", "0:2")
    functions = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{__name__}:make_hidden"]
    told = command("evaluate", pattern, *given, *functions)
    assert "with render_mode='rgb_array', for example gymnasium.make(" in told
    assert "config.environment" not in told and "One configuration" not in told
    (folder,) = (tmp_path / "models" / "evaluations").iterdir()
    assert "`tune-media render" in command("gallery", folder, code=1)
    assert "See the episodes:" in told
    functions = ["--policy", f"{__name__}:load_nothing", "--env", f"{aim.__name__}:make_env"]
    told = command("evaluate", pattern, *given, *functions, code=1)
    assert "RuntimeError: no such weights" in told and "2 of 2 checkpoints lack episodes." in told
    assert "See the episodes:" not in told and "is not an experiment" not in told


def test_the_command_says_what_is_reused_and_which_is_the_best(tmp_path):
    words = [written(tmp_path / "models", 0.5, 1.0), *COMMAND]
    told = [json.loads(split_runner().invoke(main, ["evaluate", *words, "--json"]).stdout) for _ in range(2)]
    assert [(one["played"], one["reused"], one["replaced"]) for one in told] == [(6, 0, 0), (0, 6, 0)]
    assert told[0]["checkpoints"][told[0]["best"]]["checkpoint"] == "aim_2.json"
    assert told[0]["is_clear"] is (told[0]["checkpoints"][0]["why"] is None)
    assert "6 of 6 episodes are from" in command("evaluate", *words)
    assert "6 older episodes were replaced." in command("evaluate", *words, "--anew")
    assert "leave out --anew" in command("evaluate", *words, "--anew", "--follow", code=2)


def test_what_is_replaced_leaves_its_clips_as_deleted_lines_and_no_row(tmp_path):
    pattern = written(tmp_path / "models", 0.5)
    given = {**BIASED, "seeds": 2, "clips": "best"}
    first = tm.evaluate(pattern, **given)
    old = [row["episode_id"] for row in tm.load(first.path)]
    written(tmp_path / "models", 1.0)
    second = tm.evaluate(pattern, **given)
    (clip,) = tm.load(second.path)
    assert len(media_files(second.path)) == 1 and clip["episode_id"] not in old
    (folder,) = (path for path in Path(second.path).iterdir() if (path / "result.json").is_file())
    videos = [line for line in lines(folder, "media/index.jsonl") if line["kind"] == "video"]
    assert [(line["status"], line["episode_id"] in old) for line in videos] == [("deleted", True), ("stored", False)]
    assert len(list(folder.glob("episode_data/data-*"))) == 2  # of both formats
    assert [result["seeds"] for result in lines(folder)] == [2]
    assert not tm.load(second.path).trials[0].lost


def test_episodes_whose_policy_nobody_noted_are_played_again(tmp_path):
    """Those of earlier versions."""
    pattern = written(tmp_path / "models", 0.5)
    found = tm.evaluate(pattern, **BIASED)
    (noted,) = Path(found.path).glob("*/played_as.json")
    facts = json.loads(noted.read_text())
    del facts["1"]["digest"]
    noted.write_text(json.dumps(facts))
    assert counts(tm.evaluate(pattern, **BIASED)) == (4, 0, 4)
    assert counts(tm.evaluate(pattern, **BIASED)) == (0, 4, 0)


def test_what_was_played_of_a_deleted_checkpoint_stays_in_the_table(tmp_path):
    pattern = written(tmp_path / "models", 0.5, 1.0)
    tm.evaluate(pattern, **BIASED)
    (tmp_path / "models" / "aim_1.json").unlink()
    for anew, expected in ((False, (0, 8, 0)), (True, (4, 4, 4))):
        found = tm.evaluate(pattern, **BIASED, anew=anew)
        assert (means(found), counts(found)) == ([0.5, 1.0], expected)


def test_a_folder_is_another_policy_if_one_of_its_files_is(tmp_path):
    aim.saved_sweep(tmp_path / "sweep", 0.25, 0.75)
    given = {**BIASED, "policy": aim.load_only_file}
    found = tm.evaluate(tmp_path / "sweep", **given)
    folder = tmp_path / "sweep" / "trial_0.25" / "checkpoint_000000"
    (folder / "aim_0.25.json").write_text('{"aim": 0.5}')
    again = tm.evaluate(tmp_path / "sweep", **given)
    assert (again.path, counts(again)) == (found.path, (4, 4, 4))
    checkpoint = StoredCheckpoint(pyarrow.fs.LocalFileSystem(), str(folder), 0)
    before = checkpoint.digest()
    for name in ("__pycache__", "evaluations"):  # what others write into the folder
        (folder / name).mkdir()
        (folder / name / "file").write_text("")
    assert checkpoint.digest() == before
    (folder / "more").write_text("")
    assert checkpoint.digest() != before


def anew_until_killed(pattern, number):
    """Play all anew until so many writes of what is discarded, or, of a number below zero, so many episodes."""
    left = [number]

    def killing(write):
        def writes(*given):
            write(*given)
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        return writes

    for name in ("replace_results", "replace_lines", "_remove_unlisted", "discard") if number > 0 else ():
        setattr(EvaluatedTrial, name, killing(getattr(EvaluatedTrial, name)))
    jobs.SOONEST = jobs.SHARE_OF_TIME = 0.0  # each episode is stored at once
    tm.evaluate(pattern, **BIASED, anew=True, progress=KillsAfter(-number) if number < 0 else None)


def fork_each(cases):
    """Play all anew for each pattern and number in a process of its own, forked from this one; print how it ended."""
    for pattern, number in cases:
        if not (child := os.fork()):
            anew_until_killed(pattern, number)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def test_killed_while_all_is_played_anew_it_mixes_no_old_and_new_episodes(tmp_path, monkeypatch):
    cases = [(written(tmp_path / str(number) / "models", 0.5, 1.0), number) for number in (2, 3, 4, 5, -3)]
    found = [tm.evaluate(pattern, **BIASED) for pattern, _ in cases]
    monkeypatch.setenv("BIAS", "-2")
    code = f"from {__name__} import fork_each as go; go({cases!r})"
    ended = subprocess.check_output([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).split()
    assert ended == [b"%d" % -signal.SIGKILL] * len(cases)
    for (pattern, number), before in zip(cases, found, strict=True):
        left = tm.load(before.path).episodes()
        assert not left.duplicated(["training_iteration", "seed"]).any()
        again = tm.evaluate(pattern, **BIASED)
        assert means(again) == [-1.5, -1.0]
        assert again.reused == (3 if number < 0 else 0)
        assert len(tm.load(before.path).episodes()) == 8


def load_and_overwrite(path):
    """Load a policy from a file, or from the only file of a folder, and write another one over it."""
    file = Path(path) if Path(path).is_file() else next(Path(path).iterdir())
    policy = aim.load_policy(file)
    file.write_text(json.dumps({"aim": json.loads(file.read_text())["aim"] + 1}))
    return policy


def test_a_checkpoint_that_is_overwritten_while_it_is_played_is_of_two_policies(tmp_path):
    given = {"policy": load_and_overwrite, "env": aim.make_env, "clips": None}
    found = tm.evaluate(aim.saved(tmp_path, 1), seeds=2, **given)
    assert found.checkpoints[0].error == jobs.OVERWRITTEN and found.best is None
    aim.saved_sweep(tmp_path / "sweep", 0.5)  # loading may write into a folder: what is played later tells
    played = tm.evaluate(tmp_path / "sweep", seeds=2, **given)
    assert played.checkpoints[0].error is None
    with pytest.raises(ValueError, match=f"cannot be continued from step 1 .*{jobs.OVERWRITTEN}"):
        tm.fork(f"{played.path}:best", tmp_path / "sweep", at=1, times=2, clips=0, policy=load_and_overwrite)


def test_a_folder_without_files_says_nothing_of_its_policy(tmp_path):
    """The digest of nothing was one digest: any two such folders were one policy."""

    def load(path):
        return lambda observation: float(Path(path).name)

    (folder := tmp_path / "0.5").mkdir()
    given = {"policy": load, "env": aim.make_env, "clips": None, "seeds": 2}
    assert [counts(tm.evaluate(folder, **given)) for _ in range(2)] == [(2, 0, 0), (2, 0, 2)]
    (tmp_path / "0.25").mkdir()
    given = {"policy": load, "env": aim.make_env, "clips": 0, "margin": 1.0, "output": str(tmp_path / "gate")}
    assert tm.gate(folder, tmp_path / "0.25", **given).passed


def facts_of(evaluation):
    return json.loads(Path(evaluation.path, "evaluation.json").read_text())


def test_the_best_of_many_is_played_on_seeds_by_which_nothing_was_chosen(tmp_path):
    """Its mean on the seeds by which it was chosen is too high, and nothing said so."""
    pattern = written(tmp_path / "models", 0.5, 1.0, 0.75)
    found = tm.evaluate(pattern, **BIASED)
    assert "--fresh-seeds 40 plays it on others." in remarks(found)[-1]
    tm.evaluate(pattern, **BIASED | {"seeds": [17]}, name="other")
    found = tm.evaluate(pattern, **BIASED, fresh_seeds=5)
    (row,) = found.fresh.checkpoints
    assert (row.checkpoint, row.episodes) == ("aim_2.json", 5)
    assert (counts(found), counts(found.fresh)) == ((0, 12, 0), (5, 0, 0))
    assert (facts_of(found.fresh)["seeds"], facts_of(found.fresh)["fresh"]) == ([18, 19, 20, 21, 22], True)
    own = found.fresh.catalog.episodes()
    assert sorted(own["seed"]) == [18, 19, 20, 21, 22]
    assert own["episode_return"].mean() == pytest.approx(row.return_mean)
    assert any(line.startswith("On 5 fresh seeds, it has ") for line in remarks(found))
    again = tm.evaluate(pattern, **BIASED, fresh_seeds=5)  # its own seeds are none that others have used
    assert (again.fresh.path, counts(again.fresh)) == (found.fresh.path, (0, 5, 0))
    assert "17 of 17 episodes are from" in remarks(again)[-1]
    assert again.facts()["fresh"]["checkpoints"][0]["return_mean"] == row.return_mean
    written(tmp_path / "models", 0.5, 1.0, 2.0)
    other = tm.evaluate(pattern, **BIASED, fresh_seeds=5, anew=True)
    assert (other.fresh.checkpoints[0].checkpoint, counts(other.fresh)) == ("aim_3.json", (5, 0, 0))
    more = tm.evaluate(pattern, **BIASED, fresh_seeds=2)
    assert facts_of(more.fresh)["seeds"] == [18, 19]
    told = split_runner().invoke(main, ["evaluate", pattern, *COMMAND, "--fresh-seeds", "2", "--json"])
    assert json.loads(told.stdout)["fresh"]["played"] == 2
    assert "leave out --fresh-seeds" in command("evaluate", pattern, *COMMAND, "--fresh-seeds", 2, "--follow", code=2)


def test_fresh_seeds_are_above_those_of_the_trials_recorder(tmp_path):
    aim.saved_sweep(tmp_path / "sweep", 0.25)
    trial = tmp_path / "sweep" / "trial_0.25"
    record = tm.EpisodeRecord("e", 1.0, 3, seed=99)
    part = RecorderEpisodes("evaluation", "episodes", EpisodeBatch((EpisodeData(record),)))
    TrialFolder(pyarrow.fs.LocalFileSystem(), str(trial)).add_episodes(part, 1, 1, "a")
    found = tm.evaluate(tmp_path / "sweep", **{**BIASED, "policy": aim.load_only_file}, fresh_seeds=2)
    assert facts_of(found.fresh)["seeds"] == [100, 101]


def test_the_best_of_files_without_numbers_is_played_on_fresh_seeds(tmp_path):
    """Each is a trial of its own, in no folder in which something was recorded."""
    for name, aimed in (("good", 1.0), ("bad", 0.5)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"aim": aimed}))
    found = tm.evaluate(f"{tmp_path}/*.json", **BIASED | {"checkpoint": "last"}, fresh_seeds=2)
    assert [row.checkpoint for row in found.fresh.checkpoints] == ["good.json"]
    found = tm.evaluate(tmp_path / "bad.json", **BIASED | {"checkpoint": "last"}, fresh_seeds=2)
    assert [row.checkpoint for row in found.fresh.checkpoints] == ["bad.json"]


def test_the_best_that_was_deleted_is_not_played_on_fresh_seeds(tmp_path):
    pattern = written(tmp_path / "models", 1.0, 0.5)
    tm.evaluate(pattern, **BIASED)
    (tmp_path / "models" / "aim_1.json").unlink()
    found = tm.evaluate(pattern, **BIASED, fresh_seeds=2)
    assert found.fresh is None
    assert found.problems == ["aim_1.json of models was deleted: it cannot be played on fresh seeds"]
