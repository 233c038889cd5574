"""The helper process of the W&B callback: it holds the runs of all trials, and is the only one that talks to W&B."""

from __future__ import annotations

import contextlib
import math
import re
import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from tune_media import compat

MEDIA_STEP = "media_step"
"""The axis of media: the training iteration of the result that brought them."""
MOST_ROWS = 10_000
"""Rows of a run's table of episodes; the first ones go."""

_MOST_METRICS = 50  # columns of the table
_MOST_STEPS_WAITING = 2  # results whose media wait for a row


class Runs:
    """The runs of all trials, in the helper process.

    Args:
        folder: Where W&B keeps its files, in a folder for each trial.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._runs: dict[str, _Run] = {}

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Start a trial's run, or go on in the one that it has."""
        if trial_id not in self._runs:
            self._runs[trial_id] = _Run(self._folder / trial_id, settings)

    def log(self, trial_id: str, row: dict[str, Any], step: int, config: dict[str, Any] | None = None) -> None:
        """Log what a result has."""
        self._runs[trial_id].log(row, step, config)

    def show(self, trial_id: str, item: dict[str, Any]) -> None:
        """Log a medium."""
        self._runs[trial_id].show(item)

    def checkpoint(self, trial_id: str, path: str) -> None:
        """Log a checkpoint."""
        self._runs[trial_id].checkpoint(path)

    def end(self, trial_id: str, exit_code: int) -> None:
        """End a trial's run."""
        run = self._runs.pop(trial_id, None)
        if run is not None:
            run.end(exit_code)

    def finish(self) -> None:
        """End what is left."""
        for trial_id in list(self._runs):
            self.end(trial_id, 255)


