"""When the sub-envs of a vector env are reset after an episode: what the env states, and what its infos show."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from tune_media.recording.rendering import describe
from tune_media.values.problems import Problems

_FINAL = ("final_obs", "final_info", "final_observation")  # the last is the name before Gymnasium 1.0
_REMEDY = (
    "set the vector env's autoreset_mode, or its metadata['autoreset_mode'], to the gymnasium.vector.AutoresetMode"
)


class Autoreset:
    """The autoreset mode of one vector env.

    Gymnasium's vector envs have it as an attribute; their ``metadata`` is a dict that all of a class share and
    overwrite. Of other vector envs it is read from the metadata, and compared with the infos of the first end.
    """

    def __init__(self, env: Any, problems: Problems) -> None:
        self._problems, self._name = problems, describe(env)
        attribute = _as_mode(getattr(env.unwrapped, "autoreset_mode", None))
        self._stated = attribute or _as_mode((env.metadata or {}).get("autoreset_mode"))
        self._is_checked = attribute is not None
        self.mode = self._stated or AutoresetMode.NEXT_STEP

    def check(self, infos: Any) -> None:
        """Compare the mode with the infos of a step that ended an episode; the first such step decides."""
        if self._is_checked:
            return
        self._is_checked = True
        shows_same_step = _has_final(infos)
        if self._stated is None:
            self.mode = AutoresetMode.SAME_STEP if shows_same_step else AutoresetMode.NEXT_STEP
            if not shows_same_step:
                reason = f"{self._name} does not say when it resets its sub-envs: {_REMEDY}"
                self._problems.report(reason, "the step after the end of an episode is taken for its reset")
        elif shows_same_step and self._stated is not AutoresetMode.SAME_STEP:
            self.mode = AutoresetMode.SAME_STEP
            self._problems.report(
                f"{self._name} states autoreset mode {self._stated.name}, and its infos have the final values of "
                f"episodes, as in SAME_STEP. Another vector env may have changed their shared metadata: {_REMEDY}",
                "sub-envs are taken to be reset in the step that ends an episode",
            )
        elif self._stated is AutoresetMode.SAME_STEP and not shows_same_step:
            self._problems.report(
                f"{self._name} states autoreset mode SAME_STEP, and its infos have no 'final_obs'. If it resets in the "
                f"next step, {_REMEDY}",
                "episodes may be recorded with a step too many",
            )


def _as_mode(stated: Any) -> AutoresetMode | None:
    """Return a stated mode: Gymnasium's, one of the same name, or its text."""
    name = getattr(stated, "name", None)
    if name in AutoresetMode.__members__:
        return AutoresetMode[name]
    return next((mode for mode in AutoresetMode if stated in (mode.value, mode.name)), None)


def _has_final(infos: Any) -> bool:
    if isinstance(infos, (list, tuple)):
        return any(_has_final(info) for info in infos)
    return isinstance(infos, dict) and any(name in infos for name in _FINAL)
