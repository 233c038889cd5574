"""The table of readers: which files of other tools are read, and by what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from tune_media.foreign import configs, databases, lerobot, maniskill, mlflow_files, sb3, scalars, wandb_files
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
    """Reads some files of a run; a pattern with a slash is of the end of the path, else of the file's name.

    ``read_env_id`` tells the task without reading large files, if the files name it.
    """

    patterns: Sequence[str]
    read: Read
    read_env_id: Read | None = None


READERS: Sequence[Reader] = (
    Reader(configs.PARAMS, configs.read_params, configs.read_params),
    Reader(configs.HYDRA, configs.read_hydra, configs.read_hydra),
    Reader(configs.SETTINGS, configs.read_settings, configs.read_settings),
    Reader(lerobot.FILES, lerobot.read_lerobot),
    Reader(maniskill.FILES, maniskill.read_maniskill),
    Reader(sb3.PATTERNS, sb3.read_episodes, sb3.read_head),
    Reader((EVENT_FILES,), read_event_files),
    Reader(scalars.TABLES, scalars.read_tables),
    Reader(scalars.LINES, scalars.read_lines),
    Reader(scalars.TORCHRL, scalars.read_torchrl),
    Reader(wandb_files.WANDB, wandb_files.read_wandb, wandb_files.read_head),
    Reader(mlflow_files.MLFLOW, mlflow_files.read_mlflow, mlflow_files.read_mlflow),
    Reader(("*.csv", "*.json", "*.jsonl"), read_tables),
    Reader(("*.[mM][pP]4", "*.[wW][eE][bB][mM]", "*.[gG][iI][fF]"), read_paths),
    Reader(("*",), databases.read_database),
    Reader(("*",), configs.read_name, configs.read_name),
)
"""In the order in which one is believed more than the next."""
