"""What is to be evaluated and how: the arguments of ``tune_media.evaluate`` as one frozen value."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tune_media.experiment import evaluations
from tune_media.recording.argument_checks import MAX_SEEDS
from tune_media.recording.success import check_success
from tune_media.replay import playing
from tune_media.replay.own_code import facts_of_code
from tune_media.values import checks
from tune_media.values.foreign import without_address
from tune_media.values.problems import argument, remedy
from tune_media.values.safe_names import name_digest, safe_name
from tune_media.values.secrets import HIDDEN, without_secret

LAST, BEST, ALL = WHICH = ("last", "best", "all")
"""The checkpoints of a trial that are evaluated; or a number, that of ``checkpoint_<number>``."""
_MAX_LABEL = 60
MAX_NAME = 100
HOW = {
    "explore": replace(checks.FLAG, or_none=True),
    "connectors": replace(checks.one_of(*playing.CONNECTORS), or_none=True),
}
"""What the arguments take that say how a policy is played."""
_NAME = re.compile(r"[\w][\w.=,+-]{0,100}")
_SEEDS = "seeds such as '0:40', '3,7' or [7]"  # what an argument takes


@dataclass(frozen=True)
class EnvCondition:
    """A change of the env: keys of the ``env_config`` with their values; none: the env of the training."""

    overrides: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The overrides as text; empty if there are none. A key or a password is four digits that depend on it."""
        return " ".join(f"{name}={_shown_value(name, value)}" for name, value in self.overrides)

    @property
    def suffix(self) -> str:
        """The end of the name of a trial's folder under this condition, such as ``_wind=5``."""
        return evaluations.suffix_of(self.label)


@dataclass(frozen=True)
class Request:
    """The checkpoints to play, the seeds, and how.

    >>> Request(seeds=(0, 1, 2)).default_name
    'last-seeds-0-2'
    """

    checkpoint: str = LAST  # ``last``, ``best``, ``all`` or a number
    seeds: tuple[int, ...] = tuple(range(40))  # one episode is played for each
    explore: bool | None = False  # None: as in the evaluations of the training
    connectors: str | None = None  # ``evaluation``, ``training`` or None, see ``PlayerSettings``
    env: str | None = None  # the name of the function that makes the envs; None: as in the training
    policy: str | None = None  # the name of the function that loads policies; None: RLlib's
    conditions: tuple[EnvCondition, ...] = (EnvCondition(),)  # the changes of the env
    only: str | None = None  # the name of the only checkpoint that is played; None: ``checkpoint`` of each trial
    is_fresh: bool = False  # whether nothing was chosen by these seeds
    success: str | None = None  # the value or function that says whether an episode succeeded; None: the training's
    success_when: str | None = None  # when that value counts; None: as in the training

    @classmethod
    def of(
        cls,
        checkpoint: Any,
        seeds: Any,
        explore: Any,
        connectors: Any,
        env: Any,
        policy: Any,
        env_config: Any,
        success: Any = None,
        success_when: Any = None,
    ) -> Request:
        """Check the arguments of ``tune_media.evaluate`` that say what is played. Raises ValueError, TypeError."""
        if policy is not None and env is None:
            needed = argument("env=") + ", a function of the env_config that makes the env."
            raise ValueError(argument("evaluate(policy=...)") + " needs " + needed)
        check_success(success, success_when)
        checks.check_each("evaluate", {"explore": explore, "connectors": connectors}, HOW)
        return cls(
            as_checkpoint(checkpoint),
            evaluation_seeds(seeds),
            explore,
            connectors,
            _function_name("env", env),
            _function_name("policy", policy),
            as_conditions(env_config),
            success=_function_name("success", success, has_code=True),
            success_when=success_when,
        )

    @property
    def default_name(self) -> str:
        """A name that tells it from others; the same request has the same name, so that it is continued."""
        seeds = self.seeds
        which = f"{len(seeds)}-seeds-{name_digest(str(seeds))[:6]}"
        if list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
            which = f"seed-{seeds[0]}" if len(seeds) == 1 else f"seeds-{seeds[0]}-{seeds[-1]}"
        parts = [
            self.checkpoint if self.only is None else self.only.lstrip(".-"),
            which,
            {None: "as-trained", True: "explore", False: ""}[self.explore],
            f"{self.connectors}-connectors" if self.connectors else "",
            *(safe_name(name.rpartition(":")[2], max_length=_MAX_LABEL) for name in (self.env, self.policy) if name),
            "" if self.success is None else f"success-{name_digest(self.success)[:6]}",
            "" if self.success_when is None else f"success-{self.success_when}",
        ]
        return safe_name("-".join(filter(None, parts)), max_length=MAX_NAME)

    def settings(self, condition: EnvCondition, env: Any, success: Any, video: Any) -> playing.PlayerSettings:
        """Return how a checkpoint is played under a condition, with the functions that are meant."""
        how: dict[str, Any] = {"success": success, "success_when": self.success_when, "video": video}
        return playing.PlayerSettings(self.explore, self.connectors, env, dict(condition.overrides), **how)

    def facts(self) -> dict[str, Any]:
        """Return what must be the same when an evaluation is continued, as JSON."""
        return {
            "checkpoint": self.checkpoint,
            "seeds": list(self.seeds),
            "explore": self.explore,
            "connectors": self.connectors,
            "env": self.env,
            "policy": self.policy,
            **({} if self.only is None else {"only": self.only}),
            **({"fresh": True} if self.is_fresh else {}),
            "success": self.success,
            "success_when": self.success_when,
        }


