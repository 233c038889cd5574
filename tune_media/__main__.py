"""``python -m tune_media``."""

from tune_media import cli

cli.run()
