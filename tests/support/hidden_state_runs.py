"""Runs of the kinds of ``hidden_state``, whose clips are compared with what the envs wrote down, frame by frame.

A clip is right if it shows its episode from the reset to the end, each frame once. A clip is missing if a selector
chose an episode and its bytes are not there; that is said if the problems count it or the index lists it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from ray import tune
from ray.rllib.algorithms.callbacks import make_multi_callbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

import tune_media as tm
from tests.support.envs import hidden, truth
from tests.support.hidden_state import KINDS, Kind, made
from tests.support.index_lines import valid_lines
from tests.support.rllib_configs import built, on_old_stack
from tune_media.encoding.decode import decode_video

ADDRESS = "TUNE_MEDIA_TEST_RAY"
"""The environment variable with the address of the Ray that the processes of cells share."""
WAYS = ("rllib-new", "rllib-old", "gym", "tune")
WARM_SECONDS = 8.0
"""How long a run waits, in all, for the proof that its env repeats its episodes: real evaluations take longer."""
_LONGEST_WARM_SECONDS = 60.0  # of an env that surely repeats its episodes, on a busy machine
_WARM_PAUSE, _LONGEST_WARM_PAUSE, _LAST_EVALUATIONS, _LAST_PAUSE = 0.25, 5.0, 3, 0.5


@dataclass(frozen=True)
class Cell:
    """A kind of env in one way of running it.

    Attributes:
        placement: The frames that show what is hidden, one of ``hidden.PLACEMENTS``; kinds with one of their own
            ignore it.
        steps: The usual length of the episodes; 0: the kind's own, mostly 4 to 8.
        keep: The selectors.
        every: Episodes after which a theme changes.
    """

    kind: str
    way: str
    sub_envs: int = 1
    placement: str = "all"
    steps: int = 0
    keep: tuple[str, ...] = ("best", "worst")
    every: int = hidden.EVERY

    @property
    def name(self) -> str:
        return f"{self.kind} {self.way} {self.sub_envs} {self.placement} {self.length} {'+'.join(self.keep)}"

    @property
    def length(self) -> str:
        return str(self.steps) if self.steps else "own"

    @property
    def is_reported_only(self) -> bool:
        """Whether wrong clips are counted and allowed: one frame that no tape need have compared shows the value."""
        return "middle" in (self.placement, KINDS[self.kind].placement)

    def make(self, folder: Path) -> Callable[[Any], gym.Env]:
        """Return what makes an env, told its env config."""
        own = KINDS[self.kind].placement is not None
        look = {"cell": self.name, "truth": str(folder), "placement": "all" if own else self.placement}
        return functools.partial(made, self.kind, {**look, "steps": self.steps, "every": self.every})

    @property
    def why_not(self) -> str:
        """Why there is no such run; empty: there is one."""
        if KINDS[self.kind].new_config is not None and self.way == "rllib-old":
            return "rollout workers of the old API stack make no new envs"
        return ""


@dataclass
class Clip:
    """A clip as its user gets it; ``content`` is None if it is missing."""

    episode_return: float
    rendered: str
    content: bytes | None
    why: str = ""


@dataclass
class Seen:
    """What the user of a run sees of it; ``clips`` has the missing ones, too.

    ``lost``: how many episodes have no clip, as the problems or the index say.
    """

    clips: list[Clip] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    lost: int = 0

    def add_problems(self, found: Any) -> None:
        """Add the problems of a result, with every text in them."""
        for problem in [found] if isinstance(found, str) else found:
            more = dataclasses.asdict(problem) if dataclasses.is_dataclass(problem) else {}
            self.problems.append(" ".join([str(problem), *(str(more[name]) for name in more if name != "text")]))
            self.lost += getattr(problem, "lost", 0)

    @property
    def has_replays(self) -> bool:
        return any(clip.rendered == "replay" for clip in self.clips)


@dataclass
class Outcome:
    """The numbers of one cell."""

    cell: Cell
    clips: int = 0
    right: int = 0
    wrong: int = 0
    missing_said: int = 0
    missing_unsaid: int = 0
    replay: int = 0
    direct: int = 0
    seconds: float = 0.0
    example: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether no clip is wrong or missing without a word, and there are clips at all."""
        is_right = not self.wrong or self.cell.is_reported_only
        return is_right and not self.missing_unsaid and (self.clips > 0 or self.missing_said > 0)


