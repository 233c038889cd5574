import json
import os
import socket
import sys

import pytest
from click.testing import CliRunner

from tests.support.recorded import make_experiment, make_trial
from tune_media.cli import main, pages


@pytest.fixture
def experiment(tmp_path):
    for name in ("trial_0", "trial_1"):
        make_trial(tmp_path / "exp" / name, {"lr": 0.1}, {3: 1.5, 20: 1.5})
    return tmp_path / "exp"


def test_list_prints_trials_media_or_json(tmp_path):
    experiment = str(make_experiment(tmp_path / "exp"))
    assert len(CliRunner().invoke(main, ["list", experiment]).output.strip().split("\n")) == 1 + 3 + 1
    result = CliRunner().invoke(main, ["list", "--all", experiment])
    assert (result.exit_code, len(result.output.strip().split("\n"))) == (0, 1 + 5 + 1)
    assert "trial_a/media/evaluation/episodes/best/step_000000010" in result.output
    assert "5 media" in result.output
    rows = [json.loads(line) for line in CliRunner().invoke(main, ["list", "--json", experiment]).output.splitlines()]
    assert [row["episode_return"] for row in rows] == [1.0, 3.0, 2.0, 9.0, 4.0]
    assert rows[0]["params"] == {"lr": 0.1}


def test_grid_writes_a_file_or_says_why_not(tmp_path):
    experiment = str(make_experiment(tmp_path / "exp"))
    result = CliRunner().invoke(main, ["grid", experiment, "-o", str(tmp_path / "g.mp4"), "--over-training", "trial_b"])
    assert result.exit_code == 0, result.output
    assert "3 clips in" in result.output
    wrong = CliRunner().invoke(main, ["grid", experiment, "-o", str(tmp_path / "g.mp4"), "--step", "first"])
    assert "best, last, or a step such as 4000" in wrong.output
    for option, value, told in (
        ("--key", "best", " in"),  # the last part of a key
        ("--trials", "_b", "1 clip in"),  # a part of a name
        ("--key", "bset", "no clip with key 'bset'; the keys with clips are 'episodes/best'."),
        ("--trials", "trial_x", "There is no trial 'trial_x'; the trials are 'trial_a', 'trial_b', 'trial_c'"),
        ("--trials", "trial_", "3 trials have 'trial_' in their name: 'trial_a', 'trial_b', 'trial_c'."),
        ("--step", "0", "no clip with key 'episodes/best' up to step 0; they are at the steps 10 to 30"),
    ):
        found = CliRunner().invoke(main, ["grid", experiment, "-o", str(tmp_path / "g.mp4"), option, value])
        assert told in found.output
    ending = CliRunner().invoke(main, ["grid", experiment, "-o", str(tmp_path / "g.avi")])
    assert ending.exit_code == 2
    assert "a .mp4 or .gif file, not" in ending.output
    assert "clips" not in ending.output  # no bar before the mistake is told
    both = ["grid", experiment, "-o", str(tmp_path / "g.mp4"), "--over-training", "trial_b", "--step", "last"]
    assert "leave --trials and --step out" in CliRunner().invoke(main, both).output
    none = CliRunner().invoke(main, ["grid", experiment, "-o", str(tmp_path / "g.mp4"), "--trials", "trial_c"])
    assert none.exit_code == 1
    assert "There is no clip" in none.output


def test_grid_takes_names_of_trials_with_commas(tmp_path):
    folder, output = tmp_path / "exp", str(tmp_path / "g.mp4")
    for name in ("PPO_0_gamma=0.9,lr=0.1", "PPO_1_gamma=0.9,lr=0.2", "c", "d"):
        make_trial(folder / name, {}, {10: 1.0})
    chosen = ["PPO_0_gamma=0.9,lr=0.1", "--trials", "PPO_1_gamma=0.9,lr=0.2", "--trials", "c,d"]
    result = CliRunner().invoke(main, ["grid", str(folder), "-o", output, "--trials", *chosen])
    assert "4 clips in" in result.output
    result = CliRunner().invoke(main, ["grid", str(folder), "-o", output, "--trials", chosen[0]])
    assert "1 clip in" in result.output
    result = CliRunner().invoke(main, ["grid", str(folder), "-o", output, "--trials", "c,e"])
    assert "There is no trial 'e'" in result.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("demo --storage s3://bucket/x", "--storage: a folder of this machine, not 's3://bucket/x'"),
        ("list {exp}/nothing", "There is no folder"),
        ("watch {exp}/nothing", "There is no folder"),
        ("gallery {exp}/nothing", "There is no folder"),
        ("list --jsn {exp}", "No such option"),
        ("watch {exp} --port {port}", "in use"),
        ("watch {exp} --port 99999", "99999 is not in the range 0<=x<=65535"),
        ("watch {exp} --host no.such.host.invalid", "cannot listen on no.such.host.invalid, port 6007"),
        ("watch {exp} --host 203.0.113.1", "Pass another --port (0 takes a free one) or --host."),
        ("list {exp} --config", "--config adds the whole config to the lines of --json: pass both."),
        ("list {exp}/trial_0/params.json", "params.json' is a file; pass the experiment's folder"),
        ("filmstrip {exp}/nothing.mp4 -o {exp}/x.png", "nothing.mp4: No such file or directory"),
        ("export {exp}/nothing.mp4 -o {exp}/x.gif", "There is no clip or experiment"),
        ("export {exp} -o {exp}/x.mp4 --width 100", "--width and --fps are for GIFs; 'x.mp4' gets the clip as it is"),
        ("export {exp} -o {exp}/x", "is saved as .mp4 or .gif, not as 'x'"),
        ("export {exp} --to tensorboard -o {exp}/trial_0/params.json", "-o takes a folder, and"),
        ("gallery {exp} -o {exp}_out --only best --only bset", "key or section 'bset'; did you mean 'best'?"),
        ("evaluate {exp} --trials best:0", "--trials takes a number after best:, such as best:5, got 'best:0'"),
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
    result = CliRunner().invoke(main, ["watch", str(experiment)])
    assert "Install it: pip install 'tune-media[viewer]'" in result.output


