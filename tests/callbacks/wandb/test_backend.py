"""The W&B backend before its helper process starts: keys, pickling, and the errors that pass."""

import os
import pickle

import pytest

import tune_media as tm
from tune_media.callbacks.wandb.helper import HelperDiedError
from tune_media.values.secrets import redacted

pytest.importorskip("wandb")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "")
    monkeypatch.delenv("WANDB_MODE", raising=False)


def test_a_key_is_put_where_wandb_looks_for_it_and_is_in_no_message_and_no_pickle():
    key = "0123456789" * 4
    callback = tm.WandbMediaLoggerCallback(project="p", api_key=key)
    assert os.environ["WANDB_API_KEY"] == key
    assert redacted(f"refused: {key}") == "refused: ***"
    assert key.encode() not in pickle.dumps(callback)


def test_offline_needs_no_key_and_leaves_the_environment_as_it_was():
    tm.WandbMediaLoggerCallback(project="p", mode="offline").setup()
    assert "WANDB_MODE" not in os.environ


def test_a_helper_that_died_is_worth_another_try_and_an_error_of_a_value_is_not():
    backend = tm.WandbMediaLoggerCallback(project="p", mode="offline").backend
    assert backend.is_away(HelperDiedError("gone"))
    assert not backend.is_away(ValueError("no number"))


def test_a_backend_that_never_started_ends_without_a_word(caplog):
    backend = pickle.loads(pickle.dumps(tm.WandbMediaLoggerCallback(project="p", mode="offline"))).backend
    backend.finish()
    assert not caplog.records
