import logging
import os
import pickle
import re

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from ray import cloudpickle

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.fake_trial import FakeTrial, run
from tune_media.values.secrets import redacted

KEY = "Zm9vYmFy0123"
ERRORS = [
    f"PUT https://me.blob.core.windows.net/results/x?sv=2024-01-01&sig={KEY}: 403 Forbidden",
    f"s3://AKIA:{KEY}@bucket/results: AccessDenied",
    f"the signature of {KEY} does not match",  # which the environment names
]


class TellingStorage(LocalFileSystem):
    protocol = "telling"
    cachable = False

    def _open(self, path, mode="rb", **more):
        if mode == "wb" and (refused := re.search(r"refused(\d)", path)):
            raise OSError(ERRORS[int(refused[1])])
        return super()._open(path, mode, **more)


def test_the_error_of_a_storage_brings_no_key_into_the_index_or_the_log(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MY_STORAGE_SECRET", KEY)
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.02)
    trial = FakeTrial(tmp_path)
    trial.storage.storage_filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(TellingStorage()))
    callback = tm.JsonMediaLoggerCallback(media=tm.MediaOptions(flush_seconds=30))
    names = ["taken", *(f"refused{number}" for number in range(len(ERRORS))), "also_taken", "last"]
    with caplog.at_level(logging.DEBUG, "tune_media"):
        run([callback], trial, [{name: tm.Artifact(name.encode(), name="x.bin") for name in names}])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    indices = [path.read_text() for path in files if path.name == "index.jsonl"]
    assert max(index.count("***") for index in indices) >= len(ERRORS)
    assert "Traceback" in caplog.text
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in caplog.text


def test_the_error_of_a_value_brings_no_key_into_the_index_or_the_log(tmp_path, caplog):
    class Remote(tm.Artifact):
        def content(self):
            raise OSError(f"GET https://host/x?sig={KEY}: 403")

    with caplog.at_level(logging.DEBUG, "tune_media"):
        run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"clip": Remote(b"x", name="x.bin")}])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"sig=***: 403" in path.read_bytes() for path in files if path.name == "index.jsonl")
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert KEY not in caplog.text


def test_the_error_of_an_env_brings_no_key_into_a_record_or_the_log(caplog):
    class Far(CountingEnv):
        def render(self):
            raise OSError(f"GET https://host/frame?access_token={KEY}: 403")

    env = tm.gym.RecordEpisodes(Far({"length": 1, "render_mode": "rgb_array"}))
    with caplog.at_level(logging.DEBUG, "tune_media"):
        env.reset(seed=1)
        env.step(0)
        taken = env.take()
    assert "access_token=***" in caplog.text
    assert KEY not in caplog.text
    assert KEY.encode() not in cloudpickle.dumps(taken)


@pytest.mark.parametrize("place", ["argument", "settings", "object"])
def test_a_key_of_wandb_is_in_no_pickle_and_no_message(monkeypatch, place):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_API_KEY", "")
    key = "0123456789abcdef" * 3
    given = {"api_key": key, "silent": True, "x_extra_http_headers": {"Cookie": f"session={KEY}"}}
    given |= {"https_proxy": f"http://me:{KEY}@proxy:3128"}
    given = {"argument": {"api_key": key}, "settings": {"settings": given}, "object": {"settings": given}}[place]
    if place == "object":
        given = {"settings": wandb.Settings(**given["settings"])}
    given |= {"config": {"lr": 0.1, "deep": {"hub_token": KEY}}, "notes": f"data: s3://me:{KEY}@bucket", "tags": ["a"]}
    callback = tm.WandbMediaLoggerCallback(project="my/walkers", mode="online", **given)
    assert place != "argument" or os.environ["WANDB_API_KEY"] == key  # W&B looks for it there
    again = pickle.loads(cloudpickle.dumps(callback))
    for pickled in (pickle.dumps(callback), cloudpickle.dumps(again)):
        assert key.encode() not in pickled
        assert KEY.encode() not in pickled
    assert again.kwargs["config"] == {"lr": 0.1, "deep": {"hub_token": "***"}}
    assert (again.kwargs["notes"], again.kwargs["tags"]) == ("data: s3://***@bucket", ["a"])
    assert callback.kwargs["config"]["deep"]["hub_token"] == KEY  # of this process's runs
    with pytest.raises(ValueError, match="my/walkers") as raised:
        callback.setup()
    assert key not in str(raised.value)
    assert KEY not in str(raised.value)
    assert redacted(f"refused: {key}") == "refused: ***"