class _Run:
    """A trial's run.

    W&B takes rows whose step rises. A medium comes after the row of its result has been logged; it joins the next row,
    and says by ``media_step`` where it belongs. A row has the media of one result; where more wait, rows are added.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        import wandb

        self._wandb, self._settings = wandb, settings
        folder.mkdir(parents=True, exist_ok=True)
        self._files = Path(tempfile.mkdtemp(prefix="media-", dir=folder))
        own = {"reinit": "create_new", "dir": str(folder)}
        init = {**settings["init"], **own}
        if init.get("resume") is False:  # what Ray's callback says; a restored trial goes on in its run
            init["resume"] = "allow"
        with contextlib.suppress(AttributeError, TypeError):
            init["settings"] = wandb.Settings(**{"silent": True, **dict(init.pop("settings", None) or {})})
        self._run = wandb.init(**init)
        self._run.config.update({"trial_log_path": settings["trial_log_path"]}, allow_val_change=True)
        compat.wandb_run_info_hook(self._run)
        self._run.define_metric(MEDIA_STEP, hidden=True)
        self._defined: set[str] = set()
        self._step = int(getattr(self._run, "starting_step", 0) or 0) - 1
        self._waiting: deque[tuple[int, str, Any]] = deque()
        self._rows: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self._clips: dict[str, Any] = {}
        self._kept_files: list[Path] = []

    def log(self, row: dict[str, Any], step: int, config_update: dict[str, Any] | None) -> None:
        log, config, problem = {}, dict(config_update or {}), None
        media = {name: self._settings[name] for name in ("video_kwargs", "image_kwargs")}
        for name, raw in row.items():
            try:  # one odd value costs itself
                value = compat.wandb_clean_log(raw, **media)
            except Exception as error:
                problem = problem or RuntimeError(f"{name} is left out: {type(error).__name__}: {error}")
                continue
            if _is_under(name, self._settings["exclude"]):
                continue
            if _is_under(name, self._settings["to_config"]):
                config[name] = value
            elif compat.wandb_takes(value):
                log[name] = value
        if config:
            self._run.config.update(config, allow_val_change=True)
        self._next_row(step)
        self._run.log(log, step=self._step)
        if problem is not None:
            raise problem

    def show(self, item: dict[str, Any]) -> None:
        if item["kind"] == "episodes":
            for key, bins in item["histograms"].items():
                if bins is not None:
                    self._add(item["step"], key, self._wandb.Histogram(np_histogram=(bins[0], bins[1])))
            self._rows.extend({"step": item["step"], **row} for row in item["rows"])
            return
        file = self._files / item["name"]
        file.write_bytes(item["content"])
        self._kept_files.append(file)
        if item["kind"] == "video":
            self._add(item["step"], item["key"], self._video(file, item["caption"]))
            if "episode_id" in item["facts"]:
                self._clips[item["facts"]["episode_id"]] = (file, item["caption"])
        elif item["kind"] == "image":
            self._add(item["step"], item["key"], self._wandb.Image(str(file), caption=item["caption"]))
        else:
            name = re.sub(r"[^0-9A-Za-z_.-]", "-", item["key"])[:80]
            artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type=item["kind"])
            artifact.add_file(str(file), name=item["name"])
            self._run.log_artifact(artifact)

    def checkpoint(self, path: str) -> None:
        artifact = self._wandb.Artifact(f"checkpoint_{self._settings['init'].get('name', self._run.id)}", type="model")
        artifact.add_dir(path)
        self._run.log_artifact(artifact)

    def end(self, exit_code: int) -> None:
        try:
            self._flush()
            if self._rows:
                self._add(int(self._rows[-1]["step"]), "episodes", self._table())
                self._flush()
            if self._settings["episodes_artifact"] and self._kept_files:
                artifact = self._wandb.Artifact(f"episodes-{self._run.id}", type="episodes")
                for file in self._kept_files:
                    artifact.add_file(str(file), name=file.name)
                self._run.log_artifact(artifact)
        finally:
            self._run.finish(exit_code=exit_code)
            shutil.rmtree(self._files, ignore_errors=True)

    def _flush(self) -> None:
        """Write what waits, in rows of its own."""
        while self._waiting:
            self._next_row(self._step + 1)

    def _next_row(self, step: int) -> None:
        """Open a row, at a step above all others, with the media of one step that wait for one.

        Media of a key that come together (a list of clips in a result) are one value of it, a list.
        """
        self._step = max(step, self._step + 1)
        if not self._waiting:
            return
        first = self._waiting[0][0]
        now: dict[str, list[Any]] = {}
        for media_step, key, value in self._waiting:
            if media_step == first:
                now.setdefault(key, []).append(value)
        self._waiting = deque(item for item in self._waiting if item[0] != first)
        self._log_media(first, {key: found[0] if len(found) == 1 else found for key, found in now.items()})

    def _add(self, media_step: int, key: str, value: Any) -> None:
        """Have a medium logged in the next row, with the others of its result."""
        if len({step for step, *_ in self._waiting} - {media_step}) >= _MOST_STEPS_WAITING:
            self._next_row(self._step + 1)  # rows come less often than results with media
        self._waiting.append((media_step, key, value))

    def _log_media(self, media_step: int, values: dict[str, Any]) -> None:
        """Log media in the row that is open; the scalars of a result join them."""
        for key in values.keys() - self._defined:
            self._run.define_metric(key, step_metric=MEDIA_STEP)
            self._defined.add(key)
        self._run.log({**values, MEDIA_STEP: media_step}, step=self._step)

    def _video(self, file: Path, caption: str | None) -> Any:
        return self._wandb.Video(str(file), caption=caption, format=file.suffix.lstrip("."))

    def _table(self) -> Any:
        names = ["step", "section", "episode_id", "episode_return", "episode_length", "seed"]
        metrics = list(dict.fromkeys(name for row in self._rows for name in row["metrics"]))[:_MOST_METRICS]
        rows = []
        for row in self._rows:
            clip = self._clips.get(row["episode_id"])
            shown = self._video(*clip) if clip is not None else None
            own = [_finite(row.get(name)) for name in names]
            rows.append([shown, *own, *[_finite(row["metrics"].get(name)) for name in metrics], self._run.id])
        return self._wandb.Table(columns=["clip", *names, *metrics, "trial"], data=rows, allow_mixed_types=True)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_under(name: str, prefixes: list[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}/") for prefix in prefixes)
