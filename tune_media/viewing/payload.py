"""The JSON that the front end reads: clips in columns, trials with the hyperparameters that differ, metrics by trial.

Columns keep it small: 100,000 clips are a few MB before compression. A column is one of

    {"same": value}                        every clip has this value
    {"of": [values], "at": [numbers]}      each clip has the value at that place of the list
    {"all": [values]}                      one value a clip
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from tune_media.values.score import RETURNS, known_returns
from tune_media.viewing.media_columns import as_number
from tune_media.viewing.trial_folder import Line, TrialFolder

_MAX_PARAMS = 40
_MAX_TEXT = 120
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_TEXTS = ("section", "key", "kind", "agent", "view", "note")
_NUMBERS = {
    "step": "step",
    "iteration": "training_iteration",
    "return": "episode_return",
    "length": "episode_length",
    "frames": "frames",
    "fps": "fps",
    "stride": "frame_stride",
    "width": "width",
    "height": "height",
    "bytes": "bytes",
    "seed": "seed",
}


def index_payload(
    trials: Sequence[TrialFolder],
    title: str,
    lines_of: Callable[[TrialFolder], Sequence[Line]] = lambda trial: trial.lines,
) -> dict[str, Any]:
    """Return the trials and their clips.

    Args:
        trials: The trials.
        title: Shown at the top of the page.
        lines_of: Returns the index lines of a trial's clips.

    Example:
        >>> index_payload([], "nothing")["clips"]["count"]
        0
    """
    params = differing_params([trial.params for trial in trials])
    rows = [(number, line) for number, trial in enumerate(trials) for line in lines_of(trial)]
    lines = [line for _, line in rows]
    clips: dict[str, Any] = {
        "count": len(rows),
        "trial": column([number for number, _ in rows]),
        "folder": column([posixpath.dirname(line["path"]) for line in lines]),
        "file": column([posixpath.basename(line["path"]) for line in lines]),
        "rolled_back": column([bool(line.get("rolled_back")) for line in lines]),
    }
    clips |= {name: column([_text(line.get(name)) for line in lines]) for name in _TEXTS}
    clips |= {name: column([_number(line.get(field)) for line in lines]) for name, field in _NUMBERS.items()}
    return {
        "title": title,
        "params": params,
        "returns": RETURNS,
        "trials": [
            {
                "id": trial.id,
                "name": trial.name,
                "url": f"media/{trial.id}/",
                "params": {name: _param(trial.params.get(name)) for name in params},
            }
            for trial in trials
        ],
        "clips": clips,
    }


def first_payload(trials: Sequence[TrialFolder], title: str, metrics: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return as much as the first view shows: of each trial and key the last and the best clip, and the scores.

    It has the form of ``index_payload``, with the metrics that rank the trials added.

    Example:
        >>> first_payload([], "nothing", [])["metrics"]
        {'trials': [], 'metrics': {}}
    """
    known = known_returns(name for found in metrics for name in found)
    scores = [{name: found[name] for name in known if name in found} for found in metrics]
    payload = index_payload(trials, title, shown_lines)
    return {**payload, "is_first": True, "metrics": metrics_payload(trials, scores)}


def shown_lines(trial: TrialFolder) -> list[Line]:
    """Return the index lines of the last and the best clip under each key of a trial.

    Example:
        >>> shown_lines(TrialFolder("PPO_1", None, "/tmp/no/such/experiment/PPO_1"))
        []
    """
    last: dict[tuple[str, str], float] = {}
    best: dict[tuple[str, str], tuple[bool, float, int]] = {}
    facts = [_group_and_rank(line) for line in trial.lines]
    for number, (line, (group, step, value)) in enumerate(zip(trial.lines, facts, strict=True)):
        last[group] = max(step, last.get(group, step))
        rank = (not line.get("rolled_back"), value, number)
        best[group] = max(rank, best.get(group, rank))
    return [
        line
        for number, (line, (group, step, _)) in enumerate(zip(trial.lines, facts, strict=True))
        if step == last[group] or number == best[group][-1]
    ]


def _group_and_rank(line: Line) -> tuple[tuple[str, str], float, float]:
    """Return the section and the key, the step, and the return of a clip; the lowest numbers if it has none."""
    step, value = _number(line.get("step")), _number(line.get("episode_return"))
    lowest = float("-inf")
    return (line["section"], line["key"]), lowest if step is None else step, lowest if value is None else value


def metrics_payload(trials: Sequence[TrialFolder], metrics: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the metrics of trials: ``{"trials": [id, ...], "metrics": {name: [value or null, ...]}}``.

    Example:
        >>> metrics_payload([TrialFolder("a", None, "/a")], [{"loss": 1.0}])["metrics"]
        {'loss': [1.0]}
    """
    names = sorted({name for found in metrics for name in found})
    return {
        "trials": [trial.id for trial in trials],
        "metrics": {name: [found.get(name) for found in metrics] for name in names},
    }


def differing_params(params: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the hyperparameters that are not the same in all trials.

    Memory addresses inside of texts do not count as a difference.

    Example:
        >>> differing_params([{"lr": 0.1, "env": "A"}, {"lr": 0.2, "env": "A"}])
        ['lr']
    """
    if len(params) < 2:
        return []
    names = dict.fromkeys(name for found in params for name in found)
    differ = [name for name in names if len({_comparable(found.get(name)) for found in params}) > 1]
    return sorted(differ, key=lambda name: (name.count("/"), name))[:_MAX_PARAMS]


def column(values: Sequence[Any]) -> dict[str, Any]:
    """Return a column in the shortest of its three forms.

    Example:
        >>> column([7, 7]), column(["a", "b", "a", "a"])
        ({'same': 7}, {'of': ['a', 'b'], 'at': [0, 1, 0, 0]})
    """
    places: dict[Any, int] = {}
    at = [places.setdefault(value, len(places)) for value in values]
    if len(places) <= 1:
        return {"same": next(iter(places), None)}
    if len(places) <= len(values) // 2 and any(isinstance(value, str) for value in places):
        return {"of": list(places), "at": at}
    return {"all": list(values)}


def json_content(payload: Any) -> bytes:
    """Return a payload as compact JSON that any browser parses: ASCII, and no number that is not finite.

    Example:
        >>> json_content({"a": "é"})
        b'{"a":"\\\\u00e9"}'
    """
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode("ascii")


def finite(value: Any) -> Any:
    """Return a value of JSON with null for each number that is not finite, and text for anything unknown.

    Example:
        >>> finite({"a": [1.0, float("nan")]})
        {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def url_path(path: str) -> str:
    """Return a path as a part of a URL; slashes stay.

    Example:
        >>> url_path("a=1,b #x%/c.mp4")
        'a%3D1%2Cb%20%23x%25/c.mp4'
    """
    return quote(path.encode("utf-8", "surrogatepass"), safe="/")


def etag_of(content: bytes) -> str:
    """Return a short digest of a file's content.

    Example:
        >>> etag_of(b"") == etag_of(b"")
        True
    """
    return hashlib.blake2s(content, digest_size=12).hexdigest()


def _param(value: Any) -> Any:
    value = finite(value)
    return _text(value) if isinstance(value, str) else value


def _text(value: Any) -> str | None:
    """Return a text of bounded length, or None."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 1]}…"


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(as_number(value)) else None


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return _ADDRESS.sub("", value)
    return json.dumps(value) if isinstance(value, float) else value
