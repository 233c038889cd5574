"""Plays the checkpoints of a finished sweep on the same seeds: ``evaluate``, ``gate`` and ``fork``.

Comes in: the folders of experiments and checkpoints. Goes out: episodes, clips and results in a folder that reads like
an experiment, and the ``Evaluation``, ``Gate`` or ``Fork``. It may import the folders up to ``viewing`` and ``rllib``.
"""

from tune_media.ray_compat import check_ray

check_ray("Playing checkpoints (evaluate, gate, fork)", "tune-media[rllib]")
