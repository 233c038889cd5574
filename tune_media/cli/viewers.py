"""Commands that show an experiment in the browser: ``watch`` and ``gallery``."""

from __future__ import annotations

import os
import secrets

import click

from tune_media.cli.command import Command, Outcome, clip_facts, is_json, nothing_recorded, warn_of_stored_code
from tune_media.cli.shared_options import names_columns
from tune_media.values.checks import local_path
from tune_media.values.number import counted
from tune_media.values.problems import remedy

_MUCH = 10**9  # bytes that are copied only after a question


@click.command(cls=Command, short_help="Show the clips in the browser, live.")
@click.argument("experiment", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=6007, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 takes a free one."
)
@click.option("--open/--no-open", "opens", default=False, help="Open the page in a browser.")
@click.option("--wait", is_flag=True, help="Start although the folder, or an experiment in it, is not there yet.")
@click.option(
    "--play/--no-play",
    "plays",
    default=None,
    help="Play an episode from its tape on a click, which runs code of the experiment. Default: yes, without --host.",
)
@names_columns
def watch(
    experiment: tuple[str, ...],
    host: str,
    port: int,
    opens: bool,
    wait: bool,
    plays: bool | None,
    columns: dict[str, str] | None,
) -> Outcome:
    """Show the clips of EXPERIMENT, a folder or a URI, in the browser, live, without TensorBoard.

    EXPERIMENT may also be a file of results of policies, and there may be several.

    \b
    Examples:
      tune-media watch --open ~/ray_results/my_sweep
      tune-media watch act/eval_info.json diffusion/eval_info.json
    """
    from tune_media.viewing.watch import LOCAL_HOSTS, make_watch_server, reachable_at, ssh_line

    if plays and host not in LOCAL_HOSTS:
        raise click.BadParameter("is for this machine only: leave --host out.", param_hint="--play")
    token = secrets.token_urlsafe(16) if plays is not False and host in LOCAL_HOSTS else None

    def warn() -> None:
        warn_of_stored_code("the recipes of its tapes (--no-play: none)", *experiment, what="A click on ▷")

    server = make_watch_server(experiment, host, port, wait=wait, columns=columns, token=token, warn=warn)
    page = f"/#token={token}" if token else ""
    url = reachable_at(host, server.port) + page
    lines = [f"{url} shows the episodes of {', '.join(experiment)}. Press Ctrl+C to stop."]
    if ssh := ssh_line(host, server.port):
        lines += [f"From another machine: {ssh} and open http://127.0.0.1:{server.port}{page}"]
    if opens:
        click.launch(url)
    facts = {"url": url, "pid": os.getpid(), "port": server.port, "ssh": ssh, "experiment": ", ".join(experiment)}
    return Outcome(facts, lines, then=server.serve_forever)


@click.command(cls=Command, short_help="Copy the clips into a folder that opens without a server.")
@click.argument("experiment")
@click.option("-o", "output", type=click.Path(file_okay=False), help="Folder to write. Default: <experiment>_gallery.")
@click.option("--only", multiple=True, help="Only clips of this key or section, such as best; may be repeated.")
@click.option("--steps", is_flag=True, help="With the steps of trajectories, if they were kept.")
@click.option("--errors/--no-errors", default=True, help="Say why trials failed, without folders and passwords.")
@click.option("--yes", is_flag=True, help="Do not ask before copying more than a gigabyte.")
def gallery(
    experiment: str, output: str | None, only: tuple[str, ...], steps: bool, errors: bool, yes: bool
) -> Outcome:
    """Write the clips of EXPERIMENT, a folder or a URI, as a folder with a page that opens without a server.

    Example: tune-media gallery ~/ray_results/my_sweep -o sweep
    """
    from tune_media.viewing.gallery import Gallery, default_folder, human_size

    made = Gallery.of(experiment, only, errors=errors)
    if not made.count and not only:
        raise click.ClickException(nothing_recorded(experiment, made.trials, "No clip or picture"))
    for name, hint in made.unknown.items():
        raise click.ClickException(f"Nothing in {experiment} has the key or section {name!r}; " + hint)
    if not made.count:
        raise click.ClickException(f"No clip or picture in {experiment} is of {', '.join(only)}.")
    folder = local_path("-o", output) if output else default_folder(made.title)
    media = f"{counted(made.count, 'medium', 'media')} of {counted(len(made.trials), 'trial')}"
    click.echo(f"{media}, {human_size(made.nbytes)}, {'goes' if made.count == 1 else 'go'} to {folder}")
    if made.nbytes > _MUCH and not yes and is_json():
        raise click.UsageError("That is more than a gigabyte: " + remedy("pass --yes."))
    if made.nbytes > _MUCH and not yes:
        click.confirm("Copy them?", abort=True)
    with click.progressbar(length=made.count, label="Copying") as bar:
        page = made.write(folder, bar.update, steps=steps)
    copies = [(trial.name, line, folder / "media" / trial.id / line["path"]) for trial, line in made.files.values()]
    clips = [clip_facts(line, trial=name, file=str(file) if file.exists() else None) for name, line, file in copies]
    facts = {"path": str(page), "bytes": made.nbytes, "clips": clips, "missing": made.missing}
    first = f"{counted(len(made.missing), 'file')} could not be read; the first: "
    problem = first + made.missing[0] if made.missing else ""
    return Outcome(facts, [f"Open {page.resolve().as_uri()}"], problem=problem)
