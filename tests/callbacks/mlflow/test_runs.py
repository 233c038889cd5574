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


def test_a_trial_whose_sweep_has_a_similar_name_has_a_run_of_its_own(runs_of):
    runs = [runs_of(sweep).start("t1", sweep, {}) for sweep in ("my_sweep", "my-sweep", "my_sweep2", "MY_SWEEP")]
    assert len({run.run_id for run in runs}) == 4


def test_trials_of_the_same_id_in_two_sweeps_have_two_runs(runs_of):
    first, second = (runs_of(sweep).start("t1", "PPO_t1", {}) for sweep in ("bob's", "ann's"))
    assert first.run_id != second.run_id
