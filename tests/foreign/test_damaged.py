"""Damaged files of other tools: whatever is in them, a run is read without an error."""

import random
import shutil
from pathlib import Path

import pytest

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
