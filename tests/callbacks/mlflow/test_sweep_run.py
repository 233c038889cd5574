"""The parent run of a sweep, of runs in a real MLflow store."""

import base64
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.mlflow.saved_view import view_link
from tune_media.callbacks.mlflow.sweep_run import PAGE
from tune_media.storage.entry import MediaEntry

pytest.importorskip("mlflow")


def test_a_sweeps_runs_have_their_best_return_and_a_page_with_their_clips(runs_of, client):
    def entry(episode_return, step):
        frames = np.full((3, 16, 16, 3), 20 * episode_return, np.uint8)  # differs for each
        video = tm.Video(iter(frames), fps=5, episode=tm.EpisodeRecord(f"e{step}", episode_return, 3))
        path = f"media/evaluation/episodes/best/step_{step:09d}-{video.id[:12]}.mp4"
        return MediaEntry(video, "evaluation", "episodes/best", path, step, step)

    runs, clips = runs_of(nested=True), {}
    for number, returns in enumerate([(3.0, 1.0), (2.0, 7.0)]):
        run = runs.start(str(number), f"trial_{number}", {})
        for step, episode_return in enumerate(returns, start=1):
            clips[number, step] = entry(episode_return, step)
            run.log_medium(clips[number, step])
        if number == 0:  # the sweep is restored
            runs = runs_of(nested=True)
            run = runs.start("0", "trial_0", {})
        run.describe({"lr": 0.1 * number})
        run.log_metrics({"training_iteration": 9.0}, 9, 0)
        run.end("FINISHED")
    runs.end("FINISHED")
    id = client.get_experiment_by_name("experiment").experiment_id
    found = {run.info.run_name: run for run in client.search_runs([id])}
    assert {name: run.data.metrics.get("best_return") for name, run in found.items()} == {
        "trial_0": 3.0,
        "trial_1": 7.0,
        "sweep": None,
    }
    note = found["trial_1"].data.tags["mlflow.note.content"]
    assert note.startswith(
        "lr = 0.1\n\nBest clip: return 7, length 3, step 2 (media/evaluation/episodes/best/step_000000002-return_7-"
    )
    text = Path(client.download_artifacts(found["sweep"].info.run_id, PAGE)).read_text()
    assert text.index("trial_1") < text.index("trial_0")
    shown = [base64.b64encode(clips[key].medium.content()).decode() in text for key in ((0, 1), (0, 2), (1, 1), (1, 2))]
    assert shown == [True, False, False, True]
    assert text.count("<polyline") == 2
    assert ">step 1</text>" in text
    assert ">9</text>" in text  # the last step, not that of the last improvement
    history = {
        name: [(point.step, point.value) for point in client.get_metric_history(found["sweep"].info.run_id, name)]
        for name in ("trials/best_return", "trials/best_return_so_far")
    }
    assert history == {"trials/best_return": [(0, 3.0), (1, 7.0)], "trials/best_return_so_far": [(0, 3.0), (1, 7.0)]}
    parent = found["sweep"].data.tags["mlflow.note.content"]
    assert parent.index("trial\\_1") < parent.index("trial\\_0")
    assert f"/runs/{found['trial_1'].info.run_id}/artifacts/media/evaluation/episodes/best/step_" in parent
    assert view_link(id, "sweep") in parent


def test_a_description_that_somebody_wrote_stays_and_ours_is_renewed_and_bounded(runs_of, client):
    runs = runs_of(nested=True)
    for number in range(30):
        run = runs.start(str(number), f"trial_{number}|`*<b>" + "x" * 200, {})
        run.describe({"lr|": "<script>", "n": number})
    parent = runs._parent

    def note():
        return client.get_run(parent).data.tags["mlflow.note.content"]

    runs.end("FINISHED")
    first = note()
    assert len(first) < 5000
    assert "<script>" not in first
    assert "<b>" not in first
    assert "lr\\|" in first
    client.set_tag(parent, "mlflow.note.content", "mine")
    runs.end("FINISHED")
    assert note() == "mine"
    client.set_tag(parent, "mlflow.note.content", "old trials.html")
    runs.end("FINISHED")
    assert note() == first


def test_the_best_of_more_trials_than_a_page_of_mlflows_answers(runs_of, client, monkeypatch):
    """MLflow answers with 1,000 runs at a time; the best of 1,010 trials was missing."""
    from mlflow import MlflowClient

    ask = MlflowClient.search_runs

    def of_five(self, *args, **more):  # as with more trials and MLflow's own 1,000
        return ask(self, *args, **{"max_results": 5, **more})

    runs = runs_of(nested=True)
    for number in range(12):
        run = runs.start(str(number), f"trial_{number}", {}, at=1000.0 + number)
        run.log_metrics({"score": float(number == 11)}, 1, 1000.0)
        run.describe({"number": number})
        run.end("FINISHED")
    monkeypatch.setattr(MlflowClient, "search_runs", of_five)
    runs.end("FINISHED")
    id = client.get_experiment_by_name("experiment").experiment_id
    (parent,) = client.search_runs([id], "tags.`tune_media.sweep` != ''")
    note = parent.data.tags["mlflow.note.content"]
    assert note.count("trial\\_") == 12
    assert note.index("trial\\_11") < note.index("trial\\_0]")