class KindHooks(RLlibCallback):
    """Changes the envs as the user's callbacks of a kind do."""

    def __init__(self) -> None:
        super().__init__()
        self.evaluations, self.resets, self.ends, self.iterations = 0, 0, 0, 0
        self.waited = 0.0

    def on_evaluate_start(self, *, algorithm: Any, **others: Any) -> None:
        self.evaluations += 1
        kind = _kind_of(algorithm)
        if kind.before_evaluation is not None:
            change_envs(algorithm, kind.before_evaluation, self.evaluations)

    def on_episode_start(self, **told: Any) -> None:
        env = _env_of(told)
        self.resets += 1
        if (change := KINDS[env.unwrapped.cell.split()[0]].after_reset) is not None:
            change(env, self.resets)

    def on_episode_end(self, **told: Any) -> None:
        env = _env_of(told)
        self.ends += 1
        if (change := KINDS[env.unwrapped.cell.split()[0]].after_end) is not None:
            change(env, self.ends)


class TuneHooks(KindHooks):
    """Does in a trial what a loop does between evaluations, too."""

    def on_train_result(self, *, algorithm: Any, result: dict, **others: Any) -> None:
        self.iterations += 1
        between(algorithm, _kind_of(algorithm), self.iterations)
        found = result.get("evaluation", {}).get("env_runners", {}).get("episodes", {})
        clips = [clip for clip in found.values() if isinstance(clip, tm.Video)]
        is_decided = "problems" in found or any(clip.episode.rendered == "replay" for clip in clips)
        self.waited = WARM_SECONDS if is_decided else self.waited
        if self.waited < WARM_SECONDS:
            time.sleep(2 * _WARM_PAUSE)
            self.waited += 2 * _WARM_PAUSE


def _kind_of(algorithm: Any) -> Kind:
    return KINDS[algorithm.config.env.split()[0]]


def _env_of(told: dict[str, Any]) -> Any:
    """Return the env of an episode, on either API stack."""
    if "base_env" in told:
        return told["base_env"].get_sub_environments()[told["env_index"]]
    return told["env"].unwrapped.envs[told["env_index"]]


def change_envs(algorithm: Any, change: Callable[[Any, int], None], number: int) -> None:
    """Change all evaluation envs, as users do by ``foreach_env``."""

    def of_runner(runner: Any) -> None:
        if hasattr(runner, "foreach_env"):
            runner.foreach_env(lambda env: change(env, number))
        elif runner.env is not None:  # a local env runner beside others has none
            for env in runner.env.unwrapped.envs:
                change(env, number)

    algorithm.eval_env_runner_group.foreach_env_runner(of_runner)


def between(algorithm: Any, kind: Kind, number: int) -> None:
    """Do what a kind's owner does between evaluations."""
    if kind.between is not None:
        change_envs(algorithm, kind.between, number)
    if kind.new_config is not None and number % 10 == 0:
        config = kind.new_config(number)

        def make_new(runner: Any) -> None:
            runner.config = runner.config.copy(copy_frozen=False)
            runner.config.environment(env_config=config)
            runner.make_env()

        algorithm.eval_env_runner_group.foreach_env_runner(make_new)


def episodes_of(sub_envs: int) -> int:
    """Return how many episodes an evaluation plays: more than have clips.

    A process that played all of them again, in turn, would count them as the env does.
    """
    return sub_envs + 2


def config_of(env: Any, cell: Cell, hooks: type, *, env_runners: int = 0, old_stack: bool = False) -> Any:
    """Return PPO, small, with the recorder's default options but for the selectors."""
    sub_envs = cell.sub_envs
    config = (
        PPOConfig()
        .environment(env, disable_env_checking=True)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=sub_envs)
        .training(train_batch_size=16 * sub_envs, minibatch_size=16, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .evaluation(
            evaluation_interval=1,
            evaluation_num_env_runners=env_runners,
            evaluation_duration=episodes_of(sub_envs),
        )
    )
    callbacks = [tm.rllib.record_episodes(keep=cell.keep), hooks]
    return on_old_stack(config).callbacks(make_multi_callbacks(callbacks)) if old_stack else config.callbacks(callbacks)


def registered(cell: Cell, folder: Path) -> str:
    """Register a cell's env with RLlib, and return its name."""
    tune.register_env(cell.name, cell.make(folder))
    return cell.name


def taken(seen: Seen, found: Any, keep: Iterable[str]) -> None:
    """Add the clips of one evaluation, whose bytes are asked for at once."""
    if "problems" in found:
        seen.add_problems(found["problems"])
    if "data" in found and not found["data"].counted():
        return  # on the old API stack, all episodes of an evaluation may come late
    ids = set()
    for key in keep:
        video = found.get(key)
        if not isinstance(video, tm.Video):
            seen.clips.append(Clip(0.0, "", None, why=f"no {key!r} in the result"))
            continue
        if video.id in ids:
            continue
        ids.add(video.id)
        record, why = video.episode, ""
        try:
            content = video.content()
        except Exception as error:
            content, why = None, f"{type(error).__name__}: {error}"
        seen.clips.append(Clip(record.episode_return, record.rendered or "", content, why))


