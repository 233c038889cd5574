"""See what your agents do: clips, custom metrics and histograms of every trial of a Ray Tune or RLlib sweep.

Importing this package imports neither torch, RLlib, W&B, MLflow nor PyAV; each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tune_media._version import __version__

_NAMES = {
    "Artifact": "values",
    "EpisodeRecord": "values",
    "Histogram": "values",
    "Image": "values",
    "MediaOptions": "values",
    "Retention": "retention",
    "Video": "values",
    "VideoOptions": "values",
    "JsonMediaLoggerCallback": "callbacks.json",
    "MLflowMediaLoggerCallback": "callbacks.mlflow",
    "TBXMediaLoggerCallback": "callbacks.tensorboard",
    "WandbMediaLoggerCallback": "callbacks.wandb",
    "load": "catalog",
}
_MODULES = ("export", "gym", "rllib", "selection", "steps")

__all__ = [
    "Artifact",
    "EpisodeRecord",
    "Histogram",
    "Image",
    "JsonMediaLoggerCallback",
    "MLflowMediaLoggerCallback",
    "MediaOptions",
    "Retention",
    "TBXMediaLoggerCallback",
    "Video",
    "VideoOptions",
    "WandbMediaLoggerCallback",
    "__version__",
    "export",
    "gym",
    "load",
    "rllib",
    "selection",
    "steps",
]

if TYPE_CHECKING:
    from tune_media import export, gym, rllib, selection, steps
    from tune_media.callbacks.json import JsonMediaLoggerCallback
    from tune_media.callbacks.mlflow import MLflowMediaLoggerCallback
    from tune_media.callbacks.tensorboard import TBXMediaLoggerCallback
    from tune_media.callbacks.wandb import WandbMediaLoggerCallback
    from tune_media.catalog import load
    from tune_media.retention import Retention
    from tune_media.values import Artifact, EpisodeRecord, Histogram, Image, MediaOptions, Video, VideoOptions


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
