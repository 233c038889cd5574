"""Files of results, as sources of load, list and watch."""

import json

import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import command
from tune_media.experiment.trial_folders import Trials, log_directories

RETURNS = {"act": [1.0, 2.0, 3.0, 2.5], "diffusion": [4.0, 6.0, 5.0, 5.5]}
ROWS = [
    {"policy": policy, "seed": seed, "return": value, "success": value > 4.5}
    for policy, returns in RETURNS.items()
    for seed, value in enumerate(returns)
]


def as_csv(rows, delimiter=","):
    names = list(rows[0])
    return "\n".join(delimiter.join(map(str, line)) for line in [names, *(row.values() for row in rows)])


def as_lines(rows):
    return "\n".join(map(json.dumps, rows))


def nested(rows):
    policies = dict.fromkeys(row["policy"] for row in rows)
    groups = [{"policy": name, "episodes": [row for row in rows if row["policy"] == name]} for name in policies]
    inner = [
        {**group, "episodes": [{k: v for k, v in row.items() if k != "policy"} for row in group["episodes"]]}
        for group in groups
    ]
    return json.dumps({"env": "PushT-v0", "results": inner})


def lerobot(returns, **more):
    """Return eval_info.json as LeRobot 0.4 writes it, which names no seeds."""
    metrics = {"sum_rewards": returns, "max_rewards": returns, "successes": [value > 4.5 for value in returns], **more}
    return json.dumps({"per_task": [{"task_group": "pusht", "task_id": 0, "metrics": metrics}], "overall": {}})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", as_csv(ROWS)),
        ("r.csv", as_csv(ROWS, ";")),
        ("r.jsonl", as_lines(ROWS)),
        ("r.json", json.dumps(ROWS)),
        ("r.json", nested(ROWS)),
    ],
)
def test_each_policy_of_a_file_is_a_trial_that_the_one_inference_judges(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    catalog = tm.load(tmp_path / name)
    assert {trial.name: trial.last_metrics["evaluation/episode_return_mean"] for trial in catalog.trials} == {
        policy: np.mean(returns) for policy, returns in RETURNS.items()
    }
    assert catalog.verdict.sentence == "Clearly the best policy: diffusion, on 4 evaluation seeds."
    assert catalog.compare()["behind"][1] == 3.0


def test_lerobots_files_are_named_by_their_folders_and_compared_in_their_order(tmp_path):
    old = {
        "per_episode": [
            {"episode_ix": n, "sum_reward": r, "success": r > 4.5, "seed": n} for n, r in enumerate(RETURNS["act"])
        ],
        "aggregated": {},
    }
    for policy, content in {"act": json.dumps(old), "diffusion": lerobot(RETURNS["diffusion"])}.items():
        (tmp_path / policy).mkdir()
        (tmp_path / policy / "eval_info.json").write_text(content)
    catalog = tm.load([tmp_path / policy / "eval_info.json" for policy in RETURNS])
    assert catalog.verdict.sentence == "Clearly the best policy: diffusion, on 4 evaluation seeds."
    told = "eval_info.json names no seeds and no starts: its episodes are compared in their order."
    assert told in command("list", tmp_path / "diffusion" / "eval_info.json")


def test_a_file_without_steps_has_no_learning_curve(tmp_path):
    (tmp_path / "r.csv").write_text(as_csv(ROWS))
    told = command("figure", tmp_path / "r.csv", "-o", tmp_path / "c.pdf", code=2)
    assert "no run has 'evaluation/episode_return_mean' over training" in told


def test_all_episodes_of_a_file_count(tmp_path):
    rows = [{"policy": "a", "seed": seed, "return": float(seed < 300)} for seed in range(400)]
    (tmp_path / "r.csv").write_text(as_csv(rows))
    (trial,) = tm.load(tmp_path / "r.csv").trials
    assert trial.last_metrics["evaluation/episode_return_mean"] == 0.75


def test_files_with_successes_alone_are_judged_by_the_success_rate(tmp_path):
    rows = [
        {"policy": p, "seed": seed, "success": int(seed % 10 < k)}
        for p, k in {"a": 9, "b": 2}.items()
        for seed in range(60)
    ]
    (tmp_path / "r.csv").write_text(as_csv(rows))
    assert tm.load(tmp_path / "r.csv").verdict.sentence == "Clearly the best policy: a, on 60 evaluation seeds."
    assert "success rate" in command("list", "--rows", "configurations", tmp_path / "r.csv")


def test_starts_may_be_texts_and_columns_may_have_other_names(tmp_path):
    rows = [
        {"who": p, "from": start, "score": value}
        for p, returns in RETURNS.items()
        for start, value in zip("abcd", returns, strict=True)
    ]
    for policy in RETURNS:
        (tmp_path / f"{policy}.csv").write_text(as_csv([row for row in rows if row["who"] == policy]))
    files = [tmp_path / f"{policy}.csv" for policy in RETURNS]
    catalog = tm.load(files, columns={"policy": "who", "start": "from", "return": "score"})
    assert catalog.verdict.sentence == "Clearly the best policy: diffusion, on 4 evaluation seeds."
    with pytest.raises(
        ValueError, match=r"no column for a return or a success; there are who, from, score; name it in"
    ):
        tm.load(files)


def test_policies_that_were_played_otherwise_are_not_compared(tmp_path):
    for policy, env in {"act": "PushT-v0", "diffusion": "Aloha-v0"}.items():
        rows = [{**row, "env": env} for row in ROWS if row["policy"] == policy]
        (tmp_path / f"{policy}.jsonl").write_text(as_lines(rows))
    catalog = tm.load([tmp_path / "act.jsonl", tmp_path / "diffusion.jsonl"])
    assert catalog.verdict.sentence == (
        "Not comparable: the mean evaluation return of act is rows of a file with env=PushT-v0, "
        "and that of others rows of a file with env=Aloha-v0."
    )
    assert list(catalog.compare()["why"][1:]) == ["other_return"]


def test_a_seed_in_the_name_of_a_policy_makes_it_a_run(tmp_path):
    rows = [
        {**row, "policy": f"{row['policy']}_seed{k}", "return": row["return"] + k / 9}
        for row in ROWS
        for k in (1, 2, 3)
    ]
    (tmp_path / "r.jsonl").write_text(as_lines(rows))
    table = tm.load(tmp_path / "r.jsonl").compare()
    assert list(zip(table["name"], table["n"], strict=True)) == [("diffusion", 3), ("act", 3)]


def test_clips_that_a_file_names_belong_to_its_policies(tmp_path):
    clip_file = tm.Video(np.zeros((3, 16, 16, 3), np.uint8), fps=5).data
    folder = tmp_path / "clips" / "best"
    folder.mkdir(parents=True)
    (folder / "a.mp4").write_bytes(clip_file)
    rows = [{**ROWS[0], "video": "outputs/x/clips/best/a.mp4"}, *({**row, "video": ""} for row in ROWS[1:])]
    (tmp_path / "r.csv").write_text(as_csv(rows))
    (row,) = tm.load(tmp_path / "r.csv")
    assert (row["trial"], row["episode_return"], row["seed"]) == ("act", 1.0, 0)
    assert row["file"] == str(folder / "a.mp4")
    (trial,) = (trial for trial in tm.load(tmp_path / "r.csv").trials if trial.name == "act")
    assert trial.read_media("clips/best/a.mp4") == clip_file
    with pytest.raises(FileNotFoundError):
        trial.read_media("r.csv")


def test_list_prints_a_table_for_a_pull_request(tmp_path):
    (tmp_path / "r.csv").write_text(as_csv([{**row, "policy": f"{row['policy']}|x"} for row in ROWS]))
    lines = command("list", "--markdown", tmp_path / "r.csv").splitlines()
    assert lines[0] == "**Clearly the best policy: diffusion\\|x, on 4 evaluation seeds.**"
    assert lines[2].startswith("| configuration | runs | mean of mean evaluation return |")
    assert lines[4].startswith("| diffusion\\|x | 1 | 5.125 |")
    assert "#2" not in "".join(lines)  # it would be a link to an issue
    assert "exclude each other" in command("list", "--markdown", "--csv", tmp_path / "r.csv", code=2)


def test_watch_shows_the_policies_of_files_and_sees_what_is_written_since(tmp_path):
    files = [tmp_path / "act.jsonl", tmp_path / "diffusion.jsonl"]
    for file in files:
        file.write_text(as_lines([row for row in ROWS if row["policy"] == file.stem]))
    trials = Trials(log_directories(list(map(str, files))))
    assert [trial.name for trial in trials.all()] == ["act", "diffusion"]
    files[0].write_text(as_lines([*ROWS[:4], {**ROWS[0], "policy": "new"}]))
    assert [trial.name for trial in trials.all(max_age=0)] == ["act", "diffusion", "new"]
    files[0].write_text("{")  # half of it is written
    assert [trial.name for trial in trials.all(max_age=0)] == ["act", "diffusion", "new"]
    assert len(trials.unreadable) == 2


def test_the_names_of_policies_that_several_files_have_begin_with_the_files(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(as_lines(ROWS))
    names = {
        trial.name for trial in Trials(log_directories([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")])).all()
    }
    assert names == {"a/act", "a/diffusion", "b/act", "b/diffusion"}


def test_rows_without_a_value_are_left_out_with_a_line(tmp_path):
    rows = [*ROWS, {**ROWS[0], "seed": 9, "return": float("nan"), "success": ""}]
    (tmp_path / "r.csv").write_text(as_csv(rows))
    assert "1 row of r.csv without a finite return or a success: left out." in command("list", tmp_path / "r.csv")
    (verdict,) = tm.gate(f"{tmp_path / 'r.csv'}:act", f"{tmp_path / 'r.csv'}:diffusion").verdicts
    assert verdict.notes[0] == "1 row of r.csv without a finite return or a success: left out"
    (tmp_path / "r.json").write_text("[{")
    with pytest.raises(ValueError, match=r"r.json' cannot be read: "):
        tm.load(tmp_path / "r.json")


def test_starts_with_underscores_are_texts_and_no_numbers(tmp_path):
    (tmp_path / "act.csv").write_text("start,return\n3_11,1\n31_1,2\n")
    (trial,) = tm.load(tmp_path / "act.csv").trials
    assert len(set(trial.loop_episodes().table["seed"].to_pylist())) == 2


def test_no_name_of_a_policy_leads_out_of_an_exports_folder(tmp_path):
    rows = [{"policy": policy, "return": 1.0} for policy in ("../a.pt", "./a.pt", "a.pt", "..")]
    (tmp_path / "results.csv").write_text(as_csv(rows))
    done = tm.export.to_tensorboard(tmp_path / "results.csv", tmp_path / "inner" / "tb")
    assert (done.trials, done.problems) == (4, [])
    written = [file.relative_to(tmp_path).parts[:2] for file in tmp_path.rglob("*tfevents*")]
    assert written == [("inner", "tb")] * 4
