"""See what your agents do: clips, custom metrics and histograms of every trial of a Ray Tune or RLlib sweep.

Importing this package imports neither torch, Ray, W&B, MLflow nor PyAV; each name is loaded when it is first used.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from tune_media._version import __version__ as __version__

_NAMES = {  # the module that has each name; of what needs Ray, also the extra that brings it
    "Artifact": ("values.artifact", ""),
    "Backend": ("callbacks.backend", ""),
    "EpisodeRecord": ("values.episode_record", ""),
    "Histogram": ("values.histogram", ""),
    "Image": ("values.image", ""),
    "MediaOptions": ("values.options", ""),
    "Video": ("values.video", ""),
    "VideoOptions": ("values.options", ""),
    "JsonMediaLoggerCallback": ("callbacks.json", "tune"),
    "MediaLoggerCallback": ("callbacks.callback", "tune"),
    "MLflowMediaLoggerCallback": ("callbacks.mlflow.callback", "mlflow"),
    "TBXMediaLoggerCallback": ("callbacks.tensorboard.callback", "tensorboard"),
    "TrackioMediaLoggerCallback": ("callbacks.trackio", "trackio"),
    "WandbMediaLoggerCallback": ("callbacks.wandb.callback", "wandb"),
    "evaluate": ("evaluation.evaluate", ""),
    "fork": ("evaluation.fork", ""),
    "gate": ("evaluation.gate", ""),
    "load": ("viewing.catalog", ""),
    "short_trial_names": ("trial_names", ""),
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

if TYPE_CHECKING:  # a name that is imported as itself is one for users, too
    from tune_media import export as export
    from tune_media import gym as gym
    from tune_media import rllib as rllib
    from tune_media import selection as selection
    from tune_media import steps as steps
    from tune_media.callbacks.backend import Backend as Backend
    from tune_media.callbacks.callback import MediaLoggerCallback as MediaLoggerCallback
    from tune_media.callbacks.json import JsonMediaLoggerCallback as JsonMediaLoggerCallback
    from tune_media.callbacks.mlflow.callback import MLflowMediaLoggerCallback as MLflowMediaLoggerCallback
    from tune_media.callbacks.tensorboard.callback import TBXMediaLoggerCallback as TBXMediaLoggerCallback
    from tune_media.callbacks.trackio import TrackioMediaLoggerCallback as TrackioMediaLoggerCallback
    from tune_media.callbacks.wandb.callback import WandbMediaLoggerCallback as WandbMediaLoggerCallback
    from tune_media.evaluation.evaluate import evaluate as evaluate
    from tune_media.evaluation.fork import fork as fork
    from tune_media.evaluation.gate import gate as gate
    from tune_media.trial_names import short_trial_names as short_trial_names
    from tune_media.values.artifact import Artifact as Artifact
    from tune_media.values.episode_record import EpisodeRecord as EpisodeRecord
    from tune_media.values.histogram import Histogram as Histogram
    from tune_media.values.image import Image as Image
    from tune_media.values.options import MediaOptions as MediaOptions
    from tune_media.values.options import VideoOptions as VideoOptions
    from tune_media.values.video import Video as Video
    from tune_media.viewing.catalog import load as load
else:  # type checkers would take any name
    __all__ = sorted((*_NAMES, *_MODULES, "__version__"))

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _NAMES:
            module, extra = _NAMES[name]
            if extra:
                from tune_media.ray_compat import check_ray

                check_ray(f"tune_media.{name}", extra)
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
        hint = ""
        if name in _ELSEWHERE:
            hint = f"; it is tune_media.{_ELSEWHERE[name]}"
        elif near := difflib.get_close_matches(name, [*_ELSEWHERE, *__all__], 1):
            hint = f"; did you mean tune_media.{_ELSEWHERE.get(near[0], near[0])}?"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")

    def __dir__() -> list[str]:
        return list(__all__)