def test_gigabytes_are_copied_only_after_a_question(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_MUCH", 10)
    command = ["gallery", str(experiment), "-o", str(tmp_path / "out")]
    refused = CliRunner().invoke(main, command, input="n\n")
    assert refused.exit_code == 1
    assert "Copy them?" in refused.output
    assert not (tmp_path / "out").exists()
    assert CliRunner().invoke(main, [*command, "--yes"]).exit_code == 0


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
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0
    assert f"tune-media watch --open '{tmp_path}/ray_results/new one'" in result.output
    assert "tune-media demo" in result.output
    assert "Exit codes:" in result.output


@pytest.mark.parametrize("name", sorted(main.commands))
def test_the_help_of_each_command_has_an_example_that_fits_the_terminal(name):
    text = CliRunner().invoke(main, [name, "--help"], terminal_width=80).output
    assert max(map(len, text.splitlines())) <= 80
    assert f"tune-media {name}" in text.split("Usage:")[1].split("\n", 1)[1]
    assert "Exit codes:" in text
    assert "..." not in (main.commands[name].get_short_help_str(60))


def test_an_experiment_without_media_is_an_error_that_says_what_to_do(tmp_path):
    none = CliRunner().invoke(main, ["list", str(tmp_path)])
    assert none.exit_code == 1
    assert "is not an experiment" in none.output
    (tmp_path / "tuner.pkl").touch()
    result = CliRunner().invoke(main, ["list", str(tmp_path)])
    assert result.exit_code == 1
    assert "Nothing is recorded in" in result.output
    as_json = CliRunner().invoke(main, ["list", "--json", str(tmp_path)])
    assert as_json.exit_code == 1
    assert as_json.output.startswith("Error: ")  # Click before 8.2 puts both streams into stdout here


def test_a_clip_or_the_best_one_of_an_experiment_is_saved_as_a_gif(tmp_path):
    clip = make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4").__next__()
    for number, source in enumerate((clip, tmp_path / "exp")):
        output = tmp_path / f"{number}.gif"
        result = CliRunner().invoke(main, ["export", str(source), "-o", str(output)])
        assert result.exit_code == 0, result.output
        assert output.read_bytes()[6:10] == bytes([48, 0, 32, 0])  # the clip's own size
    none = CliRunner().invoke(main, ["export", str(tmp_path / "gone.mp4"), "-o", str(output)])
    assert none.exit_code == 1
    assert "gone.mp4" in none.output
    assert CliRunner().invoke(main, ["export", str(clip)]).exit_code == 2


def test_a_broken_clip_is_told_by_the_name_of_its_file(tmp_path):
    clip = next(make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4"))
    clip.write_bytes(clip.read_bytes()[:-150])
    for command, source, output in (
        ("export", clip, "x.gif"),
        ("export", tmp_path / "exp", "x.gif"),
        ("filmstrip", clip, "x.png"),
        ("filmstrip", tmp_path / "exp", "x.png"),
    ):
        result = CliRunner().invoke(main, [command, str(source), "-o", str(tmp_path / output)])
        assert result.exit_code == 1
        assert result.output.startswith(f"Error: {str(clip)!r} is no video that FFmpeg can read: ")
        assert not (tmp_path / output).exists()


def test_endings_of_files_may_be_in_capitals(tmp_path):
    content = next(make_trial(tmp_path / "exp" / "trial", {}, {1: 1.0}).rglob("*.mp4")).read_bytes()
    for source in ("CLIP.MP4", "clip.webm"):
        (tmp_path / source).write_bytes(content)
        for command, output in (("filmstrip", "x.PNG"), ("export", "x.GIF")):
            result = CliRunner().invoke(main, [command, str(tmp_path / source), "-o", str(tmp_path / output)])
            assert result.exit_code == 0, result.output
    for output, begin in (("grid.MP4", content[:12]), ("grid.Gif", b"GIF89a")):
        assert CliRunner().invoke(main, ["grid", str(tmp_path / "exp"), "-o", str(tmp_path / output)]).exit_code == 0
        assert (tmp_path / output).read_bytes().startswith(begin)


@pytest.mark.parametrize("names", [",", "", " , "])
def test_trials_without_a_name_are_no_choice_of_all_trials(experiment, tmp_path, names):
    for command, output in (("grid", "x.mp4"), ("filmstrip", "x.png")):
        given = [command, str(experiment), "-o", str(tmp_path / output), "--trials", names]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 2
        assert f"--trials: names of trials, separated by commas, not {names!r}" in result.output


def test_messages_name_options_and_no_arguments_of_python(experiment):
    wrong = CliRunner().invoke(main, ["evaluate", str(experiment), "--seeds", "x"])
    assert wrong.exit_code == 1
    assert wrong.output.startswith("Error: --seeds takes seeds such as")
    wrong = CliRunner().invoke(main, ["evaluate", str(experiment), "--policy", "my_policies:load"])
    assert wrong.output.startswith("Error: --policy needs --env, a function of the env_config")
    row = json.loads(CliRunner().invoke(main, ["list", "--json", "--config", str(experiment)]).output.splitlines()[0])
    assert (row["params"], row["config"]) == ({}, {"lr": 0.1})
