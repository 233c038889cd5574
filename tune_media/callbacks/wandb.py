"""Ray's W&B logger with media: clips as videos, images, histograms, a table of episodes; off Tune's loop.

One helper process (a Ray actor on the driver's node) holds the runs of all trials. The driver only hands over what is
to be logged, and never waits: a W&B that hangs, dies or is offline costs neither a trial nor Tune's loop.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.fs
from ray.air.integrations.wandb import WandbLoggerCallback
from ray.tune.utils import flatten_dict

from tune_media import compat
from tune_media.callbacks.base import FamilyMember, MediaLogging, trial_place, without_address
from tune_media.callbacks.wandb_process import Process
from tune_media.entries import Entry, Place
from tune_media.episode_files import recorder_of
from tune_media.episodes import EpisodeBatch
from tune_media.values import Artifact, Histogram, Image, MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_MOST_BINS = 512  # W&B takes no more


class WandbMediaLoggerCallback(FamilyMember, WandbLoggerCallback):
    """Everything ``ray.air.integrations.wandb.WandbLoggerCallback`` does, and media.

    A clip is a video at ``<section>/<key>`` with its return, length and episode as caption: the finished mp4, at its
    own speed. Pictures are images; ``Histogram`` values, and all values of the episodes' series, histograms; files are
    artifacts; the table ``episodes`` has a row for each episode, with its clip. Media have an axis of their own,
    ``media_step``, which is the training iteration.

    Offline (``WANDB_MODE=offline`` or ``mode="offline"``) the whole run is in ``<trial>/wandb`` on the storage after
    ``fit()``; ``wandb sync <trial>/wandb/offline-run-*`` uploads it.

    Args:
        project: As Ray's.
        group: As Ray's.
        api_key_file: As Ray's.
        api_key: As Ray's; it is not pickled with the callback.
        excludes: As Ray's.
        log_config: As Ray's.
        upload_checkpoints: As Ray's.
        save_checkpoints: As Ray's.
        upload_timeout: How long the end of the experiment waits for W&B, seconds.
        video_kwargs: As Ray's, for raw arrays that no callback of ours has replaced.
        image_kwargs: As Ray's.
        episodes_artifact: Put all clips and episode data of a trial into an artifact ``episodes-<trial>``, too.
        media: Options, shared by all callbacks of the family in one experiment.
        **kwargs: For ``wandb.init``, but for ``dir`` and ``reinit``, which are ours.

    Raises:
        ImportError: W&B is not installed.
    """

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        upload_timeout: int = 1800,
        video_kwargs: dict[str, Any] | None = None,
        image_kwargs: dict[str, Any] | None = None,
        episodes_artifact: bool = False,
        media: MediaOptions | None = None,
        **kwargs: Any,
    ) -> None:
        if importlib.util.find_spec("wandb") is None:
            raise ImportError("WandbMediaLoggerCallback needs W&B: pip install 'tune-media[wandb]'")
        super().__init__(
            project,
            group,
            api_key_file,
            api_key,
            excludes,
            log_config,
            upload_checkpoints,
            save_checkpoints,
            upload_timeout,
            video_kwargs,
            image_kwargs,
            **kwargs,
        )
        self.episodes_artifact = episodes_artifact
        self._media = MediaLogging(self, "W&B", media)
        self._process: Process | None = None
        self._places: dict[str, Place] = {}  # of the trials that have a run
        self._configs: dict[str, Any] = {}
        self._use_key()

    def setup(self, *args: Any, **info: Any) -> None:
        """Find the key and the project, as Ray does; offline needs no key."""
        self._use_key()
        if self.kwargs.get("mode") in ("offline", "disabled"):
            with _environment(WANDB_MODE=self.kwargs["mode"]):
                super().setup(*args, **info)
        else:
            super().setup(*args, **info)
        self._media.keep_secret(os.environ.get("WANDB_API_KEY"))  # from a file, or from a hook

    def log_trial_start(self, trial: Trial) -> None:  # noqa: D102
        self._media.begin(trial)
        if trial.trial_id in self._places:
            return
        with self._media.guard("starting a run"):
            super().log_trial_start(trial)

    def _start_logging_actor(self, trial: Trial, exclude_results: list[str], **wandb_init_kwargs: Any) -> None:
        """Start the trial's run; Ray's callback calls this with all that ``wandb.init`` is to be told."""
        place = trial_place(trial)
        self._places[trial.trial_id] = place
        if self._process is None:
            self._process = Process(self._media)
        self._process.begin(
            trial.trial_id,
            {
                "exclude": exclude_results,
                "to_config": list(self.AUTO_CONFIG_KEYS),
                "video_kwargs": self.video_kwargs,
                "image_kwargs": self.image_kwargs,
                "episodes_artifact": self.episodes_artifact,
                "trial_log_path": str(place.local_path),
                "init": wandb_init_kwargs,
            },
        )

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:  # noqa: D102
        entries = self._media.take(trial, result)
        with self._media.guard("handing over a result"):
            if trial.trial_id not in self._places:
                self.log_trial_start(trial)
            if self._process is None:
                return
            config = result.get("config")
            told = flatten_dict(without_config(result), delimiter="/")
            row = {name: value for name, value in told.items() if is_logged(value)}
            now, changed = without_address(repr(config)), None
            if config is not None and (self.log_config or now != self._configs.get(trial.trial_id, now)):
                known = {name: value for name, value in config.items() if name != "callbacks"}
                changed = compat.wandb_clean_log(known)
                row |= {f"config/{name}": value for name, value in flatten_dict(changed, delimiter="/").items()}
            self._configs[trial.trial_id] = now
            self._process.call("log", trial.trial_id, row, int(result.get("training_iteration") or 0), changed)
            for entry in entries:
                if is_excluded(entry, self.excludes):
                    continue
                hand_over = functools.partial(self._hand_over, trial.trial_id, entry)
                self._media.later(f"showing {entry.path}", hand_over, entry.show_bytes)

    def log_trial_save(self, trial: Trial) -> None:  # noqa: D102
        self._media.take_from_checkpoint(trial)
        with self._media.guard("handing over a checkpoint"):
            checkpoint = trial.checkpoint if self.upload_checkpoints else None
            if checkpoint and self._process and isinstance(checkpoint.filesystem, pyarrow.fs.LocalFileSystem):
                self._process.call("checkpoint", trial.trial_id, checkpoint.path)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: D102
        self._media.trial_is_over(trial)
        self._end(trial.trial_id, 1 if failed else 0)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:  # noqa: D102
        for trial in trials:  # what was interrupted
            if trial.trial_id in self._places:
                self._end(trial.trial_id, 255)
        self._media.wait()
        process, self._process = self._process, None
        if process is not None:
            process.close(self._media.patience(float(self._upload_timeout)))
        self._media.finish()

    def _hand_over(self, trial_id: str, entry: Entry) -> None:
        if not entry.is_lost and self._process is not None:
            self._process.call("show", trial_id, as_item(entry), nbytes=entry.show_bytes)

    def _end(self, trial_id: str, exit_code: int) -> None:
        process, place = self._process, self._places.pop(trial_id, None)
        self._configs.pop(trial_id, None)
        if process is not None and place is not None:  # after its last clips
            self._media.later("ending a run", functools.partial(process.end, trial_id, place, exit_code))

    def _use_key(self) -> None:
        if self.api_key:
            self._media.keep_secret(self.api_key)
            os.environ["WANDB_API_KEY"] = self.api_key
        self._media.keep_secret(os.environ.get("WANDB_API_KEY"))

    def __del__(self) -> None:
        """Leave what Ray's callback would clean up: there is nothing of it here."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_process": None, "_places": {}, "_configs": {}, "api_key": None}


