"""Hyperparameters as other tools write them: their task, their references, and what is only the run's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tune_media.values.secrets import is_secret_name, redacted

_ENVS = ("env_id", "env_name", "gym_id", "env", "environment", "environment_name")
_DOMAINS = ("domain_name", "domain")
_TASKS = ("task", "task_name", "task_id")
_OUTER = ("env", "environment", "task")
TASK_NAMES = frozenset((*_ENVS, *_DOMAINS, *_TASKS, *_OUTER))
"""The names of hyperparameters, or of groups of them, that may say which task it is."""
_NO_ENV = frozenset({"", "none", "null", "???", "rlgpu"})  # rl_games calls the env of any task in Isaac Lab rlgpu
_NO_NAME = re.compile(r"^<|[\n{]")  # an object's text, or a reference that leads nowhere

_OWN = re.compile(
    r"(?:.*[/.])?"
    r"(?:(?:logs?|logger|out|output|save|work|run|results?|video|tensorboard)_?(?:dir|directory|path|folder|root)"
    r"|(?:wandb_)?run_?(?:id|name)|wandb_id|tensorboard_log|uuid|timestamp|start_time"
    r"|_(?!_)\w*[^\W_]"  # a private attribute, such as _last_obs, which SB3's callback gives to W&B
    r"|<.*>)",  # an object, such as Spinning Up's logger and its file
    re.IGNORECASE | re.DOTALL,
)
_UNIQUE = re.compile(r"(?:\d[-_:.T]?){6}|(?<![^\W_])[0-9a-f]{8}(?![^\W_])")  # a time, or W&B's kind of id
_REFERENCE = re.compile(r"\$\{\s*(\w[\w.]*)\s*\}")
_MOST_REFERENCES = 10  # that lead to each other


def settings_of_command(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the hyperparameters in the arguments of a command.

    >>> settings_of_command(["run", "--env-id", "Ant-v5", "--lr=1e-4", "--layers", "64", "64", "--cuda"])
    {'env_id': 'Ant-v5', 'lr': 0.0001, 'layers': [64, 64], 'cuda': True}
    """
    found: dict[str, list[Any]] = {}
    values: list[Any] = []
    for word in arguments:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name.replace("-", "_")] = values = [literal(value)] if value else []
        else:
            values.append(literal(word))
    return {name: True if not own else own[0] if len(own) == 1 else own for name, own in found.items()}


def env_id_of(config: Mapping[str, Any]) -> str | None:
    """Return the task that hyperparameters name; None if no name in them says that it is the task.

    >>> env_id_of({"task": "run", "env_name": "Ant-v5"}), env_id_of({"env": {"name": "cheetah", "task": "run"}})
    ('Ant-v5', 'cheetah/run')
    >>> env_id_of({"env": "<DummyVecEnv object at 0x7f10>", "task": "${now:%H}"}) is None
    True
    >>> env_id_of({"task_name": "${task.name}", "task": {"name": "Cartpole"}}), env_id_of({"env": {"fps": 30}})
    ('Cartpole', None)
    """
    inner = [config[name] for name in _OUTER if isinstance(config.get(name), Mapping)]
    env, domain, task = (_first_text(config, names, config) for names in (_ENVS, _DOMAINS, _TASKS))
    found = [env or "/".join(filter(None, (domain, task)))]
    for settings in inner:
        parts = [_first_text(settings, names, config) for names in (("id", *_ENVS, *_DOMAINS, "name"), _TASKS)]
        found.append("/".join(filter(None, parts)))
    return redacted(next(filter(None, found), "")) or None


def _first_text(settings: Mapping[str, Any], names: Iterable[str], config: Mapping[str, Any]) -> str:
    referred = (_referred(settings.get(name), config) for name in names)
    texts = (value.strip() for value in referred if isinstance(value, str))
    return next((text for text in texts if text.lower() not in _NO_ENV and not _NO_NAME.search(text)), "")


def _referred(value: Any, config: Mapping[str, Any]) -> Any:
    """Return the value that a reference of Hydra, such as ``${task.name}``, leads to."""
    for _ in range(_MOST_REFERENCES):
        reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if reference is None:
            break
        value = config
        for name in reference[1].split("."):
            value = value.get(name) if isinstance(value, Mapping) and not is_secret_name(name) else None
    return value


def without_own(config: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return hyperparameters without the names and folders of the run itself: with them, no two runs would be equal.

    >>> without_own({"lr": 0.1, "logdir": "/logs/a", "of": "01-31_10-20-30", "data": "all/a"}, "a/01-31_10-20-30")
    {'lr': 0.1, 'data': 'all/a'}
    >>> without_own({"net": {"_target_": "Net", "_last_obs": "[0.1]"}}, "a")
    {'net': {'_target_': 'Net'}}
    """
    ends = folder.strip("/").split("/")[-2:]

    def kept(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: kept(value) if isinstance(value, Mapping) else value
            for name, value in settings.items()
            if value is None or not (_OWN.fullmatch(name) or _names_folder(value, ends))
        }

    return kept(config)


def _names_folder(value: Any, ends: Sequence[str]) -> bool:
    """Return whether a text is a path with the last two folders of the run's, or the last one if it has a time."""
    if not isinstance(value, str) or not ends or ends[-1] not in value:
        return False
    path = f"/{value.strip('/')}/"
    return f"/{'/'.join(ends)}/" in path or (bool(_UNIQUE.search(ends[-1])) and f"/{ends[-1]}/" in path)


def literal(text: str) -> Any:
    """Return the plain value of which a file has Python's text; any other text as it is.

    >>> literal("2.5e-4"), literal("None"), literal("(64, 64)"), literal("Ant-v5"), literal("007")
    (0.00025, None, [64, 64], 'Ant-v5', '007')
    """
    try:
        return _plain(ast.literal_eval(text))
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set)):
        return list(map(_plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError("JSON has no such value")
