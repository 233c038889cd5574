"""``tune_media.gate``: whether a candidate may take the place of a base, decided on the same seeds."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree import ElementTree

import pyarrow.fs

from tune_media.evaluation import depth
from tune_media.evaluation.checkpoint_sources import side_of
from tune_media.evaluation.clip_renderer import ClipRenderer
from tune_media.evaluation.decisive import differs_at
from tune_media.evaluation.earlier import lowest_before, scores_before
from tune_media.evaluation.evaluate import function_named, refused_exits
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.file_gate import FilePairs, compared, file_sides, refuse_playing
from tune_media.evaluation.gate_folder import PAGE, VERSION, GateFolder
from tune_media.evaluation.gate_request import GateRequest, default_seeds
from tune_media.evaluation.jobs import check_ray_for
from tune_media.evaluation.measure import RETURN, SUCCESS, Measure
from tune_media.evaluation.memory import LoadPolicy, PolicyLoader
from tune_media.evaluation.pairs import ROLES, Pairs
from tune_media.evaluation.plan import Plan, Question, Seeds, plans
from tune_media.evaluation.request import EnvCondition, Request, as_checkpoint, in_order
from tune_media.evaluation.sequential import FORECAST, LEVEL, PASS, UNDECIDED, WORSE, Standing, fewest_seeds
from tune_media.evaluation.sides import evaluations_with
from tune_media.experiment.named import named
from tune_media.experiment.places import Folder
from tune_media.recording.success import Success
from tune_media.selection import Selector
from tune_media.storage.filesystem import write_atomically
from tune_media.values import checks
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions
from tune_media.values.problems import argument, remedy
from tune_media.values.secrets import error_text, redacted
from tune_media.viewing import inference, single_page, wording
from tune_media.viewing.gallery import human_size

ERROR = "error"
EXIT_CODES = {PASS: 0, WORSE: 1, ERROR: 2, UNDECIDED: 3}
_CLIPS = 5
_LISTED = 100  # seeds
_BESIDE = "the clips are too large for one file ({size}), and lie beside {page}: mail the folder, or make fewer clips"


@dataclass(frozen=True)
class GateVerdict:
    """The verdict of a gate under one condition of the env.

    Attributes:
        condition: The condition as text; empty for the env of the training.
        verdict: ``pass``, ``worse``, ``undecided``, or ``error``.
        standing: How much better the candidate is, with the interval, the margin, and the number of seeds that it took.
        base, candidate: The mean of each over these seeds; of a floor, ``base`` is the floor.
        lost: The seeds on which the candidate is worse by more than the margin, the largest loss first; of a floor,
            those on which it is below.
        won: Those on which it is better by more than the margin.
        at_least: The floor that the candidate's mean must reach, or None if it is compared with the base.
        played: How the policies were played, in words.
        error: Why there is no verdict, or None.
        notes: Remarks for the reader.
        trials: The folders of both sides' episodes, by role.
        scores: ``seeds`` that count, in the order in which they were judged, and lists of the metric by role.
        decisive: The seeds that have clips, each ``seed`` with ``differs_at``, the first step at which the actions, or
            the values that the env returned, differ, or None if that is not known.
        copies: How many seeds it took besides, with copies of the same episodes: these count once.
        bounds: The least and the largest value of the metric, if they are known.
        for_equal: Of ``undecided``, how many seeds equal policies would need in all; of a floor, a policy with this
            mean. None: that is not known.

    >>> GateVerdict("", "pass", Standing("pass", 40, 10.0, 11.0, 0.5, 0.2, 1.8), 10.0, 11.0).facts()["difference"]
    1.0
    """

    condition: str
    verdict: str
    standing: Standing
    base: float = math.nan
    candidate: float = math.nan
    lost: tuple[int, ...] = ()
    won: tuple[int, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()
    at_least: float | None = None
    played: str = ""
    trials: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    decisive: tuple[Mapping[str, Any], ...] = ()
    copies: int = 0
    bounds: tuple[float, float] | None = None
    for_equal: Seeds | None = None

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        standing = self.standing
        return {
            "condition": self.condition,
            "at_least": self.at_least,
            "verdict": self.verdict,
            "played": self.played,
            "seeds": standing.seeds + self.copies,
            **({"different": standing.seeds} if self.copies else {}),
            "seeds_for_equal": None if self.for_equal is None else self.for_equal.half,
            "base": self.base,
            "candidate": self.candidate,
            "difference": standing.difference,
            "low": standing.low,
            "high": standing.high,
            "margin": standing.margin,
            "is_same": standing.is_same,
            "depth": None if standing.depth_from is None else standing.depth,
            "depth_from": standing.depth_from,
            "bounds": self.bounds and list(self.bounds),
            "seeds_lost": list(self.lost[:_LISTED]),
            "seeds_won": list(self.won[:_LISTED]),
            "lost": len(self.lost),
            "won": len(self.won),
            "error": self.error,
            "notes": list(self.notes),
            "trials": self.trials,
            "scores": self.scores,
            "decisive": list(self.decisive),
        }


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate.

    Attributes:
        base, candidate: The two sides, as they were given; ``base`` is empty if there is a floor alone.
        metric: The metric that was compared: ``return``, ``success``, or another name.
        path: The folder of its episodes and clips, an experiment with the trials ``base`` and ``candidate``.
        verdicts: One for each condition of the env.
        problems: Things that are missing, such as clips, each in a sentence.
        page: The path of the page, one HTML file, or None if it could not be made: see ``problems``.
        error: Why nothing was compared, or None.
        plan: How many seeds it would take, if that was asked; then there are no verdicts.

    >>> Gate("a", "b", "return", "gate").exit_code
    2
    """

    base: str
    candidate: str
    metric: str
    path: str
    verdicts: Sequence[GateVerdict] = ()
    problems: Sequence[str] = ()
    page: str | None = None
    error: str | None = None
    plan: Sequence[Plan] = ()

    @property
    def verdict(self) -> str:
        """``error`` if a condition has one, else ``worse``, else ``undecided``, as a plan is; ``pass`` if all pass."""
        names = {verdict.verdict for verdict in self.verdicts} or {UNDECIDED if self.plan else ERROR}
        return next(name for name in (ERROR, WORSE, UNDECIDED, PASS) if name in names)

    @property
    def passed(self) -> bool:
        """Whether the verdict is ``pass``."""
        return self.verdict == PASS

    def __bool__(self) -> bool:
        raise TypeError("a Gate is neither true nor false: read Gate.passed, Gate.verdict or Gate.exit_code.")

    @property
    def exit_code(self) -> int:
        """0: pass, 1: worse, 2: error, 3: undecided."""
        return EXIT_CODES[self.verdict]

    def facts(self) -> dict[str, Any]:
        """Return the content of ``gate.json``, which ``--json`` prints with ``page``.

        ``v`` (2), ``verdict``, ``exit_code``, ``base``, ``candidate``, ``metric``, ``path``, ``problems``, ``plan`` (of
        a plan alone), and ``conditions``: for each ``condition`` (and floor, ``at_least``) its ``verdict``, how they
        ``played``, ``seeds`` (that it took), ``different`` (how many different episodes they are, if some are copies),
        ``seeds_for_equal`` (of ``undecided``: how many equal policies need in all), means ``base`` and
        ``candidate``, ``difference`` (how much better the candidate is), ``low``, ``high``, ``margin``, ``is_same``,
        ``depth`` and ``depth_from`` (see ``sequential.Standing``), ``bounds`` (of the metric, if they are known),
        ``lost`` and ``won`` (numbers of seeds that differ by more than the margin), ``seeds_lost`` and ``seeds_won``
        (the first 100), ``sentence``, ``error``, ``notes``, ``trials`` (the folders of the episodes, by role),
        ``scores`` (``seeds`` that count, and the metric by role) and ``decisive`` (each ``seed`` that has
        clips, with ``differs_at``, the first step at which both differ).
        """
        return {
            "v": VERSION,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "base": self.base,
            "candidate": self.candidate,
            "metric": self.metric,
            "path": self.path or None,
            **({"plan": [one.facts(self.metric) for one in self.plan]} if self.plan else {}),
            "conditions": [{**one.facts(), "sentence": sentence(one, self.metric)} for one in self.verdicts],
            "problems": list(self.problems),
        }

    def junit(self) -> str:
        """Return it as JUnit's XML, which CI services show: one test for each condition, else for the error."""
        names = [verdict.verdict for verdict in self.verdicts] or [ERROR]
        suite = ElementTree.Element("testsuite", name="tune-media gate", tests=str(len(names)))
        for kind, verdicts in _OF_JUNIT.items():
            suite.set(f"{kind}s", str(sum(name in verdicts for name in names)))
        if not self.verdicts:
            against = f"{self.candidate} against {self.base}" if self.base else self.candidate
            case = ElementTree.SubElement(suite, "testcase", classname=against, name=self.metric)
            ElementTree.SubElement(case, "error", message=self.error or "").text = self.error
        for verdict in self.verdicts:
            is_floor = verdict.at_least is not None
            floor = f" at least {verdict.at_least:g}" if is_floor else ""
            name = f"{self.metric} {verdict.condition}".strip() + floor
            against = self.candidate if is_floor else f"{self.candidate} against {self.base}"
            case = ElementTree.SubElement(suite, "testcase", classname=against, name=name)
            for kind, verdicts in _OF_JUNIT.items():
                if verdict.verdict in verdicts:
                    ElementTree.SubElement(case, kind, message=sentence(verdict, self.metric)).text = verdict.error
            ElementTree.SubElement(case, "system-out").text = f"{sentence(verdict, self.metric)} {verdict.played}"
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


