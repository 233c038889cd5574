"""The exit code of ``tune-media gate`` is the verdict's, however the user's code ends: 0 is a pass and nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import aim

pytestmark = [pytest.mark.any_ray, pytest.mark.slow]  # each starts two processes

ROOT = Path(__file__).parents[2]
USERS = """
import atexit, os, signal, sys, threading, time
from tests.support import aim

def at(place):
    if place == os.environ["PLACE"]:
        exec(os.environ["FAILURE"])

def load(path):
    at("load")
    policy = aim.load_policy(path)
    return lambda observation: (at("policy"), policy(observation))[1]

class Env(aim.Aim):
    def reset(self, **given):
        at("reset")
        return super().reset(**given)

    def step(self, action):
        at("step")
        return super().step(action)

    def close(self):
        at("close")

def make(config):
    at("make")
    return Env(config)

at("module")
"""
EXITED = "called sys.exit({})"
ENDED = "the process that plays ended {} before there was a verdict"
IMPORT_HANGS = (
    "the modules of --policy and --env were not imported in 2 s: the import of one hangs. "
    "If it may take longer, pass --timeout."
)
HANGS = "no episode was over in 5 s: a policy or an env hangs. If one may take longer, pass --timeout."


class Command:
    """``tune-media gate`` of a better policy, which passes, in a folder with a module of the user's."""

    def __init__(self, folder, place="", failure="", shell="", more=()):
        (folder / "users.py").write_text(USERS)
        sides = [str(aim.saved(folder, well)) for well in (0, 1)]
        functions = ["--policy", "users:load", "--env", "users:make"]
        words = [sys.executable, "-m", "tune_media", "gate", *sides, *functions, "--seeds", "0:60", "--clips", "0"]
        words += ["-o", "gate", *more, *(["--timeout", "2"] if "sleep" in failure or "STOP" in failure else [])]
        self.process = subprocess.Popen(
            ["bash", "-c", f'"$@" {shell}', "gate", *words] if shell else words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PLACE": place, "FAILURE": failure},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self):
        """Return the exit code, and what was printed to both streams."""
        printed, told = self.process.communicate(timeout=300)
        return self.process.returncode, printed + told


@pytest.mark.parametrize(
    ("place", "failure", "reason"),
    [
        ("module", "sys.exit(0)", EXITED.format(0)),
        ("module", "time.sleep(99)", IMPORT_HANGS),
        ("module", "raise BaseException('odd')", "BaseException: odd"),
        ("load", "os.close(int(sys.argv[1]))", "the process that plays ended"),
        ("policy", "os.kill(os.getpid(), signal.SIGSEGV)", ENDED.format("by SIGSEGV")),
        ("policy", "raise KeyboardInterrupt", "it was interrupted"),
        ("make", "threading.Thread(target=lambda: os._exit(0)).start(); time.sleep(99)", "with exit code 0"),
        ("step", "os.kill(os.getpid(), signal.SIGSTOP)", HANGS),
        ("step", "raise ValueError('hot')", "seed 42: ValueError: hot"),
        ("close", "sys.exit(0)", EXITED.format(0)),
    ],
)
def test_whatever_ends_the_users_code_is_2_with_the_reason(tmp_path, place, failure, reason):
    code, told = Command(tmp_path, place, failure, more=["--junit", "ci.xml"]).end()
    assert code == 2, told
    assert reason in told
    assert sum("PASS" in line for line in told.splitlines()) == 0
    (test,) = ElementTree.parse(tmp_path / "ci.xml").iter("testcase")
    assert reason in test.find("error").get("message")


def test_output_that_cannot_be_written_is_2_and_says_so(tmp_path):
    for more in ([], ["--json", "--anew"]):
        code, told = Command(tmp_path, shell=">/dev/full", more=more).end()
        assert code == 2 and told.endswith("Error: standard output: No space left on device\n")
    code, told = Command(tmp_path, shell=">/dev/full").end()  # the folder holds a gate
    assert code == 2 and "Error: " in told
    assert Command(tmp_path, shell=">/dev/full 2>/dev/full", more=["--json"]).end() == (2, "")


@pytest.mark.parametrize(
    ("shell", "place", "code", "more"),
    [
        (">&- 2>&- <&-", "", 0, ["--json"]),
        (">&- 2>&- <&-", "policy", 2, []),
        ("2>/dev/full", "", 0, []),
    ],
)
def test_a_closed_output_and_warnings_that_cannot_be_written_change_nothing(tmp_path, shell, place, code, more):
    assert Command(tmp_path, place, "sys.exit(0)", shell=shell, more=more).end()[0] == code
    said = json.loads((tmp_path / "gate" / "gate.json").read_text())["verdict"]
    assert said == ("error" if code else "pass")


def test_a_folder_that_cannot_be_written_is_2(tmp_path):
    code, told = Command(tmp_path, "module", "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (4096, 4096))").end()
    assert code == 2 and "File too large" in told


def test_a_pass_is_0_if_nobody_reads_its_output(tmp_path):
    shell = "2>&1 | true; exit ${PIPESTATUS[0]}"
    ended, told = Command(tmp_path, "load", "print('noise', file=sys.stderr)", shell=shell).end()
    assert ended == 0, told
    assert b'"verdict": "pass"' in (tmp_path / "gate" / "gate.json").read_bytes()


@pytest.mark.parametrize(
    "failure", ["atexit.register(os._exit, 3)", "threading.Thread(target=threading.Event().wait).start()"]
)
def test_a_verdict_that_has_arrived_counts_however_its_process_ends(tmp_path, failure):
    code, told = Command(tmp_path, "module", failure).end()
    assert code == 0 and "PASS" in told


def test_what_the_users_code_prints_is_no_part_of_the_verdict(tmp_path):
    command = Command(tmp_path, "step", "print('PASS')")
    printed, told = command.process.communicate(timeout=300)
    assert printed.count("PASS. ") == 1 and told.count("PASS") > 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_plays_on_when_the_command_is_ended(tmp_path, number):
    file = tmp_path / "playing"
    with_process = f"open({str(file)!r}, 'w').write(str(os.getpid())); threading.Event().wait(0.1)"
    command = Command(tmp_path, "step", with_process)
    while not (file.exists() and file.read_text()):
        assert command.process.poll() is None, command.end()
        time.sleep(0.1)
    player = int(file.read_text())
    command.process.send_signal(number)
    code, told = command.end()
    assert code == (2 if number == signal.SIGINT else -number)
    assert number != signal.SIGINT or "it was interrupted; run it again" in told
    for _ in range(100):
        try:
            os.kill(player, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("it plays on")
