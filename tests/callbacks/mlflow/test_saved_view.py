import json

from tune_media.callbacks.mlflow.saved_view import view_key, view_link, view_tag


def test_a_view_is_read_by_mlflow_with_and_without_names_of_views():
    key, value = view_tag("sweep", [f"p{number}" for number in range(100)], "tags.`a` = 'b'", 7)
    view = json.loads(value)
    state = json.loads(view.pop("state"))
    assert (view["name"], view["createdAt"]) == ("Trials of sweep", 7)
    assert {name: view[name] for name in state} == state
    assert (state["searchFilter"], state["orderByKey"]) == ("tags.`a` = 'b'", "metrics.`best_return`")
    assert len(state["selectedColumns"]) == 21
    assert len(value) < 5000  # MLflow takes no longer tag
    assert view_link("3", "sweep") == f"#/experiments/3/runs?viewStateShareKey={view_key('sweep')}"
    assert key.endswith(view_key("sweep"))


def test_sweeps_have_views_of_their_own_whatever_their_names():
    assert len({view_key(name) for name in ("a", "b", "\ud800", "a/b")}) == 4
