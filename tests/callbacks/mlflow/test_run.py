"""The MLflow run of a trial, with a client that fails."""

import requests

from tests.support.faults import episodes
from tune_media.callbacks.mlflow.run import MlflowRun
from tune_media.storage.entry import MediaEntry


class Client:
    """Takes tables and files; the first table is lost on the way."""

    def __init__(self):
        self.tables, self.files, self.fails = [], [], 1

    def log_artifact(self, run, local, folder):
        self.files.append(folder)

    def log_batch(self, run, **what):
        pass

    def log_table(self, run, data, file):
        if self.fails:
            self.fails -= 1
            raise requests.exceptions.ConnectionError
        self.tables.append(data)


def test_a_table_that_is_tried_again_has_each_row_once():
    client = Client()
    run = MlflowRun(client, "run", {}, {})
    batch = episodes("speed", 1)
    run.log_episodes(MediaEntry(batch, "evaluation", "episodes/data", "episode_data/data-1.json", 1, 1), batch)
    run._clips["speed-1"] = "a.mp4"
    for _ in range(3):
        try:
            run.log_table()
        except requests.exceptions.ConnectionError:
            continue
    (table,) = client.tables
    assert table["clip"] == ["a.mp4"]
    assert table["episode_id"] == [episode.record.episode_id for episode in batch.episodes]


def test_episodes_that_are_logged_again_since_their_table_was_lost_have_one_row_each(monkeypatch):
    """The rows were kept before the table was sent, so a message that was delivered again added them again."""
    monkeypatch.setattr("tune_media.callbacks.mlflow.run._TABLE_EVERY", 1)
    client = Client()
    run = MlflowRun(client, "run", {}, {})
    for step in (1, 2):
        batch = episodes("speed", step)
        entry = MediaEntry(batch, "evaluation", "episodes/data", f"episode_data/data-{step}.json", step, step)
        while True:  # as the queue does
            try:
                run.log_episodes(entry, batch)
                break
            except requests.exceptions.ConnectionError:
                continue
    run.log_table()
    logged = [id for table in client.tables for id in table["episode_id"]]
    assert len(logged) == len(set(logged)) == 2 * len(batch.episodes)
