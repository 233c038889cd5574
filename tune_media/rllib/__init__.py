"""Records the episodes that RLlib's env runners play: ``record_episodes`` makes the callback.

In come RLlib's hooks, on env runners and in the Algorithm. Out go clips, tapes, episodes and problems, in RLlib's own
result. It may import all wings but ``gym``, ``callbacks``, ``viewing`` and those above; no other imports ``ray.rllib``.
"""

from tune_media.ray_compat import check_ray

check_ray("tune_media.rllib", "rllib")

from tune_media.rllib.own_values import values_of  # noqa: E402 - after the check
from tune_media.rllib.record import record_episodes  # noqa: E402

__all__ = ["record_episodes", "values_of"]