_OF_JUNIT = {"failure": (WORSE, UNDECIDED), "error": (ERROR,)}


class GateProgress:
    """Called while a gate plays; this one prints nothing."""

    def plays(self, *names: str) -> None:
        """Code in the checkpoints that these names mean is run next."""

    def imports(self) -> None:
        """The modules of the policy and of the env are imported next."""

    def begins(self, condition: str) -> None:
        """Episodes are played next under a condition."""

    def stands(self, condition: str, standing: Standing, seeds: int) -> None:
        """The standing under a condition after another batch, of so many seeds at most."""

    def tells(self, text: str) -> None:
        """A sentence on how many seeds equal policies would need, or that the first seeds gave one episode."""

    def renders(self, condition: str) -> None:
        """Clips are made next, by a process that has time limits of its own."""


@checks.suggests_names
@refused_exits()
def gate(
    base: Any,
    candidate: Any = None,
    *,
    metric: str = RETURN,
    mode: str = "max",
    margin: str | float = "5%",
    at_least: float | None = None,
    bounds: tuple[float, float] | None = None,
    worst: float | None = None,
    seeds: Any = None,
    checkpoint: str | int = "last",
    explore: bool | None = False,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    env_config: Mapping[str, Any] | None = None,
    policy: LoadPolicy | str | None = None,
    stochastic: bool = False,
    success: Success | None = None,
    success_when: str | None = None,
    workers: int = 0,
    output: str | None = None,
    anew: bool = False,
    allow_same: bool = False,
    plan: bool = False,
    clips: int = _CLIPS,
    video: VideoOptions | None = None,
    columns: Mapping[str, str] | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: GateProgress | None = None,
) -> Gate:
    """Play two policies on the same seeds until it is sure whether the candidate is worse by more than a margin.

    Or play one until it is sure whether its mean is at least a floor: ``gate(policy, at_least=450)``.

    It stops at the first seed after which it is sure. Each of the two errors, a pass of a candidate that is worse by
    the margin or more, and «worse» of one that is not, happens in at most one of twenty gates, whenever it stops
    (``evaluation/sequential.py``); with several conditions, in one of twenty gates under any of them. That supposes
    that no rare failure is deeper than is known: see ``bounds`` and ``worst``.

    Checkpoints are executable: they hold pickles. Compare only checkpoints of people whom you trust.

    Args:
        base: The folder or URI of a checkpoint; an experiment, for its winner; ``EXPERIMENT:TRIAL``; or an
            evaluation that is there, ``EXPERIMENT/evaluations/NAME``, also with ``:TRIAL``. Or a file of results, also
            with ``:POLICY``: of two such files nothing is played, and all the starts that both have are looked at once.
        candidate: The same. None: ``base`` is the candidate, and ``at_least`` is asked alone.
        metric: ``"return"``, ``"success"``, ``"length"``, or the name of a custom metric of the episodes.
        mode: ``"max"`` or ``"min"``: whether a larger or a smaller metric is better.
        margin: How much worse the candidate may be: ``"5%"`` of the size of the base's mean, or a number, in the units
            of the metric. Of success, per cent are percentage points.
        at_least: The floor of the candidate's mean, in the units of the metric: a second verdict, or the only one.
        bounds: The smallest and the largest value of the metric that there can be. Then the error holds exactly. None:
            one seed is taken to cost no more than the others show, see ``evaluation/sequential.py``.
        worst: The worst value that one episode can have, if it is known and the best is not: a pass then takes so many
            seeds that failures as deep as that would have shown. None: as deep as the worst episode of both that is
            known, and at least as deep below the base's mean as one to two times the size of that mean.
        seeds: The seeds, at most: a text such as ``"0:200"``, or a list. They are played, and those of evaluations are
            judged, in the order of a hash of each: an env may be harder for later seeds. None: those of an evaluation
            that is there, or 0 to 199.
        checkpoint: The checkpoint of a trial: ``"last"``, ``"best"``, or a number.
        explore: Whether policies explore. False, as they ship. None: as in the evaluations of the training.
        connectors, env, policy, stochastic, success, success_when: As of ``tune_media.evaluate``; the same for both.
        env_config: Keys of the ``env_config`` with other values. A list of values: one verdict for each.
        workers: The number of Ray tasks at a time. 0: all is played in this process.
        output: The folder for the episodes, the clips, ``gate.json`` and ``index.html``, a page to mail. None: a new
            one, ``gates/<candidate>-<date>_<time>`` here.
        anew: Whether the folder may hold a gate, which is deleted first. False: that is an error.
        allow_same: Whether both may be one checkpoint, by its content: such a gate passes for ever. False: that is an
            error.
        plan: Whether, instead of a gate, ten episodes of the base are played, or its earlier ones taken, and nothing is
            kept: how many seeds would a gate take, and how long? Its ``plan`` says so; the verdict is ``undecided``.
        clips: The number of seeds with clips of both sides: those on which both differ most.
        video: Size, speed, quality and overlays of the clips.
        columns: Of files of results, see ``tune_media.load``.
        filesystem: A pyarrow filesystem that both are on.
        progress: Called while it plays.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, both are one checkpoint or play in different envs, or the folder holds a
            gate.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``gate("runs/main", "runs/mine:PPO_3", margin=10, workers=8).exit_code``
    """
    checks.a_count("a number of Ray tasks", 0).check("gate(workers=...)", workers)
    checks.a_count("a number of seeds", 0).check("gate(clips=...)", clips)
    flags = {"stochastic": stochastic, "anew": anew, "allow_same": allow_same, "plan": plan}
    checks.check_each("gate", flags, dict.fromkeys(flags, checks.FLAG))
    measure = replace(Measure.of(metric, mode, margin, bounds, at_least, worst), success_when=success_when)
    policies = [base] if candidate is None else [base, candidate]
    checks.an_instance("a tune_media.evaluation.gate.GateProgress", GateProgress).check("gate(progress=...)", progress)
    questions = _questions(policies, at_least)
    names = ["", *map(str, policies)][-2:]
    if of_files := file_sides(policies, policy, filesystem, columns):
        playing = {"env": env, "env_config": env_config, "output": output, "video": video, **flags}
        playing |= {"explore": explore, "connectors": connectors, "success": success, "success_when": success_when}
        refuse_playing({**playing, "workers": workers, "checkpoint": checkpoint != "last", "allow_same": False})
        level = 1 - (1 - LEVEL) / questions
        pairs = compared(of_files, measure, seeds, level, allow_same=allow_same)
        return _of_files(names, [side.path for side in of_files], pairs, measure, level)
    _check_plan(output, anew=anew, plan=plan)
    check_ray_for(policy, workers)
    folder = GateFolder(output, policies[-1], anew=anew)
    places = [named(source, filesystem) for source in policies]  # before checkpoints, which run code, are read
    progress = progress or GateProgress()
    progress.plays(*(place.text for place in places))
    sides = tuple(side_of(place, as_checkpoint(checkpoint), is_foreign=policy is not None) for place in places)
    default = default_seeds(sides)  # if seeds are given, too: it checks the evaluations
    seeds = default if seeds is None else seeds
    how = Request.of(checkpoint, seeds, explore, connectors, env, policy, env_config, success, success_when)
    how = replace(how, seeds=in_order(how.seeds))
    request = GateRequest(sides, how, success)
    request.check()
    facts = {**request.facts(), **measure.facts()}
    problems = request.problems(facts, allow_same=allow_same or plan)
    with folder.held():
        facts["history"] = history = lowest_before(request, facts, measure, folder.place)  # also of the one it deletes
        folder.empty()
        progress.imports()
        load = function_named("gate", "policy", policy)
        loaders = [None if side.is_rllib or load is None else PolicyLoader(load, stochastic) for side in sides]
        request = replace(request, make=function_named("gate", "env", env), loaders=loaders, video=video)
        level = 1 - (1 - LEVEL) / (len(how.conditions) * questions)
        if plan:
            before = scores_before(request, facts, measure, folder.place)
            planned = plans(request, measure, history, before, level, workers, progress.begins)
            return Gate(names[0], names[1], metric, "", plan=list(planned))
        folder.begin(facts)
        _tell_fewest(progress, measure, level)
        with contextlib.closing(ClipRenderer((), video)) as renderer:
            player = _GatePlayer(request, measure, history, level, workers, clips, folder.place, renderer, progress)
            for condition in how.conditions:
                player.play(condition)
            problems += renderer.problems
        judged = Gate(names[0], names[1], metric, folder.place.path, player.verdicts, problems)
        return _with_page(judged, folder)


