"""Texts that several commands print."""

from __future__ import annotations

import re
import shlex

import click

from tune_media.values.secrets import redacted


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
