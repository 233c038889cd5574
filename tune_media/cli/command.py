"""What all commands share: the exit codes in their help, and errors in the words of a shell."""

from __future__ import annotations

from typing import Any

import click
from typing_extensions import override

from tune_media.cli.messages import in_shell

EXIT_CODES = """\b
Exit codes:
  0  it worked
  1  it failed, or found nothing or a problem; the message says what to do
  2  an unknown command or option
"""


class Command(click.Command):
    """A command that prints an error as one message, and whose help ends with its exit codes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "Exit codes:" not in str(self.help):
            self.epilog = EXIT_CODES

    @override
    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:  # Click ends quietly
            raise
        except (ImportError, OSError, ValueError) as error:
            raise Failure(error) from error


class UsersCommand(Command):
    """A command that calls code of the user's, or of a tracker: a TypeError is a message, too."""

    @override
    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except TypeError as error:
            raise Failure(error) from error


class Failure(click.ClickException):
    """An error of the package, or of the system, as the command line prints it."""

    def __init__(self, error: Exception, exit_code: int = 1) -> None:
        is_systems = isinstance(error, OSError) and error.filename is not None and error.strerror
        text = f"{error.filename}: {error.strerror}" if is_systems else in_shell(str(error))  # type: ignore[attr-defined]
        is_viewers = isinstance(error, ImportError) and str(error.name).startswith("werkzeug")
        super().__init__(f"{text}. Install it: pip install 'tune-media[viewer]'" if is_viewers else text)
        self.exit_code = exit_code  # type: ignore[misc]  # a constant of Click's class
