"""A process that plays tapes of one recipe, so that no simulator is shared with a trainer, or with another recipe.

``RenderProcess`` starts it and hands it tapes, one after the other. The other side is ``main``: it reads requests from
its standard input, and answers with a line of JSON each, and the bytes of the clips behind it. Nothing is left on the
disk if both processes are killed. Everything that the user's env prints goes to its log.

It imports RLlib only if the function that makes the envs does.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ray import cloudpickle

from tune_media.encoding.encoder import EncodedVideo
from tune_media.recording.clips import has_all, shows
from tune_media.recording.problems import FrameError
from tune_media.recording.rendering import FrameFunction, Renderer, remedy_for
from tune_media.replay.player import ReplayDiffers
from tune_media.replay.recipe import Creator, LoadedRecipe, WithoutConfig, differences, facts_here
from tune_media.replay.rendering import render_tape
from tune_media.replay.simulator import STRIDE, Corrections, Simulator
from tune_media.replay.tape import Tape
from tune_media.values.medium import joined
from tune_media.values.named_function import named_function
from tune_media.values.options import VideoOptions
from tune_media.values.secrets import error_text, redacted

_LOG_TAIL = 2000  # characters of the log of a process that died, in the message
_STEPS_PER_LINE = 20
_MOST_ENVS = 4  # that a process keeps; an env runner and a sub-env have one each
_SILENT_SECONDS = 300.0  # after which an env that does not come back from a call is taken to hang
_PARENT_SECONDS, _WATCH_SECONDS = 5.0, 1.0
_BACKGROUND, _NO_GPU = {"OMP_NUM_THREADS": "1"}, {"CUDA_VISIBLE_DEVICES": ""}  # as RLlib's env runners have them
_NOT_THE_EPISODE = (
    "nothing that is known of the machine or of the packages has changed, so the env draws numbers, or keeps a state, "
    "that no seed and no generator of its own reaches"
)


class RenderError(Exception):
    """A tape cannot be rendered.

    Attributes:
        step: The first step that differs from the episode; None: there is another reason.
        has_died: Whether the process that renders died of it.

    Example:
        >>> RenderError("at step 3, the replay has another observation", step=3).step
        3
    """

    def __init__(self, text: str, step: int | None = None, *, has_died: bool = False) -> None:
        super().__init__(text)
        self.step, self.has_died = step, has_died


class RenderProcess:
    """Plays tapes in a process of its own, which is started with the first tape, and again after a crash.

    Args:
        recipe: The content of the recipe that makes the envs. None: there is none.
        env: Makes the envs instead: a function of the ``env_config``, or ``"module:function"``.
        frame: The source of frames instead of the recorder's: a function of the env, ``"module:function"``, or the
            name of one of its methods.
        niceness: How far it stands back behind other processes, 0 to 19. If it does, it sees no GPU by CUDA.
        with_gpu: Whether it does all the same.

    Raises:
        ValueError: There is neither a recipe nor an env.
    """

    def __init__(
        self,
        recipe: bytes | None,
        env: Creator | str | None = None,
        frame: FrameFunction | str | None = None,
        *,
        niceness: int = 0,
        with_gpu: bool = False,
    ) -> None:
        if recipe is None and env is None:
            raise ValueError("it is not known how the env is made: pass a function that makes it, env=")
        self._setup = {"recipe": recipe, "env": env, "frame": frame, "niceness": niceness}
        self._variables = {**(_BACKGROUND if niceness else {}), **(_NO_GPU if niceness and not with_gpu else {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._told_at, self._hangs = 0.0, False
        self._is_over = False

    def __enter__(self) -> RenderProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def render(
        self,
        tape: bytes,
        video: VideoOptions | None = None,
        *,
        env_runner: int = 0,
        env_index: int = 0,
        may_correct: bool = False,
        only_checked: bool = False,
        on_step: Callable[[int, int], None] | None = None,
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape by view; the name of the only view is the empty string.

        Args:
            tape: The tape as it is stored.
            video: Size, speed, quality, overlays, and which frames are kept. None: as the recorder's were.
            env_runner, env_index: The env runner and the sub-env that it was played on.
            may_correct: Whether a replay that drifts away from the episode may be set to the states of its simulator
                that are on the tape. The clips have a note then.
            only_checked: Whether no more frames are rendered than the tape has checksums of, if it has any.
            on_step: Told the number of steps that have been played, and of all steps, now and then.

        Raises:
            RenderError: The replay is not the episode, the env cannot be made or does not render, or the process died.
        """
        how = {"env_runner": env_runner, "env_index": env_index, "only_checked": only_checked}
        with self._kept_in_step():
            for answer in self._answers({"tape": tape, "video": video, "may_correct": may_correct, **how}):
                if "step" in answer:
                    if on_step is not None:
                        on_step(answer["step"], answer["steps"])
                elif "error" in answer:
                    raise RenderError(answer["error"], answer["at"])
                else:
                    return {view: self._clip(facts) for view, facts in answer["clips"].items()}
        raise RenderError("the process that renders ended without an answer", has_died=True)

    def check(self) -> str | None:
        """Return why an env of the recipe shows no frame after a reset; None: it shows one.

        Raises:
            RenderError: The env cannot be made or reset, or the process died.
        """
        with self._kept_in_step():
            for answer in self._answers({"check": True}):
                if "error" in answer:
                    raise RenderError(answer["error"])
                problem: str | None = answer["problem"]
                return problem
        raise RenderError("the process that renders ended without an answer", has_died=True)

    def _clip(self, facts: dict[str, Any]) -> EncodedVideo:
        """Return a clip, whose bytes come behind the answer with its facts.

        Raises:
            RenderError: The process died.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        nbytes = facts.pop("nbytes")
        data = self._process.stdout.read(nbytes)
        if len(data) < nbytes:
            raise RenderError(self._death(), has_died=True)
        return EncodedVideo(data, **{**facts, "checks": tuple(facts["checks"])})

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:  # an env that hangs in close()
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def kill(self) -> None:
        """End the process at once; ``render``, which another thread may be in, raises."""
        process = self._process
        if process is not None:
            process.kill()

    def end(self) -> None:
        """End the process at once, as ``kill``, and one that is being started, too: there is no other one after it."""
        self._is_over = True
        self.kill()

    @contextlib.contextmanager
    def _kept_in_step(self) -> Iterator[None]:
        """End the process if its answer is not read, after Ctrl-C say: the next request would get it."""
        try:
            yield
        except RenderError:
            raise
        except BaseException:
            self.kill()
            self.close()
            raise

    def _watch(self, is_answered: threading.Event) -> None:
        """End the process if it tells nothing for long; a thread of its own."""
        while not is_answered.wait(_WATCH_SECONDS):
            if time.monotonic() - self._told_at > _SILENT_SECONDS:
                self._hangs = True
                self.kill()
                return

    def _answers(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._log is not None:
            self._log.truncate(0)
        self._told_at, self._hangs, is_answered = time.monotonic(), False, threading.Event()
        threading.Thread(target=self._watch, args=(is_answered,), name="tune_media watch", daemon=True).start()
        try:
            _send(self._process.stdin, request)
            for line in self._process.stdout:
                self._told_at = time.monotonic()
                yield json.loads(line)
        except (OSError, ValueError) as error:
            raise RenderError(f"{self._death()} ({error_text(error)})", has_died=True) from error
        finally:
            is_answered.set()
        died = self._death()
        if self._hangs:
            raise RenderError(f"the env did not come back from a call within {_SILENT_SECONDS:g} s")
        raise RenderError(died, has_died=True)

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("a+b", prefix="tune_media-render-")  # noqa: SIM115 - closed with the process
        command = [sys.executable, "-m", "tune_media.replay.process"]
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C is for the process that asks; this one ends when its requests end
            env={**os.environ, "PYTHONPATH": path, **self._variables},
        )
        if self._is_over:  # since before there was a process that ``end`` could see
            self.kill()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has died; whoever reads its answers says so
            _send(self._process.stdin, self._setup)

    def _death(self) -> str:
        """Return how the process died, with the end of its log."""
        code: int | str | None = None
        if self._process is not None:
            try:
                code = self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                code = "none"
        tail = ""
        if self._log is not None:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG_TAIL))
            tail = redacted(self._log.read().decode(errors="replace").strip())
        self.close()
        return f"the process that renders died (exit code {code}){': ' if tail else ''}{tail}"


def main() -> None:
    """Answer the requests of a ``RenderProcess``, until its end of the pipe is closed."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what envs print
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, str(Path.cwd()))
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    setup = _received(requests)
    assert setup is not None
    with contextlib.suppress(OSError):
        os.nice(setup.pop("niceness"))
    try:
        stage: _Stage | RenderError = _Stage(**setup)
    except Exception as error:
        stage = RenderError(f"the env cannot be made again: {_told(error)}")

    def answer(*contents: bytes, **facts: Any) -> None:
        answers.write(json.dumps(facts).encode() + b"\n")
        answers.writelines(contents)
        answers.flush()

    while (request := _received(requests)) is not None:
        try:
            if isinstance(stage, RenderError):
                raise stage
            if "check" in request:
                answer(problem=stage.problem())
                continue
            clips = stage.render(**request, on_step=lambda step, steps: answer(step=step, steps=steps))
            facts = {view: _facts_of(clip) for view, clip in clips.items()}
            answer(*(clip.data for clip in clips.values()), clips=facts)
        except RenderError as error:
            answer(error=str(error), at=error.step)
        except Exception as error:
            answer(error=_told(error), at=None)
    if isinstance(stage, _Stage):
        stage.close()


