"""The process in which ``tune-media gate`` plays: it runs code of the user's, which may end it at any time.

The command starts it, and alone gives the exit code. It believes a verdict that has arrived whole, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

import click

from tune_media.cli.command import plain_text
from tune_media.cli.standard_streams import drop_what_nobody_reads
from tune_media.values.child_process import ChildProcess
from tune_media.values.problems import remedy
from tune_media.values.secrets import error_text
from tune_media.viewing.status_line import ERASED

_START_SECONDS = 600.0  # to import what plays, and to read the checkpoints
_TICK_SECONDS = 0.2
_HANGS = {  # what did not happen in so many seconds, by the last sign of life
    "starting": ("the process that plays did not begin in {:g} s", ""),
    "importing": (
        "the modules of --policy and --env were not imported in {:g} s: the import of one hangs",
        "If it may take longer, pass --timeout.",
    ),
    "playing": (
        "no episode was over in {:g} s: a policy or an env hangs",
        "If one may take longer, pass --timeout.",
    ),
}
_INTERRUPTED = "it was interrupted; " + remedy("run it again")


class GateError(Exception):
    """There is no verdict, for this reason."""


def gate_in_process(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str, str | None]:
    """Return the facts of a gate that a process of its own plays, its JUnit's XML and its page. Raises GateError.

    ``arguments`` are those of ``gate``, and ``timeout``: the seconds of an episode after which it is taken to hang.
    """
    ours, theirs = Pipe()
    with ours:
        with theirs:
            inherits = theirs.fileno()
            process = ChildProcess(
                "tune_media.cli.gate_process",
                str(inherits),
                pass_fds=[inherits],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what the user's code prints is no verdict
            )
        try:
            with contextlib.suppress(OSError):  # it has died, which is seen when its answer is read
                ours.send(dict(arguments))
            return _answer(process, ours)
        except KeyboardInterrupt:
            process.popen.send_signal(signal.SIGINT)
            raise GateError(_INTERRUPTED) from None
        finally:
            process.end()
            if sys.stderr.isatty():
                click.echo(ERASED, nl=False, err=True)  # its last line of progress


def _answer(process: ChildProcess, connection: Connection) -> tuple[dict[str, Any], str, str | None]:
    """Return the verdict that a process sends. Raises GateError."""
    kind, limit = "starting", _START_SECONDS
    while True:
        has_ended = process.has_ended  # what it has sent last is there by then
        if connection.poll(0 if has_ended else _TICK_SECONDS):
            try:
                kind, content = connection.recv()
            except (EOFError, OSError):
                break
            if kind == "verdict":
                facts, xml, page = content
                return facts, xml, page
            if kind == "error":
                raise GateError(content)
            limit = content
            process.told()
        elif has_ended:
            break
        elif process.is_silent(limit):
            process.kill()
            hangs, what_to_do = _HANGS[kind]
            raise GateError(f"{hangs.format(limit)}. " + remedy(what_to_do))
    raise GateError(f"the process that plays ended {process.last_words()} before there was a verdict.")


def play(arguments: Mapping[str, Any], send: Callable[[tuple[str, Any]], None]) -> tuple[str, Any]:
    """Play a gate, and return a verdict, or an error as text; ``send`` gets signs of life meanwhile."""
    try:
        from tune_media.cli.progress import WatchedGate
        from tune_media.evaluation.gate import gate
        from tune_media.evaluation.gate_request import CHUNK
        from tune_media.evaluation.jobs import SHARE_OF_TIME, SOONEST
        from tune_media.evaluation.request import parsed_env_config

        sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
        options = dict(arguments)
        timeout = seconds = options.pop("timeout")
        if options["workers"]:
            seconds *= CHUNK  # a Ray task answers when it has ended
        else:
            seconds += SOONEST + CHUNK * SHARE_OF_TIME * seconds  # episodes that are over are told after this at most
        options["env_config"] = parsed_env_config(options["env_config"])
        sides = options.pop("base"), options.pop("candidate")
        decided = gate(*sides, progress=WatchedGate(send, timeout, seconds), **options)
        return "verdict", (decided.facts(), decided.junit(), decided.page)
    except KeyboardInterrupt:
        return "error", _INTERRUPTED
    except (ImportError, OSError, TypeError, ValueError) as error:
        return "error", plain_text(error)
    except BaseException as error:  # such as of a module of the user's
        traceback.print_exc()
        return "error", error_text(error)


def _end_with(connection: Connection) -> None:
    """End this process, and what it has started, when the command has ended; runs in a thread."""
    with contextlib.suppress(EOFError, OSError):
        connection.recv()
    os.killpg(0, signal.SIGKILL)


def _run(file: int) -> None:
    drop_what_nobody_reads()
    os.set_inheritable(file, False)
    connection = Connection(file)
    arguments = connection.recv()
    threading.Thread(target=_end_with, args=(connection,), name="tune_media command", daemon=True).start()
    connection.send(play(arguments, connection.send))


if __name__ == "__main__":
    _run(int(sys.argv[1]))
