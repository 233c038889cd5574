"""Ray's MLflow logger with media: clips as artifacts, images, histograms; off Tune's loop."""

from __future__ import annotations

from typing import Any

from ray.air.integrations.mlflow import MLflowLoggerCallback
from typing_extensions import override

from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.mlflow.backend import MlflowBackend
from tune_media.callbacks.mlflow.connection import hide_password
from tune_media.callbacks.mlflow.private_names import RUN_NAME_TAG
from tune_media.values.checks import FLAG, a_text, an_instance, check_each, check_encodes, suggests_names
from tune_media.values.installing import pip_install
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import redacted_values

_URIS = ("tracking_uri", "registry_uri", "artifact_location")


@suggests_names
class MLflowMediaLoggerCallback(MediaLoggerCallback, MLflowLoggerCallback):
    """Everything ``ray.air.integrations.mlflow.MLflowLoggerCallback`` does, and media, in the background.

    Each trial is a run, which is found again by a tag when Tune restores the trial. Metrics go out in batches. A name
    that MLflow does not take is spelled with codes (``loss@train`` becomes ``loss_0x40_train``). A clip is an artifact
    at ``media/<section>/<key>/step_<step>-<id>.mp4``; images are logged by step, for MLflow's image grid; histograms
    are artifacts, and their quantiles are metrics. At the trial's end, the metric and the tag ``best_return`` get the
    return of its best clip, so that the runs can be sorted by it, and the run's description names the clip and the
    hyperparameters that Tune chose. Hyperparameters that PBT changes become metrics (or tags) ``config/<name>``.

    If the server is away, everything waits for it, in order, on the driver's disk. The end of the experiment waits
    ``MediaOptions(flush_seconds=...)`` for it. MLflow's own retries hold a request for minutes:
    ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` becomes 0 unless you set it.

    Args:
        tracking_uri: The server, or a database such as ``sqlite:///mlflow.db``. None: MLflow's own default. A password
            in it is not pickled with the callback: set ``MLFLOW_TRACKING_URI`` to the whole URI before
            ``Tuner.restore``.
        registry_uri: The model registry, if it is elsewhere.
        experiment_name: The MLflow experiment, which is created if it does not exist. None: ``MLFLOW_EXPERIMENT_NAME``,
            else the name of the Tune experiment.
        tags: Tags of each run; ``mlflow.parentRunId`` puts them under a run of yours. Secrets in them are not pickled
            with the callback: a restored sweep's new runs have ``***`` instead.
        tracking_token: The token for the server. It is not pickled with the callback.
        save_artifact: Upload the trial's local folder when the trial ends.
        log_params_on_trial_end: Log the hyperparameters at the end of the trial instead of at its start.
        artifact_location: Where a new MLflow experiment keeps artifacts. None: MLflow's own default, which without a
            server is ``./mlruns``. A password in it is not pickled with the callback.
        media: Options, shared by all callbacks of the family in one experiment.

    Raises:
        ImportError: MLflow is not installed.
        TypeError: An argument of the wrong type.
        ValueError: A tag that MLflow itself sets.
        ValueError: At setup, before the first trial starts: MLflow cannot use the URI. A server that does not answer
            is no error: it may answer later.

    Example:
        >>> import tune_media as tm
        >>> callback = tm.MLflowMediaLoggerCallback(tracking_uri="http://localhost:5000")
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
        artifact_location: str | None = None,
        media: MediaOptions | None = None,
    ) -> None:
        _check_types(locals())
        try:
            MLflowLoggerCallback.__init__(
                self,
                tracking_uri,
                registry_uri=registry_uri,
                experiment_name=experiment_name,
                tags=tags,
                tracking_token=tracking_token,
                save_artifact=save_artifact,
                log_params_on_trial_end=log_params_on_trial_end,
            )
        except ImportError as error:
            raise ImportError("MLflowMediaLoggerCallback needs MLflow: " + pip_install("mlflow")) from error
        self.artifact_location = artifact_location
        MediaLoggerCallback.__init__(self, MlflowBackend(self), media)

    @override
    def arguments(self) -> dict[str, Any]:
        arguments = {
            name: value if name == "experiment_name" else redacted_values(value)  # a restore continues in it
            for name, value in super().arguments().items()
            if name != "tracking_token"
        }
        own = {name: hide_password(getattr(self, name)) for name in _URIS if name in arguments}
        return arguments | own


def _check_types(arguments: dict[str, Any]) -> None:
    """Refuse arguments of the wrong type, which MLflow would meet in a background thread."""
    examples = {"tracking_uri": "'sqlite:///mlflow.db'", "registry_uri": "'sqlite:///mlflow.db'"}
    for name in ("tracking_uri", "registry_uri", "experiment_name", "tracking_token", "artifact_location"):
        takes = a_text(examples.get(name, f"{name}='...'"), or_none=True)
        takes.check(f"MLflowMediaLoggerCallback({name}=...)", arguments[name])
        check_encodes(f"MLflowMediaLoggerCallback({name}=...)", arguments[name] or "")
    tags = an_instance("a dict", dict, example="{'team': 'a'}")
    table = {"save_artifact": FLAG, "log_params_on_trial_end": FLAG, "tags": tags}
    check_each("MLflowMediaLoggerCallback", arguments, table)
    for name, value in (arguments["tags"] or {}).items():
        a_text("'team'").check("MLflowMediaLoggerCallback(tags={...}), a name,", name)
        check_encodes("MLflowMediaLoggerCallback(tags={...})", f"{name}={value if isinstance(value, str) else ''}")
    if RUN_NAME_TAG in (arguments["tags"] or {}):
        raise ValueError(
            f"MLflowMediaLoggerCallback(tags=...) holds {RUN_NAME_TAG!r}, which is the trial's name in MLflow; name "
            "trials by tune.TuneConfig(trial_name_creator=...)."
        )
