"""Plays checkpoints on the same seeds: ``evaluate``, ``gate`` and ``fork``.

Comes in: the folders of experiments and checkpoints. Goes out: episodes, clips and results in a folder that reads like
an experiment, and the ``Evaluation``, ``Gate`` or ``Fork``. It may import the folders up to ``viewing`` and ``rllib``;
the latter only to play RLlib's checkpoints, since policies of other libraries are played without Ray.
"""

__all__ = [
    "evaluate",
    "evaluation",
    "evaluation_table",
    "fork",
    "gate",
    "gate_request",
    "jobs",
    "request",
    "sequential",
]
