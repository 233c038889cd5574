"""Records the episodes of Gymnasium envs, single or vectorised, in any loop.

``tune_media.gym.RecordEpisodes`` does what Gymnasium's ``RecordVideo`` and ``RecordEpisodeStatistics`` do, and hands
over the chosen clips for ``tune.report``. In come the resets and steps of a wrapped env, out go these clips and the
files of a folder. It may import all wings but ``rllib``, ``callbacks``, ``viewing`` and those above.
"""

try:
    import gymnasium as _gymnasium  # noqa: F401
except ImportError as error:
    from tune_media.values.installing import pip_install

    raise ImportError("tune_media.gym needs Gymnasium: " + pip_install("gym")) from error

from tune_media.gym.fixed_seeds import FixedSeeds
from tune_media.gym.vector_wrapper import RecordVectorEpisodes
from tune_media.gym.wrapper import RecordEpisodes

__all__ = ["FixedSeeds", "RecordEpisodes", "RecordVectorEpisodes"]
