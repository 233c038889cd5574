"""Envs that write into each frame which frame it is, and a log of their own to compare with."""

from tests.support.envs.counting import COUNTS, CountingEnv, read_frame

__all__ = ["COUNTS", "CountingEnv", "read_frame"]
