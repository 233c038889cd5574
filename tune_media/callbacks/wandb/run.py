"""The W&B run of one trial, in W&B's helper process.

Online, a run that is resumed after a kill may get calls again that W&B has had. An offline run cannot be resumed: it
is written from the trial's files, from its first call on.
"""

from __future__ import annotations

import math
import numbers
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tune_media.callbacks.finished_trial import AlreadyThereError
from tune_media.callbacks.wandb import private_names
from tune_media.callbacks.wandb.offline_runs import OFFLINE, wait_until_whole
from tune_media.callbacks.wandb.trials_table import trial_line, video_of
from tune_media.callbacks.wandb.values import is_under
from tune_media.values.score import known_returns
from tune_media.values.secrets import error_text

MEDIA_STEP = "media_step"
"""The axis of media: the training iteration of the result that brought them."""

_TIMESTAMP = "_timestamp"  # W&B's name for when a row was reported, seconds since 1970
_WHOLE_SECONDS = 10.0  # after which a file is not waited for
_MAX_RESULTS_WAITING = 2  # whose media wait for a row


class WandbRun:
    """The run of one trial.

    W&B takes rows whose step rises. A medium comes after the row of its result has been logged: it joins the next row,
    and ``media_step`` says where it belongs. A row has the media of one result; if more wait, rows are added.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import wandb

        self._wandb, self._settings = wandb, settings
        folder.mkdir(parents=True, exist_ok=True)
        self._files = Path(tempfile.mkdtemp(prefix="media-", dir=folder))
        init = {**settings["init"], "reinit": "create_new", "dir": str(folder)}
        if not isinstance(init.get("settings"), wandb.Settings):
            init["settings"] = wandb.Settings(**{"silent": True, **(init.get("settings") or {})})
        self._run = wandb.init(**init)
        if settings.get("must_be_new") and self._run.resumed:
            self._run.finish()
            raise AlreadyThereError(f"W&B has run {self._run.id} already; delete it there, or pass another project")
        self._run.config.update({"trial_log_path": settings["trial_log_path"]}, allow_val_change=True)
        private_names.run_info_hook(self._run)
        self._run.define_metric(MEDIA_STEP, hidden=True)
        self._defined: set[str] = set()
        self._step = int(getattr(self._run, "starting_step", 0) or 0) - 1
        self._waiting: dict[int, dict[str, list[Any]]] = {}  # media that wait for a row, by media step and key
        self._returns: dict[str, float] = {}  # the last value of each metric that ranks trials
        self._kept_files: list[Path] = []

    def log(
        self, row: dict[str, Any], step: int, config_update: dict[str, Any] | None, time: float = 0.0
    ) -> str | None:
        """Log the numbers of a result; return the problem of the first value that W&B refuses; ``time`` 0: now."""
        log, config, problem = {}, dict(config_update or {}), None
        media = {name: self._settings[name] for name in ("video_kwargs", "image_kwargs")}
        for name, raw in row.items():
            try:  # a bad value is skipped alone
                value = private_names.clean_log(raw, **media)
            except Exception as error:
                problem = problem or f"{name} is left out: {error_text(error)}"
                continue
            if is_under(name, self._settings["exclude"]):
                continue
            if is_under(name, self._settings["to_config"]):
                config[name] = value
            elif private_names.is_allowed_type(value):
                log[name] = value
        returns = {name: log[name] for name in known_returns(log) if isinstance(log[name], numbers.Real)}
        self._returns |= {name: float(value) for name, value in returns.items() if math.isfinite(value)}
        if config:
            self._run.config.update(config, allow_val_change=True)
        self._next_row(step)
        self._run.log({**log, **({_TIMESTAMP: time} if time else {})}, step=self._step)
        return problem

    def show(self, item: dict[str, Any]) -> None:
        """Log a medium, as ``as_item`` returns it."""
        time = item["time"]
        if "histograms" in item:
            for key, bins in item["histograms"].items():
                if bins is not None:
                    self._add(item["step"], key, self._wandb.Histogram(np_histogram=(bins[0], bins[1])), time)
            return
        file = self._files / item["name"]
        file.write_bytes(item["content"])
        self._kept_files.append(file)
        if item["kind"] in ("video", "tiled"):
            self._add(item["step"], item["key"], video_of(self._wandb, file, item["caption"]), time)
        elif item["kind"] == "image":
            self._add(item["step"], item["key"], self._wandb.Image(str(file), caption=item["caption"]), time)
        else:
            name = re.sub(r"[^0-9A-Za-z_.-]", "-", item["key"])[:80]
            artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type=item["kind"])
            artifact.add_file(str(file), name=Path(item["given_name"]).name)
            self._run.log_artifact(artifact)

    def checkpoint(self, path: str) -> None:
        """Log a checkpoint, which is in a local folder."""
        artifact = self._wandb.Artifact(f"checkpoint_{self._settings['init'].get('name', self._run.id)}", type="model")
        artifact.add_dir(path)
        self._run.log_artifact(artifact)

    def end(self, exit_code: int, best: dict[str, Any] | None = None) -> None:
        """Log the rest and the line of the table of trials, and end the run.

        Raises TimeoutError if the run is offline, and W&B's own process may not have written all of its file.
        """
        try:
            self._flush()
            if best is not None:
                self._run.summary.update({"best_return": best["best_return"]})
                clip = None
                if best["content"] is not None:
                    file = self._files / f"best-{best['name']}"
                    file.write_bytes(best["content"])
                    clip = video_of(self._wandb, file, best["caption"])
                trial, searched = self._settings["trial"], self._settings["searched"]
                self._add(best["step"], "trials", trial_line(self._wandb, trial, searched, best, clip, self._returns))
            self._flush()
            if self._settings["episodes_artifact"] and self._kept_files:
                artifact = self._wandb.Artifact(f"episodes-{self._run.id}", type="episodes")
                for file in self._kept_files:
                    artifact.add_file(str(file), name=file.name)
                self._run.log_artifact(artifact)
        finally:
            self._run.finish(exit_code=exit_code)
            shutil.rmtree(self._files, ignore_errors=True)
            folder = Path(self._run.dir).parent
            if folder.name.startswith(OFFLINE) and not wait_until_whole(folder, _WHOLE_SECONDS):
                raise TimeoutError(f"the file in {folder.name} may lack its last rows")  # the run is written anew

    def discard(self) -> None:
        """End a run of which nothing is wanted any more."""
        self._run.finish(exit_code=1)

    def _flush(self) -> None:
        """Log all media that wait, in rows of their own."""
        while self._waiting:
            self._next_row(self._step + 1)

    def _next_row(self, step: int) -> None:
        """Open a row, at a step above all others, with the media that have waited longest; numbers may join them.

        Media of a key that come together (a list of clips in a result) are one value of it, a list.
        """
        self._step = max(step, self._step + 1)
        if not self._waiting:
            return
        media_step = next(iter(self._waiting))
        media = self._waiting.pop(media_step)
        for key in media.keys() - self._defined - {_TIMESTAMP}:
            self._run.define_metric(key, step_metric=MEDIA_STEP)
            self._defined.add(key)
        values = {key: items[0] if len(items) == 1 else items for key, items in media.items()}
        self._run.log({**values, MEDIA_STEP: media_step}, step=self._step)

    def _add(self, media_step: int, key: str, value: Any, time: float = 0.0) -> None:
        """Log a medium in the next row, with the others of its result."""
        if media_step not in self._waiting and len(self._waiting) >= _MAX_RESULTS_WAITING:
            self._next_row(self._step + 1)  # rows come less often than results with media
        media = self._waiting.setdefault(media_step, {})
        media.setdefault(key, []).append(value)
        if time:
            media[_TIMESTAMP] = [time]
