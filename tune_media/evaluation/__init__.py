"""Plays the checkpoints of a finished sweep on the same seeds, and files the episodes beside the trials."""

from tune_media.ray_compat import check_ray

check_ray("Playing checkpoints (evaluate, gate, fork)", "tune-media[rllib]")
