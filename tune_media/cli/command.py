"""What commands share: what they print, as text or JSON, exit codes, errors in the words of a shell, and texts."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem as Completion
from typing_extensions import override

from tune_media.cli.standard_streams import output_alone
from tune_media.values.installing import pip_install
from tune_media.values.problems import Message, message_of, remedy
from tune_media.values.secrets import error_text, redacted
from tune_media.values.strict_json import json_bytes

if TYPE_CHECKING:
    from tune_media.experiment.trial_files import TrialFiles

_VERSION = 1  # of the JSON, unless a command's facts have one; ``tune_media/skill/json.md`` describes it
_IS_JSON = "tune_media.is_json"
HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_CLIP = ("trial", "section", "key", "step", "episode_id", "episode_return", "episode_length", "seed", "file")

INTERRUPTED = "it was interrupted; " + remedy("run it again, and it goes on")
EXIT_CODES_HELP = """\b
Exit codes:
  0  it worked
  1  it found nothing, or a problem, or not all worked
  2  it cannot be done: an argument, a file, the storage; the message says why
"""


@dataclass(frozen=True)
class Outcome:
    """The result of a command: its JSON object without ``v`` and ``command``, or several, printed one a line."""

    facts: Mapping[str, Any] | Iterator[Mapping[str, Any]]
    lines: Iterable[str] = ()  # the same as text
    code: int = 0
    problem: str = ""  # what did not work, although the rest did: an error with exit code 1
    then: Callable[[], object] = lambda: None  # called when all is printed


class _Place(click.types.StringParamType):
    """A file or a folder, which shells complete, or a URI."""

    @override
    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Completion]:
        return [Completion(incomplete, type="file")]


class Command(click.Command):
    """A command that returns its outcome, which is printed here: as text, or with ``--json`` as JSON.

    With ``--json``, whatever else is printed goes to standard error. An error is one message. The help ends with the
    exit codes.
    """

    errors: tuple[type[BaseException], ...] = (ImportError, OSError, ValueError)

    def __init__(self, *args: Any, json_help: str = "Print one JSON object, for programs.", **options: Any) -> None:
        super().__init__(*args, **options)
        self.context_settings.update(HELP)
        self.params.append(click.Option(["--json", "is_json"], is_flag=True, help=json_help))
        for argument in self.params:
            if isinstance(argument, click.Argument):
                argument.type = _Place()
        if "Exit codes:" not in str(self.help):
            self.epilog = EXIT_CODES_HELP

    def of_error(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the JSON of an error has besides the error; ``given`` are the parameters, if known."""
        return {}

    @override
    def invoke(self, context: click.Context) -> None:
        is_json = context.meta[_IS_JSON] = context.params.pop("is_json")
        try:
            with output_alone() if is_json else contextlib.nullcontext() as output:
                outcome: Outcome = super().invoke(context)
                if is_json:
                    problem = error_facts(outcome.problem, outcome.problem) if outcome.problem else {}
                    several = [outcome.facts] if isinstance(outcome.facts, Mapping) else outcome.facts
                    for facts in several:
                        _print_json(context.info_name, {**facts, **problem}, output)
                else:
                    for line in outcome.lines:
                        click.echo(line)
                outcome.then()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except self.errors as error:
            raise Failure(error) from error
        if outcome.problem and not is_json:
            raise click.ClickException(outcome.problem)
        context.exit(1 if outcome.problem else outcome.code)


class UsersCommand(Command):
    """A command that calls code of the user's, or of a tracker: a TypeError is a message, too."""

    errors = (*Command.errors, TypeError)


class Program(click.Group):
    """The commands. With ``--json``, each error is a JSON object, too; it has the exit code that it has without."""

    @override
    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        try:
            return self._main(args, *more, **options)
        except OSError as error:  # of the output: commands make messages of their own ones
            click.echo(f"Error: {plain_text(error)}", err=True)
            sys.exit(2)

    def _main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        words = sys.argv[1:] if args is None else args
        if "--json" not in words:
            return super().main(args, *more, **options)
        name = next((word for word in words if word in self.commands), None)
        try:
            sys.exit(super().main(args, *more, **{**options, "standalone_mode": False}))
        except click.ClickException as error:
            context = error.ctx if isinstance(error, click.UsageError) else None
            see = f"see `{context.command_path} --help`" if context else ""
            given = error.parameters if isinstance(error, Failure) else {}
            command = self.commands.get(name or "")
            known = command.of_error(given) if isinstance(command, Command) else {}
            _print_json(name, {**known, **error_facts(error.format_message(), error.message, see)})
            sys.exit(error.exit_code)
        except click.Abort:
            _print_json(name, error_facts("it was interrupted", ""))
            sys.exit(1)
        except Exception as error:  # a bug: the traceback follows
            _print_json(name, error_facts(error_text(error), ""))
            raise


