"""The hyperparameters of trials: flat, and those that tell trials apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tune_media.values.foreign import is_a, items_of, members_of, shown, whole_characters, without_address
from tune_media.values.plain import pack

PARAMS = "params.json"
_SAMPLED = "__fn_ph"  # Tune's mark of a value that a function makes
_OBJECT = "__ref_ph"  # and of an object, before its id
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MAX_LIST_CHARACTERS = 80
_CLEANRL = re.compile(r"(?P<env_id>.+)__(?P<exp_name>.+)__(?P<seed>\d{1,18})__\d{9,}")


def plain_config(config: Any, chosen: Any = None) -> Any:
    """Return hyperparameters as plain data: functions, classes and other objects become their text.

    A text that does not tell an object from others, since it has an address or names a local class, gets Tune's id of
    the object (``nested_choice``): it is the same in all trials, trackers and readers, also after a restore.
    """
    if is_a(config, dict):
        named = ((whole_characters(shown(key, str)), value) for key, value in items_of(config))
        return {name: plain_config(value, _at(chosen, name)) for name, value in named}
    if is_a(config, (list, tuple)):
        values = members_of(config, tuple if is_a(config, tuple) else list)
        kind = tuple if type(config) is tuple else list
        return kind(plain_config(value, _at(chosen, number)) for number, value in enumerate(values))
    if is_a(config, str):
        text = whole_characters(shown(config, str))
        return _object_text(text, chosen) if _is_object(chosen) else text
    try:
        pack(config)
    except Exception:
        return _object_text(whole_characters(shown(config, str)), chosen)
    return config


def params_of_name(folder: str) -> dict[str, Any]:
    """Return the hyperparameters in the name of a run's folder as CleanRL makes it; none of any other name.

    >>> params_of_name("CartPole-v1__ppo__3__1690000000"), params_of_name("PPO_1")
    ({'env_id': 'CartPole-v1', 'exp_name': 'ppo', 'seed': 3}, {})
    """
    match = _CLEANRL.fullmatch(folder)
    return {**match.groupdict(), "seed": int(match["seed"])} if match else {}


def nested_choice(evaluated: Any, unresolved: Any) -> dict[str, Any]:
    """Return what Tune chose for a trial as a tree, with Tune's stand-ins for objects and sampled values.

    ``unresolved`` is the config before Tune put objects and sampled values in: only there is said what a function
    samples.
    """
    tree: dict[str, Any] = _sampled(unresolved if is_a(unresolved, Mapping) else {})
    for name, value in (evaluated if is_a(evaluated, Mapping) else {}).items():
        *outer, last = whole_characters(name).split("/")
        at: Any = tree
        for part in outer:
            inner = at.get(part)
            at[part] = at = dict(inner) if is_a(inner, Mapping) else {}
        at[last] = value
    return tree


def _sampled(config: Mapping[str, Any]) -> dict[str, Any]:
    sampled = {}
    for name, value in config.items():
        inner: Any = _sampled(value) if is_a(value, Mapping) else value
        if (_is_stand_in(inner) and inner[0] == _SAMPLED) or (is_a(inner, dict) and inner):
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
            _add_searched(searched, f"{name}/{part}" if name else str(part), _at(value, part), inner)
    elif is_a(value, Mapping) and value:  # one object was chosen that is a dict
        for part, inner in value.items():
            _add_searched(searched, f"{name}/{part}", inner, None)
    elif value is not None or not _is_stand_in(chosen):
        searched[name] = chosen if value is None else value
    elif _is_object(chosen):
        searched[name] = f"<object {chosen[1]}>"


def _at(tree: Any, key: Any) -> Any:
    """Return what is at a key of a dict or a place of a list; None if there is nothing. A key may hold a ``/``."""
    if is_a(tree, Mapping) and key in tree:
        return tree[key]
    for part in shown(key, str).split("/"):
        if is_a(tree, Mapping):
            tree = tree.get(part)
        elif is_a(tree, (list, tuple)) and part.isdecimal() and int(part) < len(tree) and not _is_stand_in(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def _is_stand_in(chosen: Any) -> bool:
    return is_a(chosen, (list, tuple)) and len(chosen) == 2 and chosen[0] in (_OBJECT, _SAMPLED)


def _is_object(chosen: Any) -> bool:
    return _is_stand_in(chosen) and chosen[0] == _OBJECT


def _object_text(text: str, chosen: Any) -> str:
    if _is_object(chosen):
        text, count = _ADDRESS.subn(f" {chosen[1]}", text, count=1)
        if not count and "<locals>" in text:
            text = f"{text[:-1]} {chosen[1]}>" if text.endswith(">") else f"{text} {chosen[1]}"
    return without_address(text)


def flat_values(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield scalars and lists by name, nested ones as ``outer/inner``, without addresses; long ones end in a CRC."""
    for key, value in values.items():
        name = whole_characters(key)
        if isinstance(value, Mapping):
            yield from flat_values(value, f"{prefix}{name}/")
        elif isinstance(value, str) and value.startswith("<"):  # Tune writes an object as its repr
            yield f"{prefix}{name}", whole_characters(without_address(value))
        elif value is None or isinstance(value, (bool, int, float, str)):
            yield f"{prefix}{name}", whole_characters(value) if isinstance(value, str) else value
        elif isinstance(value, list):
            yield f"{prefix}{name}", _list_text(without_address(json.dumps(value)))


def differing(params: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the hyperparameters that are not the same in all trials, outer ones first.

    Memory addresses do not count as a difference, nor does a trial without hyperparameters: it has not written them
    yet.
    """
    written = [of_trial for of_trial in params if of_trial]
    names = dict.fromkeys(name for of_trial in written for name in of_trial)
    differ = [name for name in names if _differs([of_trial.get(name) for of_trial in written])]
    return sorted(differ, key=lambda name: (name.count("/"), name))


def _differs(values: Sequence[Any]) -> bool:
    if len(set(map(type, values))) == 1 and values.count(values[0]) == len(values):  # most are; texts take long to make
        return False
    return len({comparable(value) for value in values}) > 1


def _list_text(text: str) -> str:
    """Return the JSON of a list as one reads it in a table; two lists never have the same text.

    >>> _list_text("[1, 2]"), _list_text(str([0] * 100))
    ('[1, 2]', '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,... 6113edeb')
    """
    if len(text) <= _MAX_LIST_CHARACTERS:
        return text
    return f"{text[: _MAX_LIST_CHARACTERS - 20]}... {hashlib.blake2s(text.encode(), digest_size=4).hexdigest()}"


def comparable(value: Any) -> str:
    """Return a text that is the same for the same hyperparameter, in whatever process it was written."""
    return without_address(repr(value))
