"""The recorder in every place where an RLlib user steps an env: each cell is a real run, checked frame by frame.

A cell passes when every clip holds one episode of one env, from its reset frame to its last, each frame once; when what
its record says is what the env itself wrote to a file of its own; and when exactly the clips are there that were asked
for. ``matrix.md``, a page of the docs, is made of this file: ``python -m tests.e2e.test_matrix``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import ray
from packaging.version import Version
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.envs.batch import Batch
from tests.support.envs.counting import read_frame
from tests.support.rllib_configs import STACK, built, evaluation, multi_agent, own_env, small, written_by_the_env
from tune_media.encoding.decode import decode_video

NEWEST = Version(ray.__version__) >= Version("2.55")
LEAST = 2  # clips of a run
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cell:
    """A run, which is named in a row of the table, the group, and what it must bring."""

    name: str
    group: str
    make: Callable[[dict], Any]  # told the env config, returns the algorithm's config, without callbacks
    sections: tuple[str, ...] = ("evaluation",)
    iterations: int = 2
    exact: int = 0  # episodes of each evaluation if Ray plays as many as it was asked for
    agents: tuple[str, ...] = ()  # that have a frame of their own
    record: dict[str, Any] = field(default_factory=dict)  # further arguments of record_episodes
    not_before: str = ""  # why there is no such run on the oldest Ray
    pause: float = 0.0  # seconds of a step, in runs that play as many episodes as they have time for


def ppo(env: Any = CountingEnv, **settings: Any) -> Callable[[dict], Any]:
    return small(PPOConfig, {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1}, env, **settings)


def dqn(**settings: Any) -> Callable[[dict], Any]:
    learn = {"train_batch_size": 16, "num_steps_sampled_before_learning_starts": 32}
    return small(DQNConfig, learn, CountingEnv, reporting={"min_sample_timesteps_per_iteration": 60}, **settings)


def impala(**settings: Any) -> Callable[[dict], Any]:
    often = {"reporting": {"min_time_s_per_iteration": 0.5}}
    return small(IMPALAConfig, {"train_batch_size": 32}, CountingEnv, **often, **settings)


def batch(config: Any) -> Any:
    return Batch(config["num_envs"], dict(config)) if "num_envs" in config else CountingEnv(config)


ray.tune.register_env("batch", batch)


def agent_frames(env: Any) -> Any:
    return env.unwrapped.render_agents()


def runners(count: int = 0, sub_envs: int = 1, mode: str = "SYNC", **more: Any) -> dict:
    vectorised = {"num_envs_per_env_runner": sub_envs, "gym_env_vectorize_mode": gym.VectorizeMode[mode]}
    return {"env_runners": {"num_env_runners": count, **(vectorised if sub_envs > 1 else {}), **more}}


def cells(group: str, *rows: tuple) -> list[Cell]:
    return [
        Cell(name, group, make, **{key: value for part in options for key, value in part.items()})
        for name, make, *options in rows
    ]


BOTH = {"sections": ("train", "evaluation")}
TRAIN = {"sections": ("train",)}
BY_TIMESTEPS = {"evaluation_duration_unit": "timesteps"}
NO_RESET = {"evaluation_force_reset_envs_before_iteration": False}
PARALLEL = {"evaluation_parallel_to_training": True}
A_WHILE = {"reporting": {"min_time_s_per_iteration": 0.3}}
FAILING = {
    "evaluation": evaluation(1, evaluation_config={"env_config": {"fail_at": 4}}),
    "fault_tolerance": {"restart_failed_sub_environments": True},
}
DYING = {
    "evaluation": evaluation(2, evaluation_config={"env_config": {"die_at": 4}}),
    "fault_tolerance": {"restart_failed_env_runners": True, "delay_between_env_runner_restarts_s": 0.1},
}
EXACT4 = {"exact": 4}
REPLAY = {"record": {"render": "replay"}}
EACH_AGENT = {"agents": ("left", "right"), "record": {"frame": agent_frames, "render": "auto"}}
PAUSE = {"pause": 0.01}
WHOLE = {"batch_mode": "complete_episodes"}
FOUR = {"iterations": 4}
NO_VECTORS = {"not_before": "Ray 2.50 gives envs of its own registry no vector entry point"}


def of_agents(env: str, **settings: Any) -> Callable[[dict], Any]:
    return ppo(own_env(env), multi_agent=multi_agent(), evaluation=evaluation(1), **settings)


CELLS = [
    *cells(
        "PPO",
        ("local env runners, training and evaluation", ppo(evaluation=evaluation(0)), BOTH, EXACT4),
        (
            "3 evaluation env runners, 5 episodes (not divisible), and 2 of training, in fragments of 4 steps",
            ppo(evaluation=evaluation(3, 5), **runners(2, rollout_fragment_length=4)),
            *(BOTH, {"exact": 5}),
        ),
    ),
    *cells(
        "evaluation modes",
        ("evaluation by timesteps", ppo(evaluation=evaluation(2, 80, **BY_TIMESTEPS))),
        (
            "by timesteps, no forced reset, and training in fragments of 64 steps",
            ppo(evaluation=evaluation(2, 50, **BY_TIMESTEPS, **NO_RESET), **runners(rollout_fragment_length=64)),
            BOTH,
        ),
        (
            "parallel to training, of whole episodes",
            ppo(evaluation=evaluation(1, 3, **PARALLEL), **runners(**WHOLE)),
            BOTH,
        ),
        ("parallel to training, auto", ppo(evaluation=evaluation(2, "auto", **PARALLEL), **A_WHILE), PAUSE),
    ),
    *cells(
        "vectorisation",
        ("3 sub-envs, sync", ppo(evaluation=evaluation(1), **runners(0, 3)), BOTH),
        # such envs have no tapes: rendered directly all the same
        ("3 sub-envs, async", ppo(evaluation=evaluation(1), **runners(0, 3, "ASYNC")), BOTH, REPLAY),
        (
            "3 sub-envs, natively vectorised",
            ppo("batch", **runners(0, 3, "VECTOR_ENTRY_POINT")),
            *(TRAIN, REPLAY, NO_VECTORS),
        ),
    ),
    *cells(
        "multi-agent",
        ("multi-agent, shared frame", of_agents("MultiAgentCountingEnv"), BOTH),
        ("PettingZoo, agent by agent (AEC)", of_agents("TurnsCountingEnv")),
    ),
    *cells("DQN", ("training and evaluation, 2 evaluation env runners", dqn(evaluation=evaluation(2)), BOTH)),
    *cells("IMPALA", ("training, 2 env runners, no barrier", impala(**runners(2)), TRAIN, FOUR, PAUSE)),
    *cells(
        "old API stack",
        ("local env runners, training and evaluation", ppo(evaluation=evaluation(0), **STACK), BOTH),
        (
            "2 env runners each for training, of whole episodes, and evaluation",
            ppo(evaluation=evaluation(2), **runners(2, **WHOLE), **STACK),
            BOTH,
        ),
        ("parallel to training, auto", ppo(evaluation=evaluation(1, "auto", **PARALLEL), **A_WHILE, **STACK), PAUSE),
        ("multi-agent", of_agents("MultiAgentCountingEnv", **STACK)),
    ),
    *cells(
        "replay",
        ("evaluation, 2 env runners", ppo(evaluation=evaluation(2)), REPLAY, EXACT4),
        (
            "3 sub-envs, parallel to training, auto, no forced reset",
            ppo(evaluation=evaluation(1, "auto", **PARALLEL, **NO_RESET), **runners(0, 3), **A_WHILE),
            *(REPLAY, PAUSE, {"iterations": 3}),  # the replays of one evaluation come with a later one
        ),
    ),
    # several views: rendered directly
    *cells(
        "auto",
        ("multi-agent, a frame per agent, 2 sub-envs", of_agents("MultiAgentCountingEnv", **runners(0, 2)), EACH_AGENT),
    ),
    *cells(
        "replay",
        ("PettingZoo, parallel", of_agents("ParallelCountingEnv"), REPLAY),
        ("old API stack, 2 sub-envs", ppo(evaluation=evaluation(1), **runners(0, 2), **STACK), REPLAY),
        (
            "IMPALA, evaluation while sampling goes on",
            impala(evaluation=evaluation(1), **runners(1, 2)),
            *(BOTH, {"iterations": 3}, REPLAY, PAUSE),
        ),
    ),
    *cells(
        "faults",
        ("an env that fails in mid-episode", ppo(**FAILING)),
        ("an env that fails in mid-episode, old API stack", ppo(**FAILING, **STACK)),
        ("an evaluation env runner dies and is recreated", ppo(**DYING), {"iterations": 3}),
    ),
]


# CI runs these on the newest Ray only: on the oldest, other cells go the same way. As a program, this file runs all.
NOT_AGAIN_IN_CI = {
    "PPO: local env runners, training and evaluation",
    "evaluation modes: evaluation by timesteps",
    "evaluation modes: parallel to training, of whole episodes",
    "vectorisation: 3 sub-envs, async",
    "IMPALA: training, 2 env runners, no barrier",
    "old API stack: local env runners, training and evaluation",
    "replay: evaluation, 2 env runners",
    "replay: PettingZoo, parallel",
    "replay: IMPALA, evaluation while sampling goes on",
    "auto: multi-agent, a frame per agent, 2 sub-envs",
    "faults: an env that fails in mid-episode",
}


def title(cell: Cell) -> str:
    return f"{cell.group}: {cell.name}"


def as_parameter(cell: Cell) -> Any:
    return pytest.param(cell, id=title(cell), marks=[pytest.mark.any_ray] if title(cell) in NOT_AGAIN_IN_CI else [])


def check_clip(clip: tm.Video, agent: str | None = None, agents: tuple[str, ...] = ()) -> tuple[int, int]:
    counts = [read_frame(frame) for frame in decode_video(clip.data)]
    record = clip.episode
    assert [count.step for count in counts] == list(range(record.episode_length + 1))
    assert len({(count.env, count.episode, count.agent) for count in counts}) == 1
    assert counts[0].agent == (agents.index(agent) + 1 if agent else 0)
    assert record.agent == agent
    assert clip.fps == CountingEnv.metadata["render_fps"]
    return counts[0].env, counts[0].episode


def clips_of(result: dict, section: str) -> list:
    part = result.get("evaluation", {}) if section == "evaluation" else result
    return part.get("env_runners", {}).get("clips", {}).get("all", [])


def number_of_clips(result: dict) -> int:
    return len(clips_of(result, "train")) + len(clips_of(result, "evaluation"))


def check_results(cell: Cell, results: list[dict], log: Path) -> int:
    seen: set[tuple[int, int]] = set()
    places: dict[tuple, set[int]] = {}
    written = written_by_the_env(log)
    for iteration, result in enumerate(results, 1):
        for section in cell.sections:
            episodes = clips_of(result, section)
            if cell.exact and section == "evaluation" and NEWEST:
                assert len(episodes) == cell.exact
            for episode in episodes:
                views = episode if isinstance(episode, dict) else {None: episode}
                assert set(views) == set(cell.agents or [None])
                shown = {check_clip(clip, agent, cell.agents) for agent, clip in views.items()}
                assert len(shown) == 1
                (number,) = shown
                assert number not in seen, "an episode came twice"
                seen.add(number)
                record = next(iter(views.values())).episode
                assert record.training_iteration == iteration
                assert record.section == section
                assert record.rendered == ("replay" if cell.group == "replay" else "direct")
                if number not in written:  # an env in another process has just played it again
                    written = written_by_the_env(log)
                assert written[number]["length"] == record.episode_length
                assert written[number]["return"] == pytest.approx(record.episode_return, abs=1e-4)
                places.setdefault((section, record.env_runner, record.env_index), set()).add(number[0])
    if cell.group not in ("faults", "replay"):  # a replay has an env of its own; else each place has one
        assert all(len(envs) == 1 for envs in places.values())
        assert len({env for envs in places.values() for env in envs}) == len(places)
    return len(seen)


@pytest.fixture
def log_folder():
    """A folder in which an env may write in a replay, too."""
    caches = Path.home() / ".cache"
    caches.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=caches) as folder:
        yield Path(folder)


@pytest.mark.parametrize("cell", map(as_parameter, CELLS))
def test_every_clip_is_right(cell, ray_session, log_folder):
    if cell.not_before and not NEWEST:
        pytest.skip(cell.not_before)
    config = cell.make({"log_dir": str(log_folder), "pause": cell.pause})
    # direct: the pictures count episodes, so no tape shows them again, and a process that finds it out takes 2 s
    record = {"render": "direct", "check_frame": False, **cell.record}
    config.callbacks(tm.rllib.record_episodes(sections=cell.sections, keep="all", name="clips", **record))
    with built(config) as algorithm:
        results = [algorithm.train() for _ in range(cell.iterations)]
        until = time.monotonic() + 120
        while time.monotonic() < until and sum(map(number_of_clips, results)) < LEAST:
            results.append(algorithm.train())  # env runners that take long to start have nothing to tell yet
    assert check_results(cell, results, log_folder) >= LEAST


def test_remote_worker_envs_train_on_and_have_data_but_no_clips(ray_session, tmp_path):
    """Each is a Ray actor that shows no frames. The recorder took the place of its ``step``, and training ended."""
    config = ppo("batch", **runners(0, 2, remote_worker_envs=True), **STACK)({"log_dir": str(tmp_path)})
    config.callbacks(tm.rllib.record_episodes(sections="train", keep="all", name="clips"))
    with built(config) as algorithm:
        found = algorithm.train()["env_runners"]["clips"]
    played = [(one.record.episode_length, one.record.episode_return) for one in found["data"].counted()]
    written = [(one["length"], pytest.approx(one["return"], abs=1e-4)) for one in written_by_the_env(tmp_path).values()]
    assert len(played) > 1
    assert all(one in written for one in played)
    assert "all" not in found
    assert any("no clip: env 'RemoteBaseEnv': render()" in problem.text for problem in found["problems"])


def table(cells: list[Cell], outcomes: dict[str, dict[str, str]]) -> str:
    """Lay out the outcomes as a Markdown table, a row for each area; only what is not right is said of a run."""
    runs: dict[str, list[str]] = {}
    for cell in cells:
        found = {version: of_version.get(cell.name + cell.group, "") for version, of_version in outcomes.items()}
        others = "; ".join(f"Ray {version}: {outcome}" for version, outcome in found.items() if outcome != "right")
        runs.setdefault(cell.group, []).append(f"{cell.name} ({others})" if others else cell.name)
    lines = [f"| area | runs, all right on Ray {' and '.join(outcomes)} unless it says otherwise |", "|---|---|"]
    return "\n".join([*lines, *(f"| {group} | {'; '.join(named)} |" for group, named in runs.items())])


def run_cells(python: Path) -> tuple[str, dict[str, str]]:
    """Run this file's tests with another interpreter; return its Ray's version and the outcome of each cell."""
    version = subprocess.run(
        [python, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command = [python, "-m", "pytest", __file__, "-q", "-rA", "--no-header", "-p", "no:cacheprovider"]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    outcomes = {}
    for cell in CELLS:
        passed = f"PASSED tests/e2e/test_matrix.py::test_every_clip_is_right[{title(cell)}]" in output
        skipped = cell.not_before and "2.50" in version
        outcomes[cell.name + cell.group] = "right" if passed else f"not run: {cell.not_before}" if skipped else "WRONG"
    return version, outcomes


if __name__ == "__main__":
    columns = dict(run_cells(ROOT / venv / "bin" / "python") for venv in (".venv-oldest", ".venv"))
    page = Path(__file__).with_name("matrix.md")
    page.write_text(page.read_text().split("| area |")[0] + table(CELLS, columns) + "\n")
    sys.exit("WRONG" in table(CELLS, columns))
