"""Holds what an env of another module counts."""

COUNTS = {"episodes": 0}
