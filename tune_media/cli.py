"""The command line: ``tune-media demo``, ``list`` and ``doctor``."""

from __future__ import annotations

import click

from tune_media._version import __version__


@click.group()
@click.version_option(__version__)
def main() -> None:
    """See what the agents of a Ray Tune or RLlib sweep do."""


@main.command()
@click.option("--storage", default="~/ray_results", show_default=True, help="Folder for results.")
@click.option("--iterations", default=10, show_default=True, type=click.IntRange(2), help="Iterations of each trial.")
def demo(storage: str, iterations: int) -> None:
    """Run a real sweep of four PPO trials on CartPole and say where to look."""
    try:
        from tune_media.catalog import format_table
        from tune_media.demo import run_demo, where_to_look
        from tune_media.rllib import record_episodes as _  # noqa: F401 - says what to install where RLlib is missing
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    catalog = run_demo(storage, iterations)
    click.echo(f"\n{format_table(catalog, ('lr', 'gamma'))}\n")
    click.echo(f"{len(catalog)} clips in {catalog.path}")
    click.echo("See them side by side, trial by trial, in")
    for what, command in where_to_look(catalog.path):
        click.echo(f"\n{what}:\n\n    {command}")
    click.echo()


@main.command("list")
@click.argument("experiment")
def list_media(experiment: str) -> None:
    """List what was recorded in EXPERIMENT, a folder or a URI."""
    from tune_media.catalog import format_table, load, printable

    try:
        catalog = load(experiment)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(format_table(catalog))
    click.echo(printable(f"{len(catalog)} media in {catalog.path}"))


@main.command()
@click.argument("env")
@click.option("--config", default='{"render_mode": "rgb_array"}', show_default=True, help="The env's config, JSON.")
def doctor(env: str, config: str) -> None:
    """Render frames of ENV in a Ray actor and say what a recording would be, and what is wrong.

    ENV is an id that Gymnasium knows (CartPole-v1, module:Id-v0) or module:EnvClass.
    """
    import json

    from tune_media.doctor import examine_in_actor

    try:
        parsed = json.loads(config)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--config") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"a JSON object such as {{}}, not {config}", param_hint="--config")
    report = examine_in_actor(env, parsed)
    click.echo(report.text())
    if report.problems:
        raise SystemExit(1)