def run_rllib(cell: Cell, folder: Path, evaluations: int, env_runners: int = 0) -> Seen:
    """Evaluate in a loop: every tenth evaluation belongs to an iteration of training."""
    seen, kind = Seen(), KINDS[cell.kind]
    env = registered(cell, folder)
    config = config_of(env, cell, KindHooks, env_runners=env_runners, old_stack=cell.way == "rllib-old")
    with built(config) as algorithm:
        number = 0

        def evaluate() -> None:
            nonlocal number
            number += 1
            between(algorithm, kind, number)
            result = algorithm.train()["evaluation"] if number % 10 == 0 else algorithm.evaluate()
            taken(seen, result["env_runners"].get("episodes", {}), cell.keep)

        until = time.monotonic() + (_LONGEST_WARM_SECONDS if cell.kind == "plain" else WARM_SECONDS)
        pause = _WARM_PAUSE
        while not (seen.has_replays or seen.problems) and time.monotonic() < until:
            evaluate()
            time.sleep(pause)
            pause = min(1.2 * pause, _LONGEST_WARM_PAUSE)  # the proof needs the processor, too
        for _ in range(evaluations):
            evaluate()
        for _ in range(_LAST_EVALUATIONS):
            time.sleep(_LAST_PAUSE)
            evaluate()
    return seen


def run_gym(cell: Cell, folder: Path, evaluations: int) -> Seen:
    """Play with random actions, and take the clips of a few episodes at a time."""
    loop = _GymLoop(cell, folder)
    with _warnings_as_problems(loop.seen):
        until = time.monotonic() + WARM_SECONDS
        while not (loop.seen.has_replays or loop.seen.problems) and time.monotonic() < until:
            loop.evaluate()
        for _ in range(evaluations + _LAST_EVALUATIONS):
            loop.evaluate()
        loop.env.close()
    return loop.seen


class _GymLoop:
    """A loop around a wrapped env or vector env."""

    def __init__(self, cell: Cell, folder: Path) -> None:
        self.seen, self._cell, self._folder, self._kind = Seen(), cell, folder, KINDS[cell.kind]
        self._evaluations, self._resets, self._ends = 0, 0, 0
        self._random = np.random.default_rng(0)
        self._make({})

    def evaluate(self) -> None:
        self._evaluations += 1
        kind = self._kind
        if kind.new_config is not None and self._evaluations % 10 == 0:
            self.env.close()
            self._make(kind.new_config(self._evaluations))
        for change in (kind.between, kind.before_evaluation):
            for env in self._envs if change is not None else ():
                change(env, self._evaluations)
        self._play()
        found = self.env.take()
        taken(self.seen, found, self._cell.keep)
        notes = [one.record.note for one in found["data"].counted()]
        self.seen.lost += sum("no clip" in (note or "") for note in notes)

    def _make(self, config: dict) -> None:
        make = functools.partial(self._cell.make(self._folder), config)
        if self._cell.sub_envs > 1:
            inner: Any = gym.vector.SyncVectorEnv([make] * self._cell.sub_envs)
            self._envs = list(inner.envs)
        else:
            inner = make()
            self._envs = [inner]
        self.env = tm.gym.RecordEpisodes(inner, env_fn=make, render="auto", keep=self._cell.keep)
        self._must_reset = True

    def _play(self) -> None:
        count, left = len(self._envs), episodes_of(len(self._envs))
        if count > 1:
            if self._must_reset:
                self.env.reset()
                self._must_reset, self._over = False, np.zeros(count, bool)
                for index in range(count):
                    self._has_reset(index)
            while left > 0:
                _, _, terminated, truncated, _ = self.env.step(self._random.integers(2, size=count))
                before, self._over = self._over, terminated | truncated
                for index in range(count):
                    if before[index]:
                        self._has_reset(index)
                    if self._over[index]:
                        self._has_ended(index)
                left -= int(self._over.sum())
            return
        for _ in range(left):
            self.env.reset()
            self._has_reset(0)
            is_over = False
            while not is_over:
                _, _, terminated, truncated, _ = self.env.step(int(self._random.integers(2)))
                is_over = terminated or truncated
            self._has_ended(0)

    def _has_reset(self, index: int) -> None:
        self._resets += 1
        if self._kind.after_reset is not None:
            self._kind.after_reset(self._envs[index], self._resets)

    def _has_ended(self, index: int) -> None:
        self._ends += 1
        if self._kind.after_end is not None:
            self._kind.after_end(self._envs[index], self._ends)


