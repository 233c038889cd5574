"""Records the episodes that RLlib's env runners play: ``record_episodes`` makes the callback."""

from tune_media.rllib.own_values import values_of
from tune_media.rllib.record import record_episodes

__all__ = ["record_episodes", "values_of"]
