"""The names of wandb and of Ray's W&B integration that are not public and that we need.

``tests/callbacks/wandb/test_private_names.py`` pins each of them, and says which release a change came with.
"""

from __future__ import annotations

from typing import Any, get_args

_SETTING_OF_ARGUMENT = {
    "dir": "root_dir",
    "group": "run_group",
    "id": "run_id",
    "job_type": "run_job_type",
    "name": "run_name",
    "notes": "run_notes",
    "tags": "run_tags",
    "tensorboard": "sync_tensorboard",
}
"""The settings that ``wandb.init`` puts its arguments into, if they have another name."""


def clean_log(values: Any, **kwargs: Any) -> Any:
    """Convert values to ones that W&B takes, as Ray's W&B callback does: arrays of three axes and more become media."""
    from ray.air.integrations import wandb

    return wandb._clean_log(values, **kwargs)


def is_allowed_type(value: Any) -> bool:
    """Return whether Ray's W&B callback logs a value."""
    from ray.air.integrations import wandb

    return bool(wandb._is_allowed_type(value))


def run_info_hook(run: Any) -> None:
    """Run the hook that ``WANDB_PROCESS_RUN_INFO_HOOK`` names, as Ray's W&B callback does."""
    from ray.air.integrations import wandb

    wandb._run_wandb_process_run_info_hook(run)


def modes() -> tuple[str, ...]:
    """Return the modes that W&B knows, such as ``offline``."""
    import wandb

    return get_args(wandb.Settings.model_fields["mode"].annotation)


def settings_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the W&B settings that ``wandb.init`` would make of its arguments; those that are no settings are left out.

    ``wandb.init`` itself starts a process and replaces ``wandb.run``, so it cannot be asked whether it takes them.
    """
    import wandb

    settings = {_SETTING_OF_ARGUMENT.get(name, name): value for name, value in arguments.items() if value is not None}
    return {name: value for name, value in settings.items() if name in wandb.Settings.model_fields}


def key_problem(key: str) -> str | None:
    """Return a sentence that says why W&B will refuse an API key by its form, or None if it may take it."""
    from wandb.sdk.lib import wbauth

    problem: str | None = wbauth.check_api_key(key)
    return problem


def is_passing(error: Exception) -> bool:
    """Return whether it is worth trying again: the network is down, or W&B's own process starts too slowly."""
    from wandb.errors import AuthenticationError, CommError
    from wandb.sdk.lib.service.service_port_file import ServicePollForTokenError

    if isinstance(error, AuthenticationError):
        return False
    return isinstance(error, (CommError, ConnectionError, TimeoutError, ServicePollForTokenError))


def results_left_out() -> list[str]:
    """Return the values of a result that Ray's W&B callback does not log."""
    from ray.air.integrations.wandb import WandbLoggerCallback

    return list(WandbLoggerCallback._exclude_results)
