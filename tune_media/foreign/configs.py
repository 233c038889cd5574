"""Readers of the files in which other tools keep the hyperparameters of a run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.settings import env_id_of, without_own
from tune_media.foreign.told import Told, unread
from tune_media.foreign.yaml_text import MOST_BYTES, parse_yaml
from tune_media.values.clip_columns import Columns
from tune_media.values.strict_json import parse_json

PARAMS = ("params/agent.yaml", "params/env.yaml")
HYDRA = (".hydra/config.yaml", ".hydra/hydra.yaml")
SETTINGS = (
    *("config.yml", "args.yml", "train_config.json", "config.yaml", "args.yaml", "args.json", "config.json"),
    *("hparams.yaml", "hparams.json", "hyperparams.yaml", "hyperparameters.yaml", "hyperparameters.json"),
    *("cfg.yaml", "cfg.json", "variant.json"),
)
"""The first are believed more."""
_OF_WANDB = {"value", "desc"}
_CLEANRL = re.compile(r"(?P<env_id>.+)__(?P<exp_name>.+)__(?P<seed>\d{1,18})__\d{9,}")


class SettingsFiles:
    """Files of names and values, and what is to be said of those that cannot be read."""

    def __init__(self, files: RunFiles, paths: Sequence[str]) -> None:
        self._files, self._read = files, dict[str, Mapping[str, Any]]()
        self.not_understood: list[str] = []
        without_yaml: list[str] = []
        remedy = ""
        for path in paths:
            try:
                self._read[path] = self._settings(path)
            except ImportError as error:
                without_yaml, remedy = [*without_yaml, path], error.args[0]
            except (OSError, ValueError) as error:
                self.not_understood.append(unread(path, error))
        if without_yaml:
            self.not_understood.append(f"The hyperparameters in {', '.join(without_yaml)} need PyYAML: " + remedy)

    def __getitem__(self, path: str) -> Mapping[str, Any]:
        """Return what is in a file; nothing if it is not there, or could not be read."""
        return self._read.get(path, {})

    def _settings(self, path: str) -> Mapping[str, Any]:
        content = self._files.read(path)
        if path.endswith(".json"):
            if len(content) > MOST_BYTES:
                raise ValueError(f"it has {len(content) / 1e6:.1f} MB, which is too much for hyperparameters")
            value = parse_json(content)
        else:
            value = parse_yaml(content)
        if value is not None and not isinstance(value, Mapping):
            raise ValueError("it has no names and values")
        return _unwrapped(value or {})

    def told(self, config: Mapping[str, Any], env_id: str | None) -> Told:
        """Return these hyperparameters without the run's own names."""
        own = without_own(config, self._files.run_folder)
        return Told(config=own, env_id=env_id, not_understood=self.not_understood)


def read_params(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read ``params`` as Isaac Lab and mjlab write it: ``agent/lr``, ``env/decimation``."""
    settings = SettingsFiles(files, paths)
    config = {posixpath.basename(path).removesuffix(".yaml"): settings[path] for path in paths if settings[path]}
    env_ids = (env_id_of(config[name]) for name in ("env", "agent") if name in config)
    return settings.told(config, next(filter(None, env_ids), None))


def read_hydra(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read ``.hydra``: the config, and as ``choices/<group>`` the file that was chosen of each group."""
    settings = SettingsFiles(files, paths)
    named = {posixpath.basename(path): settings[path] for path in paths}
    config = dict(named.get("config.yaml", {}))
    chosen: Any = named.get("hydra.yaml")
    for name in ("hydra", "runtime", "choices"):
        chosen = chosen.get(name) if isinstance(chosen, Mapping) else None
    choices = {name: value for name, value in (chosen or {}).items() if not name.startswith("hydra/")}
    env_id = env_id_of(config) or env_id_of(choices)
    return settings.told({**config, **({"choices": choices} if choices else {})}, env_id)


def read_settings(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read the files of hyperparameters that many tools write, of two with one name those of the first.

    Only the outermost are the run's, of several with one name the last: LeRobot's checkpoints have one each. Beside
    others, ``config.json`` is that of the policy.
    """
    depth = min(path.count("/") for path in paths)
    last = {posixpath.basename(path): path for path in paths if path.count("/") == depth}
    names = [name for name in SETTINGS if name in last and (name != "config.json" or len(last) == 1)]
    settings = SettingsFiles(files, [last[name] for name in names])
    config: dict[str, Any] = {}
    for name in names:
        config = {**config, **{key: value for key, value in settings[last[name]].items() if key not in config}}
    return settings.told(config, env_id_of(config))


def read_name(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Read the hyperparameters in the folder's name."""
    config = params_of_name(posixpath.basename(files.run_folder.rstrip("/")))
    return Told(config=config, env_id=config.get("env_id"))


def params_of_name(folder: str) -> dict[str, Any]:
    """Return the hyperparameters in the name of a run's folder as CleanRL makes it; none of any other name.

    >>> params_of_name("CartPole-v1__ppo__3__1690000000"), params_of_name("PPO_1")
    ({'env_id': 'CartPole-v1', 'exp_name': 'ppo', 'seed': 3}, {})
    """
    match = _CLEANRL.fullmatch(folder)
    return {**match.groupdict(), "seed": int(match["seed"])} if match else {}


def _unwrapped(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings without the ``value:`` that W&B puts around each."""
    named = {name: value for name, value in settings.items() if name not in ("wandb_version", "_wandb")}
    wrapped = (
        isinstance(value, Mapping) and "value" in value and value.keys() <= _OF_WANDB for value in named.values()
    )
    return {name: value["value"] for name, value in named.items()} if all(wrapped) else settings