def _of_files(names: Sequence[str], paths: Sequence[str], pairs: FilePairs, measure: Measure, level: float) -> Gate:
    trials = dict(zip(ROLES[-len(paths) :], paths, strict=True))
    found = [_verdict("", pairs, measure, level, of_floor) for of_floor in pairs.standings]
    verdicts = [replace(verdict, trials=trials) for verdict in found]
    return Gate(names[0], names[1], measure.metric, "", verdicts)


def _with_page(judged: Gate, folder: GateFolder) -> Gate:
    """Write ``gate.json`` and the page, and return the gate with both, or with why there is no page."""
    folder.write(judged.facts())
    place = folder.place
    path = posixpath.join(place.path, PAGE)
    try:
        gallery = single_page.gallery_of(
            place, {seed["seed"] for verdict in judged.verdicts for seed in verdict.decisive}
        )
        if gallery.nbytes > single_page.MOST:
            size = human_size(gallery.nbytes)
            judged = replace(judged, problems=[*judged.problems, _BESIDE.format(page=PAGE, size=size)])
            folder.write(judged.facts())
        sides = filter(None, (judged.candidate, judged.base))
        names = " against ".join(posixpath.basename(redacted(side).rstrip("/")) for side in sides)
        content = single_page.single_page(gallery, f"{judged.verdict.upper()}: {names}")
        write_atomically(place.filesystem, path, content.encode("utf-8", "replace"))
    except Exception as error:  # of a file, or of a clip: the verdict stays
        judged = replace(judged, problems=[*judged.problems, f"no {PAGE}: {error_text(error)}"])
        folder.write(judged.facts())
        return judged
    return replace(judged, page=path)


