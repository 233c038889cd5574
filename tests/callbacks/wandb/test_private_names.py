"""The private names of wandb 0.31 and of Ray 2.50.1 to 2.60 that the W&B wing needs; a release may change them."""

import importlib.metadata

import numpy as np
import pytest

from tune_media.callbacks.wandb import private_names

wandb = pytest.importorskip("wandb")

RAY = f"Ray {importlib.metadata.version('ray')} has changed ray.air.integrations.wandb"
WANDB = f"wandb {importlib.metadata.version('wandb')} has changed"


def test_arrays_become_media_as_ray_has_it():
    found = private_names.clean_log({"picture": np.zeros((4, 5, 3), np.uint8), "number": 1.5})
    assert isinstance(found["picture"], wandb.Image), f"{RAY}._clean_log: a 3-D array was an image"
    assert found["number"] == 1.5, f"{RAY}._clean_log: numbers stayed"


def test_ray_logs_numbers_and_media_and_no_text():
    found = [private_names.is_allowed_type(value) for value in (1, 2.5, wandb.Histogram([1]), "text", np.zeros(3))]
    assert found == [True, True, True, False, False], f"{RAY}._is_allowed_type"


def test_rays_hook_is_given_the_run(monkeypatch):
    given = []
    monkeypatch.setattr(wandb, "seen_by_a_test", given.append, raising=False)
    monkeypatch.setenv("WANDB_PROCESS_RUN_INFO_HOOK", "wandb.seen_by_a_test")
    private_names.run_info_hook("the run")
    assert given == ["the run"], f"{RAY}._run_wandb_process_run_info_hook"


def test_the_settings_of_wandb_have_these_names():
    arguments = dict.fromkeys(("dir", "group", "id", "job_type", "name", "notes", "tags", "tensorboard", "mode"), "x")
    names = {"root_dir", "run_group", "run_id", "run_job_type", "run_name", "run_notes", "run_tags"}
    found = set(private_names.settings_of(arguments))
    assert found == names | {"sync_tensorboard", "mode"}, f"{WANDB} the fields of wandb.Settings"


def test_wandb_tells_a_bad_key_by_its_form():
    assert private_names.key_problem("0" * 40) is None, f"{WANDB} wandb.sdk.lib.wbauth.check_api_key"
    assert "40" in (private_names.key_problem("short") or ""), f"{WANDB} wandb.sdk.lib.wbauth.check_api_key"


def test_wandb_tells_a_network_that_is_down_from_a_user_that_it_refuses():
    of = wandb.errors
    errors = [of.CommError("away"), of.AuthenticationError("refused"), of.UsageError("bad")]
    assert [private_names.is_passing(error) for error in errors] == [True, False, False], f"{WANDB} wandb.errors"


def test_ray_leaves_two_values_of_a_result_out():
    assert private_names.results_left_out() == ["done", "should_checkpoint"], f"{RAY}: _exclude_results"
