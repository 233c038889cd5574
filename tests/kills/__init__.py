"""Drivers that are killed again and again, and whether everything is there once afterwards.

``python -m tests.kills 50 --seed 1`` kills 50 drivers; see ``--help``.
"""
