"""The values of a result that go to W&B, as plain values that W&B's helper process understands."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tune_media.callbacks.shown_values import caption_of
from tune_media.callbacks.wandb import private_names
from tune_media.experiment.stored_media import iteration_of
from tune_media.storage.entry import MediaEntry
from tune_media.storage.index_lines import Line
from tune_media.values.artifact import Artifact
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.number import as_number, whole_number

_MAX_BINS = 512  # W&B takes no more


def is_logged(value: Any) -> bool:
    """Return whether W&B takes a value of a result: a number, or an array of one or of pictures."""
    if isinstance(value, np.ndarray):
        return value.size == 1 or value.ndim in (3, 4, 5)
    if isinstance(value, (list, tuple)) and value:
        return is_logged(value[0]) and not isinstance(value[0], (int, float, str, np.number))
    if private_names.is_allowed_type(value):  # wandb's own values
        return True
    return isinstance(value, (bool, int, float, str, np.number, np.bool_))


def is_under(name: str, prefixes: Iterable[str]) -> bool:
    """Return whether a name is one of some prefixes, or under one: ``a/b`` is under ``a``."""
    return any(name == prefix or name.startswith(f"{prefix}/") for prefix in prefixes)


def is_excluded(section: str, key: str, excludes: Iterable[str]) -> bool:
    """Return whether ``excludes=`` leaves a medium out, by its name in W&B or by its place in the result."""
    place = "evaluation/" if section == "evaluation" else ""
    names = (f"{section}/{key}", f"{place}{key}", f"{place}env_runners/{key}")
    return any(is_under(name, excludes) for name in names)


def as_item(entry: MediaEntry) -> dict[str, Any]:
    """Return a medium in plain values."""
    medium = entry.medium
    item: dict[str, Any] = {
        "kind": medium.kind,
        "key": entry.tag,
        "step": entry.training_iteration,
        "name": entry.path.rpartition("/")[2],
        "time": entry.time,
    }
    if isinstance(medium, (EpisodeBatch, Histogram)):
        return {**item, "histograms": {tag: _bins(histogram) for tag, histogram in entry.histograms().items()}}
    facts = medium.facts()
    known = caption_of(facts, facts.get("episode_id"), medium.note) or None
    caption = medium.caption if isinstance(medium, Image) else known
    name = medium.name if isinstance(medium, Artifact) else item["name"]
    return {**item, "content": medium.content(), "facts": facts, "caption": caption, "given_name": name}


def best_item(line: Line, content: bytes | None) -> dict[str, Any]:
    """Return a trial's best clip in plain values, of its index line and its file, which may have been deleted."""
    step = iteration_of(line)
    return {
        **{"section": line["section"], "step": step, "best_return": as_number(line["episode_return"])},
        "episode_length": whole_number(line.get("episode_length")) or None,
        "caption": caption_of(line, f"step {step}"),
        "name": str(line["path"]).rpartition("/")[2],
        "content": content,
    }


def _bins(histogram: Histogram) -> tuple[list[float], list[float]] | None:
    """Return counts and edges, no more than W&B takes, or None if the histogram has no values."""
    if not histogram.count:
        return None
    counts, edges = np.asarray(histogram.counts), np.asarray(histogram.edges)
    stride = math.ceil(len(counts) / _MAX_BINS)
    starts = np.arange(0, len(counts), stride)
    return np.add.reduceat(counts, starts).tolist(), [*edges[starts].tolist(), float(edges[-1])]
