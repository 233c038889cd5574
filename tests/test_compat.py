"""Pins each name of Ray's that is not public and that we lean on, so that a new release says what it broke."""

import inspect

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback

from tune_media import compat
from tune_media.reader import EVALUATION_IS_NEW


def test_env_runners_can_be_called_with_a_timeout():
    parameters = inspect.signature(EnvRunnerGroup.foreach_env_runner).parameters
    assert {"local_env_runner", "timeout_seconds"} <= set(parameters)


def test_checkpoints_keep_their_metrics_where_we_look():
    assert {"best_checkpoint_results", "latest_checkpoint_result"} <= set(dir(_CheckpointManager))


def test_tune_hands_callbacks_the_live_result():
    assert "Allow user callbacks to modify the Trial result in place" in inspect.getsource(tune_controller)


def test_trials_say_where_their_files_are():
    assert isinstance(inspect.getattr_static(Trial, "local_path"), property)


def test_rays_loggers_have_the_hooks_that_ours_extend():
    for callback in (JsonLoggerCallback, TBXLoggerCallback):
        for hook in ("log_trial_start", "log_trial_result", "log_trial_save", "log_trial_end", "on_experiment_end"):
            assert callable(getattr(callback, hook))
    assert "_trial_writer" in inspect.getsource(TBXLoggerCallback)


def test_rllib_marks_an_evaluation_that_is_new():
    source = inspect.getsource(Algorithm._run_one_evaluation)
    assert f'"{EVALUATION_IS_NEW}"' in source


def test_tunes_syncs_can_leave_files_out(tmp_path):
    from types import SimpleNamespace

    import pyarrow.fs
    from ray.train._internal.storage import _FilesystemSyncer

    trial = SimpleNamespace(storage=SimpleNamespace(syncer=_FilesystemSyncer(pyarrow.fs.LocalFileSystem())))
    assert compat.leave_out_of_syncs(trial, "*/*.whole")
    assert compat.leave_out_of_syncs(trial, "*/*.whole")  # once
    for name in ("a.whole", "b.json"):
        (tmp_path / "local/trial").mkdir(parents=True, exist_ok=True)
        (tmp_path / "local/trial" / name).write_text("x")
    trial.storage.syncer.sync_up(str(tmp_path / "local"), str(tmp_path / "storage"))
    trial.storage.syncer.wait()
    assert [path.name for path in (tmp_path / "storage/trial").iterdir()] == ["b.json"]
    assert "exclude" in inspect.signature(_FilesystemSyncer._sync_up_command).parameters
