"""Finds out what a recording of an env would be, from inside another process: with Ray an actor, as env runners are."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import itertools
import multiprocessing
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tune_media.encoding import encoder
from tune_media.encoding.frames import as_rgb
from tune_media.encoding.stills import reason_of
from tune_media.ray_compat import check_ray, start_ray
from tune_media.recording.rendering import Renderer, remedy_for
from tune_media.replay.player import RenderError, random_step
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.values.problems import FrameError, message_of
from tune_media.viewing.table import in_lines

FRAMES = 30
_ENVIRONMENT = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER", "DISPLAY")


@dataclass
class Diagnosis:
    """The doctor's findings.

    Attributes:
        facts: The facts of a recording, by name: ``versions``, ``environment``, ``render_mode``, ``width``,
            ``height``, ``dtype``, ``fps``, ``views``, ``render_ms`` and ``encode_ms`` (per frame), ``codec``,
            ``bytes_per_frame``, ``replay``, ``auto``, and if the first frame is odd, ``first_frame``. Those after a
            problem are missing.
        problems: Each with its remedy; empty if a recording works.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Lay the report out for a terminal."""
        rows = self._rows()
        width = max(map(len, rows), default=0)
        lines = [in_lines(f"{name.ljust(width)}  {value}", indent=width + 2) for name, value in rows.items()]
        verdict = "This env can be recorded." if not self.problems else "This env cannot be recorded as it is:"
        problems = [in_lines(f"- {problem}", indent=2) for problem in self.problems]
        return "\n".join([*lines, *([""] if lines else []), verdict, *problems])

    def _rows(self) -> dict[str, str]:
        facts, rows = self.facts, dict[str, str]()
        if "versions" in facts:
            rows["versions"] = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        if "environment" in facts:
            found = " ".join(f"{name}={value}" for name, value in facts["environment"].items())
            rows["environment"] = found or f"none of {', '.join(_ENVIRONMENT)} is set"
        if "render_mode" in facts:
            rows["render_mode"] = str(facts["render_mode"])
        if "width" in facts:
            views = f", {len(facts['views'])} views: {', '.join(facts['views'])}" if len(facts["views"]) > 1 else ""
            rows["frame"] = f"{facts['width']}x{facts['height']}, {facts['dtype']}, at {facts['fps']:g} fps{views}"
            rows["render"] = f"{facts['render_ms']:.2f} ms a frame (median of {FRAMES})"
            rows["encode"] = f"{facts['encode_ms']:.2f} ms a frame, {facts['codec']}"
            rows["clip"] = f"{facts['bytes_per_frame']:.0f} bytes a frame"
        if "first_frame" in facts:
            rows["first frame"] = facts["first_frame"]
        return rows | {name: facts[name] for name in ("replay", "auto") if name in facts}


def make_env(name: str, config: dict[str, Any]) -> Any:
    """Make an env as RLlib would: of an id that Gymnasium knows, or of ``module:ClassOrFunction``."""
    module, _, attribute = name.partition(":")
    if not attribute or re.search(r"-v\d+$", attribute):
        import gymnasium as gym

        return gym.make(name, **config)
    maker = getattr(importlib.import_module(module), attribute)
    try:  # as RLlib does, with the config, or as others do, with keywords
        inspect.signature(maker).bind(config)
    except TypeError:
        return maker(**config)
    return maker(config)


def missing(name: str) -> str | None:
    """Return why there is no env of this name; None if there may be one, which only making it can tell.

    >>> print(missing("nowhere"))
    there is no env 'nowhere' in Gymnasium: pass an id such as CartPole-v1, or module:EnvClass
    """
    module, sign, _ = name.partition(":")
    if sign:  # whether it has such an env is known when it has been imported, which only the other process does
        first = module.partition(".")[0]
        sys.path.append(str(Path.cwd()))  # as Ray does in the actor
        try:
            is_there = not first or importlib.util.find_spec(first) is not None
        except ValueError:  # a module that says nothing of where it is from
            is_there = True
        finally:
            sys.path.pop()
        return None if is_there or "RAY_ADDRESS" in os.environ else f"there is no module {first!r} here"
    import gymnasium as gym

    try:
        gym.spec(name)
    except gym.error.Error as error:
        told = f" ({error})" if re.search(r"-v\d+$", name) else ": pass an id such as CartPole-v1, or module:EnvClass"
        return f"there is no env {name!r} in Gymnasium{told}"
    return None


def examine_apart(name: str, config: dict[str, Any]) -> Diagnosis:
    """Examine an env in another process, without a window: if Ray can be imported, in an actor, as env runners are.

    If there is no such env, no process is started.
    """
    if (why := missing(name)) is not None:
        return Diagnosis(problems=[why])
    try:
        check_ray("tune-media doctor")
    except ImportError:  # an env that needs it says so itself
        return _examine_in_process(name, config)
    return _examine_in_actor(name, config)


def _examine_in_process(name: str, config: dict[str, Any]) -> Diagnosis:
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            return process.submit(_examine_named, str(Path.cwd()), name, config).result()
    except BrokenProcessPool as error:
        return Diagnosis(problems=[_of_dead_process(error)])


def _examine_named(folder: str, name: str, config: dict[str, Any]) -> Diagnosis:
    sys.path.append(folder)
    return examine(lambda: make_env(name, config))


def _of_dead_process(error: Exception) -> str:
    return (
        f"the process died while the env was made or rendered ({type(error).__name__}); if it draws with OpenGL "
        "or in a window, set MUJOCO_GL=egl or osmesa, or SDL_VIDEODRIVER=offscreen, before the training starts"
    )


def _examine_in_actor(name: str, config: dict[str, Any]) -> Diagnosis:
    import ray

    started_here = not ray.is_initialized()
    if started_here:
        # Without num_cpus, which a cluster that is already there (RAY_ADDRESS) would refuse.
        start_ray(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        examiner = ray.remote(num_cpus=0)(_Examiner).remote()
        report: Diagnosis = ray.get(examiner.examine.remote(name, config))
        return report
    except ray.exceptions.RayActorError as error:
        return Diagnosis(problems=[_of_dead_process(error)])
    finally:
        if started_here:
            ray.shutdown()


class _Examiner:
    def examine(self, name: str, config: dict[str, Any]) -> Diagnosis:
        return examine(lambda: make_env(name, config))


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which a recording depends."""
    versions = {"python": platform.python_version()}
    for name in ("tune-media", "ray", "gymnasium", "numpy", "av"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def examine(make: Callable[[], Any]) -> Diagnosis:
    """Make an env, play and render some steps of it, and encode them."""
    report = Diagnosis()
    report.facts["versions"] = _versions()
    report.facts["environment"] = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        env = make()
    except Exception as error:
        report.problems.append(f"it cannot be made: {_told(error)}")
        return report
    report.facts["render_mode"] = getattr(env, "render_mode", None)
    try:
        taping, tapes = TapeRecorder(env), list[Tape]()
        observation, _ = env.reset(seed=0)
        renderer = Renderer(env)
        clip = encoder.VideoEncoder(renderer.fps(0))
        pictures, render_times, encode_times = [], [], []
        for _ in range(FRAMES):
            started = time.perf_counter()
            frames = renderer.frames(0)
            picture = np.array(as_rgb(next(iter(frames.values()))))
            render_times.append(time.perf_counter() - started)
            started = time.perf_counter()
            clip.feed(picture)
            encode_times.append(time.perf_counter() - started)
            pictures.append(picture)
            if taping.tape is not None:
                taping.tape.pictures.add(len(taping.tape), frames)
                tapes += [taping.tape] if taping.tape not in tapes else []
            observation = random_step(env, observation)
    except Exception as error:
        report.problems.append(_told(error))
        return report
    video = clip.finish()
    height, width = pictures[0].shape[:2]
    report.facts |= {
        "width": width,
        "height": height,
        "dtype": str(pictures[0].dtype),
        "fps": renderer.fps(0),
        "views": list(frames),
        "render_ms": 1000 * statistics.median(render_times),
        "encode_ms": 1000 * statistics.median(encode_times),
        "codec": video.codec,
        "bytes_per_frame": len(video.data) / video.frames,
    }
    report.problems.extend(_look_at(pictures))
    if _starts_with_another_picture(pictures):
        report.facts["first_frame"] = (
            "it has nothing of the frames after it: the window may not have drawn yet when reset() returns (sumo-rl). "
            "Let a wrapper's reset() call render() once, and if that does not help, take a step"
        )
    _close(env)
    recipe = Recipe.of(lambda config: make(), {}, env)
    with contextlib.closing(RenderPool()) as pool:
        prove = functools.partial(pool.prove, recipe)
        if tapes:
            report.facts["replay"] = _try_replay(prove, max(tapes, key=len))
        report.facts["auto"] = _try_auto(prove, make)
    return report


def _try_replay(prove: Callable[[bytes], Any], tape: Tape) -> str:
    """Return whether an env in another process repeats an episode and its frames, as a line."""
    try:
        prove(tape.packed())
    except (RenderError, ValueError) as error:
        return f"no: {message_of(error)}; use render='direct'"
    frames = len(tape.pictures.places(tape.every, len(tape)))
    return f"yes: another process repeats {frames} frames of an episode, so render='replay' works"


def _try_auto(prove: Callable[[bytes], Any], make: Callable[[], Any]) -> str:
    """Return whether ``render="auto"`` uses tapes: it gives resets no seed."""
    env = None
    try:
        env = make()
        taping = TapeRecorder(env)
        env.reset()
        observation, _ = env.reset()  # an episode that is not the env's first
        tape = taping.tape
        assert tape is not None
        while taping.tape is tape and tape.fault is None and len(tape) < FRAMES:
            observation = random_step(env, observation)
        prove(tape.packed())
    except Exception as error:
        return f"render='auto' renders directly: without a seed, {message_of(error)}"
    finally:
        _close(env)
    return "render='auto' makes clips of tapes: another process repeats an episode without a seed"


def _close(env: Any) -> None:
    with contextlib.suppress(Exception):  # not every env has it, and the recording is over
        env.close()


def _look_at(pictures: list[Any]) -> list[str]:
    """Return the problems of frames that could be encoded."""
    looks = {encoder.look_of(picture) for picture in pictures}
    if encoder.SAME not in looks:
        return [reason_of(min(looks))]
    if all(np.array_equal(picture, pictures[0]) for picture in pictures):
        same = f"all {len(pictures)} frames are the same, though random actions were taken"
        return [f"{same}: render() may return an old picture, or the env may not move"]
    return []


def _starts_with_another_picture(pictures: list[Any]) -> bool:
    """Return whether nearly all pixels change after the first frame, and less than half after most later ones."""
    if len({picture.shape for picture in pictures}) > 1:
        return False
    first, *later = (np.mean(np.any(a != b, axis=-1)) for a, b in itertools.pairwise(pictures))
    return bool(first > 0.9 and np.median(later) < 0.5)


def _told(error: Exception) -> str:
    """Return an exception as a problem, with its remedy."""
    if isinstance(error, FrameError):
        return str(error).partition(" To check it:")[0]  # that is what runs here
    return f"{type(error).__name__}: {error}{remedy_for(error)}"