def as_checkpoint(value: Any) -> str:
    """Return the argument ``checkpoint`` as text. Raises ValueError.

    >>> as_checkpoint(3), as_checkpoint("checkpoint_000003")
    ('3', '3')
    """
    text = str(value).removeprefix("checkpoint_")
    if text in WHICH or (text.isdecimal() and not isinstance(value, bool)):
        return text if text in WHICH else str(int(text))
    choices = "'last', 'best', 'all' or the number of a checkpoint"
    raise ValueError(checks.refusal("evaluate(checkpoint=...)", choices, value))


def evaluation_seeds(seeds: Any) -> tuple[int, ...]:
    """Return the seeds of the episodes: a text, or several seeds or texts; a number n stands for 0, ..., n-1.

    >>> evaluation_seeds("0:3,7"), evaluation_seeds(2), evaluation_seeds([7])
    ((0, 1, 2, 7), (0, 1), (7,))
    """
    if isinstance(seeds, str) and seeds.strip().isdecimal():  # a number that is no text means the first ones
        raise ValueError(
            argument("evaluate(seeds=...)")
            + f" takes {checks.as_shown(seeds)} neither as seed {seeds} nor as the first {seeds} seeds: "
            + remedy(f"pass '{seeds}:{int(seeds) + 1}' for the one, or '0:{seeds}' for the others.")
        )
    several = seeds if isinstance(seeds, Iterable) else []
    items = [seeds] if isinstance(seeds, (str, bool)) else list(itertools.islice(several, MAX_SEEDS + 1))
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        items = list(range(min(seeds, MAX_SEEDS + 1)))
    parts = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
    numbers = list(dict.fromkeys(seed for part in parts for seed in _seeds_of(part, seeds)))
    if not numbers:
        raise ValueError(checks.refusal("evaluate(seeds=...)", _SEEDS, seeds))
    if len(numbers) > MAX_SEEDS:
        raise ValueError(checks.refusal("evaluate(seeds=...)", f"at most {MAX_SEEDS:,} seeds", seeds))
    return tuple(numbers)


def in_order(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return seeds in the order in which a gate plays them: that of a hash of each, the same for every gate.

    In the order of their numbers, an env that is harder for later seeds would be judged by its easy ones.

    >>> in_order(range(5)), in_order([4, 2, 0])
    ((1, 3, 2, 4, 0), (2, 4, 0))
    """
    return tuple(sorted(seeds, key=lambda seed: hashlib.blake2b(str(seed).encode()).digest()))


def as_conditions(env_config: Mapping[str, Any] | None) -> tuple[EnvCondition, ...]:
    """Return all combinations of the values of some keys; a value that is no list is the only one of its key."""
    if not env_config:
        return (EnvCondition(),)
    if not isinstance(env_config, Mapping):
        raise TypeError(checks.refusal("evaluate(env_config=...)", "a dict of keys and values", env_config))
    choices = [
        [(str(name), value) for value in (values if isinstance(values, (list, tuple)) else [values])]
        for name, values in env_config.items()
    ]
    return tuple(EnvCondition(combination) for combination in itertools.product(*choices))


def parsed_env_config(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of ``key=a,b,c``: JSON where they are, otherwise text. Raises ValueError.

    >>> parsed_env_config(["wind=0,5.5", "mode=hard"])
    {'wind': [0, 5.5], 'mode': ['hard']}
    """
    config = {}
    for text in texts:
        name, sign, values = text.partition("=")
        if not sign or not name:
            raise ValueError(checks.refusal("evaluate(env_config=...)", "key=value or key=a,b,c", text))
        whole = _value(values)
        config[name] = [whole] if not isinstance(whole, str) else [_value(value) for value in values.split(",")]
    return config


def check_name(name: str) -> str:
    """Return the name of an evaluation, which becomes that of a folder. Raises ValueError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(checks.refusal("evaluate(name=...)", "letters, digits and '_.=,+-', at most 100", name))
    return name


def _seeds_of(part: Any, seeds_argument: Any) -> list[int]:
    try:
        if isinstance(part, str) and ":" in part:
            first, last = part.split(":")
            seeds = list(range(int(first or 0), int(last))[: MAX_SEEDS + 1])
        else:
            seeds = [int(part)]
    except (TypeError, ValueError):
        seeds = [-1]
    if isinstance(part, (bool, float)) or any(seed < 0 for seed in seeds):
        raise ValueError(checks.refusal("evaluate(seeds=...)", _SEEDS, seeds_argument))
    return seeds


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown_value(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if without_secret(name, value) == value else f"{HIDDEN}{name_digest(text)[:4]}"


def _function_name(name: str, value: Any, *, has_code: bool = False) -> str | None:
    """Return the name of an argument's function; ``has_code`` tells lambdas and partials with other content apart."""
    if value is None or isinstance(value, str):
        return value
    if not callable(value):
        raise TypeError(checks.refusal(f"evaluate({name}=...)", "a function or 'module:function'", value))
    place = f"{getattr(value, '__module__', '?')}:{getattr(value, '__qualname__', type(value).__name__)}"
    return f"{place} {code_digest(value)}" if has_code else place


def code_digest(function: Any) -> str:
    """Return a hash of a function's code, defaults and plain closure values; None has one, too."""
    return name_digest(without_address(repr(_code_of(function))))


def _code_of(function: Any) -> Any:
    """Return a function's code, defaults and closure values."""
    if isinstance(function, functools.partial):
        return _code_of(function.func), function.args, function.keywords
    code = getattr(function, "__code__", None)
    if code is None:
        return vars(function) if hasattr(function, "__dict__") else None
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return facts_of_code(code), function.__defaults__, function.__kwdefaults__, held