def _questions(policies: Sequence[Any], at_least: float | None) -> int:
    """Return the number of verdicts of each condition. Raises ValueError if nothing is asked."""
    questions = (len(policies) > 1) + (at_least is not None)
    if not questions:
        floor = argument("at_least=") + ", a floor of its mean."
        raise ValueError("gate() takes a base and a candidate, or one policy and " + floor)
    return questions


def _check_plan(output: str | None, *, anew: bool, plan: bool) -> None:
    """Raise ValueError if arguments say where a plan is kept."""
    if plan and (output is not None or anew):
        which = argument("output=" if output is not None else "anew=")
        raise ValueError(argument("gate(plan=True)") + " keeps nothing: " + remedy("leave out " + which + "."))


@dataclass(frozen=True)
class _GatePlayer:
    """Plays a gate's conditions, and makes the clips of the seeds that differ most."""

    request: GateRequest
    measure: Measure
    history: Mapping[str, Any]  # see ``lowest_before``
    level: float
    workers: int
    clips: int
    place: Folder
    renderer: ClipRenderer
    progress: GateProgress
    verdicts: list[GateVerdict] = field(default_factory=list)

    def play(self, condition: EnvCondition) -> None:
        """Play both sides under a condition until it is decided, and add its verdicts."""
        parts, seeds = self.request.parts(condition, self.place), self.request.request.seeds
        measure = self.measure.with_history(self.history.get(condition.label, {}), self.request.by_role)
        pairs = Pairs(parts, seeds, measure, self.level)
        self.progress.begins(condition.label)
        with contextlib.closing(self.request.play(parts, condition, self.workers)) as played:
            is_told = is_warned = False
            for _ in pairs.decide(played):
                *_, (of_floor, standing) = pairs.standings.items()
                count = standing.seeds + pairs.copies(of_floor=of_floor)
                self.progress.stands(condition.label, replace(standing, seeds=count), len(seeds))
                is_told = is_told or _tell(self.progress, pairs, measure, self.level, len(seeds))
                if not is_warned and (warning := pairs.warning):
                    self.progress.tells(warning + ".")
                    is_warned = True
        decisive, evaluated = _decisive(pairs, parts, self.clips), evaluations_with(parts[-1], pairs.scores)
        trials = dict(zip(self.request.by_role, (posixpath.basename(part.store.folder) for part in parts), strict=True))
        successes = list(_about_success(self.request.by_role, parts)) if self.measure.metric == SUCCESS else []
        for of_floor in pairs.standings:
            verdict = _verdict(condition.label, pairs, measure, self.level, of_floor)
            notes = (*verdict.notes, *successes, *self.request.notes, *evaluated)
            self.verdicts.append(replace(verdict, notes=notes, trials=trials, decisive=decisive))
            decisive = ()  # a floor besides a base: the clips are with the base
        self.renderer.selectors = _of_seeds(pairs, self.clips)
        self.progress.renders(condition.label)
        for part in parts:
            if part.rows():
                part.add_clips(self.renderer)
                part.write_result()


