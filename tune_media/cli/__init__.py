"""The command line, ``tune-media``.

Comes in: the words of a shell. Goes out: text, files, and an exit code. It may import every other folder, and does so
inside the commands, so that ``--help`` loads no Ray.
"""

from __future__ import annotations

import click

from tune_media._version import __version__
from tune_media.cli.command import EXIT_CODES_HELP, HELP, Program
from tune_media.cli.delivery import deliver, export
from tune_media.cli.figures import figure, filmstrip, grid
from tune_media.cli.first_steps import demo, doctor, skill
from tune_media.cli.listing import list_media
from tune_media.cli.policies import evaluate, fork, gate
from tune_media.cli.standard_streams import drop_what_nobody_reads
from tune_media.cli.tapes import render
from tune_media.cli.viewers import gallery, watch

__all__ = ["main", "run"]


@click.group(cls=Program, invoke_without_command=True, epilog=EXIT_CODES_HELP, context_settings=HELP)
@click.version_option(__version__)
@click.pass_context
def main(context: click.Context) -> None:
    """See what the agents of a Ray Tune or RLlib sweep do."""
    if context.invoked_subcommand is None:
        from tune_media.viewing.next_steps import next_steps

        click.echo(f"{context.get_help()}\n\n{next_steps()}")


for _command in (
    *(demo, doctor, list_media, watch, gallery, grid, filmstrip, figure),
    *(render, evaluate, gate, fork, export, deliver, skill),
):
    main.add_command(_command)


def run() -> None:
    """Run the command that a shell has given, and end the process with its exit code."""
    drop_what_nobody_reads()
    main(prog_name="tune-media")
