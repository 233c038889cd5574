"""Damaged and half-written files of other tools: each is named, and the rest of its run is read without an error."""

import random
import shutil
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from tests.support.foreign_run import run_in

DATA = Path(__file__).parents[1] / "data" / "foreign"
RUNS = [
    *("cleanrl/runs/*", "dreamerv3/logdir/*", "hydra_multirun/multirun/*/*/0", "isaac_lab/logs/rsl_rl/*/*"),
    *("lerobot_train/outputs/train/*/*", "lightning_csv/*/*", "mlflow_files/mlruns/*/*", "rl_games/logs/*/*/*"),
    *("rl_zoo/logs/*/*", "sb3_evaluated/*", "torchrl_csv/*", "wandb_offline/wandb/*", "wandb_online/wandb/*"),
]
OTHERS = [
    b"",
    b"[]",
    b"null",
    b"3",
    b'"x"',
    b"{",
    b"- 1",
    b"\x00\xff",
    b'{"args": 3, "env": {"task": [1]}, "_step": "x"}',
]
OTHERS += [b"a: {b: [1, {c: d}]}", b"hydra: 3", b"seed: [1, 2]\nenv:\n- x", b"1 2\n3", b"a,b\n1,2,3\n"]


def damaged(content, chance):
    """Return a content cut off, with other bytes, a part twice, its lines in another order, or another one."""
    kind = chance.randrange(5)
    if kind == 0:
        return content[: chance.randrange(len(content) + 1)]
    if kind == 1:
        others = bytearray(content)
        for _ in range(min(chance.randrange(1, 20), len(content))):
            others[chance.randrange(len(content))] = chance.randrange(256)
        return bytes(others)
    if kind == 2:
        start = chance.randrange(len(content) + 1)
        return content[:start] + content[: chance.randrange(200)] + content[start:]
    if kind == 3:
        lines = content.split(b"\n")
        return b"\n".join(chance.sample(lines, len(lines)))
    return chance.choice(OTHERS)


@pytest.mark.slow
@pytest.mark.parametrize("place", RUNS)
def test_no_damaged_file_is_an_error(place, tmp_path):
    source = next(path for path in sorted(DATA.glob(place)) if path.is_dir())
    for seed in range(30):
        run = Path(shutil.copytree(source, tmp_path / str(seed) / source.name, dirs_exist_ok=True))
        chance = random.Random(seed)
        files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.suffix != ".mp4"]
        for path in chance.sample(files, min(3, len(files))):
            path.write_bytes(damaged(path.read_bytes(), chance))
        told = run_in(run)
        assert all(len(curve.steps) == len(curve.values) for curve in told.curves), seed
        assert isinstance(told.not_understood, list)
        _ = told.episodes, told.return_from


NAMED = [  # a file, what is in it, and the sentence on it
    *(("evaluations.npz", content, "evaluations.npz: ") for content in (b"", b"PK\x03\x04 cut", b"\x93NUMPY")),
    *((name, b"\xff\xfe\n1,2\n", f"{name}: ") for name in ("progress.csv", "monitor.csv")),
    ("config.yaml", b"a: [1,\nb", "config.yaml: it is no YAML from its line 3 on."),
    ("config.yml", b"password: 'abc\n", "config.yml: it is no YAML from its line 2 on."),
    ("args.json", b"[1]", "args.json: it has no names and values."),
    ("wandb-metadata.json", b"{", "wandb-metadata.json: "),
    ("run-a.wandb", b"PK", "run-a.wandb: it is no log of W&B."),
    ("eval_info.json", b'{"per_episode": [', "eval_info.json: "),
]


@pytest.mark.parametrize(("name", "content", "sentence"), NAMED)
def test_a_damaged_file_is_named_and_the_others_are_read(name, content, sentence, tmp_path):
    (tmp_path / "hparams.yaml").write_text("lr: 1")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    (tmp_path / name).write_bytes(content)
    run = run_in(tmp_path)
    assert [text.startswith(sentence) for text in run.not_understood] == [True]
    assert (run.config, [curve.values for curve in run.curves], run.episodes) == ({"lr": 1}, [[2.0]], ())


def write_events(folder):
    with SummaryWriter(str(folder)) as writer:
        for step in range(5):
            writer.add_scalar("loss", step, step)


def write_monitor(folder):
    lines = next(DATA.glob("rl_zoo/logs/a2c/*/0.monitor.csv")).read_bytes().splitlines(keepends=True)
    (folder / "monitor.csv").write_bytes(b"".join(lines[:6]))


def write_metric_of_mlflow(folder):
    (folder / "metrics").mkdir()
    (folder / "meta.yaml").touch()
    (folder / "metrics" / "loss").write_text("1000 0.5 10\n2000 0.25 20\n")


def write_table(folder):
    (folder / "progress.csv").write_text("step,loss\n111,1111\n222,2222\n")


def write_lines(folder):
    (folder / "metrics.jsonl").write_text('{"step": 111, "loss": 1111}\n{"step": 222, "loss": 2222}\n')


def numbers_in(folder):
    run = run_in(folder)
    assert not run.not_understood
    points = [point for curve in run.curves for point in zip(curve.steps, curve.values, strict=True)]
    return [episode.episode_return for episode in run.episodes] or points


@pytest.mark.parametrize("write", [write_events, write_monitor, write_metric_of_mlflow, write_table, write_lines])
def test_a_file_that_is_still_being_written_gives_no_wrong_number(write, tmp_path):
    write(tmp_path)
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size)
    content, whole, counts = path.read_bytes(), numbers_in(tmp_path), set()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        numbers = numbers_in(tmp_path)
        assert numbers == whole[: len(numbers)]
        counts.add(len(numbers))
    assert counts == set(range(len(whole))) > {0}
