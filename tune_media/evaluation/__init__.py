"""Plays the checkpoints of a finished sweep on the same seeds, and files the episodes beside the trials."""
