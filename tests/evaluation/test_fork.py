"""Another policy goes on with an episode: in the same world, from any step."""

import json
import random
import re
import shlex
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import gymnasium as gym
import numpy as np
import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.browser import served, viewer_page
from tests.support.commands import split_runner
from tests.support.experiment import media_files
from tune_media.cli import main
from tune_media.encoding.decode import decode_video
from tune_media.replay.tape import Tape

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

STEPS = 30
STAY, TRAP, SLIP = range(3)
LOADER = ["--policy", "tests.evaluation.test_fork:load_misstep"]


class Trapped(gym.Env):
    """A walk of 30 steps, disturbed by the env's own draws, that ends early some steps after a step into a trap."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, config=None):
        config = config or {}
        self.delay, self.tells = config.get("delay", 0), config.get("tells", True)
        self.render_mode = "rgb_array"
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.ends = 0, STEPS
        return self.seen(), {}

    def seen(self):
        return np.array([self.steps, self.np_random.normal()], np.float32)

    def step(self, action):
        self.steps += 1
        if action == TRAP and self.ends == STEPS:
            self.ends = min(STEPS - 1, self.steps + self.delay)
        over = self.steps >= self.ends
        info = {"is_success": self.ends == STEPS} if over and self.tells else {}
        return self.seen(), 1.0 if action == STAY else 0.9, over, False, info

    def render(self):
        return np.full((32, 48, 3), min(255, 8 * self.steps), np.uint8)


class Drawing(Trapped):
    """Draws from a generator that nobody seeds, so that no episode is repeated."""

    dice = random.SystemRandom()

    def seen(self):
        return np.array([self.steps, self.dice.random()], np.float32)


class Misstep:
    """A policy that stays, steps into the trap after some steps, and slips now and then; it counts its calls."""

    def __init__(self, fatal=None, slips=0.0):
        self.fatal, self.slips, self.calls = fatal, slips, 0

    def __call__(self, observation):
        self.calls += 1
        assert observation[0] == self.calls - 1  # it has seen each step, those before a fork, too
        if self.calls == self.fatal:
            return TRAP
        return SLIP if random.random() < self.slips else STAY


def load_misstep(folder):
    return Misstep(**json.loads(Path(folder, "policy.json").read_text()))


def written(folder, **policy):
    """Write an experiment of one trial whose checkpoint holds the arguments of a policy."""
    checkpoint = folder / "trial" / "checkpoint_000000"
    checkpoint.mkdir(parents=True)
    (checkpoint.parent / "params.json").write_text("{}")
    (checkpoint / "policy.json").write_text(json.dumps(policy))
    return folder


def played(folder, env=Trapped, config=None, loader=load_misstep, seeds=(5,), clips=None, **policy):
    """Play an episode with a policy; return its name."""
    experiment = written(folder, **policy)
    config = {name: [value] for name, value in (config or {}).items()}
    found = tm.evaluate(experiment, seeds=seeds, env=env, env_config=config, policy=loader, clips=clips)
    assert not found.checkpoints[0].error
    return f"{found.path}:best"


def tapes(catalog, trial):
    taped = sorted(catalog.taped_episodes(), key=lambda one: one.row["seed"])
    return [Tape.unpacked(one.tape()) for one in taped if one.trial.name == trial]


def steps_of(tape):
    return [int(tape.actions[at]) for at in range(len(tape))], tape.checks.packed(), list(tape.rewards)


@pytest.fixture
def episode(tmp_path):
    return played(tmp_path / "played", config={"delay": 6}, fatal=12, slips=0.3)


@pytest.mark.parametrize("at", [0, 1, 11, 17])
def test_the_same_policy_makes_the_same_episode_and_other_draws_another(episode, tmp_path, at):
    found = tm.fork(episode, at=at, candidate=tmp_path / "played", times=3, policy=load_misstep, clips=0)
    assert found.is_same
    (original,) = tapes(tm.load(found.path), "original")
    first, *others = tapes(tm.load(found.path), f"at-{at:02}")
    assert steps_of(first) == steps_of(original)
    for other in others:
        assert steps_of(other)[0][:at] == steps_of(original)[0][:at]
        assert list(other.checks)[: at + 1] == list(original.checks)[: at + 1]
    if at < 11:
        assert len({tuple(steps_of(tape)[0]) for tape in (first, *others)}) == 3 == found.continuations.distinct


def test_a_fork_is_an_experiment_that_says_where_it_comes_from(episode, tmp_path):
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    better = written(tmp_path / "better", slips=0.3)
    how = {"candidate": better, "times": 2, "policy": load_misstep}
    found = tm.fork(episode, at=5, **how)
    assert Path(found.path).parent == tmp_path / "played" / "evaluations"
    assert (found.metric, found.original.successes, found.continuations.successes) == (
        "success",
        (False,),
        (True, True),
    )
    assert found.continuations.count == 2
    catalog = tm.load(found.path)
    id = catalog.episodes().set_index("trial").loc["original", "episode_id"]
    assert found.episode == id and f"fork-{id}-at-5" in found.path
    assert [trial.name for trial in catalog.trials] == ["at-05", "original"]
    assert catalog.trials[0].read_config()["forked_at"] == 5
    (result,) = map(json.loads, Path(found.path, "at-05", "result.json").read_text().splitlines())
    assert (result["forked_from"], result["forked_at"]) == (id, 5)
    assert json.loads(Path(found.path, "evaluation.json").read_text())["forked_at"] == 5
    clips = {(row["trial"], row["seed"]): row for row in catalog}
    assert set(clips) == {("at-05", 0), ("at-05", 1), ("original", 5)}
    assert len(media_files(found.path)) == 3
    for row in clips.values():
        assert sum(1 for _ in decode_video(row.read_bytes())) == row["episode_length"] + 1
    assert clips["at-05", 1]["note"] == f"continues episode {id} from step 5 on"
    assert {path: path.read_bytes() for path in before} == before
    again = {path: path.stat().st_mtime_ns for path in Path(found.path).rglob("*.parquet")}
    tm.fork(episode, at=5, **how)  # nothing is played twice
    assert {path: path.stat().st_mtime_ns for path in Path(found.path).rglob("*.parquet")} == again
    next_fork = tm.fork(
        f"{found.path}:{catalog.episodes().set_index(['trial', 'seed']).loc[('at-05', 1), 'episode_id']}",
        at=20,
        **how,
        clips=0,
    )  # a fork of a fork
    assert Path(next_fork.path).parent == Path(found.path).parent and next_fork.continuations.at == 20


def test_the_series_of_a_fork_are_of_the_actions_that_were_made(episode, tmp_path):
    found = tm.fork(episode, at=12, candidate=written(tmp_path / "better"), policy=load_misstep, clips=0)
    (taped,) = tapes(tm.load(found.path), "at-12")
    assert taped.actions[11] == TRAP  # the better policy would have stayed
    assert found.continuations.returns == pytest.approx((sum(taped.rewards),))


def test_another_function_may_make_the_env_from_the_config_of_the_episode(episode, tmp_path):
    how = {"candidate": tmp_path / "played", "policy": load_misstep, "clips": 0}
    assert tm.fork(episode, at=3, env=Trapped, **how).is_same
    with pytest.raises(ValueError, match="cannot be continued"):
        tm.fork(episode, at=3, env=Drawing, **how)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"at": 99}, r"takes less than the 18 steps of the episode, got 99"),
        ({"at": -1}, r"fork\(at=...\) takes"),
        ({"policy": None}, "--policy module:function"),
        ({"episode": "nothing"}, "EXPERIMENT:EPISODE"),
        ({"times": 0}, r"fork\(times=...\) takes"),
        ({"workers": -1}, r"fork\(workers=...\) takes"),
        ({"connectors": "trained"}, r"fork\(connectors=...\) takes"),
    ],
)
def test_a_wrong_argument_says_what_is_right(episode, tmp_path, change, message):
    arguments = {"episode": episode, "at": 3, "candidate": tmp_path / "played", "policy": load_misstep, **change}
    with pytest.raises(ValueError, match=message):
        tm.fork(**arguments)


def test_an_env_that_does_not_repeat_its_episodes_is_refused_with_the_step(tmp_path):
    episode = played(tmp_path / "played", Drawing, fatal=12)
    with pytest.raises(
        ValueError, match=r"cannot be continued from step 3 by .*played: at .* the replay has another observation"
    ):
        tm.fork(episode, at=3, candidate=tmp_path / "played", policy=load_misstep)
    assert not list(Path(tmp_path, "played", "evaluations").glob("fork-*/at-*/result.json"))


def test_what_the_clips_lack_is_told_once_and_the_original_is_shown_first(episode, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)  # as if it was not installed
    found = tm.fork(episode, at=11, candidate=written(tmp_path / "better"), times=2, policy=load_misstep)
    (problem,) = found.problems
    assert problem.startswith("the clips do not show where they fork")
    (ticked,) = parse_qs(found.link.removeprefix("#"))["ticked"]
    assert [one.split("\t")[0] for one in ticked.split("\n")] == ["original", "at-11"]


def test_the_command_prints_a_sentence_or_json(episode, tmp_path):
    loader = [str(written(tmp_path / "better")), *LOADER]
    run = CliRunner().invoke(main, ["fork", episode, "--at", "5", "--clips", "1", *loader])
    assert run.exit_code == 0, run.output
    assert "continued by" in run.stdout and "success 1 (1 continuation)" in run.stdout
    assert "tune-media watch" in run.stdout and "#view=compare&ticked=" in run.stdout
    run = split_runner().invoke(main, ["fork", episode, "--at", "5", "--clips", "0", "--json", *loader])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["continued"]["successes"] == [True]
    for wrong, code, told in ((["--at", "99"], 2, "--at takes less than"), ([], 2, "--at")):
        run = CliRunner().invoke(main, ["fork", episode, *loader, *wrong])
        assert run.exit_code == code and told in run.output


def opened(viewer, url, **view):
    """Open a view, and pause it as soon as its clips play."""
    viewer.open(url, urlencode(view))
    viewer.wait("document.querySelector('video')?.readyState >= 2 && document.querySelector('.moment')")
    if viewer.all(".play[aria-pressed=true], .play", "e.innerText")[0] != "▶":
        viewer.press(" ")
    return viewer


def clip_of(folder, trial):
    """Return the link to the first clip of a trial, or of an experiment."""
    row = next(row for row in tm.load(folder) if not trial or row["trial"] == trial)
    return {"view": "clip", "trial": row["trial"], "clip": row["path"]}


SHOWN_STEP = "Number(document.querySelector('.track input').value)"  # a frame for each step


@pytest.mark.slow
def test_only_a_continuation_shows_its_fork(browser, tmp_path):
    episode = played(tmp_path / "played", config={"delay": 6}, fatal=12, slips=0.3, clips=["best"])
    better = written(tmp_path / "better", slips=0.3)
    fork = tm.fork(episode, at=11, candidate=better, times=3, policy=load_misstep)
    for folder, trials in ((episode.removesuffix(":best"), [""]), (fork.path, ["original", "at-11"])):
        with served("watch", folder, tmp_path) as url, viewer_page(browser, "watch") as viewer:
            for trial in trials:
                opened(viewer, url, **clip_of(folder, trial))
                assert bool(viewer.all(".moment.fork")) == (trial == "at-11")
            if folder == fork.path:
                viewer.frame.click("text=forked here")
                viewer.wait(f"{SHOWN_STEP} === 11")
            assert viewer.errors == []


@pytest.mark.slow
def test_the_command_leads_to_a_comparison_that_marks_the_fork(browser, tmp_path):
    episode = played(tmp_path / "it's played", config={"delay": 6}, fatal=12, slips=0.3)
    loader = [str(written(tmp_path / "better", slips=0.3)), *LOADER]
    how = ["--at", "9", "--times", "6", "--clips", "6"]
    run = CliRunner().invoke(main, ["fork", episode, *how, *loader])
    assert run.exit_code == 0, run.output
    (command,) = re.findall(r"^ +(tune-media watch .+)$", run.stdout, re.M)
    (link,) = re.findall(r"^ +http://127.0.0.1:6007/#(.+)$", run.stdout, re.M)
    folder = shlex.split(command)[-1]
    with served("watch", folder, tmp_path) as url, viewer_page(browser, "watch") as viewer:
        opened(viewer, url, **{name: value for name, (value,) in parse_qs(link).items()})
        assert viewer.all(".side h3") == ["original", "forked at 9"]
        assert viewer.all(".heading-title p") == [
            "All are one episode up to the fork: what differs is who acts after it."
        ]
        assert viewer.all(".moment.fork") == ["↱\nforked here\nstep 9"]
        (difference,) = viewer.all(".inside .primary")
        assert int(difference.split()[-1]) > 9
        viewer.frame.click(".moment.fork")
        viewer.wait(f"{SHOWN_STEP} === 9")
        assert len(viewer.all(".line.fork")) == 1  # through both filmstrips
        assert viewer.axe_violations() == {}
        numbers = {
            row["trial"]: {one["seed"] for one in tm.load(folder) if one["trial"] == row["trial"]}
            for row in tm.load(folder)
        }
        assert numbers["original"] & numbers["at-09"]  # a number of a continuation is no seed
        opened(viewer, url, view="compare", ticked="original\nat-09")
        assert viewer.all(".heading-title p") == [
            "All are one episode up to the fork: what differs is who acts after it."
        ]
        assert viewer.all("[aria-label=Seed]") == []
        assert viewer.errors == []
