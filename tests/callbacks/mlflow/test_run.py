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
