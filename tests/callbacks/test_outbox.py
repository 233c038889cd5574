"""The thread that talks to a tracker: what is worth trying again, and what is not."""

import pytest
import requests

import tune_media as tm
from tune_media.callbacks.base import MediaLogging
from tune_media.callbacks.mlflow import _is_away
from tune_media.callbacks.mlflow_server import Server
from tune_media.callbacks.outbox import Outbox


def answer(status):
    response = requests.Response()
    response.status_code = status
    return requests.exceptions.HTTPError(response=response)


@pytest.mark.parametrize(("status", "away"), [(413, False), (403, False), (429, True), (503, True)])
def test_a_refusal_is_no_absence(status, away):
    assert _is_away(answer(status)) is away
    assert _is_away(requests.exceptions.ConnectionError())


def test_what_is_refused_does_not_hold_up_what_comes_after_it():
    done = []

    def refused():
        raise answer(413)

    outbox = Outbox(MediaLogging("MLflow", tm.MediaOptions()), _is_away)
    outbox.put("a clip", refused, nbytes=10)
    outbox.put("metrics", lambda: done.append(1))
    outbox.close(5)
    assert done == [1]


def test_what_fails_because_the_tracker_is_away_is_tried_until_it_is_back(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.outbox._FIRST_PAUSE", 0.01)
    tries, done = [], []

    def away_at_first():
        tries.append(1)
        if len(tries) < 4:
            raise requests.exceptions.ConnectionError

    outbox = Outbox(MediaLogging("MLflow", None), _is_away)
    outbox.put("first", away_at_first)
    outbox.put("second", lambda: done.append(len(tries)))
    outbox.close(5)
    assert done == [4]


def test_a_table_that_is_tried_again_has_each_row_once():
    class Client:
        tables, fails = [], 1

        def log_table(self, run, data, file):
            if self.fails:
                self.fails -= 1
                raise requests.exceptions.ConnectionError
            self.tables.append(data)

    server = Server({}, {"name": "x"}, "x", nested=False)
    server.__dict__["_client"] = Client()
    server._runs["t"] = "run"
    server._rows["t"] = [{"episode_id": "e", "episode_return": 1.0}]
    server._clips["t"] = {"e": "a.mp4"}
    for _ in range(2):
        try:
            server.log_table("t")
        except requests.exceptions.ConnectionError:
            continue
    (table,) = Client.tables
    assert table["clip"] == ["a.mp4"]
