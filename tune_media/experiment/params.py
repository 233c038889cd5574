"""The hyperparameters of trials: flat, and those that tell trials apart."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tune_media.storage.trial_folder import SAMPLED, is_object, is_stand_in, value_at
from tune_media.values.foreign import is_a, shown, whole_characters, without_address
from tune_media.values.secrets import without_secret

_MAX_LIST_CHARACTERS = 80
_SCALARS = frozenset({bool, int, float, str, type(None)})
_SEED = re.compile(r"(^|_)(seed|rng)(_|$)|^random_state$", re.IGNORECASE)
_SEED_PART = re.compile(r"(?:^|[-_.,/ ]+)seed[-_=: ]?\d+(?=$|[-_.,/ ])", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"[-_#/ ]*(\d+)$")
_BEFORE_OTHERS = re.compile(  # a decimal, an exponent, a setting, a version, a time, a date
    r"(\d\.|\de[-+]?|[=:]|(^|[-_/ ])v)$|\d\d[-_:.h]\d\d[-_:.hmT]$|(19|20)\d{6}[-_T]?$", re.IGNORECASE
)


WORDS = {
    "none": "None",
    "null": "None",
    "nan": "nan",
    "inf": "inf",
    "infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
    "unset": "unset",
    "unknown": "unknown",
}
"""The words for values that are no texts and no finite numbers, in lower case, and as titles show them."""


class Absent:
    """Stands for a hyperparameter that a trial has not, which is no None; there are two."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNSET, UNKNOWN = Absent("unset"), Absent("unknown")


class UnknownConfig(dict[str, Any]):
    """The hyperparameters of a trial whose ``params.json`` is damaged: it has none that anybody can read."""


def is_unknown(config: Mapping[str, Any]) -> bool:
    """Return whether a trial's ``params.json`` is damaged."""
    return is_a(config, UnknownConfig)


class OnlyNamed(dict[str, Any]):
    """The hyperparameters of a run of which nobody knows any, but for seeds: its name tells what it is a run of."""

    def __init__(self, config: Mapping[str, Any], name: str, of_runs: str) -> None:
        super().__init__(config)
        self.name, self.of_runs = name, of_runs


