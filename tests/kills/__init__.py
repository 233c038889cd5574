"""Drivers that are killed again and again; is everything there once? ``python -m tests.kills --help``."""
