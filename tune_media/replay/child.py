"""The process that plays tapes, from the inside: answers a ``RenderProcess``, each tape in a separate process.

``main`` reads the recipe once, and with it the user's modules. It forks for each request, so that nothing that an env
leaves behind reaches the next tape.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import pickle
import shutil
import signal
import sys
from pathlib import Path
from typing import IO, Any

from tune_media.replay.child_processes import all_children
from tune_media.replay.forks import may_fork
from tune_media.replay.landlock import refuse_writes
from tune_media.replay.player import RenderError
from tune_media.replay.recipe_player import RecipePlayer, Tell, cannot_make
from tune_media.replay.touches import end_at_first_touch
from tune_media.values.child_process import how_it_ended, stand_back
from tune_media.values.problems import message_of, parts_of

_WATCH_SECONDS = 1.0
_SUBREAPER, _DIE_WITH_PARENT = 36, 1  # of prctl(2)


def run(touches: int, folder: str, niceness: int = 0) -> None:
    """Run ``main`` in a fork of this process, until SIGTERM or its end; then remove its folder.

    It ends with this process, and with it the processes of its envs; this one runs no code of the user's.
    """
    # Ray kills the processes that a worker has started when the worker ends, and not those that these have started
    asking, guard, signals = os.getppid(), os.getpid(), {signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    renderer = os.fork()
    if renderer:
        os.close(touches)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # macOS drops it otherwise, and so wakes nobody
        signal.setitimer(signal.ITIMER_REAL, _WATCH_SECONDS, _WATCH_SECONDS)  # it has no wait with a timeout
        is_over = False
        while not (status := os.waitpid(renderer, os.WNOHANG))[0]:
            if is_over or os.getppid() != asking:
                _kill(renderer)
            is_over = signal.sigwait(signals) == signal.SIGTERM or is_over
        shutil.rmtree(folder, ignore_errors=True)
        code = os.waitstatus_to_exitcode(status[1])
        if code < 0:
            os.kill(guard, -code)
        os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    os.setsid()
    stand_back(niceness)  # it may write outside no more, later
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    _prctl(_DIE_WITH_PARENT, signal.SIGTERM)
    if os.getppid() == guard:
        main(touches, folder)


def _kill(renderer: int) -> None:
    """End the process that renders, and those in its group, which it may not have made yet."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses it if all have ended
            kill(renderer, signal.SIGKILL)


def main(touches: int, folder: str) -> None:
    """Answer the requests of a ``RenderProcess``, until its end of the pipe is closed.

    What an env would touch outside is told at the pipe ``touches``; ``folder`` is its own.
    """
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what envs print
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, str(Path.cwd()))
    _prctl(_SUBREAPER)
    name = end_at_first_touch(touches, folder)
    is_confined = refuse_writes(folder)
    setup = _received(requests)  # reads the user's modules
    assert setup is not None
    try:
        made = RecipePlayer(**setup, is_confined=is_confined)
        player: RecipePlayer | RenderError = made
        if made.name is not None:
            name(made.name)
    except Exception as error:
        player = cannot_make(error)

    def tell(*contents: bytes, **facts: Any) -> None:
        answers.write(json.dumps(facts).encode() + b"\n")
        answers.writelines(contents)
        answers.flush()

    while (request := _received(requests)) is not None:
        if isinstance(player, RenderError):
            tell(error=parts_of(message_of(player)), at=player.step)
        elif may_fork():
            _answer_in_fork(player, request, tell)
        else:
            player.answer(request, tell)


def _answer_in_fork(player: RecipePlayer, request: dict[str, Any], tell: Tell) -> None:
    """Answer a request in a fork of this process, and end all processes that an env starts in it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _prctl(_DIE_WITH_PARENT, signal.SIGKILL)
            player.answer(request, tell)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    for left in all_children():  # of the env; this process is their parent by now
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if status:
        code = os.waitstatus_to_exitcode(status)
        tell(error=f"the process that renders ended {how_it_ended(code)}", at=None, has_died=True)


def _prctl(option: int, value: int = 1) -> None:
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _received(stream: IO[bytes]) -> dict[str, Any] | None:
    """Return the next message of the process that started this one, or None if there are no more."""
    line = stream.readline()
    message: dict[str, Any] | None = pickle.loads(base64.b64decode(line)) if line else None
    return message


if __name__ == "__main__":
    run(int(sys.argv[2]), sys.argv[3], int(sys.argv[1]))
