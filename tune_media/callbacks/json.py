"""Ray's JSON logger with media: result.json stays small, and the files lie beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.air.constants import EXPR_PARAM_PICKLE_FILE, EXPR_RESULT_FILE
from ray.tune.logger import JsonLoggerCallback
from typing_extensions import override

from tune_media.callbacks.backend import Backend, Report, Status, TrialInfo
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.ray_compat import earlier_driver_files, json_files, result_line
from tune_media.storage.filesystem import json_object
from tune_media.values.checks import suggests_names
from tune_media.values.foreign import key_text, walked
from tune_media.values.number import whole_number
from tune_media.values.options import MediaOptions

_MAX_OPEN = 256  # files


@suggests_names
class JsonMediaLoggerCallback(MediaLoggerCallback, JsonLoggerCallback):
    """Everything ``ray.tune.logger.JsonLoggerCallback`` does, and media as files.

    A medium in a result is stored at ``<trial>/media/<section>/<key>/step_<step>-<id>.<suffix>`` and listed in
    ``<trial>/media/index.jsonl``. Its path replaces it in result.json, the experiment state and ``ResultGrid``.

    Args:
        media: Options, shared by all callbacks of the family in one experiment.

    Example:
        >>> import tune_media as tm
        >>> callback = tm.JsonMediaLoggerCallback(media=tm.MediaOptions(flush_seconds=60))
    """

    def __init__(self, media: MediaOptions | None = None) -> None:
        JsonLoggerCallback.__init__(self)
        MediaLoggerCallback.__init__(self, JsonBackend(self), media)

    @override
    def update_config(self, trial: Any, config: dict[str, Any]) -> None:
        """Write params.json and params.pkl as Ray does; if keys of two types are in one dict, all are text in JSON."""
        try:
            JsonLoggerCallback.update_config(self, trial, config)
        except TypeError:  # JSON sorts the keys
            JsonLoggerCallback.update_config(self, trial, walked(config, lambda value, _: value, name_of=key_text))
            Path(trial.local_path, EXPR_PARAM_PICKLE_FILE).write_bytes(cloudpickle.dumps(config))


class JsonBackend(Backend):
    """Writes result.json and params.json as Ray does, in Tune's loop, before Tune copies them."""

    name = "JSON"
    in_loop = frozenset({"start", "metrics", "end", "finish"})
    same_files_as = JsonLoggerCallback
    files = "result.json"

    def __init__(self, rays: JsonLoggerCallback) -> None:
        self._rays = rays

    @override
    def prepare_export(self) -> None:
        raise TypeError("an experiment's files are what an export reads; there is nothing to write as JSON.")

    @override
    def start(self, trial: TrialInfo) -> None:
        if self.yields_to is not None:
            return
        if _file_of(trial).exists():  # paused, retried or cloned
            rays: Any = trial.ray
            self._rays.update_config(rays, rays.config)
            self._open(trial)
        else:
            JsonLoggerCallback.log_trial_start(self._rays, trial.ray)
            self._complete_copy(trial)
            self._close_surplus()

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        if self.yields_to is not None:
            return
        files = json_files(self._rays)
        if trial.ray not in files:
            self._open(trial)
        file = files[trial.ray] = files.pop(trial.ray)  # the one that was used last
        file.write(result_line(report.result))
        file.flush()

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        JsonLoggerCallback.log_trial_end(self._rays, trial.ray, failed=status == "failed")

    def _open(self, trial: TrialInfo) -> None:
        """Open result.json to append to it.

        Ray's ``log_trial_start`` would replace it by the storage's copy, which lacks the lines since Tune's last sync.
        """
        files = json_files(self._rays)
        if trial.ray in files:
            files.pop(trial.ray).close()
        file = _file_of(trial)
        file.parent.mkdir(parents=True, exist_ok=True)
        files[trial.ray] = file.open("at")
        self._close_surplus()

    def _complete_copy(self, trial: TrialInfo) -> None:
        """Complete a result.json that Tune was killed to copy to the storage, from the driver's own, or warn.

        The copy is cut off at any place, or is an older one than Tune's snapshot.
        """
        rays: Any = trial.ray
        reported = (rays.last_result or {}).get("training_iteration") if rays.checkpoint else None
        content = _file_of(trial).read_bytes() if reported else b""
        if not reported or (content.endswith(b"\n") and _last_iteration(content, reported) >= reported):
            return
        for file in earlier_driver_files(_file_of(trial)):
            whole = file.read_bytes()
            whole = whole[: whole.rfind(b"\n") + 1]
            if whole.startswith(content) and _last_iteration(whole, 0) >= reported:
                _file_of(trial).write_bytes(whole)  # the open file appends
                return
        json_files(self._rays)[rays].write("\n" if content and not content.endswith(b"\n") else "")
        cause = f"trial {trial.trial_id} had {reported} results, and the storage's result.json is cut off"
        why = "the driver was killed while Tune copied it. What is missing in it was only sent to the trackers"
        self.context.fault("restoring result.json", OSError(f"{cause}: {why}"), kind=trial.trial_id)

    def _close_surplus(self) -> None:
        """Close the files that were used longest ago."""
        files = json_files(self._rays)
        while len(files) > _MAX_OPEN:
            files.pop(next(iter(files))).close()


def _last_iteration(content: bytes, default: int) -> int:
    """Return the training iteration in the last line of a result.json, or a default if it has none."""
    line = json_object(content[content.rfind(b"\n", 0, -1) + 1 :])
    return whole_number(line.get("training_iteration")) or default


def _file_of(trial: TrialInfo) -> Path:
    return Path(trial.location.local_path, EXPR_RESULT_FILE)
