"""What commands share: the exit codes in their help, errors in the words of a shell, and texts that several print."""

from __future__ import annotations

import re
import shlex
from typing import Any

import click
from typing_extensions import override

from tune_media.values.secrets import redacted

INTERRUPTED = "it was interrupted; run it again, and it goes on"
EXIT_CODES_HELP = """\b
Exit codes:
  0  it worked
  1  it found nothing, or a problem, or not all worked
  2  it cannot be done: an argument, a file, the storage; the message says why
"""


class Command(click.Command):
    """A command that prints an error as one message, and whose help ends with its exit codes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if "Exit codes:" not in str(self.help):
            self.epilog = EXIT_CODES_HELP

    @override
    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
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

    exit_code = 2

    def __init__(self, error: Exception) -> None:
        text = in_shell(plain_text(error))
        is_viewers = isinstance(error, ImportError) and str(error.name).startswith("werkzeug")
        super().__init__(f"{text}. Install it: pip install 'tune-media[viewer]'" if is_viewers else text)


def plain_text(error: Exception) -> str:
    """Return an error as text; of the system's, the file and the reason."""
    is_systems = isinstance(error, OSError) and error.filename is not None and error.strerror
    return f"{error.filename}: {error.strerror}" if is_systems else str(error)  # type: ignore[attr-defined]


def in_shell(text: str) -> str:
    """Return the text of an error with the options of the command in place of arguments of Python functions.

    The error says ``evaluate(seeds=...) takes seeds``, or ``pass env=, a function``; the command has ``--seeds``.
    """
    parameters = click.get_current_context().command.params
    options = {option.name: option.opts[-1] for option in parameters if isinstance(option, click.Option)}
    text = re.sub(r"\b\w+\((\w+)=[^()]*\)", lambda match: options.get(match[1], match[0]), text)
    text = re.sub(r"\b(\w+)=(?![\w.'\"\[{(])", lambda match: options.get(match[1], match[0]), text)
    return re.sub(r"(--[\w-]+), or (?=\1(?![\w-]))", "", text)  # it names both: "env=, or --env"


def shell_word(path: str, *given: str | None) -> str:
    """Return a folder as a word of a command: on an object store with the scheme and options of what was given.

    >>> shell_word("bucket/exp/evaluations/a", "s3://bucket/exp?region=us-east-1&access_key=AKIA0&secret_key=s3cr3t")
    "'s3://bucket/exp/evaluations/a?region=us-east-1&access_key=***&secret_key=***'"
    """
    for uri in given:
        scheme, sign, rest = (uri or "").partition("://")
        if sign and path.startswith(f"{rest.partition('/')[0]}/"):
            return shlex.quote(redacted(f"{scheme}://{path}{''.join(rest.partition('?')[1:])}"))
    return shlex.quote(path)


def nothing_recorded(path: str, wanted: str = "Nothing") -> str:
    """Return the message for an experiment without media."""
    return (
        f"{wanted} is recorded in {path}. If its sweep has run, add a recorder to the script: "
        "tm.rllib.record_episodes() in RLlib's config, tm.gym.RecordEpisodes around an env of your own loop, or a "
        "tm.Video in a result; and a logger callback of tune_media to the run (`tune-media` shows how)."
    )


def warn_of_stored_code(place: str, *experiments: str) -> None:
    """Warn that code in files of experiments runs next."""
    trust = "go on only if you trust the people who made it."
    for experiment in dict.fromkeys(experiments):
        click.echo(f"This runs code that is stored in {experiment}, in {place}: {trust}", err=True)
