"""The values that travel from the env runners to the loggers: frozen, picklable, without threads or storage."""

from tune_media.values.artifact import Artifact
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory
from tune_media.values.histogram import Histogram
from tune_media.values.image import Image
from tune_media.values.medium import Medium
from tune_media.values.options import MediaOptions, Retention, VideoOptions
from tune_media.values.video import Video

__all__ = [
    "Artifact",
    "EpisodeBatch",
    "EpisodeData",
    "EpisodeRecord",
    "Histogram",
    "Image",
    "MediaOptions",
    "Medium",
    "Retention",
    "Series",
    "Trajectory",
    "Video",
    "VideoOptions",
]
