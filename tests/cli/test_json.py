"""``--json`` of each command: one object on standard output, errors included, with the fields that are documented."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.driven_sweep import Sweep, blob
from tune_media.callbacks.outbox import FOLDER_VARIABLE
from tune_media.cli import main, viewers

ROOT = Path(__file__).parents[2]
PLAYS = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env"]
PAGE = (ROOT / "tune_media" / "skill" / "json.md").read_text()
CLIP = "#a-clip"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """An evaluation: two trials, whose episodes of three steps have clips and tapes."""
    folder = tmp_path_factory.mktemp("json") / "sweep"
    aim.saved_sweep(folder, 0.1, 0.9)
    return tm.evaluate(folder, seeds="0:3", policy=aim.load_only_file, env=aim.make_env).path


@pytest.fixture
def printed(capsys):
    """Run a command with ``--json``, which must end with this exit code; return the objects on standard output."""

    def run(*words, code=0):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--json"])
        output = capsys.readouterr().out
        assert (ended.value.code or 0) == code, output
        return [json.loads(line) for line in output.splitlines()]

    return run


def rows(section):
    """Return the fields of a section of the page with their meaning and whether they may be left out."""
    (text,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    for cells, meaning in re.findall(r"^\| (`.*?) \| (.*?) \|", text, re.MULTILINE):
        for name, mark in re.findall(r"`([^`]+)`(\?)?", cells):
            yield name, meaning, bool(mark)


def documented(section):
    """Return the fields that an object must have, and those that it may have."""
    must, may = {"v", "command"}, {"error", "remedy"}
    for name, meaning, is_optional in rows(section):
        (may if is_optional else must).add(name)
        must |= {f"{name}.{of_clip}" for of_clip, *_ in rows("A clip")} if CLIP in meaning else set()
    return must, may


def fields(value, known, path=""):
    """Return the paths of all fields; a dict of which no field is documented has any names, such as params."""
    prefix = f"{path}[]." if isinstance(value, list) else f"{path}." if path else ""
    dicts = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
    if not any(name.startswith(prefix) for name in known):
        return {path}
    inside = (
        (f"{prefix}{re.sub('^config/.*', 'config/NAME', name)}", item) for one in dicts for name, item in one.items()
    )
    return {path}.union(*(fields(item, known, name) for name, item in inside))


def check(section, *objects):
    must, may = ({name.removesuffix("[]") for name in names} for names in documented(section))
    found = set().union(*(fields(one, must | may) for one in objects))
    around = {re.split(r"(?:\[\])?\.", name)[0] for name in must} | {
        re.sub(r"(\[\])?\.\w+$", "", name) for name in must
    }
    assert found - must - may - around == {""}
    assert must - found == set()
    assert {one["command"] for one in objects} == {section.partition(" ")[0]}


def test_each_command_is_on_the_page_and_takes_json():
    sections = {name.partition(" ")[0] for name in re.findall(r"^## ([a-z].*)", PAGE, re.MULTILINE)}
    assert sections == set(main.commands)
    assert all(any("--json" in option.opts for option in command.params) for command in main.commands.values())


def test_lists(sweep, printed):
    media = [*printed("list", sweep), *printed("list", sweep, "--config")]
    check("list", *media)
    assert {one["v"] for one in media} == {4}
    check("list --rows trials", *printed("list", sweep, "--rows", "trials"))
    check("list --rows configurations", *(lines := printed("list", sweep, "--rows", "configurations")))
    said = tm.load(sweep).verdict
    assert [(line["verdict"], line["verdict_is_clear"]) for line in lines] == [(said.sentence, said.is_clear)] * 2


def test_the_fields_of_media_are_those_of_the_index():
    table = (ROOT / "docs" / "files.md").read_text().partition("## The index")[2].partition("### The log")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    of_index = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    must, may = documented("list")
    assert must | may == of_index | {"command", "trial", "params", "config", "file", "abandoned", "error", "remedy"}


def test_a_filmstrip_says_which_step_each_frame_shows_and_its_reward_and_action(sweep, printed, tmp_path):
    (whole,) = printed("filmstrip", sweep, "-o", tmp_path / "x.png", "--frames", 3)
    assert Path(whole["path"]).read_bytes()[:4] == b"\x89PNG"
    assert [clip["trial"] for clip in whole["clips"]] == ["trial_0.9", "trial_0.1"]
    for clip in whole["clips"]:
        assert [(frame["frame"], frame["step"]) for frame in clip["frames"]] == [(0, 0), (2, 2), (3, 3)]
        reset, *steps = (frame["values"] for frame in clip["frames"])
        assert reset == {}
        for values in steps:
            assert values["reward"] == pytest.approx(clip["episode_return"] / 3)
            assert values["action/0"] == pytest.approx(float(clip["trial"].removeprefix("trial_")))
    (one,) = printed("filmstrip", whole["clips"][1]["file"], "-o", tmp_path / "x.png", "--frames", 3)
    assert one["clips"] == [whole["clips"][1]]
    (narrow,) = printed("filmstrip", sweep, "-o", tmp_path / "x.png", "--frames", 60, "--width", 64)
    assert [frame["step"] for frame in narrow["clips"][0]["frames"]] == [0, 2, 3]
    check("filmstrip", whole, one)


def test_a_filmstrip_of_a_file_beside_its_trials_folder_knows_its_episode(tmp_path, printed):
    env = tm.gym.RecordEpisodes(aim.Aim(), tmp_path / "runs" / "a")
    env.reset(seed=3)
    while "episode" not in env.step(np.array([0.5], np.float32))[-1]:
        pass
    env.close()
    (clip,) = (one for one in printed("list", tmp_path / "runs") if one["kind"] == "video")
    (found,) = printed("filmstrip", clip["file"], "-o", tmp_path / "x.png")
    assert [found["clips"][0][name] for name in ("seed", "episode_id")] == [3, clip["episode_id"]]
    assert [frame["step"] for frame in found["clips"][0]["frames"]] == [0, 1, 2, 3]
    other = tmp_path / "runs" / "a" / "other" / Path(clip["file"]).name  # of the same name, and no medium of the trial
    other.parent.mkdir()
    shutil.copy(clip["file"], other)
    (unknown,) = printed("filmstrip", other, "-o", tmp_path / "x.png")
    assert unknown["clips"][0]["episode_id"] is None


def test_pictures_galleries_and_exports(sweep, printed, tmp_path):
    for section, *words in (
        ("grid", "-o", tmp_path / "x.mp4"),
        ("figure", "-o", tmp_path / "x.svg"),
        ("gallery", "-o", tmp_path / "gallery"),
        ("export", "-o", tmp_path / "x.gif"),
        ("export --to", "--to", "tensorboard", "-o", tmp_path / "tb"),
    ):
        (found,) = printed(section.partition(" ")[0], sweep, *words)
        check(section, found)
        assert Path(found["path"]).exists()
        assert all(Path(clip["file"]).exists() for clip in found.get("clips", []))


def test_render(sweep, printed, tmp_path):
    (found,) = printed("render", sweep, "-o", tmp_path / "clips")
    assert Path(found["clips"][0]["file"]).exists()
    (failed,) = printed("render", sweep, "-o", tmp_path / "none", "--env", f"{__name__}:no_env", code=1)
    assert (failed["error"], failed["remedy"]) == ("1 of 1 episodes have no clip.", None)
    assert failed["problems"][0]["episode_id"] == found["clips"][0]["episode_id"]
    check("render", found, failed)


def no_env(config):
    raise RuntimeError("no env today")


def test_deliver(printed, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "outbox"))
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.02)
    driven = Sweep(tmp_path)
    (driven.path / "media" / "train").mkdir(parents=True)
    (driven.path / "media" / "train" / "weights").write_text("a file where a folder should be")
    driven.report(1, weights=blob(1))
    driven.end()
    capsys.readouterr()
    (found,) = printed("deliver", tmp_path / "storage", code=1)
    check("deliver", found)


@pytest.mark.parametrize(("more", "number", "code"), [([], signal.SIGINT, 0), (["--no-play"], signal.SIGTERM, -15)])
def test_watch_prints_its_url_and_serves(sweep, more, number, code):
    words = [sys.executable, "-m", "tune_media", "watch", sweep, "--port", "0", "--json", *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            found = json.loads(process.stdout.readline())
            url, _, token = found["url"].partition("/#token=")
            served = [
                urllib.request.urlopen(f"{url}/{path}").read() for path in ("", "data/first.json", "data/index.json")
            ]
            process.send_signal(number)
            assert (process.stdout.read(), process.wait(60)) == (b"", code)
            warning = process.stderr.read().decode()
        finally:
            process.kill()
    assert b"<html" in served[0] and b'"plays":' + (b"false" if more else b"true") in served[2]
    assert bool(token) is ("A click on ▷ runs code that is stored in" in warning) is not more
    assert not token or token.encode() not in b"".join(served)  # which other users of the machine can read
    assert found["pid"] == process.pid
    check("watch", found)


@pytest.mark.any_ray
def test_evaluate_gate_and_fork(sweep, printed, tmp_path):
    good, bad = aim.saved(tmp_path, 0.9), aim.saved(tmp_path, 0.1)
    check("evaluate", *printed("evaluate", good, *PLAYS, "--seeds", "0:2", "--no-clips"))
    gate = ("gate", good, bad, "-o", tmp_path / "gate", "--clips", "0")
    check("gate", *(decided := printed(*gate, *PLAYS, code=1)), *printed("gate", good, bad, *PLAYS, "--plan", code=3))
    failed = [
        *printed(*gate, "--anew", *PLAYS, "--metric", "retrun", code=2),  # in the gate
        *printed("gate", good, bad, code=2),  # before it
        *printed("gate", good, bad, "--mragin", "3", code=2),
    ]
    remedies = ["did you mean 'return'", "pass --policy and --env", "see `"]
    for one, start in zip(failed, remedies, strict=True):
        assert one["remedy"].startswith(start)
        assert one.keys() == {*decided[0], "error", "remedy"}
        assert (one["v"], one["verdict"], one["exit_code"]) == (decided[0]["v"], "error", 2)
    assert (failed[1]["base"], failed[1]["candidate"], failed[1]["path"]) == (str(good), str(bad), None)
    check("fork", *printed("fork", f"{sweep}:worst", good, "--at", 1, "--clips", 1, *PLAYS))


def test_skill(printed, tmp_path):
    check("skill", *printed("skill", tmp_path))


def test_doctor(printed, ray_session):
    (found,) = printed("doctor", "tests.support.envs:CountingEnv", "--config", "{}")
    (broken,) = printed("doctor", "nowhere", code=1)
    check("doctor", found, broken)


def test_demo(sweep, printed, monkeypatch):
    monkeypatch.setattr("tune_media.viewing.demo.run_demo", lambda *_: tm.load(sweep))
    check("demo", *printed("demo"))


def test_the_demo_ends_with_the_verdict_that_list_gives(sweep, monkeypatch, capsys):
    monkeypatch.setattr("tune_media.viewing.demo.run_demo", lambda *_: tm.load(sweep))
    for command in (["demo"], ["list", str(sweep)]):
        with pytest.raises(SystemExit):
            main(command)
        assert tm.load(sweep).verdict.sentence in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "error", "remedy"),
    [
        (["list", "{sweep}", "--csv"], "--csv, --markdown and --json exclude", r"see `.* list --help`"),
        (["list", "{sweep}", "--trials", "tria"], "2 trials have 'tria'", None),
        (["list", "{sweep}/none"], "There is no folder", "pass the experiment's folder, .* prints\\."),
        (["grid", "{sweep}"], "Missing option '-o'", r"see `.* grid --help`"),
        (["watch", "{sweep}/trial_0.1/params.json"], "no column for a return or a success", "name it in --columns, .*"),
        (["zzz"], "No such command", "see `.* --help`"),
        (
            ["grid", "{sweep}", "-o", "x.mp4", "--over-training", "a", "--step", "3"],
            "--over-training",
            "leave --trials .*",
        ),
        (["filmstrip", "s3://a/b.mp4", "-o", "x.png"], "s3://a/b.mp4: pass", "pass a clip on this machine, .*"),
        (["figure", "{sweep}", "-o", "x.svg", "--by", "targte"], "--by has 'targte'", None),
        (
            ["gallery", "{sweep}", "-o", "x", "--only", "bset"],
            "has the key or section 'bset'",
            "did you mean 'best'\\?",
        ),
        (["render", "{sweep}", "--overlay", "rewrd"], "--overlay takes names", "did you mean 'reward'\\?"),
        (["evaluate", "{sweep}", "--seeds", "5"], "--seeds takes '5' neither", "pass '5:6' for the one, .*"),
        (["evaluate", "{sweep}", "--until-idle", "9"], "--until-idle says", "pass --follow\\."),
        (["gate", "{sweep}", "{sweep}", "-o", "{sweep}"], "has files of no gate", "pass another folder: --output\\."),
        (
            ["fork", "{sweep}:worst", "{sweep}/trial_0.1/params.json", "--at", "1"],
            "is a file",
            "pass --policy and --env .*",
        ),
    ],
)
def test_an_error_is_an_object_with_a_remedy_and_the_same_exit_code(sweep, printed, capsys, words, error, remedy):
    words = [word.format(sweep=sweep) for word in words]
    text = [*words, *(["--x"] if "--csv" in words else [])]  # without --json, --csv is right
    with pytest.raises(SystemExit) as ended:
        main(text)
    assert capsys.readouterr().out == ""
    (found,) = printed(*words, code=ended.value.code)
    assert found.keys() >= {"v", "command", "error", "remedy"} and (words[0] == "gate" or len(found) == 4)
    assert found["command"] == (words[0] if words[0] in main.commands else None)
    assert error in found["error"]
    assert remedy is found["remedy"] or re.fullmatch(remedy, found["remedy"])


def test_an_interrupt_and_a_bug_are_objects(sweep, printed, capsys, monkeypatch):
    def fail(error, *_, **options):
        raise error

    monkeypatch.setattr("tune_media.viewing.catalog.load", functools.partial(fail, KeyboardInterrupt()))
    (found,) = printed("list", sweep, code=1)
    assert (found["error"], found["remedy"]) == ("it was interrupted", None)
    monkeypatch.setattr("tune_media.viewing.catalog.load", functools.partial(fail, RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        main(["list", sweep, "--json"])
    assert "a bug" in json.loads(capsys.readouterr().out)["error"]


def test_nothing_is_asked(sweep, printed, tmp_path, monkeypatch):
    monkeypatch.setattr(viewers, "_MUCH", 10)
    (found,) = printed("gallery", sweep, "-o", tmp_path / "out", code=2)
    assert found["remedy"] == "pass --yes."


NOISY = """
import os, sys
sys.path.insert(0, os.environ["ROOT"])
from tests.support.aim import *
from tests.support import aim
os.system("echo a process of the module")
os.write(1, b"a library in C\\n")
print("Python")
def make_env(config):
    os.write(1, b"an env in C\\n")
    return aim.make_env(config)
"""


@pytest.mark.slow
def test_whatever_code_of_the_user_prints_goes_to_standard_error(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    words = ["evaluate", aim.saved(tmp_path, 0.5), "--policy", "noisy:load_policy", "--env", "noisy:make_env"]
    command = [sys.executable, "-m", "tune_media", *words, "--seeds", "0:2", "--no-clips", "--json"]
    environment = {**os.environ, "ROOT": str(ROOT), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout)["checkpoints"][0]["episodes"] == 2
    for text in ("a process of the module", "a library in C", "Python", "an env in C"):
        assert text in ended.stderr


def test_a_module_that_cannot_be_imported_is_an_error(printed, tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text("def f(:")
    monkeypatch.syspath_prepend(tmp_path)
    words = ("evaluate", aim.saved(tmp_path, 0.5), "--policy", "unfinished:load", "--env", "unfinished:make")
    (told,) = printed(*words, code=2)
    assert "importing unfinished failed (Syntax" in told["error"]
