"""Whether ``wandb.init`` will take the arguments of the callback, found out before the first trial starts."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from typing import Any

from tune_media.callbacks.wandb import private_names
from tune_media.values.checks import as_shown, check_encodes, did_you_mean
from tune_media.values.foreign import shown as shown_value
from tune_media.values.secrets import keep_secret, redacted

_SECRETS = ("api_key", "azure_account_url_to_access_key", "x_extra_http_headers", "x_stats_open_metrics_http_headers")
"""The settings of W&B that are secrets, or may hold some. Others, such as proxies, may have a password in a URL."""
_OURS = {
    "dir": "each run's folder is in <trial>/wandb on the storage",
    "id": "the run of each trial has the trial's id",
    **dict.fromkeys(("resume", "resume_from", "fork_from"), "a restored trial goes on in its run"),
    "reinit": "all runs of an experiment are open in one process",
}
"""The arguments of ``wandb.init`` that the callback sets itself, and why."""
_NOT_ONLINE = ("offline", "disabled", "dryrun")


def check_names(arguments: dict[str, Any], own: Iterable[str] = ()) -> None:
    """Raise TypeError if ``wandb.init`` has no argument of such a name, or the callback sets it itself.

    >>> check_names({"note": "a first try"})
    Traceback (most recent call last):
    TypeError: WandbMediaLoggerCallback: neither it nor wandb.init has an argument 'note'; did you mean 'notes'?
    """
    import wandb

    of_init = inspect.signature(wandb.init).parameters
    for name, value in arguments.items():
        if isinstance(value, str):
            check_encodes(f"WandbMediaLoggerCallback({name}=...)", value)
        if name in _OURS and arguments[name] is not None:
            raise TypeError(f"WandbMediaLoggerCallback(...) takes no {name}=: {_OURS[name]}; leave it out.")
        if name not in of_init:
            hint = did_you_mean(name, [*own, *of_init], "they have")
            raise TypeError(f"WandbMediaLoggerCallback: neither it nor wandb.init has an argument {name!r}; {hint}")


def check_mode(mode: Any) -> None:
    """Raise ValueError if W&B has no such mode; it may come from the environment variable ``WANDB_MODE``.

    >>> check_mode("offlne")
    Traceback (most recent call last):
    ValueError: WandbMediaLoggerCallback(mode=...): W&B has no mode 'offlne'; did you mean 'offline'?
    """
    known = private_names.modes()
    if mode and mode not in known:
        hint = did_you_mean(mode, known, "the modes are")
        raise ValueError(f"WandbMediaLoggerCallback(mode=...): W&B has no mode {as_shown(mode)}; {hint}")


def without_secrets(settings: Any) -> Any:
    """Return W&B settings without the secrets among them, which are kept out of all messages from now on.

    >>> without_secrets({"api_key": "abc", "silent": True, "https_proxy": "http://me:secret@proxy:3128"})
    {'silent': True}
    """
    values = _values_of(settings)
    secrets = {name: value for name, value in values.items() if _is_secret(name, value)}
    if not secrets:
        return settings
    for value in secrets.values():
        keep_secret(*map(str, value.values() if isinstance(value, dict) else [value]))
    return type(settings)(**{name: value for name, value in values.items() if name not in secrets})


def take_key(settings: Any) -> tuple[Any, str | None]:
    """Return W&B settings without the API key, and the key, if they have one."""
    values = _values_of(settings)
    key = values.pop("api_key", None)
    if not isinstance(key, str):
        return settings, None
    return type(settings)(**values), key


def _values_of(settings: Any) -> dict[str, Any]:
    if isinstance(settings, dict):
        return dict(settings)
    names = getattr(settings, "model_fields_set", ())  # of pydantic
    return {name: getattr(settings, name) for name in names}


def _is_secret(name: str, value: Any) -> bool:
    text = shown_value(value, str)
    return value is not None and (name in _SECRETS or redacted(text) != text)


def is_offline(arguments: dict[str, Any]) -> bool:
    """Return whether runs with these arguments for ``wandb.init`` are offline."""
    return (arguments.get("mode") or os.environ.get("WANDB_MODE")) in ("offline", "dryrun")


def check_values(arguments: dict[str, Any]) -> None:
    """Raise ValueError if W&B does not take an argument's value, or the API key's form unless it is offline.

    >>> check_values({"project": "walkers", "mode": "offline"})
    >>> check_values({"project": "my/walkers", "mode": "offline"})
    Traceback (most recent call last):
    ValueError: WandbMediaLoggerCallback(project='my/walkers', mode='offline'): wandb.init will refuse ...
    """
    import wandb

    mode = arguments.get("mode") or os.environ.get("WANDB_MODE")
    check_mode(mode)
    try:
        settings = arguments.get("settings")
        if isinstance(settings, dict):  # an object of W&B's has been checked when it was made
            wandb.Settings(**settings)
        wandb.Settings(**{"mode": mode or "online", **private_names.settings_of(arguments)})
        problem = None if mode in _NOT_ONLINE else private_names.key_problem(os.environ.get("WANDB_API_KEY") or "")
    except Exception as error:  # pydantic's, and W&B's own
        public = {**arguments, "settings": without_secrets(arguments.get("settings"))}
        shown = ", ".join(f"{name}={shown_value(value, repr)}" for name, value in public.items() if value is not None)
        reason = redacted(" ".join(str(error).split()))
        raise ValueError(
            f"WandbMediaLoggerCallback({redacted(shown)}): wandb.init will refuse these arguments: {reason}"
        ) from None
    if problem and os.environ.get("WANDB_API_KEY"):
        raise ValueError(
            f"WandbMediaLoggerCallback: W&B will refuse the API key: {problem} Pass api_key= or set WANDB_API_KEY to "
            "the key that https://wandb.ai/authorize shows, or log nothing online with mode='offline'."
        )
