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
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.fs
from ray.air.integrations.wandb import WandbLoggerCallback
from ray.tune.utils import flatten_dict

from tune_media import compat
from tune_media.callbacks.base import MediaLogging, trial_place, without_address
from tune_media.callbacks.wandb_runs import Runs
from tune_media.episode_files import recorder_of
from tune_media.episodes import EpisodeBatch
from tune_media.store import STORED, Entry, Place, write_once
from tune_media.values import Artifact, Histogram, Image, MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_MOST_BINS = 512  # W&B takes no more
_LOOK_EVERY = 50  # calls, after which it is seen which of them are done
_MOST_STARTS = 3


class WandbMediaLoggerCallback(WandbLoggerCallback):
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
        self._media = MediaLogging("W&B", media)
        self._process: _Process | None = None
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
        self._media.open(trial)
        if trial.trial_id in self._places:
            return
        with self._media.guard("starting a run"):
            super().log_trial_start(trial)

    def _start_logging_actor(self, trial: Trial, exclude_results: list[str], **wandb_init_kwargs: Any) -> None:
        """Start the trial's run; Ray's callback calls this with all that ``wandb.init`` is to be told."""
        place = trial_place(trial)
        self._places[trial.trial_id] = place
        if self._process is None:
            self._process = _Process(self._media)
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
            for entry in entries:  # after it is stored
                if is_excluded(entry, self.excludes):
                    continue
                self._media.later(f"showing {entry.path}", functools.partial(self._hand_over, trial.trial_id, entry))

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
            process.close(float(self._upload_timeout))
        self._media.finish()

    def _hand_over(self, trial_id: str, entry: Entry) -> None:
        if entry.status == STORED and self._process is not None:
            nbytes = entry.medium.nbytes if entry.medium.kind == "video" else 0
            self._process.call("show", trial_id, as_item(entry), nbytes=nbytes)

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


