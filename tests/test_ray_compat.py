"""Pins each name of Ray's that is not public and that we lean on, so that a new release says what it broke."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from ray import tune
from ray.experimental import internal_kv
from ray.rllib.algorithms.algorithm import Algorithm
from ray.train._internal.checkpoint_manager import _CheckpointManager
from ray.train._internal.storage import StorageContext
from ray.train.constants import _get_ray_train_session_dir
from ray.tune.callback import Callback, CallbackList
from ray.tune.execution import tune_controller
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.impl.placeholder import _FunctionResolver, _RefResolver
from ray.tune.logger import JsonLoggerCallback, TBXLoggerCallback
from ray.tune.registry import _Registry
from ray.tune.schedulers import PopulationBasedTraining

import tune_media
from tests.support.experiment import fit
from tune_media import ray_compat
from tune_media.ray_compat import donor_of
from tune_media.results.content_ids import EVALUATION_IS_NEW


def test_checkpoints_keep_their_metrics_where_we_look():
    assert {"best_checkpoint_results", "latest_checkpoint_result"} <= set(dir(_CheckpointManager))


def test_a_trial_says_what_it_asks_for_and_the_loop_calls_callbacks_while_it_waits():
    trial = Trial("f", stub=True, placement_group_factory=PlacementGroupFactory([{"CPU": 3}]))
    trial.create_placement_group_factory()  # as the controller does when it adds a trial
    asked = trial.placement_group_factory.required_resources
    assert asked == {"CPU": 3}, changed("Trial", "placement_group_factory")
    step = inspect.getsource(tune_controller.TuneController.step)
    assert step.index("_callbacks.on_step_begin") < step.index("_maybe_add_actors")


def test_tune_hands_callbacks_the_live_result():
    assert "Allow user callbacks to modify the Trial result in place" in inspect.getsource(tune_controller)


def test_trials_say_where_their_files_are():
    assert isinstance(inspect.getattr_static(Trial, "local_path"), property)


def test_drivers_files_are_in_the_folder_of_a_ray_session():
    assert '"artifacts"' in inspect.getsource(_get_ray_train_session_dir)
    assert "_get_ray_train_session_dir(), self._timestamp" in inspect.getsource(StorageContext._get_session_path)


def test_rays_loggers_have_the_hooks_that_ours_extend():
    for callback in (JsonLoggerCallback, TBXLoggerCallback):
        for hook in ("log_trial_start", "log_trial_result", "log_trial_save", "log_trial_end", "on_experiment_end"):
            assert callable(getattr(callback, hook))
    assert "_trial_writer" in inspect.getsource(TBXLoggerCallback)


def test_rllib_marks_an_evaluation_that_is_new():
    source = inspect.getsource(Algorithm._run_one_evaluation)
    assert f'"{EVALUATION_IS_NEW}"' in source


def test_a_callback_finds_the_others_of_its_experiment():
    found = []

    class Looking(Callback):
        def setup(self, **info):
            found.append(ray_compat.callbacks_of_experiment())

    callbacks = [Callback(), Looking()]
    CallbackList(callbacks).setup(stop=None)
    assert found == [callbacks], changed("CallbackList", "setup() that calls each of _callbacks")
    assert ray_compat.callbacks_of_experiment() == []


def test_rays_loggers_keep_files_and_writers_by_trial(tmp_path):
    json_logger, tbx_logger = JsonLoggerCallback(), TBXLoggerCallback()
    assert ray_compat.json_files(json_logger) == {}, changed("JsonLoggerCallback", "_trial_files")
    source = inspect.getsource(JsonLoggerCallback.log_trial_result)
    line = "json.dump(result, self._trial_files[trial], cls=SafeFallbackEncoder)"
    assert line in source, changed("JsonLoggerCallback.log_trial_result", line)
    assert ray_compat.event_writers(tbx_logger) == {}, changed("TBXLoggerCallback", "_trial_writer")
    source = inspect.getsource(TBXLoggerCallback)
    for name in ("self._summary_writer_cls(", "self._trial_result[trial] = "):
        assert name in source, changed("TBXLoggerCallback", name)


def changed(owner, name):
    """Return a message for a name of Ray's that is private, which a release may change."""
    return f"Ray {ray.__version__} has changed {owner}: it has no {name} any more; see tune_media/ray_compat.py"


