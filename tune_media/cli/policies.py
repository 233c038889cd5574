"""Commands that play checkpoints: ``evaluate``, ``gate`` and ``fork``."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from tune_media.cli.command import (
    Command,
    Failure,
    Outcome,
    UsersCommand,
    error_facts,
    in_shell,
    plain_text,
    shell_word,
)
from tune_media.cli.shared_options import file_to_write, names_columns, options, trials_option
from tune_media.values.number import counted
from tune_media.values.problems import remedy

_NICE = 19  # Ray gives its workers 15

_plays = options(  # how a policy is played
    click.option("--policy", metavar="MODULE:FUNCTION", help="Loads the policies of checkpoints that are not RLlib's."),
    click.option("--workers", default=0, show_default=True, type=click.IntRange(0), help="Ray tasks; 0: this process."),
    click.option("--success", metavar="NAME", help="The value of info that says if an episode succeeded: data/solved."),
    click.option(
        "--connectors",
        type=click.Choice(["evaluation", "training"]),
        help="Whose connectors play. Default: the evaluations', if there were any.",
    ),
    click.option("--explore/--no-explore", default=False, show_default=True, help="Draw actions, or take the best."),
)
_plays_on_seeds = options(  # how policies are played, and in which envs
    click.option("--env-config", multiple=True, metavar="KEY=A,B,C", help="Values of the env_config; may be repeated."),
    click.option("--env", metavar="MODULE:FUNCTION", help="A function of the env_config that makes the env instead."),
    click.option(
        "--success-when",
        type=click.Choice(["end", "once"]),
        help="Whether it counts at an episode's end, or after any step. Default: as in the training, or end.",
    ),
    click.option("--stochastic", is_flag=True, help="Policies of --policy draw numbers of their own, on purpose."),
    _plays,
)


@click.command(cls=UsersCommand, short_help="Play the checkpoints of a sweep on the same seeds.")
@click.argument("experiment")
@trials_option("all, best:5, or a trial's name, or a part of it; may be repeated.", default=["all"])
@click.option("--checkpoint", default="last", show_default=True, help="last, best, all, or a number.")
@click.option("--seeds", default="0:40", show_default=True, help="The seeds of the episodes, such as 0:40 or 3,7.")
@_plays_on_seeds
@click.option("--follow", is_flag=True, help="Play all checkpoints of a running sweep as they come, until it ends.")
@click.option("--until-idle", type=float, metavar="SECONDS", help="End if no checkpoint has come for so long.")
@click.option("--anew", is_flag=True, help="Play all again, also what is stored.")
@click.option("--fresh-seeds", default=0, metavar="N", type=click.IntRange(0), help="Play the best on N unused seeds.")
@click.option("--name", help="Name of the evaluation. Default: one that follows from the options.")
@click.option("--clips/--no-clips", default=True, help="Clips of the best, the worst and the median episode.")
def evaluate(experiment: str, clips: bool, **options: Any) -> Outcome:
    """Play the checkpoints of EXPERIMENT, a folder or a URI, each on the same seeds; no learner, no training workers.

    EXPERIMENT may be one checkpoint, too, or, with --policy, a file or a pattern such as 'runs/*/model_*.zip'. The
    episodes go to EXPERIMENT/evaluations/NAME, in the formats of an experiment. The same command goes on where it was
    interrupted. Checkpoints are executable: evaluate only experiments of people whom you trust.

    \b
    Examples:
      tune-media evaluate my_sweep
      tune-media evaluate my_sweep --trials best:5 --seeds 0:100 --workers 8
      tune-media evaluate my_sweep --trials best:1 --env-config wind=0,5,10
      tune-media evaluate my_sweep --trials best:1 --checkpoint all --seeds 7:8
      tune-media evaluate my_sweep --follow
      tune-media evaluate a.zip --policy my_code:load --env my_code:make_env
    """
    if options["follow"]:
        _stand_back()  # before NumPy starts threads
    from tune_media.cli.progress import ShownEvaluation
    from tune_media.evaluation.evaluate import evaluate as play
    from tune_media.evaluation.evaluation_table import remarks, tables
    from tune_media.evaluation.request import parsed_env_config
    from tune_media.viewing.table import in_lines, printable

    sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
    try:
        evaluation = play(
            experiment,
            env_config=parsed_env_config(options.pop("env_config")),
            clips=("best", "worst", "median") if clips else None,
            progress=ShownEvaluation(),
            **options,
        )
    except KeyboardInterrupt as error:
        raise Failure(error) from error
    lines = [f"\n{tables(evaluation)}\n", *map(in_lines, remarks(evaluation))]
    if any(row.episodes for row in evaluation.checkpoints):
        catalog = evaluation.catalog
        if len(catalog.judged) > 1:
            lines.append(in_lines(printable(catalog.verdict.sentence)))
        watch = f"tune-media watch --open {shell_word(evaluation.path, experiment)}"
        lines.append(f"\nSee the episodes:\n\n    {watch}\n")
    rows = evaluation.played_checkpoints
    failed = sum(bool(row.error) for row in rows)
    problem = f"{failed} of {len(rows)} checkpoints lack episodes." if failed else ""
    return Outcome({"v": 2, **evaluation.facts()}, lines, problem=problem)  # 2: not_clearly_worse, why


def _stand_back() -> None:
    """Take only the processor time that nobody else wants, in this process and those that it starts."""
    try:  # a niceness of 19 costs a training on all cores twice as much
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):  # not Linux, or a sandbox forbids it
        with contextlib.suppress(AttributeError, OSError):
            os.nice(_NICE)


class _GateCommand(Command):
    """Its exit code 1 means worse: whatever goes wrong ends it with 2."""

    errors = (Exception, KeyboardInterrupt)

    @override
    def of_error(self, given: Mapping[str, Any]) -> dict[str, Any]:
        sides = _sides(given.get("base"), given.get("candidate"))
        return {
            "v": 2,
            "verdict": "error",
            "exit_code": 2,
            **dict(zip(("base", "candidate"), sides, strict=True)),
            "metric": given.get("metric"),
            "path": None,
            "page": None,
            "conditions": [],
            "problems": [],
        }


def _sides(base: str | None, candidate: str | None) -> tuple[str, str]:
    """Return the base and the candidate; of a policy alone, which is asked for a floor, the base is empty."""
    return (base or "", candidate) if candidate else ("", base or "")


@click.command(cls=_GateCommand, short_help="Decide on the same seeds whether a policy may replace another.")
@click.argument("base", required=False, metavar="BASE")
@click.argument("candidate", required=False)
@click.option("--metric", default="return", show_default=True, help="return, success, length, or a custom metric.")
@click.option("--mode", type=click.Choice(["max", "min"]), default="max", show_default=True, help="What is better.")
@click.option("--margin", default="5%", show_default=True, help="How much worse the candidate may be: 5% or 3.0.")
@click.option(
    "--at-least", type=float, help="What the candidate's mean must reach; without BASE, nothing else is asked."
)
@click.option(
    "--bounds", type=float, nargs=2, metavar="LOW HIGH", help="The least and the largest metric there can be."
)
@click.option("--worst", type=float, help="The worst that one episode can be, such as -500, if --bounds are not known.")
@click.option("--seeds", help="The seeds at most, such as 0:400. Default: 0:200.")
@click.option("--checkpoint", default="last", show_default=True, help="Of a trial: last, best, or a number.")
@_plays_on_seeds
@click.option("--clips", default=5, show_default=True, type=click.IntRange(0), help="Seeds of which clips are made.")
@click.option("-o", "--output", metavar="FOLDER", help="For episodes and clips. Default: a new one in gates/.")
@click.option("--anew", is_flag=True, help="Delete the gate that the folder holds first.")
@click.option("--allow-same", is_flag=True, help="Both may be one checkpoint: such a gate passes for ever.")
@click.option(
    "--timeout",
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="Of one episode, with the loading of its policy; if it takes longer, it hangs.",
)
@click.option("--plan", is_flag=True, help="Only say how many seeds it would take, and how long; plays BASE alone.")
@click.option("--junit", metavar="FILE", help="Write the verdict as JUnit's XML, too.")
@click.option("--markdown", is_flag=True, help="The verdict as a table for a pull request.")
@names_columns
def gate(base: str | None, candidate: str | None, junit: str | None, markdown: bool, **options: Any) -> Outcome:
    """Play BASE and CANDIDATE on the same seeds until it is sure whether CANDIDATE is worse by more than the margin.

    Or play one policy until it is sure whether its mean is at least a floor: POLICY --at-least 450.

    Each is the folder of a checkpoint, an experiment (its winner), EXPERIMENT:TRIAL, or an evaluation that is
    there, EXPERIMENT/evaluations/NAME. Or both are files of results (CSV, JSON lines, JSON), or FILE:POLICY: nothing is
    played, and all starts that both have are judged. Checkpoints are executable: compare only those of people whom you
    trust.

    \b
    Exit codes:
      0  not worse by more than the margin
      1  worse by more than the margin
      2  it cannot be decided: an argument, the env, or an episode is wrong, or
         something ended the process that plays
      3  undecided after the last seed, and of --plan

    \b
    Examples:
      tune-media gate runs/main runs/mine --workers 4
      tune-media gate runs/main:PPO_0 mine/checkpoint_000009 --margin 10
      tune-media gate a.zip b.zip --policy my_code:load --env my_code:make_env
      tune-media gate runs/mine --metric success --at-least 0.9
      tune-media gate --markdown act/eval_info.json diffusion/eval_info.json
    """
    if base is None:
        raise click.UsageError("Missing arguments BASE and CANDIDATE, or one policy and --at-least.")
    if options["plan"] and junit is not None:
        raise click.UsageError("--plan has no verdict for --junit: " + remedy("leave one of them out."))
    target = None if junit is None else file_to_write(junit, ".xml", option="--junit")
    if target is not None:
        target.parent.stat()  # raises if there is none; when all has been played it is too late
        target.unlink(missing_ok=True)  # the verdict of an earlier gate
    from tune_media.viewing.table import in_lines

    facts, page = _decided(base, candidate, target, options)
    if options["plan"]:
        return Outcome({**facts, "page": page}, map(in_lines, _plan(facts)), facts["exit_code"])
    if markdown:
        return Outcome({**facts, "page": page}, _markdown(facts), facts["exit_code"])
    if facts["path"] is None:  # nothing was played
        return Outcome({**facts, "page": page}, map(in_lines, _verdicts(facts)), facts["exit_code"])
    folder = shell_word(facts["path"], options["output"])
    clips = "See the clips" if candidate is None else "See both side by side"
    lines = [*map(in_lines, _verdicts(facts)), f"\n{clips}:\n\n    tune-media watch --open {folder}\n"]
    if page is not None:
        lines += [f"A page to mail: {shell_word(page, options['output'])}"]
    return Outcome({**facts, "page": page}, lines, facts["exit_code"])


def _decided(
    base: str, candidate: str | None, junit: Path | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Return the facts of a gate in the words of a shell, and its page; write JUnit's XML. Raises GateError."""
    from tune_media.cli.gate_process import GateError, gate_in_process

    try:
        facts, xml, page = gate_in_process({"base": base, "candidate": candidate, **options})
    except GateError as error:
        if junit is not None:
            from tune_media.evaluation.gate import Gate

            failed = Gate(*_sides(base, candidate), options["metric"], "", error=in_shell(plain_text(error)))
            junit.write_text(failed.junit(), encoding="utf-8")
        raise
    if junit is not None:
        junit.write_text(xml, encoding="utf-8")
    for verdict in facts["conditions"]:
        verdict["sentence"], verdict["notes"] = in_shell(verdict["sentence"]), list(map(in_shell, verdict["notes"]))
        verdict["error"] = verdict["error"] and in_shell(verdict["error"])
    if errors := [verdict["error"] for verdict in facts["conditions"] if verdict["error"]]:
        facts |= error_facts(errors[0], errors[0])
    return facts, page