def _end_with_parent(parent: int) -> None:
    """End when the process that started this one was killed, also while an env hangs; a thread of its own."""
    while os.getppid() == parent:
        time.sleep(_PARENT_SECONDS)
    os._exit(1)


class _Stage:
    """The envs in which the tapes of one recipe are played: one for an env runner's sub-env; a few are kept.

    Args:
        recipe, env, frame: See ``RenderProcess``.
    """

    def __init__(self, recipe: bytes | None, env: Creator | str | None, frame: FrameFunction | str | None) -> None:
        own = named_function(env) if isinstance(env, str) else env
        self._is_own, self._has_own_frame = own is not None, frame is not None
        creator = None if own is None else _taking_config(own)
        if recipe is not None:
            self._recipe = LoadedRecipe.of(recipe, creator)
        else:
            assert creator is not None
            self._recipe = LoadedRecipe(facts_here(), creator, {})
        is_path = isinstance(frame, str) and ":" in frame
        own_frame = named_function(frame) if isinstance(frame, str) and is_path else frame
        self._frame = self._recipe.frame if own_frame is None else own_frame
        self._name = next(reversed(self._recipe.facts.get("wrappers", ())), None)  # as the recorder names the env
        self._renderers: OrderedDict[tuple[int, int], Renderer] = OrderedDict()

    def render(
        self,
        tape: bytes,
        video: VideoOptions | None,
        env_runner: int,
        env_index: int,
        may_correct: bool,
        only_checked: bool,
        on_step: Callable[[int, int], None],
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape.

        Raises:
            RenderError: The replay is not the episode.
            Exception: Whatever the env raises.
        """
        unpacked, place = Tape.unpacked(tape), (env_runner, env_index)
        pictures = unpacked.pictures if video is None and not may_correct and self._shows_the_same else {}
        steps, video = len(unpacked), video or self._recipe.video
        most = max((count or 0 for count, _ in unpacked.pictures.values()), default=0)
        if only_checked and most and not has_all(unpacked.pictures):
            video = dataclasses.replace(video or VideoOptions(every=unpacked.every), max_frames=most)

        def tell(step: int) -> None:
            if step % _STEPS_PER_LINE == 0:
                on_step(step, steps)

        differs = None
        for _ in range(1 if place not in self._renderers else 2):  # it may carry something over from earlier episodes
            try:
                clips = render_tape(unpacked, self._renderer(place), video, env_index=env_index, on_step=tell)
                if not shows({view: clip.checks for view, clip in clips.items()}, pictures):
                    raise ReplayDiffers(steps, "shows other pictures than the episode, at this step or before it")
                return clips
            except ReplayDiffers as error:
                self._drop(place)
                differs = error
        assert differs is not None
        why, simulator = self._why(differs), None
        if may_correct and len(unpacked.states):
            simulator = Simulator.of(self._renderer(place).env)
        if simulator is None:
            raise RenderError(why, differs.step) from differs
        corrections = Corrections(simulator, unpacked.states)
        try:
            renderer = self._renderer(place)
            clips = render_tape(unpacked, renderer, video, env_index=env_index, on_step=tell, corrections=corrections)
        except ReplayDiffers as error:
            text = f"{why}; nor can it be set to the states of the simulator that are on the tape: {error}"
            raise RenderError(text, differs.step) from error
        finally:
            self._drop(place)
        note = f"set from states every {STRIDE} steps, off by at most {corrections.farthest:.0e}, since {why}"
        return {view: dataclasses.replace(clip, note=joined(clip.note, note)) for view, clip in clips.items()}

    def problem(self) -> str | None:
        """Return why a new env shows no frame after a reset; None: it shows one.

        Raises:
            Exception: Whatever making or resetting it raises.
        """
        env = self._recipe.make()
        try:
            env.reset(seed=0)
            Renderer(env, self._frame, name=self._name).frames(0)
        except FrameError as error:
            return str(error)
        finally:
            with contextlib.suppress(Exception):
                env.close()
        return None

    @functools.cached_property
    def _shows_the_same(self) -> bool:
        """Whether it has the env runner's env, frames, packages and kind of machine: pictures equal to the last bit."""
        is_same = not self._is_own and not self._has_own_frame
        return is_same and not differences(self._recipe.facts, facts_here())

    def close(self) -> None:
        """Close the envs."""
        for place in list(self._renderers):
            self._drop(place)

    def _renderer(self, place: tuple[int, int]) -> Renderer:
        if place in self._renderers:
            self._renderers.move_to_end(place)
        else:
            while len(self._renderers) >= _MOST_ENVS:
                self._drop(next(iter(self._renderers)))
            try:
                env = self._recipe.make(*place)
            except Exception as error:
                raise RenderError(f"the env cannot be made again: {_told(error)}") from error
            self._renderers[place] = Renderer(env, self._frame)
        return self._renderers[place]

    def _drop(self, place: tuple[int, int]) -> None:
        renderer = self._renderers.pop(place)
        with contextlib.suppress(Exception):
            renderer.env.close()

    def _why(self, error: ReplayDiffers) -> str:
        if self._is_own:
            return f"{error}: the env that env= makes does not play this episode"
        changed = differences(self._recipe.facts, facts_here())
        return f"{error}; {'; '.join(changed) if changed else _NOT_THE_EPISODE}"


def _taking_config(creator: Any) -> Creator:
    """Return a function that takes an ``env_config``, even if the one that it calls takes none."""
    try:
        inspect.signature(creator).bind({})
    except TypeError:
        return WithoutConfig(creator)
    except ValueError:  # written in C
        pass
    found: Creator = creator
    return found


def _told(error: Exception) -> str:
    return f"{error_text(error)}{remedy_for(error)}"


def _facts_of(clip: EncodedVideo) -> dict[str, Any]:
    """Return the facts of a clip, and how many bytes it takes."""
    facts = {field.name: getattr(clip, field.name) for field in dataclasses.fields(clip) if field.name != "data"}
    return {**facts, "nbytes": len(clip.data)}


def _send(stream: IO[bytes], message: Mapping[str, Any]) -> None:
    stream.write(base64.b64encode(cloudpickle.dumps(dict(message))) + b"\n")
    stream.flush()


def _received(stream: IO[bytes]) -> dict[str, Any] | None:
    """Return the next message of the process that started this one; None: there are no more."""
    line = stream.readline()
    message: dict[str, Any] | None = cloudpickle.loads(base64.b64decode(line)) if line else None
    return message


if __name__ == "__main__":
    main()
