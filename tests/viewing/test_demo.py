import io
import pickle
import sys

from tune_media.steps import StepFacts
from tune_media.values.installing import pip_install
from tune_media.viewing import demo
from tune_media.viewing.demo import DemoProgress, pole_and_cart, watch_command, where_to_look
from tune_media.viewing.status_line import StatusLine


def test_a_folder_with_a_space_is_one_argument_of_the_commands_that_show_it():
    assert watch_command("/my results/demo").endswith("tune-media watch --open '/my results/demo'")
    ((_, command),) = where_to_look("/my results")
    assert command.endswith("tensorboard --logdir '/my results' --samples_per_plugin images=1000")


def test_a_program_in_a_folder_with_a_space_is_one_word(tmp_path, monkeypatch):
    program = tmp_path / "my env" / "tune-media"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    assert f"'{program}' watch" in watch_command("/demo")


def test_the_angle_of_the_pole_is_in_degrees():
    found = pole_and_cart(StepFacts(1, 1.0, 1.0, observation=[0.5, 9.0, 3.141592653589793 / 4, 9.0]))
    assert {name: round(value, 6) for name, value in found.items()} == {
        **{"reward": 1.0, "pole angle": 45.0, "cart position": 0.5}
    }


def test_the_progress_bar_counts_the_iterations_of_all_trials(tmp_path):
    file, trials = io.StringIO(), [object(), object()]
    with StatusLine(file, clock=lambda: 0.0) as line:
        progress = DemoProgress(line, 3, tmp_path)
        progress.setup()
        progress.on_trial_result(1, trials, trials[0], {"env_runners": {"episode_return_mean": 21.4}})
        clip = tmp_path / "trial" / "media" / "evaluation" / "best.mp4"
        clip.parent.mkdir(parents=True)
        clip.touch()
        for _ in range(2):
            progress.on_trial_result(1, trials, trials[1], {})  # a result without an episode
        line.stage(line._text)
        progress.on_experiment_end(trials)
    assert file.getvalue().splitlines()[1:] == [
        "[  0 s] Training [######--------------] 1/3 iterations, trial 0: mean return 21",
        f"The first clip is there. To watch while they train:  {watch_command(str(tmp_path))}",
        "[  0 s] Training [####################] 3/3 iterations, trial 1: mean return nan",
        "[  0 s] Trained 3 of 3 iterations; writing the last clips",
    ]
    assert pickle.loads(pickle.dumps(progress))._line is None


def test_without_werkzeug_the_command_installs_the_viewer(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert watch_command("/demo").startswith(f"{pip_install('viewer')} && ")
