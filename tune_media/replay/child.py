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
import signal
import sys
from pathlib import Path
from typing import IO, Any

from tune_media.replay.child_processes import all_children
from tune_media.replay.forks import may_fork
from tune_media.replay.player import RenderError
from tune_media.replay.recipe_player import RecipePlayer, Tell, cannot_make
from tune_media.values.problems import message_of, parts_of

_WATCH_SECONDS = 1.0
_SUBREAPER, _DIE_WITH_PARENT = 36, 1  # of prctl(2)


def run() -> None:
    """Run ``main`` in a fork of this process; it ends with this one, and with it the processes of its envs."""
    # Ray kills the processes that a worker has started when the worker ends, and not those that these have started
    asking, guard = os.getppid(), os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    renderer = os.fork()
    if renderer:
        while not (status := os.waitpid(renderer, os.WNOHANG))[0]:
            if os.getppid() != asking:
                os.kill(renderer, signal.SIGTERM)
            signal.sigtimedwait({signal.SIGCHLD}, _WATCH_SECONDS)
        code = os.waitstatus_to_exitcode(status[1])
        if code < 0:
            os.kill(guard, -code)
        os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    _prctl(_DIE_WITH_PARENT, signal.SIGTERM)
    if os.getppid() == guard:
        main()


def main() -> None:
    """Answer the requests of a ``RenderProcess``, until its end of the pipe is closed."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what envs print
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.path.insert(0, str(Path.cwd()))
    _prctl(_SUBREAPER)
    setup = _received(requests)
    assert setup is not None
    with contextlib.suppress(OSError):
        os.nice(setup.pop("niceness"))
    try:
        player: RecipePlayer | RenderError = RecipePlayer(**setup)
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
        tell(error=f"the process that renders died (exit code {code})", at=None, has_died=True)


def _prctl(option: int, value: int = 1) -> None:
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _received(stream: IO[bytes]) -> dict[str, Any] | None:
    """Return the next message of the process that started this one, or None if there are no more."""
    line = stream.readline()
    message: dict[str, Any] | None = pickle.loads(base64.b64decode(line)) if line else None
    return message


if __name__ == "__main__":
    run()
