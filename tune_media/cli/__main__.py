"""``python -m tune_media.cli``."""

from tune_media.cli import main

main(prog_name="tune-media")
