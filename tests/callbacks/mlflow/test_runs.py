"""The runs of a sweep: each trial has one, whoever asks for it, and however often."""

import json

from tune_media.callbacks.mlflow.private_names import VIEW_TAG
from tune_media.callbacks.mlflow.saved_view import view_key
from tune_media.callbacks.mlflow.sweep_run import PAGE


def held(client):
    found = client.get_experiment_by_name("experiment")
    return {run.info.run_name: run for run in client.search_runs([found.experiment_id])}


def test_a_trial_that_starts_again_goes_on_in_its_run_even_after_a_restore(runs_of, client):
    runs = runs_of()
    first = runs.start("t1", "PPO_t1", {"team": "ours"})
    first.end("FINISHED")
    runs.forget("t1")
    assert runs.start("t1", "PPO_t1", {}).run_id == first.run_id
    assert runs_of().start("t1", "PPO_t1", {}).run_id == first.run_id
    assert list(held(client)) == ["PPO_t1"]
    assert held(client)["PPO_t1"].info.status == "RUNNING"
    assert held(client)["PPO_t1"].data.tags["team"] == "ours"


def test_trials_of_the_same_id_in_two_sweeps_have_two_runs(runs_of):
    first, second = (runs_of(sweep).start("t1", "PPO_t1", {}) for sweep in ("bob's", "ann's"))
    assert first.run_id != second.run_id


def test_nested_runs_are_under_one_parent_that_has_a_page_of_them(runs_of, client, tmp_path):
    for runs in (runs_of(nested=True), runs_of(nested=True)):  # and after a restore
        for id in ("t1", "t2"):
            runs.start(id, f"PPO_{id}", {})
    runs.end("FINISHED")
    found = held(client)
    assert found.keys() == {"sweep", "PPO_t1", "PPO_t2"}
    parent = found["sweep"].info
    assert {found[name].data.tags["mlflow.parentRunId"] for name in ("PPO_t1", "PPO_t2")} == {parent.run_id}
    assert parent.status == "FINISHED"
    assert [file.path for file in client.list_artifacts(parent.run_id)] == [PAGE]


def test_without_a_parent_the_end_of_the_sweep_changes_nothing(runs_of, client):
    runs = runs_of()
    runs.start("t1", "PPO_t1", {})
    runs.end("KILLED")
    assert held(client)["PPO_t1"].info.status == "RUNNING"


def test_a_view_has_the_chosen_hyperparameters_and_is_saved_again_only_if_they_change(runs_of, client):
    runs = runs_of()
    runs.start("t1", "PPO_t1", {})

    def views():
        tags = client.get_experiment_by_name("experiment").tags
        return {key: json.loads(value) for key, value in tags.items() if key.startswith(VIEW_TAG)}

    runs.show(searched={"lr": 0.1})
    ((key, view),) = views().items()
    assert (key, view["name"]) == (f"{VIEW_TAG}{view_key('sweep')}", "Trials of sweep")
    assert view["selectedColumns"] == ["metrics.`best_return`", "params.`lr`"]
    assert json.loads(view["state"])["orderByAsc"] is False
    runs.show(searched={"lr": 0.2})
    assert views() == {key: view}
    runs.show(searched={"lr": 0.2, "loss@a": 1})
    assert views()[key]["selectedColumns"][1:] == ["params.`loss_0x40_a`", "params.`lr`"]


def test_a_view_is_ordered_by_the_best_score_that_a_trial_has_reported(runs_of, client):
    runs = runs_of()
    runs.start("t1", "PPO_t1", {})

    def metrics():
        (value,) = [value for key, value in client.get_experiment_by_name("experiment").tags.items() if VIEW_TAG in key]
        view = json.loads(value)
        assert view["orderByKey"] == view["selectedColumns"][0]
        return [name for name in view["selectedColumns"] if name.startswith("metrics.")]

    runs.show()
    assert metrics() == ["metrics.`best_return`"]
    training, evaluation = "env_runners/episode_return_mean", "evaluation/env_runners/episode_return_mean"
    for names, score in (
        ([training, "loss"], training),
        ([training, evaluation], evaluation),
        ([training], evaluation),
    ):
        runs.show(metrics=names)
        assert metrics() == [f"metrics.`{score}`", "metrics.`best_return`"]


def test_a_view_has_no_trials_of_a_sweep_with_a_similar_name(runs_of, client):
    for sweep in ("my_sweep", "my-sweep", "my_sweep2", "MY_SWEEP"):
        runs_of(sweep, nested=True).start("t1", f"of {sweep}", {})
    runs_of("my_sweep").show(searched={"lr": 0.1})
    found = client.get_experiment_by_name("experiment")
    view = json.loads(found.tags[f"{VIEW_TAG}{view_key('my_sweep')}"])
    shown = client.search_runs([found.experiment_id], view["searchFilter"])
    assert [run.info.run_name for run in shown] == ["of my_sweep"]
