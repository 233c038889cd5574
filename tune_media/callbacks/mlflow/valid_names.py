"""Names that MLflow takes for metrics, parameters, tags, artifacts and images."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

_MAX_NAME = 250


def valid_name(name: str) -> str:
    """Return a name that MLflow takes: ``loss@train`` becomes ``loss_0x40_train``. Different names stay different.

    Names longer than MLflow takes end in a digest instead.
    """
    escaped = re.sub("_(?=0x)", "_0x5f_", name)
    valid = _escaped(escaped, r"[^/A-Za-z0-9_.\- ]")
    parts = [part if part.strip(".") else f"_0x{ord('.'):x}_" * len(part) or "_0x_" for part in valid.split("/")]
    valid = "/".join(parts)
    if len(valid) > _MAX_NAME:
        valid = f"{valid[: _MAX_NAME - 17]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}"
    return valid


def artifact_name(name: str) -> str:
    """Return a name that is a safe path of an artifact."""
    return re.sub(r"[^0-9A-Za-z_.=/-]", "_", name)


def clip_path(path: str, facts: Mapping[str, Any]) -> str:
    """Return the path of a medium's artifact: as in the trial's folder, with the return of a clip's episode added.

    >>> clip_path("media/train/clip/step_000004000-0123456789ab.mp4", {"episode_return": 231.0})
    'media/train/clip/step_000004000-return_231-0123456789ab.mp4'
    """
    number = facts.get("episode_return")
    folder, slash, name = path.rpartition("/")
    step, dash, rest = name.partition("-")
    if not dash or isinstance(number, bool) or not isinstance(number, (int, float)):
        return path
    return f"{folder}{slash}{step}-return_{number:.6g}-{rest}".replace("+", "")


def image_file(key: str, step: int, time_ms: int, id: str) -> str:
    """Return the path of a picture, without its ending, from which MLflow's page reads key, step and time.

    MLflow itself gives such names since 3.11. The code of the page of 2.18 reads them, too, with ``~`` for ``/``.
    """
    plain = re.sub(r"[^0-9A-Za-z_./ -]", "_", key).replace("/", "~")
    return f"images/{plain}+step+{step}+timestamp+{time_ms}+{id}"


def tag_value(text: str) -> str:
    """Return a text that MLflow's filters can name: their language cannot write every character."""
    return _escaped(text, r"[^0-9A-Za-z_./=-]")


def _escaped(text: str, characters: str) -> str:
    return re.sub(characters, lambda match: f"_0x{ord(match.group()):x}_", text)
