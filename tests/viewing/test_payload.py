import json

import pytest

from tests.support.viewing import write_trial
from tune_media.experiment.evaluations import forks_in
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.payload import (
    ShownParams,
    config_payload,
    configurations_payload,
    index_payload,
    json_content,
)


def read(column, row):
    if "same" in column:
        return column["same"]
    return column["of"][column["at"][row]] if "of" in column else column["all"][row]


@pytest.fixture
def trials(tmp_path):
    for number in range(2):
        write_trial(tmp_path / f"trial_{number}", number)
    return Trials([LogDirectory.of(str(tmp_path))]).all()


def test_clips_are_in_columns_with_their_trial_and_facts(trials):
    payload = index_payload(trials, "sweep")
    clips = payload["clips"]
    assert clips["count"] == 8
    assert (clips["fps"], set(clips["section"])) == ({"same": 10.0}, {"same"})  # the shortest form
    assert payload["params"] == ["lr"]  # those that differ
    assert [trial["params"] for trial in payload["trials"]] == [{"lr": 0.0}, {"lr": 0.1}]
    rows = [{name: read(clips[name], row) for name in clips if name != "count"} for row in range(8)]
    returns = {(row["trial"], row["key"]): row["return"] for row in rows if row["step"] == 20}
    keys = [(trial, f"episodes/{key}") for trial in (0, 1) for key in ("best", "worst")]
    assert returns == dict(zip(keys, (21, 19, 22, 18), strict=True))
    assert {(row["section"], row["kind"]) for row in rows} == {("evaluation", "video")}
    paths = [{line["path"] for line in trial.lines} for trial in trials]
    assert all(f"{row['folder']}/{row['file']}" in paths[row["trial"]] for row in rows)


def test_hostile_values_do_no_harm(tmp_path):
    folder = write_trial(tmp_path / "<img src=x onerror=alert(1)>", 0)
    index = folder / "media" / "index.jsonl"
    line = json.loads(index.read_text().splitlines()[0])
    for file in [path for path in (folder / "media").rglob("step_*") if path.name not in line["path"]]:
        file.unlink()
    odd = {"step": "3", "fps": float("nan"), "frames": True, "note": "x" * 10_000, "width": 1e400, "section": "\ud800"}
    index.write_text(json.dumps({**line, **odd}) + "\n")
    payload = index_payload(Trials([LogDirectory.of(str(tmp_path))]).all(), "</script>")
    clips = json.loads(json_content(payload))["clips"]
    assert [clips[name]["same"] for name in ("step", "fps", "frames", "width")] == [None] * 4
    assert len(clips["note"]["same"]) < 200


def test_no_secret_of_a_config_comes_onto_the_page(tmp_path):
    for number in range(2):
        secrets = {"api_key": f"s3cret-{number}", "url": f"postgresql://me:s3cret-{number}@host/{number}"}
        write_trial(tmp_path / f"t{number}", number, env_config=secrets, long="x" * 500 + str(number))
    trials = Trials([LogDirectory.of(str(tmp_path))]).all()
    pages = [index_payload(trials, "x"), config_payload(trials[1])]
    pages.append(configurations_payload(trials, [], "episode_return_mean"))
    assert b"s3cret" not in json_content(pages)
    params, config = pages[0]["trials"][1]["params"], pages[1]
    assert params["env_config/api_key"] == config["env_config/api_key"] == "***"
    assert config["env_config/url"] == "postgresql://***@host/1"
    assert (len(params["long"]), len(config["long"]), config["lr"]) == (120, 501, 0.1)


@pytest.mark.parametrize("name", ["wandb.api_key", "credentials/value", "logger/api_key/value", "api_keys", "auth"])
def test_a_secret_is_known_by_any_part_of_its_name(name):
    shown = ShownParams()
    assert (shown(name, "abc"), shown(name, 12345678)) == ("***", 12345678)
    assert (shown("model/max_tokens", 512), shown("cnn_keys", "image")) == (512, "image")


def test_a_hundred_thousand_clips_are_a_few_megabytes(trials):
    line = trials[0].lines[0]
    lines = [{**line, "step": step, "path": f"{line['path']}{step}"} for step in range(100_000)]
    assert len(json_content(index_payload(trials[:1], "large", lambda trial: lines))) < 12_000_000


def test_a_hyperparameter_of_this_name_makes_no_fork(tmp_path):
    for name, at in (("at-2", 2), ("at-3", 3), ("original", 5)):
        write_trial(tmp_path / name, 1, forked_at=at)
    assert forks_in(Trials([LogDirectory.of(str(tmp_path))]).all()) == {}
    (tmp_path / "evaluation.json").write_text(json.dumps({"forked_from": "e1"}))
    trials = Trials([LogDirectory.of(str(tmp_path))]).all()
    told = [trial.get("fork") for trial in index_payload(trials, "")["trials"]]
    assert told == [{"from": "e1", "at": 2}, {"from": "e1", "at": 3}, {"from": "e1", "at": None}]
