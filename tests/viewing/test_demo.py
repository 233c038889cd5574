"""The demo, but for its sweep: what it takes from the steps, and the commands that it names."""

import io
import pickle
import sys

from tune_media.steps import StepFacts
from tune_media.viewing import demo
from tune_media.viewing.demo import DemoProgress, pole_and_cart, tensorboard_command, watch_command, where_to_look
from tune_media.viewing.status_line import StatusLine


def commands(folder):
    return dict(where_to_look(str(folder)))


def test_only_trackers_that_recorded_the_sweep_are_named(tmp_path):
    (tensorboard,) = commands(tmp_path).values()
    assert tensorboard.endswith(f"tensorboard --logdir {tmp_path} --samples_per_plugin images=1000")
    (tmp_path / "mlflow.db").touch()
    (tmp_path / "trial" / "wandb" / "offline-run-1").mkdir(parents=True)
    shown = list(commands(tmp_path).values())
    assert shown[1].endswith(f"mlflow server --backend-store-uri sqlite:///{tmp_path / 'mlflow.db'}")
    assert shown[2].endswith(f"wandb sync {tmp_path}/*/wandb/offline-run-*")
    assert tensorboard_command(str(tmp_path)) == shown[0]


def test_a_folder_with_a_space_is_one_argument_of_the_command(tmp_path):
    assert watch_command("/my results/demo").endswith("tune-media watch --open '/my results/demo'")
    folder = tmp_path / "my results"
    (folder / "trial" / "wandb" / "offline-run-1").mkdir(parents=True)
    (folder / "mlflow.db").touch()
    shown = " ; ".join(commands(folder).values())
    assert f"--logdir '{folder}' --samples" in shown
    assert f"--backend-store-uri 'sqlite:///{folder}/mlflow.db'" in shown
    assert f"sync '{folder}'/*/wandb/offline-run-*" in shown


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


def test_the_progress_bar_counts_the_iterations_of_all_trials():
    file, trials = io.StringIO(), [object(), object()]
    with StatusLine(file, clock=lambda: 0.0) as line:
        progress = DemoProgress(line, 3)
        progress.setup()
        progress.on_trial_result(1, trials, trials[0], {"env_runners": {"episode_return_mean": 21.4}})
        progress.on_trial_result(1, trials, trials[1], {})  # a result without an episode
        line.stage(line._text)
        progress.on_experiment_end(trials)
    assert file.getvalue().splitlines()[1:] == [
        "[  0 s] Training [######--------------] 1/3 iterations, trial 0: mean return 21",
        "[  0 s] Training [#############-------] 2/3 iterations, trial 1: mean return nan",
        "[  0 s] Trained 2 of 3 iterations; writing the last clips",
    ]
    assert pickle.loads(pickle.dumps(progress))._line is None


def test_without_werkzeug_the_command_installs_the_viewer(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert watch_command("/demo").startswith("pip install 'tune-media[viewer]' && ")
