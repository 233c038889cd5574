"""Values that user hooks put into an RLlib episode: ``values_of``, and the fields of the old API stack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tune_media.recording.series import EpisodeValues
from tune_media.rllib.stacks import EpisodeFields, fields_of
from tune_media.steps import FINAL, SERIES, Named, Rule
from tune_media.values.checks import as_shown

_KEY = "tune_media"


def values_of(episode: Any) -> dict[str, Any]:
    """Return a dict of an episode. Values that your hooks put into it belong to the episode's record and data.

    Numbers become metrics of the episode. Text, arrays and everything else that JSON has are kept with it. Pictures
    (``Image``, uint8 arrays HW or HWC, matplotlib figures, PIL images) and files (``Artifact``) of the chosen episodes
    are logged.

    Args:
        episode: The episode as RLlib hands it to callbacks, on either API stack.

    Example:
        >>> from ray.rllib.env.single_agent_episode import SingleAgentEpisode
        >>> def on_episode_end(*, episode, **kwargs):
        ...     values_of(episode)["shots"] = 3
        >>> episode = SingleAgentEpisode()
        >>> on_episode_end(episode=episode)
        >>> values_of(episode)
        {'shots': 3}
    """
    if not hasattr(episode, "custom_data") and not hasattr(episode, "user_data"):
        raise TypeError(f"values_of(episode) takes an episode as RLlib's hooks get it, got {as_shown(episode)}.")
    values: dict[str, Any] = fields_of(episode).free.setdefault(_KEY, {})
    return values


def add_own_values(fields: EpisodeFields, values: EpisodeValues) -> Iterator[Exception]:
    """Add the values that user hooks have put into an episode so far; yield why one is left out."""
    for name, value in _named(fields):
        try:
            if isinstance(value, Rule):
                values.add(Named(name, value.source, value))
            else:
                values.add_whole(name, value)
        except Exception as error:
            yield error


def _named(fields: EpisodeFields) -> Iterator[tuple[str, Any]]:
    """Yield the values by name, in a ``Rule`` unless they are kept whole."""
    for name, value in (*fields.free.get(_KEY, {}).items(), *fields.custom_metrics.items()):
        yield str(name), Rule(value, FINAL)
    for name, values in fields.hist_data.items():
        for value in values:
            number = value.item() if getattr(value, "size", None) == 1 else value  # not an array of one
            yield str(name), Rule(number, SERIES)
    for name, value in fields.media.items():
        yield str(name), value
