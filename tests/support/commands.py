"""Commands of ``tune-media``, run in this process."""

from typing import Any

from click.testing import CliRunner

from tune_media.cli import main


def command(*words: Any, code: int = 0, **options: Any) -> str:
    """Run a command, which must end with this exit code; return its output."""
    done = CliRunner().invoke(main, list(map(str, words)), **options)
    assert done.exit_code == code, done.output
    return str(done.output)