def _plan(facts: Mapping[str, Any]) -> Iterator[str]:
    yield "UNDECIDED. This is a plan: it gives no verdict."
    for plan in facts["plan"]:
        head, *cases = plan["sentences"]
        yield from ("", f"{plan['condition']}: {head}" if plan["condition"] else head)
        yield from (f"  {case}" for case in cases)


def _verdicts(facts: Mapping[str, Any]) -> Iterator[str]:
    for verdict in facts["conditions"]:
        name = f"{verdict['condition']}: " if verdict["condition"] else ""
        yield f"{name}{verdict['verdict'].upper()}. {verdict['sentence']}"
        lost = "lost by more than the margin" if verdict["at_least"] is None else "below it"
        for word, key in ((lost, "lost"), ("won by more than the margin", "won")):
            if count := verdict[key]:
                shown = ", ".join(map(str, verdict[f"seeds_{key}"][:10])) + (", ..." if count > 10 else "")
                yield f"  {word} on {counted(count, 'seed')}: {shown}"
        if verdict["played"]:
            yield f"  {verdict['played']}"
        for note in verdict["notes"]:
            yield f"  Note: {note}."
    yield from facts["problems"]


def _markdown(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a gate as Markdown: the verdicts as a table, then the sentence and the notes of each."""
    from tune_media.viewing.list_formats import in_markdown, markdown_table
    from tune_media.viewing.wording import with_interval

    head = ["condition", "verdict", "base", "candidate", "difference", "margin", "seeds"]
    lines = [
        [
            " ".join(filter(None, [one["condition"], "" if floor is None else f"at least {floor:g}"])),
            one["verdict"].upper(),
            with_interval(one["base"], math.nan, math.nan),
            with_interval(one["candidate"], math.nan, math.nan),
            with_interval(one["difference"], one["low"], one["high"]),
            with_interval(one["margin"], math.nan, math.nan),
            str(one["seeds"]),
        ]
        for one in facts["conditions"]
        for floor in [one["at_least"]]
    ]
    sides = in_markdown(" against ".join(filter(None, [facts["candidate"], facts["base"]])))
    yield f"**{facts['verdict'].upper()}**: {facts['metric']} of {sides}\n"
    yield markdown_table([head, *lines] if any(line[0] for line in lines) else [line[1:] for line in [head, *lines]])
    for verdict in facts["conditions"]:
        yield f"\n{in_markdown(verdict['sentence'])}"
        yield from (f"- {in_markdown(note)}" for note in verdict["notes"])


@click.command(cls=UsersCommand, short_help="Let another policy go on with an episode.")
@click.argument("episode", metavar="EXPERIMENT:EPISODE")
@click.argument("candidate")
@click.option(
    "--at", required=True, type=click.IntRange(0), metavar="K", help="The steps before the policy takes over."
)
@click.option("--times", default=1, show_default=True, type=click.IntRange(1), help="Continuations.")
@click.option("--checkpoint", default="last", show_default=True, help="Of a trial: last, best, or a number.")
@_plays
@click.option("--env", metavar="MODULE:FUNCTION", help="Makes the env, if how it is made is not stored.")
@click.option("--clips", default=5, show_default=True, type=click.IntRange(0), help="Continuations that get clips.")
def fork(episode: str, candidate: str, **options: Any) -> Outcome:
    """Play the first K steps of an episode as they were, and let the policy of CANDIDATE go on.

    EXPERIMENT is the folder of an experiment or of an evaluation, EPISODE the id of an episode that has a tape, or
    best, worst or last of its winner, as in render. CANDIDATE is what gate takes: a checkpoint, an experiment, or
    EXPERIMENT:TRIAL. Everything goes to EXPERIMENT/evaluations. Checkpoints, and what makes the env of an episode, are
    executable: use only those of people whom you trust.

    \b
    Examples:
      tune-media fork my_sweep:worst runs/main --at 120 --times 20 --explore
      tune-media fork my_sweep:5c1e runs/main:PPO_3 --at 0
    """
    from tune_media.cli.progress import ShownFork
    from tune_media.evaluation.fork import fork as play
    from tune_media.evaluation.fork import sentence
    from tune_media.viewing.table import in_lines

    sys.path.insert(0, str(Path.cwd()))  # the modules of the training script
    forked = play(episode, candidate, progress=ShownFork(), **options)
    told = [in_shell(sentence(forked)), *(f"Note: {in_shell(problem)}." for problem in forked.problems)]
    watch = f"tune-media watch {shell_word(forked.path, episode)}"
    lines = [*map(in_lines, told), f"\nSee it beside the original:\n\n    {watch}\n"]
    if forked.link:
        lines += [f"and then in the browser:\n\n    http://127.0.0.1:6007/{forked.link}\n"]
    return Outcome(forked.facts(), lines)