class _Process:
    """The driver's hold on the helper process. No call waits; what it leaves when it dies is done by another one.

    Args:
        media: Where faults are told.
    """

    def __init__(self, media: MediaLogging) -> None:
        self._media = media
        self._folder = tempfile.mkdtemp(prefix="tune_media-wandb-")
        self._begun: dict[str, dict[str, Any]] = {}
        self._under_way: deque[tuple[Any, str, tuple[Any, ...], int]] = deque()
        self._ended: dict[str, Place] = {}
        self._bytes = 0
        self._calls = self._dropped = self._starts = 0
        self._actor: Any = None
        self._failed: set[str] = set()  # trials whose run has not all that it should have
        self._lock = threading.RLock()  # Tune's loop and the background thread both call

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Start a trial's run."""
        self._begun[trial_id] = settings
        with self._lock:
            self._look()  # trials that have ended since
        self.call("begin", trial_id, settings)

    def call(self, method: str, *arguments: Any, nbytes: int = 0) -> None:
        """Have something done; where too many bytes of clips wait already, a clip is dropped, counted and named."""
        most = self._media.options.max_pending_bytes
        with self._lock:
            self._calls += 1
            if self._calls % _LOOK_EVERY == 0 or (nbytes and self._bytes + nbytes > most):
                self._look()
            if not nbytes or self._bytes + nbytes <= most:
                self._bytes += nbytes
                self._send(method, arguments, nbytes)
                return
            self._dropped += 1
        reason = RuntimeError(f"more than MediaOptions(max_pending_bytes={most}) wait for W&B's process")
        self._media.report("a clip is in the trial's folder only", reason, kind="dropped")

    def end(self, trial_id: str, place: Place, exit_code: int) -> None:
        """End a trial's run."""
        self._ended[trial_id] = place
        self.call("end", trial_id, exit_code)

    def close(self, timeout: float) -> None:
        """Wait for what is under way, at most so long; copy offline runs to the storage; say what is missing."""
        import ray

        deadline = time.monotonic() + timeout
        while self._under_way and time.monotonic() < deadline:
            references = [reference for reference, *_ in self._under_way]
            ray.wait(references, num_returns=len(references), timeout=min(1.0, max(0.0, deadline - time.monotonic())))
            self._look()
        if self._actor is not None and not self._under_way:
            with self._media.guard("ending W&B's process"):
                reference = self._actor.finish.remote()
                ray.get(reference, timeout=max(1.0, deadline - time.monotonic()))
        missing = sorted({arguments[0] for _, _, arguments, _ in self._under_way} | self._failed)
        if self._actor is not None:
            ray.kill(self._actor)
        self._media.wait()
        for trial_id in list(self._ended):
            with self._media.guard("copying an offline run to the storage"):
                self._copy_runs(trial_id, whole=trial_id in missing)
        shutil.rmtree(self._folder, ignore_errors=True)
        if missing or self._dropped:
            logger.warning(
                "tune_media: W&B: the runs of %d trial(s) are not complete (%s%s) after %g s, and %d clip(s) were "
                "dropped. All media are in the trials' folders. WandbMediaLoggerCallback(upload_timeout=...) says how "
                "long the end waits.",
                len(missing),
                ", ".join(missing[:5]),
                ", ..." if len(missing) > 5 else "",
                timeout,
                self._dropped,
            )

    def _send(self, method: str, arguments: tuple[Any, ...], nbytes: int) -> None:
        if self._actor is None:
            if self._starts >= _MOST_STARTS:
                raise RuntimeError(f"W&B's process has died {_MOST_STARTS} times")
            self._starts += 1
            self._actor = _start_actor(self._folder)
        reference = getattr(self._actor, method).remote(*arguments)
        self._under_way.append((reference, method, arguments, nbytes))

    def _look(self) -> None:
        """See what is done; where the process has died, have the rest done by another one."""
        import ray

        references = [reference for reference, *_ in self._under_way]
        done = set(ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else set()
        kept: deque[tuple[Any, str, tuple[Any, ...], int]] = deque()
        died = False
        for call in self._under_way:
            reference, method, arguments, nbytes = call
            if reference not in done:
                kept.append(call)
                continue
            try:
                ray.get(reference)
            except ray.exceptions.RayActorError as error:
                died = True
                kept.append(call)
                self._media.report("W&B's process", error, kind="died")
                continue
            except Exception as error:
                self._failed.add(arguments[0])
                told = RuntimeError(str(error).strip().splitlines()[-1])
                self._media.report(f"{method} in W&B's process", told, kind=method)
            self._bytes -= nbytes
            if method == "end" and arguments[0] in self._ended:
                copy = functools.partial(self._copy_runs, arguments[0])
                self._media.later("copying an offline run to the storage", copy)
        self._under_way = kept
        if died:
            self._again()

    def _copy_runs(self, trial_id: str, *, whole: bool = False) -> None:
        """Copy a trial's offline runs to its storage, and online ones that W&B does not have yet (``whole``)."""
        place, folder = self._ended.pop(trial_id, None), Path(self._folder) / trial_id
        if place is None:
            return
        self._begun.pop(trial_id, None)
        for run in sorted(folder.glob("wandb/*run-*")):
            if run.is_symlink() or (not whole and run.name.startswith("run-")):
                continue  # W&B has it
            for file in sorted(path for path in run.rglob("*") if path.is_file()):
                relative = file.relative_to(folder).as_posix()
                write_once(place.filesystem, f"{place.path}/{relative}", file.read_bytes())
        shutil.rmtree(folder, ignore_errors=True)

    def _again(self) -> None:
        left, self._under_way, self._actor = list(self._under_way), deque(), None
        begun = [arguments[0] for _, method, arguments, _ in left if method == "begin"]
        try:
            for trial_id in dict.fromkeys(arguments[0] for _, _, arguments, _ in left if arguments[0] not in begun):
                self._send("begin", (trial_id, self._begun[trial_id]), 0)
            for _, method, arguments, nbytes in left:
                self._send(method, arguments, nbytes)
        except RuntimeError as error:
            self._failed |= {arguments[0] for _, _, arguments, _ in left}
            self._under_way.clear()
            self._media.report("W&B", error, kind="dead")


def _start_actor(folder: str) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    names = [name for name in os.environ if name.startswith("WANDB_")]
    env = {name: os.environ[name] for name in names}
    return (
        ray.remote(Runs)
        .options(num_cpus=0, scheduling_strategy=node, runtime_env={"env_vars": env} if env else None)
        .remote(folder)
    )