def test_the_processes_of_a_trial_learn_that_a_logger_callback_runs(ray_session):
    import ray

    @ray.remote(num_cpus=0)
    def is_logged(trial_id):
        return ray_compat.is_logged(trial_id)

    ray_compat.mark_as_logged(SimpleNamespace(storage=SimpleNamespace(trial_dir_name="a_00000")))
    assert ray.get([is_logged.remote("a_00000"), is_logged.remote("a_00001")]) == [True, False]


def test_a_trial_that_is_restored_in_another_cluster_is_marked_there_too(monkeypatch):
    """In one process: ``ray.shutdown()``, ``ray.init()``, ``Tuner.restore(...)``."""
    trial = SimpleNamespace(storage=SimpleNamespace(trial_dir_name="b_00000"))
    for cluster in ("first cluster", "second cluster"):
        monkeypatch.setattr("ray.tune.registry._global_registry", _Registry(prefix=cluster))
        assert not ray_compat.is_logged("b_00000")
        ray_compat.mark_as_logged(trial)
        assert ray_compat.is_logged("b_00000")


def test_an_algorithm_knows_its_trial_by_its_storage():
    assert "trial_dir_name" in inspect.getsource(StorageContext)
    assert ray_compat.trial_of(SimpleNamespace(_storage=None)) == (None, False)
    storage = SimpleNamespace(trial_dir_name="a_00000")
    assert ray_compat.trial_of(SimpleNamespace(_storage=storage)) == ("a_00000", True)


def test_a_trial_whose_name_is_not_ascii_is_marked_and_spoils_nothing(ray_session):
    trial = SimpleNamespace(storage=SimpleNamespace(trial_dir_name="_b_\u202e😀"))
    ray_compat.mark_as_logged(trial)
    assert ray_compat.is_logged("_b_\u202e😀")
    assert not ray_compat.is_logged("a trial of no test")
    ray.tune.register_env("an env of the user", dict)


@pytest.mark.parametrize(
    ("version", "name"), [("2.9.3", "JsonMediaLoggerCallback"), ("2.40.0", "rllib"), ("2.50.0", "MediaLoggerCallback")]
)
def test_an_old_ray_is_named_with_the_command_that_updates_it(monkeypatch, version, name):
    monkeypatch.setattr("ray.__version__", version)
    monkeypatch.delitem(vars(tune_media), name, raising=False)  # imported before, a submodule is an attribute
    monkeypatch.delitem(sys.modules, f"tune_media.{name}", raising=False)
    with pytest.raises(ImportError, match=rf"Ray {version} is installed: pip install -U 'ray\[tune\]>=2\.50\.1'"):
        getattr(tune_media, name)


def test_an_old_ray_is_named_if_the_recorder_is_imported_by_its_module(monkeypatch):
    monkeypatch.setattr("ray.__version__", "2.40.0")
    for module in ("tune_media.rllib", "tune_media.rllib.recorder_callback"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ImportError, match=r"Ray 2\.40\.0 is installed: pip install -U"):
        importlib.import_module("tune_media.rllib.recorder_callback")


@pytest.mark.parametrize("version", ["2.50.1", "2.60.0", "2.61.0.dev0", "3.0.0rc1"])
def test_a_newer_ray_is_fine(monkeypatch, version):
    monkeypatch.setattr("ray.__version__", version)
    ray_compat.check_ray("A test")


@pytest.mark.slow
@pytest.mark.any_ray
def test_a_cluster_with_token_authentication_asks_for_its_token(tmp_path):
    cluster = {"RAY_ADDRESS": "127.0.0.1:1", "RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    code = "from tune_media.ray_compat import start_ray; start_ray(log_to_driver=False)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **cluster}, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ConnectionError: the cluster of RAY_ADDRESS=127.0.0.1:1 does not take this process (Token authentication is "
        "enabled but no authentication token was found). If its address is right, it may have token authentication: "
        "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what `ray get-auth-token` prints on its head node."
    )


@pytest.mark.slow
def test_a_class_of_a_script_is_pickled_alike_by_all_processes_that_ray_gives_it_to():
    """The hash of a recipe is that of its pickles, and each env runner makes one."""
    sent = ray.cloudpickle.dumps(type("Env", (), {"__module__": "__main__"}))
    code = (
        "import sys, ray; env = ray.cloudpickle.loads(sys.stdin.buffer.read());"
        "from tune_media import ray_compat; sys.stdout.buffer.write(ray_compat.cloudpickle().dumps(env))"
    )
    command = [sys.executable, "-c", code]
    one, other = (subprocess.run(command, input=sent, capture_output=True, check=True).stdout for _ in range(2))
    assert one == other


