"""A process that plays tapes of one recipe, so that no simulator is shared with a trainer, or with another recipe.

``RenderProcess`` starts it and hands it tapes; ``child.py`` is the other side, which reads requests from its standard
input, and answers with a line of JSON each, and the bytes of the clips behind it. Nothing is left on the disk if both
processes are killed. Everything that the user's env prints goes to its log.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.ray_compat import cloudpickle
from tune_media.recording.rendering import FrameFunction
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Creator
from tune_media.values.child_process import ChildProcess
from tune_media.values.options import VideoOptions
from tune_media.values.problems import Message, argument, remedy
from tune_media.values.secrets import error_text, redacted

_LOG_TAIL = 2000  # characters of the log of a process that died, in the message
_SILENT_SECONDS = 300.0  # after which an env that does not come back from a call is taken to hang
_WATCH_SECONDS = 1.0
_BACKGROUND = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}  # as RLlib's env runners have them


class RenderProcess:
    """Plays tapes in a separate process, which is started with the first tape, and again after a crash.

    ``env`` makes the envs instead of the recipe: a function of the ``env_config``, or ``"module:function"``. ``frame``
    replaces the recorder's source of frames: a function of the env, ``"module:function"``, or the name of a method. A
    process with a ``niceness`` above 0 sees no GPU by CUDA. Raises ValueError without a recipe and an env.
    """

    def __init__(
        self,
        recipe: bytes | None,
        env: Creator | str | None = None,
        frame: FrameFunction | str | None = None,
        *,
        niceness: int = 0,
    ) -> None:
        if recipe is None and env is None:
            raise ValueError(
                "it is not known how the env is made: " + remedy("pass a function that makes it, " + argument("env="))
            )
        self._setup = {"recipe": recipe, "env": env, "frame": frame}
        self._niceness = niceness
        self._variables = _BACKGROUND if niceness else {}
        self._process: ChildProcess | None = None
        self._log: IO[bytes] | None = None
        self._folder = ""  # where the process may write
        self._touches: IO[bytes] | None = None  # it tells here what it would have touched outside
        self._hangs = False
        self._is_over = False

    def __enter__(self) -> RenderProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def render(
        self,
        tape: bytes,
        video: VideoOptions | None = None,
        *,
        env_runner: int = 0,
        env_index: int = 0,
        is_lenient: bool = False,
        on_step: Callable[[int, int], None] | None = None,
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape by view; the name of the only view is the empty string. Raises RenderError.

        ``video`` is as the recorder's was by default. ``is_lenient``: the clip is made, with a note, although its env's
        code was edited since, or its own frames looked otherwise while its steps are the same. ``on_step`` gets the
        number of steps that have been played, and of all steps, now and then.
        """
        how = {"place": (env_runner, env_index), "is_lenient": is_lenient}
        answer = self._asked({"do": "render", "tape": tape, "video": video, **how}, on_step)
        clips = zip(answer["clips"].items(), answer["contents"], strict=True)
        return {view: EncodedVideo(data, **facts) for (view, facts), data in clips}

    def prove(self, tape: bytes, *, env_runner: int = 0, env_index: int = 0, is_first: bool = False) -> dict[str, Any]:
        """Play an episode again of which all frames were rendered; return the facts of a ``ReplayVerdict`` found.

        ``is_first``: also find out if a frame looks otherwise when others were rendered before it. Raises RenderError.
        """
        how = {"place": (env_runner, env_index), "is_first": is_first}
        facts: dict[str, Any] = self._asked({"do": "prove", "tape": tape, **how})["facts"]
        return facts

    def check(self) -> tuple[str | None, list[str] | None]:
        """Return why an env of the recipe shows no frame after a reset, or None if it shows one. Raises RenderError.

        The second value names the global generators that ``render()`` draws from; None: not known.
        """
        answer = self._asked({"do": "check"})
        return answer["problem"], answer["draws"]

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            requests, answers = _streams(process)
            with contextlib.suppress(OSError):
                requests.close()
            process.end()
            answers.close()
        for stream in filter(None, (self._log, self._touches)):
            stream.close()
        self._log = self._touches = None
        shutil.rmtree(self._folder, ignore_errors=True)  # the process has removed it, unless it was killed

    def kill(self) -> None:
        """End the process at once; ``render``, which another thread may be in, raises."""
        process = self._process
        if process is not None:
            process.popen.terminate()  # it runs no code of the user's, and kills the one that does

    def end(self) -> None:
        """End the process at once, as ``kill``, and one that is being started, too: there is no other one after it."""
        self._is_over = True
        self.kill()

    def _asked(self, request: Mapping[str, Any], on_step: Callable[[int, int], None] | None = None) -> dict[str, Any]:
        """Return the answer to a request; see ``RecipePlayer.answer``. Raises RenderError."""
        if self._process is None or self._process.has_ended:
            self.close()
            self._start()
        process = self._process
        assert process is not None
        if self._log is not None:
            self._log.truncate(0)
        process.told()
        self._hangs, is_answered = False, threading.Event()
        watch = (process, is_answered)
        threading.Thread(target=self._watch, args=watch, name="tune_media watch", daemon=True).start()
        try:
            with contextlib.suppress(OSError):  # it has died, which is seen when its answer is read
                _send(_streams(process)[0], request)
            while "step" in (answer := self._next_answer()):
                if on_step is not None and "is_compared" not in answer:
                    on_step(answer["step"], answer["steps"])
            if (touched := self._touched()) is not None:
                raise touched
            return answer
        except RenderError:
            raise
        except BaseException:  # Ctrl-C, say: the next request would get this answer
            self.kill()
            self.close()
            raise
        finally:
            is_answered.set()

    def _touched(self) -> RenderError | None:
        """Return the error of an env that, or a process of which, was about to touch something outside."""
        told = None if self._touches is None else self._touches.read()
        if not told:
            return None
        act = redacted(told.decode(errors="replace").splitlines()[0])
        return RenderError(f"{act}, and a replay would do so, too", touches=True)

    def _next_answer(self) -> dict[str, Any]:
        """Return the next answer, with the bytes behind it as ``contents``. Raises RenderError."""
        assert self._process is not None
        why, answers = "", _streams(self._process)[1]
        try:
            answer: dict[str, Any] = json.loads(answers.readline() or "null") or {}
            sizes = answer.pop("nbytes", ())
            answer["contents"] = [answers.read(size) for size in sizes]
            is_whole = len(answer) > 1 and sum(sizes) == sum(map(len, answer["contents"]))
        except (OSError, ValueError) as error:
            is_whole, why = False, f" ({error_text(error)})"
        if not is_whole:
            touched, died = self._touched(), f"{self._death()}{why}"
            if touched is not None:
                raise touched
            if self._hangs:
                raise RenderError(f"the env did not come back from a call within {_SILENT_SECONDS:g} s")
            raise RenderError(died, has_died=True)
        self._process.told()
        if "error" in answer and (touched := self._touched()) is not None:
            raise touched
        if "error" in answer:
            has_died = bool(answer.get("has_died"))
            text = Message(*answer["error"]) + self._log_tail() * has_died
            facts = {name: answer[name] for name in ("is_of_env", "touches") if name in answer}
            raise RenderError(text, answer["at"], has_died=has_died, **facts)
        return answer

    def _watch(self, process: ChildProcess, is_answered: threading.Event) -> None:
        """End the process if it is silent for long; runs in a thread."""
        while not is_answered.wait(_WATCH_SECONDS):
            if process.is_silent(_SILENT_SECONDS):
                self._hangs = True
                self.kill()
                return

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile("a+b", prefix="tune_media-render-")  # noqa: SIM115 - closed with the process
        self._folder = tempfile.mkdtemp(prefix="tm-")
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._touches = os.fdopen(reader, "rb")
        try:
            self._process = ChildProcess(
                "tune_media.replay.child",
                str(self._niceness),
                str(writer),
                self._folder,
                pass_fds=[writer],
                variables={"TMPDIR": self._folder, **self._variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
            )
        finally:
            os.close(writer)
        if self._is_over:  # since before there was a process that ``end`` could see
            self.kill()
        with contextlib.suppress(OSError):  # it has died, which the reader of its answers reports
            _send(_streams(self._process)[0], self._setup)

    def _death(self) -> str:
        """Return how the process died, with the end of its log."""
        words = "" if self._process is None else f" {self._process.last_words()}"
        tail = self._log_tail()
        self.close()
        return f"the process that renders ended{words}{tail}"

    def _log_tail(self) -> str:
        """Return the end of what the process has printed, as the end of a message."""
        if self._log is None:
            return ""
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 10 * _LOG_TAIL))  # masked before it is cut
        tail = redacted(self._log.read().decode(errors="replace").strip())[-_LOG_TAIL:]
        return f": {tail}" if tail else ""


def _streams(process: ChildProcess) -> tuple[IO[bytes], IO[bytes]]:
    """Return where a process takes requests, and where it answers."""
    assert process.popen.stdin is not None
    assert process.popen.stdout is not None
    return process.popen.stdin, process.popen.stdout


def _send(stream: IO[bytes], message: Mapping[str, Any]) -> None:
    stream.write(base64.b64encode(cloudpickle().dumps(dict(message))) + b"\n")
    stream.flush()
