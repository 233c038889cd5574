"""Commands before a sweep of one's own: ``demo``, ``doctor`` and ``skill``."""

from __future__ import annotations

import sys
from importlib.resources import files

import click

from tune_media.cli.command import Command, Failure, Outcome, clip_facts
from tune_media.values.checks import local_path
from tune_media.values.number import counted
from tune_media.values.problems import remedy


@click.command(cls=Command, short_help="Run a real sweep, and see what is recorded.")
@click.option("--storage", default="~/ray_results", show_default=True, help="Folder for results.")
@click.option("--iterations", default=6, show_default=True, type=click.IntRange(2), help="Iterations of each trial.")
def demo(storage: str, iterations: int) -> Outcome:
    """Run a real sweep of six PPO trials on CartPole and say where to look.

    Example: tune-media demo
    """
    if "://" in storage:
        raise click.BadParameter(f"a folder of this machine, not {storage!r}", param_hint="--storage")
    from tune_media.viewing.status_line import StatusLine
    from tune_media.viewing.table import in_lines

    text = (
        "The demo trains six PPO agents on CartPole-v1 (two learning rates, three seeds each), evaluates each of "
        f"them {iterations // 2} times on the same seeds, and records the best, the worst and the first episode of "
        f"each evaluation. It takes a minute or two on 2 cores, and needs no GPU and no network. "
        f"Results go to {storage}."
    )
    click.echo(f"{in_lines(text)}\n")

    with StatusLine() as line:
        line.stage("Importing Ray")
        from tune_media.rllib.record import record_episodes as _  # noqa: F401 - its error names the extra
        from tune_media.viewing.demo import run_demo, watch_command, where_to_look
        from tune_media.viewing.trials import trial_table

        try:
            catalog = run_demo(storage, iterations, line)
        except RuntimeError as error:
            raise Failure(error) from error
    lines = [f"\n{trial_table(catalog)}\n", f"{counted(len(catalog), 'clip')} in {catalog.path}"]
    lines += [f"\n{place}:\n\n    {command}" for place, command in where_to_look(catalog.path)]
    best, watch = catalog.clips.best(), watch_command(catalog.path)
    facts = {"path": catalog.path, "media": len(catalog), "best": best and clip_facts(best), "watch": watch}
    if best is None:
        problem = "the demo recorded no clip; " + remedy("run `tune-media doctor CartPole-v1`.")
        return Outcome(facts, lines, problem=problem)
    lines.append(f"\n{in_lines(catalog.verdict.sentence)}")
    lines.append(f"{in_lines('See the six trials side by side, the best first:')}\n")
    return Outcome(facts, [*lines, f"    {watch}\n"])


@click.command(cls=Command, short_help="Find out why an env is not recorded.")
@click.argument("env")
@click.option("--config", default='{"render_mode": "rgb_array"}', show_default=True, help="The env's config, JSON.")
def doctor(env: str, config: str) -> Outcome:
    """Render frames of ENV in another process and say what a recording would be, and what is wrong.

    ENV is an id that Gymnasium knows (CartPole-v1, module:Id-v0) or module:EnvClass.

    \b
    Examples:
      tune-media doctor CartPole-v1
      tune-media doctor mazes:Maze --config '{"n": 5, "render_mode": "rgb_array"}'
      tune-media doctor --json mazes:Maze | jq .facts.render_ms
    """
    import json

    from tune_media.viewing.doctor import examine_apart
    from tune_media.viewing.status_line import StatusLine

    try:
        parsed = json.loads(config)
    except ValueError as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint="--config") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"a JSON object such as {{}}, not {config}", param_hint="--config")
    with StatusLine(sys.stderr) as line:
        line.stage(f"Rendering {env} in another process")
        report = examine_apart(env, parsed)
    facts = {"env": env, "facts": report.facts, "problems": report.problems}
    return Outcome(facts, [report.text()], code=int(bool(report.problems)))


@click.command(cls=Command, short_help="Copy what a coding agent must know to use this.")
@click.argument("folder")
def skill(folder: str) -> Outcome:
    """Copy the skill "tune-media" into FOLDER, where a coding agent looks for skills.

    It says which command to call when, what its JSON means, and what may be concluded from it.

    Example: tune-media skill .claude/skills
    """
    target = local_path("FOLDER", folder) / "tune-media"
    texts = {page.name: page.read_text() for page in files("tune_media").joinpath("skill").iterdir()}
    for name, text in texts.items():
        if (target / name).exists() and (target / name).read_text() != text:
            raise ValueError(f"{target / name} differs from the skill of this version: delete it first")
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (target / name).write_text(text)
    paths = [str(target / name) for name in sorted(texts)]
    return Outcome({"paths": paths}, paths)
