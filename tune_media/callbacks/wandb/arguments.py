"""Whether ``wandb.init`` will take the arguments of the callback, found out before the first trial starts."""

from __future__ import annotations

import inspect
import os
from typing import Any

from tune_media.callbacks.faults import redacted
from tune_media.callbacks.wandb import private_names
from tune_media.values.foreign import shown as shown_value

_NOT_ONLINE = ("offline", "disabled", "dryrun")


def check_names(arguments: dict[str, Any]) -> None:
    """Check the names of arguments for ``wandb.init``.

    Args:
        arguments: The keyword arguments that the callback does not know itself.

    Raises:
        TypeError: ``wandb.init`` has no such argument.

    Example:
        >>> check_names({"notes": "a first try"})
        >>> check_names({"note": "a first try"})
        Traceback (most recent call last):
        TypeError: WandbMediaLoggerCallback: neither it nor wandb.init has an argument 'note'.
    """
    import wandb

    known = inspect.signature(wandb.init).parameters
    unknown = [name for name in arguments if name not in known]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise TypeError(f"WandbMediaLoggerCallback: neither it nor wandb.init has an argument {names}.")


def check_values(arguments: dict[str, Any]) -> None:
    """Check the values of arguments for ``wandb.init``, and the form of the API key unless W&B is offline.

    Args:
        arguments: The arguments of ``wandb.init``.

    Raises:
        ValueError: W&B does not take one of them.

    Example:
        >>> check_values({"project": "walkers", "mode": "offline"})
        >>> check_values({"project": "my/walkers", "mode": "offline"})
        Traceback (most recent call last):
        ValueError: WandbMediaLoggerCallback(project='my/walkers', mode='offline'): wandb.init will refuse ...
    """
    import wandb

    mode = arguments.get("mode") or os.environ.get("WANDB_MODE")
    try:
        settings = arguments.get("settings")
        if isinstance(settings, dict):  # an object of W&B's has been checked when it was made
            wandb.Settings(**settings)
        wandb.Settings(**{"mode": mode or "online", **private_names.settings_of(arguments)})
        problem = None if mode in _NOT_ONLINE else private_names.key_problem(os.environ.get("WANDB_API_KEY") or "")
    except Exception as error:  # pydantic's, and W&B's own
        shown = ", ".join(
            f"{name}={shown_value(value, repr)}" for name, value in arguments.items() if value is not None
        )
        reason = redacted(" ".join(str(error).split()))
        raise ValueError(
            f"WandbMediaLoggerCallback({redacted(shown)}): wandb.init will refuse these arguments: {reason}"
        ) from None
    if problem and os.environ.get("WANDB_API_KEY"):
        raise ValueError(
            f"WandbMediaLoggerCallback: W&B will refuse the API key: {problem} Pass api_key= or set WANDB_API_KEY to "
            "the key that https://wandb.ai/authorize shows, or log nothing online with mode='offline'."
        )
