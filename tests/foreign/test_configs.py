"""Hyperparameters and the task of a run, from the files of other tools."""

import argparse
import collections
import json
import sys

import pytest
import yaml

from tests.support.foreign_run import run_in
from tune_media.experiment.params import flat_values, is_seed
from tune_media.values.secrets import without_secret


def written(folder, contents):
    """Write files, text as it is and all else as PyYAML or ``json`` dumps it."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        dump = json.dumps if path.suffix == ".json" else yaml.dump
        path.write_text(content if isinstance(content, str) else dump(content))
    return folder


def told(folder):
    """Return what the readers tell of a folder: hyperparameters by name, the task, and what was not understood."""
    run = run_in(folder)
    return dict(flat_values(run.config)), run.env_id, run.not_understood


def test_isaac_lab_and_mjlab(tmp_path):
    """As ``dump_yaml`` of both writes them: tuples, slices and functions have Python's tags."""
    agent = {"seed": 42, "algorithm": {"class_name": "PPO", "learning_rate": 1e-3}, "hidden": (512, 256)}
    env = {"seed": 42, "decimation": 4, "joints": slice(None), "log_dir": "/logs/x", "func": len}
    run = written(tmp_path / "2026-01-31_10-20-30", {"params/agent.yaml": agent, "params/env.yaml": env})
    config, env_id, sentences = told(run)
    assert config == {
        "agent/seed": 42,
        "agent/algorithm/class_name": "PPO",
        "agent/algorithm/learning_rate": 1e-3,
        "agent/hidden": "[512, 256]",
        "env/seed": 42,
        "env/decimation": 4,
        "env/joints": "[null, null, null]",
        "env/func": "builtins.len",
    }
    assert (env_id, sentences) == (None, [])
    assert [name for name in config if is_seed(name)] == ["agent/seed", "env/seed"]


def test_rl_games_calls_every_env_rlgpu(tmp_path):
    agent = {"params": {"seed": 1, "config": {"env_name": "rlgpu"}}, "env_name": "rlgpu"}
    assert told(written(tmp_path, {"params/agent.yaml": agent}))[1] is None


def test_hydra(tmp_path):
    """The text of a reference stays: the value that it leads to is there under its own name."""
    config = "env: {id: Ant-v5, wind: 0.1}\nlr: 1e-4\nseed: 3\ntask_name: ${env.id}\nout: ${hydra:runtime.output_dir}\n"
    choices = {"env": "ant", "agent": "sac", "hydra/launcher": "basic"}
    hydra = {"hydra": {"runtime": {"choices": choices, "output_dir": "/o"}, "mode": "MULTIRUN"}}
    run = written(
        tmp_path, {".hydra/config.yaml": config, ".hydra/hydra.yaml": hydra, ".hydra/overrides.yaml": ["lr=1"]}
    )
    assert told(run) == (
        {
            **{"env/id": "Ant-v5", "env/wind": 0.1, "lr": 1e-4, "seed": 3},
            **{"task_name": "${env.id}", "out": "${hydra:runtime.output_dir}"},
            **{"choices/env": "ant", "choices/agent": "sac"},
        },
        "Ant-v5",
        [],
    )


def test_a_task_that_hydra_chose_by_its_file(tmp_path):
    hydra = {"hydra": {"runtime": {"choices": {"task": "cartpole"}}}}
    run = written(tmp_path, {".hydra/config.yaml": {"task": {"sim": 1}}, ".hydra/hydra.yaml": hydra})
    assert told(run)[1] == "cartpole"


def test_rl_zoo(tmp_path):
    hyperparams = collections.OrderedDict(learning_rate="lin_0.001", n_timesteps=1e5)
    args = collections.OrderedDict(env="CartPole-v1", algo="ppo", seed=7, n_timesteps=-1, log_folder="logs")
    run = written(tmp_path / "CartPole-v1_1", {"CartPole-v1/config.yml": hyperparams, "CartPole-v1/args.yml": args})
    assert told(run) == (
        {"learning_rate": "lin_0.001", "n_timesteps": 1e5, "env": "CartPole-v1", "algo": "ppo", "seed": 7},
        "CartPole-v1",
        [],
    )