class Anonymous(tune.Trainable):
    """Its results do not tell its trial, as those of RLlib on Ray 2.60."""

    def setup(self, config):
        self._trial_info, self._count = None, 0

    def step(self):
        self._count += 1
        return {"score": self.config["rate"] * 100 + self._count, "count": self._count, "should_checkpoint": True}

    def save_checkpoint(self, folder):
        (Path(folder) / "count").write_text(str(self._count))

    def load_checkpoint(self, folder):
        self._count = int((Path(folder) / "count").read_text())


class Starts(tune.Callback):
    def __init__(self):
        self.donors = []

    def on_trial_start(self, iteration, trials, trial, **info):
        by_folder = {str(other.storage.trial_dir_name): int(other.trial_id[-5:]) for other in trials}
        found = donor_of(trial)
        self.donors.append((int(trial.trial_id[-5:]), found and (by_folder[found[0]], found[1])))


@pytest.mark.any_ray
def test_a_clone_is_known_by_the_folder_of_its_checkpoint(ray_session, tmp_path):
    """With RLlib on Ray 2.60, each clip after a restore that cloned nothing had the lineage ``default@8``."""
    starts = Starts()
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="score",
        mode="max",
        perturbation_interval=2,
        synch=True,
        hyperparam_mutations={"rate": [1, 2]},
    )
    space = {"slot": tune.grid_search([0, 1]), "rate": tune.sample_from(lambda spec: 1 + spec.config.slot)}
    options = {"tune_config": {"scheduler": scheduler}, "stop": {"training_iteration": 3}}
    assert not fit(Anonymous, tmp_path, [starts], space=space, **options).errors
    told = dict(starts.donors)
    assert starts.donors[:2] in ([(0, None), (1, None)], [(1, None), (0, None)])
    assert told == {0: (1, 2), 1: None}  # the first one is a clone of the other, which goes on from its own checkpoint
    assert [trial.has_copied for trial in tune_media.load(tmp_path / "exp").trials] == [True, False]  # by Tune's tag


def test_who_writes_a_value_first_knows_it_although_the_request_arrives_twice(ray_session, monkeypatch):
    put = internal_kv._internal_kv_put

    def twice(*args, **options):
        put(*args, **options)
        return put(*args, **options)

    monkeypatch.setattr(internal_kv, "_internal_kv_put", twice)
    assert ray_compat.share_value("a claim", "", may_replace=False)
    assert not ray_compat.share_value("a claim", "", may_replace=False)


def test_all_processes_of_a_job_share_values(ray_session):
    @ray_session.remote(num_cpus=0)
    def there(name):
        return ray_compat.share_value(name, "other", may_replace=False), ray_compat.shared_value(name)

    name = f"a test {os.getpid()}"
    assert ray_compat.shared_value(name) is None
    assert ray_compat.share_value(name, "one", may_replace=False)
    assert ray_session.get(there.remote(name)) == (False, "one")
    assert ray_compat.share_value(name, "two", may_replace=True)
    assert ray_compat.shared_value(name) == "two"


def test_a_trial_has_its_config_before_objects_and_sampled_values_were_put_in():
    trial = Trial("trainable", config={"f": ("__ref_ph", "1b3f24bb"), "lr": 0.1}, stub=True)
    trial.resolve_config_placeholders({("f",): [_RefResolver("1b3f24bb", len)]})
    assert trial.config == {"f": len, "lr": 0.1}, changed("Trial", "resolve_config_placeholders")
    assert ray_compat.unresolved_config(trial)["f"] == ("__ref_ph", "1b3f24bb"), changed("Trial", "__unresolved_config")
    assert (_RefResolver.TOKEN, _FunctionResolver.TOKEN) == ("__ref_ph", "__fn_ph"), changed("placeholder", "TOKEN")


def test_contributing_says_what_would_replace_each_private_name():
    root = Path(tune_media.__file__).parents[1]
    files = (root / "tune_media" / name for name in ("ray_compat.py", "rllib/ray_names.py"))
    statements = [statement for file in files for statement in ast.parse(file.read_text()).body]
    functions = {one.name for one in statements if isinstance(one, ast.FunctionDef) and one.name[0] != "_"}
    _, section = (root / "CONTRIBUTING.md").read_text().split("\n## Private names of Ray\n")
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|[^|]*\|$", section.partition("\n## ")[0], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == functions
