"""Ray's W&B logger with media: clips as videos, images, histograms, a table of trials; off Tune's loop.

One helper process (a Ray actor on the driver's node) holds the runs of all trials. Tune's loop only hands over values
and never waits: a W&B that hangs, dies or is offline costs neither a trial nor Tune's time.
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import pyarrow.fs
from ray.air.integrations.wandb import WandbLoggerCallback
from typing_extensions import override

from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.wandb.arguments import check_mode, check_names, take_key, without_secrets
from tune_media.callbacks.wandb.backend import WandbBackend
from tune_media.values.checks import SECONDS, a_text, check_encodes
from tune_media.values.foreign import of_type
from tune_media.values.installing import pip_install
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import redacted_values

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class WandbMediaLoggerCallback(MediaLoggerCallback, WandbLoggerCallback):
    """Everything ``ray.air.integrations.wandb.WandbLoggerCallback`` does, and media.

    A clip is a video at ``<section>/<key>`` with its return, length and episode as caption: the finished mp4, at its
    own speed. Pictures are images; ``Histogram`` values, and all values of the episodes' series, histograms; files are
    artifacts. The table ``trials``, which W&B joins over all runs, has the trial's best clip, its return, and the
    hyperparameters that Tune chose; ``best_return`` is in the run's summary. Both come at the trial's end. Media have
    an axis of their own, ``media_step``, which is the training iteration.

    If W&B hangs or is away, everything waits for it, in order, on the driver's disk.

    Offline (``WANDB_MODE=offline`` or ``mode="offline"``) the whole run is in ``<trial>/wandb`` on the storage after
    ``fit()``; ``wandb sync <trial>/wandb/offline-run-*`` uploads it.

    Args:
        project: The W&B project. None: the environment variable ``WANDB_PROJECT_NAME``.
        group: The group of the runs. None: ``WANDB_GROUP_NAME``, else the name of the experiment. To see training seeds
            together, group the table of runs by ``configuration``, a key of each run's config.
        api_key_file: A file on the driver that holds the API key.
        api_key: The API key. None: ``WANDB_API_KEY``, or the login of W&B. It is not pickled with the callback.
        excludes: Names of metrics, hyperparameters and media that are not logged.
        log_config: Log the hyperparameters with each result, for schedulers such as PBT that change them.
        upload_checkpoints: Log the checkpoints as artifacts.
        save_checkpoints: The old name of ``upload_checkpoints``.
        upload_timeout: How long the end of the experiment waits for W&B, seconds.
        video_kwargs: Arguments for ``wandb.Video``, for raw arrays that no callback of ours has replaced.
        image_kwargs: Arguments for ``wandb.Image``, for such arrays.
        episodes_artifact: Put all clips, pictures and files of a trial into an artifact ``episodes-<trial>``, too.
        media: Options, shared by all callbacks of the family in one experiment.
        **kwargs: For ``wandb.init``, but for ``dir``, ``reinit``, ``id``, ``resume``, ``resume_from`` and
            ``fork_from``, which are ours. Secrets in ``settings`` (the API key, HTTP headers, a proxy's password) are
            not pickled with the callback: set the environment variables of these settings before ``Tuner.restore``.
            Secrets in other arguments, such as ``config`` and ``notes``, are pickled as ``***``.

    Raises:
        ImportError: W&B is not installed.
        TypeError: ``wandb.init`` has no such argument, or an argument is of the wrong type.
        FileNotFoundError: There is no such ``api_key_file``.
        ValueError: At setup, before the first trial starts: ``wandb.init`` does not take an argument's value.

    Example:
        >>> import tune_media as tm
        >>> callback = tm.WandbMediaLoggerCallback(project="walkers", mode="offline", tags=["first try"])
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
            raise ImportError("WandbMediaLoggerCallback needs W&B: " + pip_install("wandb"))
        check_names(kwargs, inspect.signature(WandbMediaLoggerCallback).parameters)
        check_mode(kwargs.get("mode"))
        a_text("'walkers'", or_none=True).check("WandbMediaLoggerCallback(project=...)", project)
        a_text("'seeds'", or_none=True).check("WandbMediaLoggerCallback(group=...)", group)
        for name, value in {"project": project, "group": group}.items():
            check_encodes(f"WandbMediaLoggerCallback({name}=...)", value or "")
        if isinstance(excludes, str):
            raise TypeError(f"WandbMediaLoggerCallback(excludes=...) takes a list of names: excludes=[{excludes!r}].")
        SECONDS.check("WandbMediaLoggerCallback(upload_timeout=...)", upload_timeout)
        if not isinstance(api_key, (str, NoneType)):  # its value is not for messages
            raise TypeError(f"WandbMediaLoggerCallback(api_key=...) takes text or None, got {of_type(api_key)}.")
        a_text("'~/.wandb_key'", or_none=True).check("WandbMediaLoggerCallback(api_key_file=...)", api_key_file)
        if api_key_file is not None and not Path(api_key_file).expanduser().is_file():
            raise FileNotFoundError(f"WandbMediaLoggerCallback(api_key_file=...): there is no file {api_key_file!r}.")
        kwargs["settings"], key = take_key(kwargs.get("settings"))
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        api_key = key or api_key  # as wandb.init has it
        place = (project, group, api_key_file, api_key)
        logged = (excludes, log_config, upload_checkpoints, save_checkpoints)
        WandbLoggerCallback.__init__(self, *place, *logged, upload_timeout, video_kwargs, image_kwargs, **kwargs)
        self.episodes_artifact = episodes_artifact
        backend = WandbBackend(self, episodes_artifact=episodes_artifact, patience=float(upload_timeout))
        MediaLoggerCallback.__init__(self, backend, media)

    @override
    def log_trial_save(self, trial: Trial) -> None:
        super().log_trial_save(trial)
        checkpoint = trial.checkpoint if self.upload_checkpoints else None
        if checkpoint and isinstance(checkpoint.filesystem, pyarrow.fs.LocalFileSystem):
            self.hand_over_checkpoint(trial, checkpoint.path)

    def __del__(self) -> None:
        """Leave out the clean-up of Ray's callback, which waits for processes that this one does not have."""

    @override
    def arguments(self) -> dict[str, Any]:
        arguments = {name: redacted_values(value) for name, value in super().arguments().items() if name != "api_key"}
        if "settings" in arguments:
            arguments["settings"] = without_secrets(self.kwargs.get("settings"))
        return arguments