def test_lerobot(tmp_path):
    config = {
        "env": {"type": "pusht", "task": "PushT-v0", "fps": 10},
        "policy": {"type": "act", "lr": 1e-5},
        "seed": 1000,
        "output_dir": "outputs/train/a",
        "wandb": {"run_id": "abc", "enable": False},
    }
    last = "checkpoints/020000/pretrained_model"
    run = {f"{last}/train_config.json": config, f"{last}/config.json": {"type": "act", "lr": 1e-5}}
    run |= {"checkpoints/010000/pretrained_model/train_config.json": {"seed": 1}}
    assert told(written(tmp_path, run)) == (
        {
            **{"env/type": "pusht", "env/task": "PushT-v0", "env/fps": 10, "policy/type": "act", "policy/lr": 1e-5},
            **{"seed": 1000, "wandb/enable": False},
        },
        "PushT-v0",
        [],
    )


@pytest.mark.parametrize(
    ("name", "content", "config", "env_id"),
    [
        (
            "config.yaml",  # DreamerV3
            "logdir: /logs/a\ntask: dmc_walker_walk\nseed: 0\nenv:\n  dmc: {size: [64, 64]}\nopt: {lr: 4e-05}\n",
            {"task": "dmc_walker_walk", "seed": 0, "env/dmc/size": "[64, 64]", "opt/lr": 4e-5},
            "dmc_walker_walk",
        ),
        (
            "files/config.yaml",  # W&B
            "wandb_version: 1\n\n_wandb:\n  desc: null\n  value: {cli_version: 0.16}\n"
            "gym_id:\n  desc: null\n  value: Ant-v5\nlr:\n    value: 1e-04\n",
            {"gym_id": "Ant-v5", "lr": 1e-4},
            "Ant-v5",
        ),
        (
            "args.json",
            {"domain_name": "cheetah", "task_name": "run", "seed": 1, "work_dir": "/x"},
            {"domain_name": "cheetah", "task_name": "run", "seed": 1},
            "cheetah/run",
        ),
        (
            "config.json",  # Spinning Up
            {"env_name": "Ant-v5", "logger": {"<spinup.EpochLogger object at 0x7f01>": {"first_row": True}}, "seed": 0},
            {"env_name": "Ant-v5", "seed": 0},
            "Ant-v5",
        ),
        (
            "hparams.yaml",  # Lightning
            yaml.dump({"env": "CartPole-v0", "args": argparse.Namespace(lr=0.1)})
            + "path: !!python/object/apply:pathlib.PurePosixPath [/, d, e]\n",
            {"env": "CartPole-v0", "args/lr": 0.1, "path": '["/", "d", "e"]'},
            "CartPole-v0",
        ),
    ],
)
def test_files_of_names_and_values(name, content, config, env_id, tmp_path):
    assert told(written(tmp_path, {name: content})) == (config, env_id, [])


def test_the_name_of_a_folder_tells_least(tmp_path):
    run = written(tmp_path / "Ant-v5__ppo__3__1690000000", {"args.json": {"seed": 4, "env_id": "Ant-v4"}})
    assert told(run) == ({"seed": 4, "env_id": "Ant-v4", "exp_name": "ppo"}, "Ant-v4", [])


def test_without_pyyaml_one_sentence_tells_what_brings_it(tmp_path, monkeypatch):
    run = written(tmp_path, {"config.yaml": "lr: 1", "hparams.yaml": "lr: 2", "args.json": {"seed": 1}})
    monkeypatch.setitem(sys.modules, "yaml", None)
    config, _, (sentence,) = told(run)
    assert config == {"seed": 1}
    assert sentence.startswith("The hyperparameters in config.yaml, hparams.yaml need PyYAML: pip install ")
    assert sentence.remedy.endswith("[folders]'")


def test_a_secret_keeps_the_name_that_hides_it(tmp_path):
    """Of an ordered dict, a wrapped value, a call's pairs, and of a reference."""
    secret = "hunter2hunter2"
    run = written(
        tmp_path,
        {
            "config.yml": collections.OrderedDict(api_key=secret, url=f"https://me:{secret}@host"),
            "config.yaml": f"password:\n  value: {secret}\nenv_id:\n  value: ${{token}}\ntoken:\n  value: {secret}\n",
            "args.json": {"env": f"s3://me:{secret}@bucket/env"},
        },
    )
    config, env_id, _ = told(run)
    shown = {name: without_secret(name, value) for name, value in config.items()}
    assert shown["api_key"] == shown["password"] == "***"
    assert secret not in str(shown)
    assert secret not in str(env_id)
