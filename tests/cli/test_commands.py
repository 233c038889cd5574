import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.commands import command
from tests.support.recorded import make_experiment, make_trial
from tests.support.viewing import write_run
from tune_media.cli import main, viewers
from tune_media.values.installing import pip_install
from tune_media.viewing import grid_choice


@pytest.fixture
def experiment(tmp_path):
    for name in ("trial_0", "trial_1"):
        make_trial(tmp_path / "exp" / name, {"lr": 0.1}, {3: 1.5, 20: 1.5})
    return tmp_path / "exp"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return make_experiment(tmp_path_factory.mktemp("sweep") / "exp")


def test_list_prints_trials_media_or_json(sweep):
    assert (
        len(command("list", sweep).strip().split("\n")) == 1 + 3 + 3 + 1
    )  # the header, trials, verdict and why, place
    output = command("list", "--all", sweep)
    assert len(output.strip().split("\n")) == 1 + 5 + 1
    assert "trial_a/media/evaluation/episodes/best/step_000000010" in output
    assert "5 media" in output
    rows = [json.loads(line) for line in command("list", "--json", sweep).splitlines()]
    assert [row["episode_return"] for row in rows] == [1.0, 3.0, 2.0, 9.0, 4.0]
    assert rows[0]["params"] == {"lr": 0.1}


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ("--over-training trial_b", 0, "3 clips in"),
        ("--key best", 0, " in"),  # the last part of a key
        ("--trials _b", 0, "1 clip in"),  # a part of a name
        ("--step first", 2, "best, last, or a step such as 4000"),
        ("--key bset", 2, "no clip with key 'bset'; the keys with clips are 'episodes/best'."),
        ("--trials trial_x", 2, "There is no trial 'trial_x'; the trials are 'trial_a', 'trial_b', 'trial_c'"),
        ("--trials trial_", 2, "3 trials have 'trial_' in their name: 'trial_a', 'trial_b', 'trial_c'."),
        ("--step 0", 2, "no clip with key 'episodes/best' up to step 0; they are at the steps 10 to 30"),
        ("--over-training trial_b --step last", 2, "leave --trials and --step out"),
    ],
)
def test_grid_writes_a_file_or_says_why_not(sweep, tmp_path, options, code, told):
    assert told in command("grid", sweep, "-o", tmp_path / "g.mp4", *options.split(), code=code)
    assert (tmp_path / "g.mp4").exists() == (code == 0)


def test_grid_takes_files_of_two_kinds(sweep, tmp_path):
    output = command("grid", sweep, "-o", tmp_path / "g.avi", code=2)
    assert "a .mp4 or .gif file, not" in output
    assert "clips" not in output  # no bar before the mistake is told


def test_grid_takes_names_of_trials_with_commas(tmp_path):
    grid = ("grid", tmp_path / "exp", "-o", tmp_path / "g.mp4", "--trials")
    for name in ("PPO_0_gamma=0.9,lr=0.1", "PPO_1_gamma=0.9,lr=0.2", "c", "d"):
        make_trial(tmp_path / "exp" / name, {}, {10: 1.0})
    more = ["--trials", "PPO_1_gamma=0.9,lr=0.2", "--trials", "c,d"]
    assert "4 clips in" in command(*grid, "PPO_0_gamma=0.9,lr=0.1", *more)
    assert "1 clip in" in command(*grid, "PPO_0_gamma=0.9,lr=0.1")
    assert "There is no trial 'e'" in command(*grid, "c,e", code=2)


