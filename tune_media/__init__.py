"""See what your agents do: clips, custom metrics and histograms of every trial of a Ray Tune or RLlib sweep.

Importing this package imports neither torch, Ray, W&B, MLflow nor PyAV; each name is loaded when it is first used.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from tune_media._version import __version__

_NAMES = {
    "Artifact": "values.artifact",
    "Backend": "callbacks.backend",
    "EpisodeRecord": "values.episode_record",
    "Histogram": "values.histogram",
    "Image": "values.image",
    "MediaOptions": "values.options",
    "Video": "values.video",
    "VideoOptions": "values.options",
    "JsonMediaLoggerCallback": "callbacks.json",
    "MediaLoggerCallback": "callbacks.callback",
    "MLflowMediaLoggerCallback": "callbacks.mlflow.callback",
    "TBXMediaLoggerCallback": "callbacks.tensorboard.callback",
    "TrackioMediaLoggerCallback": "callbacks.trackio",
    "WandbMediaLoggerCallback": "callbacks.wandb.callback",
    "evaluate": "evaluation.evaluate",
    "fork": "evaluation.fork",
    "gate": "evaluation.gate",
    "load": "viewing.catalog",
    "short_trial_names": "trial_names",
}
_CALLBACKS = {  # the extra that brings what each needs
    "JsonMediaLoggerCallback": "tune",
    "MediaLoggerCallback": "tune",
    "MLflowMediaLoggerCallback": "mlflow",
    "TBXMediaLoggerCallback": "tensorboard",
    "TrackioMediaLoggerCallback": "trackio",
    "WandbMediaLoggerCallback": "wandb",
}
_ELSEWHERE = {  # names that people look for here
    "record_episodes": "rllib.record_episodes",
    "RecordEpisodes": "gym.RecordEpisodes",
    "RecordVideo": "gym.RecordEpisodes",
    "JsonLoggerCallback": "JsonMediaLoggerCallback",
    "TBXLoggerCallback": "TBXMediaLoggerCallback",
    "WandbLoggerCallback": "WandbMediaLoggerCallback",
    "MLflowLoggerCallback": "MLflowMediaLoggerCallback",
    **{name: f"selection.{name}" for name in ("best", "worst", "median", "first", "last", "where", "every")},
}
_MODULES = ("export", "gym", "rllib", "selection", "steps")

__all__ = [
    "Artifact",
    "Backend",
    "EpisodeRecord",
    "Histogram",
    "Image",
    "JsonMediaLoggerCallback",
    "MLflowMediaLoggerCallback",
    "MediaLoggerCallback",
    "MediaOptions",
    "TBXMediaLoggerCallback",
    "TrackioMediaLoggerCallback",
    "Video",
    "VideoOptions",
    "WandbMediaLoggerCallback",
    "__version__",
    "evaluate",
    "export",
    "fork",
    "gate",
    "gym",
    "load",
    "rllib",
    "selection",
    "short_trial_names",
    "steps",
]

if TYPE_CHECKING:
    from tune_media import export, gym, rllib, selection, steps
    from tune_media.callbacks.backend import Backend
    from tune_media.callbacks.callback import MediaLoggerCallback
    from tune_media.callbacks.json import JsonMediaLoggerCallback
    from tune_media.callbacks.mlflow.callback import MLflowMediaLoggerCallback
    from tune_media.callbacks.tensorboard.callback import TBXMediaLoggerCallback
    from tune_media.callbacks.trackio import TrackioMediaLoggerCallback
    from tune_media.callbacks.wandb.callback import WandbMediaLoggerCallback
    from tune_media.evaluation.evaluate import evaluate
    from tune_media.evaluation.fork import fork
    from tune_media.evaluation.gate import gate
    from tune_media.trial_names import short_trial_names
    from tune_media.values.artifact import Artifact
    from tune_media.values.episode_record import EpisodeRecord
    from tune_media.values.histogram import Histogram
    from tune_media.values.image import Image
    from tune_media.values.options import MediaOptions, VideoOptions
    from tune_media.values.video import Video
    from tune_media.viewing.catalog import load


if not TYPE_CHECKING:  # or type checkers would take any name

    def __getattr__(name: str) -> Any:
        if name in _CALLBACKS:
            from tune_media.ray_compat import check_ray

            check_ray(f"tune_media.{name}", _CALLBACKS[name])
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _NAMES:
            return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        hint = ""
        if name in _ELSEWHERE:
            hint = f"; it is tune_media.{_ELSEWHERE[name]}"
        elif near := difflib.get_close_matches(name, [*_ELSEWHERE, *__all__], 1):
            hint = f"; did you mean tune_media.{_ELSEWHERE.get(near[0], near[0])}?"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
