"""The folder of a trial: the names of its files, and its hyperparameters as they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tune_media.values.foreign import is_a, shown, whole_characters, without_address
from tune_media.values.plain import pack

PARAMS, RESULTS = "params.json", "result.json"
SAMPLED = "__fn_ph"  # Tune's mark of a value that a function makes
_OBJECT = "__ref_ph"  # and of an object, before its id
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def plain_config(config: Any, chosen: Any = None) -> Any:
    """Return hyperparameters as plain data: functions, classes and other objects become their text.

    A text that does not tell an object from others, since it has an address or names a local class, gets Tune's id of
    the object (``nested_choice``): it is the same in all trials, trackers and readers, also after a restore.
    """
    if is_a(config, dict):
        named = ((whole_characters(shown(key, str)), value) for key, value in config.items())
        return {name: plain_config(value, value_at(chosen, name)) for name, value in named}
    if is_a(config, (list, tuple)):
        kind = tuple if type(config) is tuple else list
        return kind(plain_config(value, value_at(chosen, number)) for number, value in enumerate(config))
    if is_a(config, str):
        text = whole_characters(shown(config, str))
        return _object_text(text, chosen) if is_object(chosen) else text
    try:
        pack(config)
    except Exception:
        return _object_text(whole_characters(shown(config, str)), chosen)
    return config


def value_at(tree: Any, key: Any) -> Any:
    """Return what is at a key of a dict or a place of a list; None if there is nothing. A key may hold a ``/``."""
    if is_a(tree, Mapping) and key in tree:
        return tree[key]
    for part in shown(key, str).split("/"):
        if is_a(tree, Mapping):
            tree = tree.get(part)
        elif is_a(tree, (list, tuple)) and part.isdecimal() and int(part) < len(tree) and not is_stand_in(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def is_stand_in(chosen: Any) -> bool:
    """Return whether Tune put this into a config in place of an object or of a sampled value."""
    return is_a(chosen, (list, tuple)) and len(chosen) == 2 and chosen[0] in (_OBJECT, SAMPLED)


def is_object(chosen: Any) -> bool:
    """Return whether it stands for an object, whose id is the second of it."""
    return is_stand_in(chosen) and chosen[0] == _OBJECT


def _object_text(text: str, chosen: Any) -> str:
    if is_object(chosen):
        text, count = _ADDRESS.subn(f" {chosen[1]}", text, count=1)
        if not count and "<locals>" in text:
            text = f"{text[:-1]} {chosen[1]}>" if text.endswith(">") else f"{text} {chosen[1]}"
    return without_address(text)
