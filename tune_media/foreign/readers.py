"""The table of readers: which files of other tools are read, and by what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tune_media.foreign import configs, lerobot, maniskill, mlflow_files, sb3, scalars, wandb_files
from tune_media.foreign.clip_paths import read_paths
from tune_media.foreign.clip_tables import read_tables
from tune_media.foreign.event_files import EVENT_FILES, read_event_files
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.told import Told
from tune_media.values.clip_columns import Columns

Read: TypeAlias = Callable[[RunFiles, Sequence[str], "Columns | None"], Told]
"""Gets a run's files, and the paths of those that its patterns match: at least one. It raises nothing that a damaged
file can cause: that is a sentence in ``not_understood``."""


class Reader(NamedTuple):
    """Reads some files of a run; a pattern with a slash is of the end of the path, else of the file's name."""

    patterns: Sequence[str]
    read: Read
    is_of_settings: bool = False


READERS: Sequence[Reader] = (
    Reader(configs.PARAMS, configs.read_params, is_of_settings=True),
    Reader(configs.HYDRA, configs.read_hydra, is_of_settings=True),
    Reader(configs.SETTINGS, configs.read_settings, is_of_settings=True),
    Reader(lerobot.FILES, lerobot.read_lerobot),
    Reader(maniskill.FILES, maniskill.read_maniskill),
    Reader(sb3.PATTERNS, sb3.read_episodes),
    Reader((EVENT_FILES,), read_event_files),
    Reader(scalars.TABLES, scalars.read_tables),
    Reader(scalars.LINES, scalars.read_lines),
    Reader(scalars.TORCHRL, scalars.read_torchrl),
    Reader(wandb_files.WANDB, wandb_files.read_wandb),
    Reader(mlflow_files.MLFLOW, mlflow_files.read_mlflow),
    Reader(("*.csv", "*.json", "*.jsonl"), read_tables),
    Reader(("*.[mM][pP]4", "*.[wW][eE][bB][mM]", "*.[gG][iI][fF]"), read_paths),
    Reader(("*",), configs.read_name, is_of_settings=True),
)
"""In the order in which one is believed more than the next."""