def names_of(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of a run, and that of all runs of its configuration; empty if its hyperparameters tell it."""
    return (config.name, config.of_runs) if isinstance(config, OnlyNamed) else ("", "")


def name_without_seed(name: str) -> str:
    """Return the name of a run without the part that names its seed.

    >>> [name_without_seed(name) for name in ("ppo_seed3", "run-seed=1", "seed_2/ppo", "ppo/seed_2", "seed1", "PPO_1")]
    ['ppo', 'run', 'ppo', 'ppo', 'seed', 'PPO_1']
    """
    return _SEED_PART.sub("", name).strip("-_.,/ ") or "seed"


def name_of_runs(name: str) -> str:
    """Return the name of a run without its seed, or else without its last number, if that seems to count runs.

    >>> [name_of_runs(name) for name in ("PPO_1", "run12", "ppo_seed3", "7")]
    ['PPO', 'run', 'ppo', '7']
    >>> [name_of_runs(name) for name in ("lr_0.1", "lr=1e-3", "layers=2", "Ant-v4", "2024-05-01_12-00-37")]
    ['lr_0.1', 'lr=1e-3', 'layers=2', 'Ant-v4', '2024-05-01_12-00-37']
    """
    number = _LAST_NUMBER.search(name)
    if _SEED_PART.search(name):
        return name_without_seed(name)
    if number is None or number.start() == 0 or _BEFORE_OTHERS.search(name[: number.start(1)]):
        return name
    return name[: number.start()]


def setting_of(config: Mapping[str, Any], name: str) -> Any:
    """Return a hyperparameter; ``UNSET`` if the trial has it not, ``UNKNOWN`` if its ``params.json`` is damaged.

    >>> setting_of({"lr": None}, "lr"), setting_of({}, "lr"), setting_of(UnknownConfig(), "lr")
    (None, unset, unknown)
    """
    return config[name] if name in config else UNKNOWN if is_unknown(config) else UNSET


def settings_of(config: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the hyperparameters of these names that a trial has."""
    return {name: config[name] for name in names if name in config}


def in_quotes(text: str) -> str:
    """Return a text as titles and filters have it: in quotes if it would else stand for another value.

    >>> in_quotes("relu"), in_quotes("NaN"), in_quotes("none")
    ('relu', '"NaN"', '"none"')
    """
    return f'"{text}"' if text.strip('"').lower() in WORDS else text


def nested_choice(evaluated: Any, unresolved: Any) -> dict[str, Any]:
    """Return the hyperparameters that Tune chose for a trial as a tree, with its stand-ins for objects and samples.

    ``unresolved`` is the config before Tune put these in: only it has the functions that sample.
    """
    tree: dict[str, Any] = _sampled(unresolved if is_a(unresolved, Mapping) else {})
    for name, value in (evaluated if is_a(evaluated, Mapping) else {}).items():
        *outer, last = whole_characters(name).split("/")
        inside: Any = tree
        for part in outer:
            inner = inside.get(part)
            inside[part] = inside = dict(inner) if is_a(inner, Mapping) else {}
        inside[last] = value
    return tree


def _sampled(config: Mapping[str, Any]) -> dict[str, Any]:
    sampled = {}
    for name, value in config.items():
        if type(value) in _SCALARS:
            continue
        inner: Any = _sampled(value) if is_a(value, Mapping) else value
        if (is_stand_in(inner) and inner[0] == SAMPLED) or (is_a(inner, dict) and inner):
            sampled[whole_characters(shown(name, str))] = inner
    return sampled


def searched_params(config: Mapping[str, Any], chosen: Any) -> dict[str, Any]:
    """Return the hyperparameters that Tune chose (``nested_choice``), by path, with the values of ``plain_config``."""
    searched: dict[str, Any] = {}
    _add_searched(searched, "", config, chosen)
    return searched


def _add_searched(searched: dict[str, Any], name: str, value: Any, chosen: Any) -> None:
    if is_a(chosen, Mapping) and chosen:
        for part, inner in chosen.items():
            _add_searched(searched, f"{name}/{part}" if name else str(part), value_at(value, part), inner)
    elif is_a(value, Mapping) and value:  # one object was chosen that is a dict
        for part, inner in value.items():
            _add_searched(searched, f"{name}/{part}", inner, None)
    elif value is not None or not is_stand_in(chosen):
        searched[name] = chosen if value is None else value
    elif is_object(chosen):
        searched[name] = f"<object {chosen[1]}>"


def is_seed(name: str) -> bool:
    """Return whether a hyperparameter is a training seed, by its name.

    >>> [name for name in ("seed", "env_config/env_seed", "agent.seed", "rng", "seeds", "speed", "lr") if is_seed(name)]
    ['seed', 'env_config/env_seed', 'agent.seed', 'rng']
    """
    return bool(_SEED.search(re.split("[/.]", name)[-1]))


def title_of_choice(searched: Mapping[str, Any]) -> str:
    """Return the hyperparameters that Tune chose for a trial, so that the runs of one configuration have one title.

    Training seeds are left out, and names that begin with two underscores, see ``differing``. Without any other it is
    the name that the runs share, if nobody knows their hyperparameters.

    >>> title_of_choice({"lr": 0.1, "env_config/wind": None, "seed": 3, "__trial_index__": 1}), title_of_choice({})
    ('lr 0.1 · wind None', 'all trials')
    >>> title_of_choice(OnlyNamed({"seed": 3}, "PPO_1", "PPO"))
    'PPO'
    """
    names = [name for name in searched if not is_seed(name) and not name.startswith("__")]
    names.sort(key=lambda name: (name.count("/"), name))
    chosen = [(name.rpartition("/")[2], without_secret(name, searched[name])) for name in names]
    told = [f"{name} {f'{value:.12g}' if isinstance(value, float) else value}" for name, value in chosen]
    return " · ".join(told) or names_of(searched)[1] or "all trials"


def flat_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield scalars and lists by name, nested ones as ``outer/inner``, without addresses; long ones end in a CRC."""
    for key, value in values.items():
        name = sys.intern(f"{prefix}{whole_characters(key)}")  # all trials have the same ones
        if type(value) in _SCALARS and type(value) is not str:  # most are
            yield name, value
        elif isinstance(value, Mapping):
            yield from flat_values(value, f"{name}/")
        elif isinstance(value, str) and value.startswith("<"):  # Tune writes an object as its repr
            yield name, whole_characters(without_address(value))
        elif value is None or isinstance(value, (bool, int, float, str)):
            yield name, whole_characters(value) if isinstance(value, str) else value
        elif isinstance(value, list):
            yield name, _list_text(without_address(json.dumps(value)))


def differing(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the hyperparameters that are not the same in all trials, outer ones first.

    Memory addresses do not count, nor does a trial that has not written its hyperparameters yet, nor names that begin
    with two underscores, which are Tune's own, such as those of a ``Repeater``.
    """
    written = [of_trial for of_trial in params if of_trial]
    names = [name for name in dict.fromkeys(itertools.chain(*written)) if not name.startswith("__")]
    rows = [list(map(of_trial.get, names, itertools.repeat(UNSET))) for of_trial in written]  # fast: one dict at a time
    differ = [name for name, values in zip(names, zip(*rows, strict=True), strict=True) if _differs(values)]
    return sorted(differ, key=lambda name: (name.count("/"), name))


def _differs(values: Sequence[Any]) -> bool:
    if len(set(map(type, values))) == 1 and values.count(values[0]) == len(values):  # most are; texts take long to make
        return False
    return len({comparable(value) for value in values}) > 1


def _list_text(text: str) -> str:
    """Return the JSON of a list for a table, a long one cut, with a hash: two lists never have the same text."""
    if len(text) <= _MAX_LIST_CHARACTERS:
        return text
    return f"{text[: _MAX_LIST_CHARACTERS - 20]}... {hashlib.blake2s(text.encode(), digest_size=4).hexdigest()}"


def comparable(value: Any) -> str:
    """Return a text that is the same for the same hyperparameter, in whatever process it was written."""
    return without_address(repr(value))