@contextlib.contextmanager
def _warnings_as_problems(seen: Seen) -> Iterator[None]:
    """Take the warnings of this library for problems: a wrapper says its problems there."""
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("tune_media")
    handler.emit = lambda record: seen.problems.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def run_sweep(cells: list[Cell], folder: Path, evaluations: int) -> dict[str, Seen]:
    """Run a sweep with a trial for each cell, alike in sub-envs and selectors; return what is stored of each."""
    names = [registered(cell, folder) for cell in cells]
    keep, iterations = cells[0].keep, evaluations + 4
    results = tune.Tuner(
        "PPO",
        param_space=config_of(tune.grid_search(names), cells[0], TuneHooks),
        tune_config=tune.TuneConfig(max_concurrent_trials=3),
        run_config=tune.RunConfig(
            name=f"sweep-{cells[0].sub_envs}-{'-'.join(keep)}",
            storage_path=str(folder / "results"),
            stop={"training_iteration": iterations},
            callbacks=[tm.JsonMediaLoggerCallback()],
            verbose=0,
        ),
    ).fit()
    for error in results.errors:  # the trial has no clips then, and is counted as bad
        print(error)
    seen = {name: Seen() for name in names}
    for result in results:
        for problem in [result.metrics_dataframe[name] for name in _problem_columns(result.metrics_dataframe)]:
            seen[result.config["env"]].add_problems([text for text in problem if isinstance(text, str)])
        index = Path(result.path, "media", "index.jsonl")
        lines = valid_lines(index.read_bytes()) if index.exists() else []
        for line in lines:
            if line["kind"] == "video" and line.get("status") != "stored":
                why = f"{line.get('status')}: {line.get('note')}"
                seen[result.config["env"]].clips.append(Clip(0.0, "", None, why=why))
                seen[result.config["env"]].lost += 1  # the index says so
    for row in tm.load(results.experiment_path).clips:
        if row["status"] == "stored":
            clip = Clip(row["episode_return"], row.get("rendered") or "", row.read_bytes())
            seen[row.config["env"]].clips.append(clip)
    for one in seen.values():
        missing = len(keep) * iterations - len(one.clips)
        one.clips += [Clip(0.0, "", None, why="no line in the index")] * missing
    return seen


def _problem_columns(frame: Any) -> list[str]:
    return [name for name in frame.columns if str(name).endswith("episodes/problems")]


def judged(cell: Cell, seen: Seen, folder: Path, seconds: float) -> Outcome:
    """Compare the clips of a cell with what its envs wrote down."""
    outcome = Outcome(cell, seconds=round(seconds, 1))
    written = truth.written(folder, cell.name)
    missing = []
    for clip in seen.clips:
        if clip.content is None:
            missing.append(clip)
            continue
        outcome.clips += 1
        outcome.replay += clip.rendered == "replay"
        outcome.direct += clip.rendered != "replay"
        why = wrong(clip, written)
        outcome.right += why is None
        outcome.wrong += why is not None
        if why is not None and not outcome.example:
            outcome.example = f"{clip.rendered}: {why}"
    outcome.missing_said = min(len(missing), seen.lost)
    outcome.missing_unsaid = len(missing) - outcome.missing_said
    if missing and not outcome.example:
        outcome.example = missing[0].why
    outcome.problems = list(dict.fromkeys(seen.problems))
    return outcome


def wrong(clip: Clip, written: dict[float, list[dict[str, Any]]]) -> str | None:
    """Return how a clip differs from its episode; None: it does not."""
    near = [lines for total, lines in written.items() if abs(total - clip.episode_return) < 1e-6]
    lines = [line for same in near for line in same]
    if not lines:
        return f"no env wrote an episode with the return {clip.episode_return}"
    frames = [truth.read(frame) for frame in decode_video(clip.content)]
    found = [_differs(frames, line, clip.rendered == "replay") for line in lines]
    return None if None in found else found[0]


def _differs(frames: list, line: dict[str, Any], is_replay: bool) -> str | None:
    if len(frames) != len(line["shown"]):
        return f"{len(frames)} frames instead of {len(line['shown'])}"
    as_if = line["as_if"]
    if is_replay and as_if is not None and frames == list(enumerate(as_if)):
        return None
    for step, frame in enumerate(frames):
        allowed = line["rendered"][step] + (line["shown"][step] if as_if is None else [])
        if frame is None or frame[0] != step or frame[1] not in allowed:
            shown = "no blocks" if frame is None else f"step {frame[0]} and {frame[1]}"
            return f"frame {step} of {len(frames)} shows {shown} instead of {allowed} (episode {line['number']})"
    return None