def is_excluded(entry: Entry, excludes: list[str]) -> bool:
    """Say whether a medium is left out: by its name in W&B, or by its place in the result, as Ray's excludes go."""
    section = "evaluation/" if entry.section == "evaluation" else ""
    names = (f"{entry.section}/{entry.key}", f"{section}{entry.key}", f"{section}env_runners/{entry.key}")
    return any(name == prefix or name.startswith(f"{prefix}/") for name in names for prefix in excludes)


def without_config(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without the trial's hyperparameters."""
    return {name: value for name, value in result.items() if name != "config"}


def is_logged(value: Any) -> bool:
    """Say whether W&B takes a value of a result: a number, or an array of one or of pictures."""
    if isinstance(value, np.ndarray):
        return value.size == 1 or value.ndim in (3, 4, 5)
    if isinstance(value, (list, tuple)) and value:
        return is_logged(value[0]) and not isinstance(value[0], (int, float, str, np.number))
    if compat.wandb_takes(value):  # wandb's own values
        return True
    return isinstance(value, (bool, int, float, str, np.number, np.bool_))


def as_item(entry: Entry) -> dict[str, Any]:
    """Return what the helper process is to show, in plain values."""
    medium = entry.medium
    item: dict[str, Any] = {
        "kind": medium.kind,
        "key": f"{entry.section}/{entry.key}",
        "step": entry.training_iteration,
        "name": entry.path.rpartition("/")[2],
    }
    if isinstance(medium, EpisodeBatch):
        prefix = f"{entry.section}/{recorder_of(entry.key)}"
        item["histograms"] = {f"{prefix}/{name}": _bins(found) for name, found in medium.histograms().items()}
        item["rows"] = [
            {"section": entry.section, **episode.record.facts(), "metrics": dict(episode.record.metrics)}
            for episode in medium.episodes
        ]
        return item
    if isinstance(medium, Histogram):
        return {**item, "kind": "episodes", "histograms": {item["key"]: _bins(medium)}, "rows": []}
    facts = medium.facts()
    caption = medium.caption if isinstance(medium, Image) else caption_of(facts, medium.note)
    name = {"name": medium.name} if isinstance(medium, Artifact) else {}
    return {**item, "content": medium.content(), "facts": facts, "caption": caption, **name}


def caption_of(facts: dict[str, Any], note: str | None) -> str | None:
    """Return a line about a clip's episode."""
    parts = []
    if "episode_return" in facts:
        parts = [f"return {facts['episode_return']:.4g}", f"length {facts['episode_length']}", facts["episode_id"]]
    return ", ".join([*parts, *([note] if note else [])]) or None


def _bins(histogram: Histogram) -> tuple[list[float], list[float]] | None:
    """Return counts and edges; None where there is nothing to show."""
    if not histogram.count:
        return None
    counts, edges = np.asarray(histogram.counts), np.asarray(histogram.edges)
    step = math.ceil(len(counts) / _MOST_BINS)
    starts = np.arange(0, len(counts), step)
    return np.add.reduceat(counts, starts).tolist(), [*edges[starts].tolist(), float(edges[-1])]


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
