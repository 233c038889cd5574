"""``python -m tune_media.cli``."""

from tune_media.cli import run

run()
