import os

import pytest

import tune_media as tm

pytest.importorskip("wandb")


def test_a_name_that_is_no_list_of_names_is_refused():
    with pytest.raises(TypeError, match=r"excludes=\['config'\]"):
        tm.WandbMediaLoggerCallback(project="p", excludes="config")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"project": "team/p"}, "Invalid project name 'team/p'"),
        ({"tags": ["x" * 100]}, "Tags must be between 1 and 64 characters"),
        ({"job_type": 5}, "run_job_type Input should be a valid string"),
        ({"settings": {"nope": 1}}, "nope Extra inputs are not permitted"),
    ],
    ids=lambda found: "" if isinstance(found, str) else "-".join(found),
)
def test_a_value_that_wandb_refuses_is_an_error_at_setup(arguments, message):
    callback = tm.WandbMediaLoggerCallback(**{"project": "p", "mode": "offline", **arguments})
    with pytest.raises(ValueError, match=message) as caught:
        callback.setup()
    assert str(caught.value).startswith("WandbMediaLoggerCallback(")


def test_a_key_of_the_wrong_form_is_an_error_at_setup(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "")
    callback = tm.WandbMediaLoggerCallback(project="p", api_key="tooshort")
    with pytest.raises(ValueError, match=r"API key must have 40\+ characters, has 8. Pass api_key=") as caught:
        callback.setup()
    assert "tooshort" not in str(caught.value)


def test_good_arguments_pass_and_leave_wandb_alone(monkeypatch, caplog):
    import wandb

    monkeypatch.setenv("WANDB_API_KEY", "")  # offline, none is needed
    monkeypatch.delenv("WANDB_MODE", raising=False)
    arguments = {"tags": ["a"], "notes": "n", "settings": wandb.Settings(silent=True), "id": None, "entity": "e"}
    before = wandb.run
    callback = tm.WandbMediaLoggerCallback(project="p", group="g", mode="offline", **arguments)
    callback.setup()
    assert wandb.run is before
    assert "WANDB_MODE" not in os.environ
    callback.backend.finish()  # no trial has started
    assert not caplog.records