def test_a_picture_of_a_large_sweep_says_that_it_lacks_clips(sweep, tmp_path, monkeypatch):
    monkeypatch.setattr(grid_choice, "MAX_TILES", 1)
    words = ("filmstrip", sweep, "-o", tmp_path / "x.png", "--frames", "1")
    assert "At most 1 clips are shown: those of the best trials; --trials has others." in command(*words)
    monkeypatch.undo()
    assert "At most" not in command(*words)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("demo --storage s3://bucket/x", "--storage: a folder of this machine, not 's3://bucket/x'"),
        ("evaluate {exp}/nothing", "nothing'; pass the folder of an experiment"),
        ("list --jsn {exp}", "No such option"),
        ("watch {exp} --port {port}", "in use"),
        ("watch {exp} --play --host 0.0.0.0", "--play: is for this machine only: leave --host out."),
        ("watch {exp} --host no.such.host.invalid", "cannot listen on no.such.host.invalid, port 6007"),
        ("watch {exp} --host 203.0.113.1", "Pass another --port (0 takes a free one) or --host."),
        ("list {exp} --config", "--config adds the whole config to the lines of --json: pass both."),
        (
            "evaluate {exp}/trial_0/params.json",
            "pass --policy and --env if it holds",
        ),
        ("filmstrip {exp}/nothing.mp4 -o {exp}/x.png", "nothing.mp4: No such file or directory"),
        ("export {exp}/nothing.mp4 -o {exp}/x.gif", "There is no clip or experiment"),
        ("export {exp} -o {exp}/x.mp4 --width 100", "--width and --fps are for GIFs; 'x.mp4' gets the clip as it is"),
        ("export {exp} -o {exp}/x", "is saved as .mp4 or .gif, not as 'x'"),
        ("export {exp} --to tensorboard -o {exp}/trial_0/params.json", "-o takes a folder, and"),
        ("evaluate {exp} --trials best:0", "--trials takes a number after best:, such as best:5, got 'best:0'"),
        ("evaluate {exp}:trial_0 --trials best:2", "names a trial: leave out --trials."),
        ("evaluate {exp} --trials nobody", "There is no trial 'nobody'; the trials are 'trial_0', 'trial_1'."),
    ],
)
def test_a_mistake_is_told_in_the_words_of_a_shell(experiment, arguments, told):
    with socket.create_server(("127.0.0.1", 0)) as other:  # whose port is taken
        given = arguments.format(exp=experiment, port=other.getsockname()[1])
        result = CliRunner().invoke(main, given.split())
    assert result.exit_code in (1, 2)
    assert told in result.output
    assert "[Errno" not in result.output
    assert "=..." not in result.output


def test_without_the_viewers_library_watch_says_what_to_install(experiment, monkeypatch):
    monkeypatch.setitem(sys.modules, "werkzeug.serving", None)
    monkeypatch.delitem(sys.modules, "tune_media.viewing.watch", raising=False)
    assert f"Install it: {pip_install('viewer')}" in command("watch", experiment, code=2)