def _about_success(roles: Iterable[str], parts: Sequence[EvaluationPart]) -> Iterator[str]:
    """Yield what a rate of successes does not say of the episodes of each side."""
    for role, part in zip(roles, parts, strict=True):
        once, at_end = part.share("success_once"), part.share("success_at_end")
        if once > at_end:
            yield f"the {role} was a success once in {once:.3g} of its episodes, and at the end in {at_end:.3g}"
        if part.played_as is not None and part.played_as.early:
            yield f"of the {role}, {part.played_as.early}"


def sentence(verdict: GateVerdict, metric: str) -> str:
    r"""Return a verdict in a sentence, with its figures.

    >>> standing = Standing("pass", 40, 10.0, 11.0, 0.5, 0.2, 1.8, 12.0)
    >>> print(*sentence(GateVerdict("", "pass", standing, 10.0, 11.0), "return").split("; "), sep="\n")
    The candidate is not worse by more than 0.5: return 11 against 10
    it is ahead of the base by 1 [0.2, 1.8], after 40 seeds.
    """
    standing, floor = verdict.standing, verdict.at_least
    if verdict.error is not None:
        end = "" if verdict.error.endswith((".", "?")) else "."
        return "It cannot be decided: " + verdict.error + end
    after = f"after {counted(standing.seeds, 'different episode' if verdict.copies else 'seed')}."
    if verdict.for_equal is not None:
        who = "equal policies" if floor is None else "a policy with this mean"
        after += f" In all, {who} would need {verdict.for_equal}."
    is_worse = {WORSE: True, PASS: False}.get(verdict.verdict)
    if floor is not None:
        is_above = None if is_worse is None else not is_worse
        mean = f"the mean {metric} is"
        told = wording.decided(is_above, f"{mean} at least {floor:g}", f"{mean} below {floor:g}")
        interval = wording.with_interval(verdict.candidate, floor + standing.low, floor + standing.high)
        return f"{told}: {interval}, {after}"
    margin = f"worse by more than {standing.margin:.5g}"
    told = wording.decided(is_worse, f"the candidate is {margin}", f"the candidate is not {margin}")
    lead = wording.ahead(inference.Estimate(standing.difference, standing.low, standing.high), "the base")
    if standing.is_same and verdict.bounds is None:
        lead, after = "both did exactly the same", after.replace("after", "on all" if standing.seeds > 1 else "on", 1)
        return f"{told}: {metric} {verdict.candidate:.5g} against {verdict.base:.5g}; {lead} {after}"
    return f"{told}: {metric} {verdict.candidate:.5g} against {verdict.base:.5g}; {lead}, {after}"