def run(
    cells: Iterable[Cell], folder: Path, evaluations: int = 30, env_runners: int = 0, jobs: int = 0
) -> Iterator[Outcome]:
    """Run cells, and yield the outcome of each.

    With ``jobs``, each cell has a process of its own, so many at a time: nothing that an earlier cell left behind is
    there. Otherwise, and in sweeps, they run in this process. All of them use the Ray of this process.
    """
    cells = [cell for cell in cells if not cell.why_not]
    singles = [cell for cell in cells if cell.way != "tune"]
    swept = [cell for cell in cells if cell.way == "tune"]
    if jobs and singles:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "ray.rllib.algorithms.ppo"])
        with ProcessPoolExecutor(jobs, context, _begin, max_tasks_per_child=1) as pool:
            runs = [pool.submit(run_single, cell, folder, evaluations, env_runners) for cell in singles]
            for done in as_completed(runs):
                yield done.result()
    else:
        for cell in singles:
            yield run_single(cell, folder, evaluations, env_runners)
    groups = sorted({(cell.sub_envs, cell.keep) for cell in swept})
    for group in groups:
        together = [cell for cell in swept if (cell.sub_envs, cell.keep) == group]
        began = time.monotonic()
        found = run_sweep(together, folder, evaluations)
        seconds = (time.monotonic() - began) / len(together)
        for cell in together:
            yield judged(cell, found[cell.name], folder, seconds)


def _begin() -> None:
    """Draw other random numbers than the processes that were forked from the same one, and print no warnings."""
    np.random.seed()
    warnings.filterwarnings("ignore")
    for name in ("tune_media", "ray"):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())


def run_single(cell: Cell, folder: Path, evaluations: int, env_runners: int) -> Outcome:
    """Run a cell that is no trial of a sweep."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="cell-", dir=folder))
    try:
        if cell.way == "gym":
            seen = run_gym(cell, folder, evaluations)
        else:
            with _ray():
                seen = run_rllib(cell, folder, evaluations, env_runners)
        return judged(cell, seen, folder, time.monotonic() - began)
    except Exception as error:  # the other cells run all the same
        traceback.print_exc()
        return Outcome(cell, example=f"raised {type(error).__name__}: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _ray() -> Iterator[None]:
    """Have this process use the Ray whose address is in the environment, if it uses none yet."""
    if ray.is_initialized():
        yield
        return
    ray.init(address=os.environ[ADDRESS], log_to_driver=False, logging_level="ERROR")
    try:
        yield
    finally:
        ray.shutdown()


HEADER = (
    f"{'kind':23} {'way':9} {'envs':>4} {'placement':9} {'steps':>5} {'keep':10} {'clips':>5} {'right':>5} "
    f"{'WRONG':>5} {'missing, said':>13} {'UNSAID':>6} {'replay':>6} {'direct':>6} {'s':>5}"
)


def row_of(one: Outcome) -> str:
    """Return a line of the table."""
    cell = one.cell
    text = (
        f"{cell.kind:23} {cell.way:9} {cell.sub_envs:4} {cell.placement:9} {cell.length:>5} {'+'.join(cell.keep):10} "
        f"{one.clips:5} {one.right:5} {one.wrong:5} {one.missing_said:13} {one.missing_unsaid:6} {one.replay:6} "
        f"{one.direct:6} {one.seconds:5.1f}"
    )
    return text if one.is_good and not one.wrong else f"{text}  {one.example[:110]}"


SUMS = ("clips", "right", "wrong", "missing_said", "missing_unsaid", "replay", "direct")


def totals(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield a line of sums for each way, placement and length of the episodes, and one of all."""
    yield f"{'way':9} {'placement':9} {'steps':>5} {'cells':>6} {'bad':>4} " + " ".join(f"{name:>14}" for name in SUMS)
    groups: dict[tuple[str, str, int], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.cell.way, one.cell.placement, one.cell.steps), []).append(one)
    rows = [(way, placement, str(steps or "own"), same) for (way, placement, steps), same in sorted(groups.items())]
    for way, placement, steps, same in [*rows, ("all", "", "", outcomes)]:
        sums = " ".join(f"{sum(getattr(one, name) for one in same):14}" for name in SUMS)
        bad = sum(not one.is_good for one in same)
        yield f"{way:9} {placement:9} {steps:>5} {len(same):6} {bad:4} {sums}"