def test_gigabytes_are_copied_only_after_a_question(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(viewers, "_MUCH", 10)
    gallery = ("gallery", experiment, "-o", tmp_path / "out")
    assert "Copy them?" in command(*gallery, code=1, input="n\n")
    assert not (tmp_path / "out").exists()
    command(*gallery, "--yes")


@pytest.mark.parametrize(
    ("words", "completed"),
    [("ga", "plain,gallery plain,gate"), ("list --ro", "plain,--rows"), ("list exp/tri", "file,exp/tri")],
)
def test_a_shell_completes_commands_options_and_files(words, completed):
    place = {"COMP_WORDS": f"tune-media {words}", "COMP_CWORD": str(words.count(" ") + 1)}
    asked = os.environ | place | {"_TUNE_MEDIA_COMPLETE": "bash_complete"}
    found = subprocess.run([sys.executable, "-m", "tune_media"], env=asked, capture_output=True, text=True)
    assert found.stdout.split() == completed.split()


def test_without_a_command_it_shows_the_commands_and_what_to_do_next(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    without = CliRunner().invoke(main, []).output
    for text in ("tune-media demo", "tune-media doctor", "tm.rllib.record_episodes", "tm.gym.RecordEpisodes"):
        assert text in without
    assert "watch --open" not in without
    assert max(map(len, without.splitlines())) <= 80
    for age, name in enumerate(("new one", "old")):
        for index in make_experiment(tmp_path / "ray_results" / name).glob("*/media/index.jsonl"):
            os.utime(index, (10**9 - age, 10**9 - age))
    output = command()
    for text in (f"tune-media watch --open '{tmp_path}/ray_results/new one'", "tune-media demo", "Exit codes:"):
        assert text in output


@pytest.mark.parametrize("name", sorted(main.commands))
def test_the_help_of_each_command_has_an_example_that_fits_the_terminal(name):
    text = command(name, "-h", terminal_width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert f"tune-media {name}" in text.split("Usage:")[1].split("\n", 1)[1]
    assert "Exit codes:" in text
    assert "..." not in (main.commands[name].get_short_help_str(60))


def test_an_experiment_without_media_is_an_error_that_says_what_to_do(tmp_path):
    assert "is not an experiment" in command("list", tmp_path, code=2)
    (tmp_path / "tuner.pkl").touch()
    assert "Nothing is recorded in" in command("list", tmp_path, code=1)


def test_of_a_folder_with_several_experiments_their_names_are_listed(tmp_path):
    for name in ("a/b/lr", "a/b/seeds", "a/c/d/gamma"):
        make_trial(tmp_path / name / "trial", {}, {1: 1.0})
    lines = command("list", tmp_path).splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [["a/c/d", "1"], ["a/b", "2"]]  # the newest first
    assert lines[3] == f"Pass one of them, such as {tmp_path}:a/c/d."
    told = command("list", "--json", tmp_path).splitlines()
    assert [json.loads(line)["runs"] for line in told] == [1, 2]
    assert "has 2 experiments, whose runs are not compared" in command(
        "figure", tmp_path, "-o", tmp_path / "x.png", code=2
    )
    assert "trial" in command("list", f"{tmp_path}:a/c/d")
    assert "has no experiment 'a/x'" in command("list", f"{tmp_path}:a/x", code=2)
    assert len(tm.load(tmp_path / "a" / "b").trials) == 2
    for name in ("lr", "seeds"):  # Tune's own files do not say when
        write_run(tmp_path / "plain" / name / "trial", {}, {"training_iteration": 1})
    assert [line.split()[1:] for line in command("list", tmp_path / "plain").splitlines()[1:3]] == [["1"], ["1"]]


def test_a_clip_or_the_best_one_of_an_experiment_is_saved_as_a_gif(tmp_path):
    clip = make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4").__next__()
    for number, source in enumerate((clip, tmp_path / "exp")):
        output = tmp_path / f"{number}.gif"
        command("export", source, "-o", output)
        assert output.read_bytes()[6:10] == bytes([48, 0, 32, 0])  # the clip's own size
    assert "gone.mp4" in command("export", tmp_path / "gone.mp4", "-o", output, code=2)
    command("export", clip, code=2)


def test_a_broken_clip_is_told_by_the_name_of_its_file(tmp_path):
    clip = next(make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4"))
    clip.write_bytes(clip.read_bytes()[:-150])
    for name, output in (("export", tmp_path / "x.gif"), ("filmstrip", tmp_path / "x.png")):
        for source in (clip, tmp_path / "exp"):
            told = command(name, source, "-o", output, code=2)
            assert told.startswith(f"Error: {str(clip)!r} is no video that FFmpeg can read: ")
            assert not output.exists()


def test_endings_of_files_may_be_in_capitals(tmp_path):
    content = next(make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4")).read_bytes()
    for source in ("CLIP.MP4", "clip.webm"):
        (tmp_path / source).write_bytes(content)
        command("filmstrip", tmp_path / source, "-o", tmp_path / "x.PNG")
        command("export", tmp_path / source, "-o", tmp_path / "x.GIF")
    for output, begin in (("grid.MP4", content[:12]), ("grid.Gif", b"GIF89a")):
        command("grid", tmp_path / "exp", "-o", tmp_path / output)
        assert (tmp_path / output).read_bytes().startswith(begin)


@pytest.mark.parametrize("names", [",", "", " , "])
def test_trials_without_a_name_are_no_choice_of_all_trials(experiment, tmp_path, names):
    for name, output in (("grid", "x.mp4"), ("filmstrip", "x.png")):
        told = command(name, experiment, "-o", tmp_path / output, "--trials", names, code=2)
        assert f"--trials: names of trials, separated by commas, not {names!r}" in told


def test_messages_name_options_and_no_arguments_of_python(experiment):
    wrong = command("evaluate", experiment, "--seeds", "x", code=2)
    assert wrong.startswith("Error: --seeds takes seeds such as")
    wrong = command("evaluate", experiment, "--policy", "my_policies:load", code=2)
    assert wrong.startswith("Error: --policy needs --env, a function of the env_config")
    row = json.loads(command("list", "--json", "--config", experiment).splitlines()[0])
    assert (row["params"], row["config"]) == ({}, {"lr": 0.1})


def test_a_command_ends_with_its_own_exit_code_if_nobody_reads_its_output(sweep, tmp_path):
    for arguments, code in {
        ("list", sweep): 0,
        ("list", "--json", sweep): 0,
        ("gallery", sweep, "-o", tmp_path / "gallery.html"): 0,
        ("grid", sweep, "--key", "missing", "-o", tmp_path / "grid.mp4"): 2,
        ("list", "--no-such-option", sweep): 2,
    }.items():
        reader, writer = os.pipe()
        os.close(reader)
        ended = subprocess.run([sys.executable, "-m", "tune_media", *arguments], stdout=writer, stderr=writer)
        os.close(writer)
        assert ended.returncode == code, arguments
    assert (tmp_path / "gallery.html").exists()