def _tell_fewest(progress: GateProgress, measure: Measure, level: float) -> None:
    """Say before the first seed how many a floor takes at least."""
    floor = measure.floor
    if floor is not None and (fewest := fewest_seeds(floor, measure.bounds, level)) is not None:
        progress.tells(f"A mean {measure.metric} of at least {floor:g} takes {fewest} seeds or more.")


def _tell(progress: GateProgress, pairs: Pairs, measure: Measure, level: float, most: int) -> bool:
    """Say after the first seeds how many equal policies would take, and what is assumed; return whether it is known."""
    of_floor, standing = next(iter(pairs.standings.items()))
    if standing.seeds < FORECAST:
        return False
    if foreseen := _for_equal(pairs, measure, level, of_floor):
        who = "A policy with this mean" if of_floor else "Equal policies"
        progress.tells(f"{who} would need {foreseen}; you allow {most}.")
    if assumption := depth.assumption(standing, measure, of_floor=of_floor):
        progress.tells(assumption)
    return True


def _verdict(condition: str, pairs: Pairs | FilePairs, measure: Measure, level: float, of_floor: bool) -> GateVerdict:
    """Return the verdict against the base or the floor under a condition."""
    standing = pairs.standings[of_floor]
    scores = dict(itertools.islice(pairs.scores.items(), standing.seeds))
    losses = {seed: (standing.base if of_floor else values[0]) - values[-1] for seed, values in scores.items()}
    order = sorted(losses, key=lambda seed: (-losses[seed], seed))
    margin = standing.margin
    lost = tuple(seed for seed in order if losses[seed] > margin)
    won = () if of_floor else tuple(seed for seed in reversed(order) if losses[seed] < -margin)
    copies = pairs.copies(of_floor=of_floor)
    noun = "different episode" if copies else "seed"
    supposed = [] if pairs.error else depth.suppositions(standing, measure, scores, noun)
    notes = [*pairs.notes(of_floor=of_floor), *supposed]
    name = standing.verdict if pairs.error is None else ERROR
    base, candidate = measure.sign * standing.base, measure.sign * standing.candidate
    floor = measure.floor if of_floor else None
    return GateVerdict(
        condition,
        name,
        standing,
        base,
        candidate,
        lost,
        won,
        pairs.error,
        tuple(notes),
        floor,
        pairs.played,
        scores=_scores_by_role(scores, measure.sign),
        copies=copies,
        bounds=measure.range,
        for_equal=_for_equal(pairs, measure, level, of_floor),
    )