def is_json() -> bool:
    """Return whether the command that runs prints JSON."""
    return bool(click.get_current_context().meta[_IS_JSON])


def clip_facts(row: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return which clip and which episode a row of a catalog, or an index line, is about."""
    facts = {**row, **more}
    return {name: facts.get(name) for name in _CLIP}


def error_facts(error: str, message: str, otherwise: str = "") -> dict[str, Any]:
    """Return an error as it is printed, and the remedy of its message."""
    found = message.remedy if isinstance(message, Message) else ""
    return {"error": error, "remedy": found or otherwise or None}


def _print_json(command: str | None, facts: Mapping[str, Any], file: Any = None) -> None:
    click.echo(json_bytes({"v": _VERSION, "command": command, **facts}), file=file)


class Failure(click.ClickException):
    """An error of the package, or of the system, as the command line prints it."""

    exit_code = 2

    def __init__(self, error: BaseException) -> None:
        text = in_shell(INTERRUPTED if isinstance(error, KeyboardInterrupt) else plain_text(error))
        if isinstance(error, ImportError) and str(error.name).startswith("werkzeug"):
            text = f"{text}. " + remedy("Install it: " + pip_install("viewer"))
        super().__init__(text)
        self.parameters = click.get_current_context().params


def plain_text(error: BaseException) -> str:
    """Return an error as text; of the system's, the file and the reason."""
    is_systems = isinstance(error, OSError) and error.filename is not None and error.strerror
    return f"{error.filename}: {error.strerror}" if is_systems else message_of(error)  # type: ignore[attr-defined]


def in_shell(text: str) -> str:
    """Return the text of an error with the options of the command in place of arguments of Python functions."""
    parameters = click.get_current_context().command.params
    options = {option.name: option.opts[-1] for option in parameters if isinstance(option, click.Option)}
    return text.with_options(options) if isinstance(text, Message) else text


def shell_word(path: str, *uris: str | None) -> str:
    """Return a folder as a word of a command: on an object store with the scheme and options of its URI.

    >>> shell_word("bucket/exp/evaluations/a", "s3://bucket/exp?region=us-east-1&access_key=AKIA0&secret_key=s3cr3t")
    "'s3://bucket/exp/evaluations/a?region=us-east-1&access_key=***&secret_key=***'"
    """
    for uri in uris:
        scheme, sign, rest = (uri or "").partition("://")
        if sign and path.startswith(f"{rest.partition('/')[0]}/"):
            return shlex.quote(redacted(f"{scheme}://{path}{''.join(rest.partition('?')[1:])}"))
    return shlex.quote(path)


def nothing_recorded(path: str, trials: Sequence[TrialFiles], wanted: str = "Nothing") -> str:
    """Return the message for an experiment without media, with the remedy for whoever wrote its trials."""
    from tune_media.experiment.places import is_rsl_rls
    from tune_media.experiment.trial_files import unread_of

    if any(trial.run is not None for trial in trials):
        place = shell_word(path)
        what_to_do = f"`tune-media list --rows trials {place}` and `tune-media watch {place}` show what its runs have."
        return f"{'No medium' if wanted == 'Nothing' else wanted} is there in {path}. " + remedy(what_to_do)
    for file, why in unread_of(trials)[:1]:
        return f"{wanted} can be read in {path}: in {file}, {why}."
    what_to_do = (
        "If its sweep has run, add a recorder to the script: tm.rllib.record_episodes() in RLlib's config, "
        "tm.gym.RecordEpisodes around an env of your own loop, or a tm.Video in a result; and a logger callback of "
        "tune_media to the run (`tune-media` shows how)."
    )
    if any(len(trial.reports) for trial in trials):
        what_to_do = (
            f"Its episodes have no clips: `tune-media render {shell_word(path)} --trial all` makes clips of those "
            "that were recorded as tapes."
        )
    elif any(map(is_rsl_rls, trials)):
        what_to_do = (
            "A run of rsl_rl takes each mp4 that is written into its log folder: let the training record some, in "
            "Isaac Lab with --video."
        )
    return f"{wanted} is recorded in {path}. " + remedy(what_to_do)


def warn_of_stored_code(place: str, *experiments: str, what: str = "This") -> None:
    """Warn that code in files of experiments runs next, or when somebody does something."""
    trust = "go on only if you trust the people who made it."
    for experiment in dict.fromkeys(experiments):
        click.echo(f"{what} runs code that is stored in {experiment}, in {place}: {trust}", err=True)