def _for_equal(pairs: Pairs | FilePairs, measure: Measure, level: float, of_floor: bool) -> Seeds | None:
    """Return how many seeds equal policies would need, if it is undecided, and more seeds bring other episodes."""
    standing = pairs.standings[of_floor]
    is_known = standing.verdict == UNDECIDED and pairs.error is None and standing.seeds >= FORECAST
    if not is_known or pairs.copies(of_floor=of_floor):
        return None
    return Question(measure, level, of_floor).for_equal([*pairs.scores.values()])


def _scores_by_role(scores: Mapping[int, tuple[float, ...]], sign: int) -> dict[str, list[float]]:
    """Return the seeds, and the metric of both on them in its own units; of one policy, the candidate's."""
    columns = [[sign * score for score in column] for column in zip(*scores.values(), strict=True)]
    return {"seeds": list(scores), **dict(zip(ROLES[-len(columns) :], columns, strict=bool(columns)))}


def _decisive(pairs: Pairs, parts: Sequence[EvaluationPart], count: int) -> tuple[Mapping[str, Any], ...]:
    """Return the seeds on which both differ most, each with the first step at which they do."""
    seeds = pairs.decisive(count)
    taped = [{episode.row["seed"]: episode for episode in part.taped()} for part in parts] if seeds else []
    return tuple({"seed": seed, "differs_at": differs_at(*(rows.get(seed) for rows in taped))} for seed in seeds)


def _of_seeds(pairs: Pairs, count: int) -> tuple[Selector, ...]:
    """Return the selectors of the episodes whose clips are made."""
    chosen: dict[str, list[int]] = {"lost": [], "won": []}
    for seed in pairs.decisive(count):
        *base, candidate = pairs.scores[seed]
        chosen["won" if base and candidate > base[0] else "lost"].append(seed)
    return tuple(Selector(name, functools.partial(_with_seeds, seeds), None) for name, seeds in chosen.items() if seeds)


def _with_seeds(seeds: Sequence[int], records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    return [record for record in records if record.seed in seeds]
