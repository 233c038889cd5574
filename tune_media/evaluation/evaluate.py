"""``tune_media.evaluate``: plays the checkpoints of a finished sweep on the same seeds, fairly."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs

from tune_media.evaluation.checkpoint_sources import find_sources
from tune_media.evaluation.checkpoints import CheckpointSeries
from tune_media.evaluation.clip_renderer import ClipRenderer
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.evaluation import Evaluation, Progress, compared
from tune_media.evaluation.evaluation_part import EvaluationPart, parts_of, store_of
from tune_media.evaluation.follow import Follower
from tune_media.evaluation.fresh_seeds import FRESH
from tune_media.evaluation.fresh_seeds import fresh_seeds as unused_seeds
from tune_media.evaluation.jobs import Job, check_ray_for, played
from tune_media.evaluation.memory import LoadPolicy, PolicyLoader
from tune_media.evaluation.request import ALL, LAST, MAX_NAME, EnvCondition, Request, check_name
from tune_media.experiment import evaluations
from tune_media.experiment.named import Named, named
from tune_media.experiment.trial_files import TrialFiles
from tune_media.recording.success import Success
from tune_media.selection import Selector, as_selectors
from tune_media.storage.filesystem import json_file, write_atomically
from tune_media.values import checks, strict_json
from tune_media.values.named_function import named_function
from tune_media.values.options import VideoOptions
from tune_media.values.problems import argument, message_of, remedy
from tune_media.values.safe_names import safe_name

_VERSION = 1
_WHY_NOT = {  # of arguments that do not go with ``follow``
    "workers": "plays in this process",
    "anew": "plays what is not there yet",
    "fresh_seeds": "chooses none of the checkpoints",
}
_ANEW = "anew"  # in the facts, until all that is to be played anew has been discarded


@contextlib.contextmanager
def refused_exits() -> Iterator[None]:
    """Make ``sys.exit()`` in code of the user's an error: it must not end the caller, least of all with 0."""
    try:
        yield
    except SystemExit as error:
        raise ValueError(f"a module, a policy or an env called sys.exit({error.code!r}).") from error


@checks.suggests_names
@refused_exits()
def evaluate(
    source: Any,
    *,
    trials: str | Iterable[str] = "all",
    checkpoint: str | int = "last",
    seeds: Any = "0:40",
    explore: bool | None = False,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    env_config: Mapping[str, Any] | None = None,
    policy: LoadPolicy | str | None = None,
    stochastic: bool = False,
    follow: bool = False,
    until_idle: float | None = None,
    workers: int = 0,
    name: str | None = None,
    clips: str | Selector | Iterable[str | Selector] | None = ("best", "worst", "median"),
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: Progress | None = None,
    success: Success | None = None,
    anew: bool = False,
    fresh_seeds: int = 0,
    success_when: str | None = None,
) -> Evaluation:
    """Play checkpoints, each on the same seeds, and file the episodes beside the trials.

    The policy of each checkpoint is loaded into RLlib's own env runner, with its connectors; there is no Algorithm and
    no learner. Episodes with tapes, clips and results go to ``<experiment>/evaluations/<name>``, in the formats of an
    experiment: ``tune_media.load``, ``tune-media watch``, ``gallery``, ``grid`` and ``render`` take that folder. If an
    evaluation was interrupted, the same call continues it. Stored episodes count only if the checkpoint still has the
    bytes that they were played with; if it has others, they are replaced.

    Checkpoints are executable: they hold pickles. Evaluate only experiments of people whom you trust.

    Args:
        source: The experiment's folder, a URI such as ``s3://bucket/experiment``, or the ``ResultGrid``; or one
            checkpoint. With ``policy``, a file, or a pattern such as ``runs/*/model_*.zip``. The last number in a name
            is its step; a file without one is a policy of its own, and each folder that matches a training.
        trials: ``"all"``, ``"best:5"`` for the five with the highest scores, a trial's name, a part of it that no
            other has, or several of these.
        checkpoint: ``"last"``, ``"best"`` (by the score of the result that it was saved with), ``"all"``, or a number:
            3 is ``checkpoint_000003``.
        seeds: The seeds of each checkpoint's episodes: ``"0:40"``, a list, or, as everywhere, a number: 40 stands for
            0, ..., 39. A seed decides the env's reset, and what the policy draws.
        explore: Whether policies explore: draw their actions. None: as in the evaluations of the training; RLlib's
            explore unless ``evaluation_config`` says otherwise.
        connectors: ``"evaluation"``: the connectors of the evaluation env runner, to repeat a trial's own evaluations.
            ``"training"``: those of the training env runner, for the policy as it was trained. They differ in the
            statistics of observation filters, which stay as they are. None: those of the evaluations, if the training
            had evaluations.
        env: Makes the envs instead: a function of the ``env_config``, or ``"module:function"``. It is needed if the
            training script registered its env by name.
        env_config: Keys of the ``env_config`` with other values. A list of values: one evaluation for each, and for
            each combination if there are several keys.
        policy: For checkpoints of other libraries: a function, or ``"module:function"``, that takes the path of a file
            or folder and returns a function from an observation to an action. It needs ``env``. ``reset()`` of what it
            returns, or of the object whose method that is, is called before each episode; without one, the first policy
            plays its first seed twice, and if it has memory, each is loaded for each episode.
        stochastic: Whether policies of ``policy`` draw numbers of their own, on purpose. False: that is an error.
        follow: Whether to play all checkpoints of a running sweep, each as soon as it is written, until the sweep has
            ended. With ``policy``, the source may be a folder, or a pattern, of files that another program writes.
        until_idle: Seconds after which it ends if no checkpoint came. None: only when the sweep has ended.
        workers: The number of Ray tasks at a time, each with one CPU. 0: everything is played in this process.
        name: The name of the evaluation. None: one that follows from the other arguments.
        clips: The episodes of each checkpoint that become clips, as ``keep=`` of ``record_episodes``; with one seed,
            the first choice. None: no clips.
        video: Size, speed, quality and overlays of the clips.
        filesystem: A pyarrow filesystem that ``source`` is on.
        progress: Called while it plays.
        success: The name of a boolean, 0 or 1 in the infos of an episode's steps, or a function of its
            ``EpisodeRecord``, that says whether it succeeded. None: as the recorder of the training, or
            ``info["success"]`` and ``info["is_success"]``.
        anew: Whether stored episodes are replaced in any case, also if only the code of a policy or of an env is
            another one, which cannot be seen. It does not go with ``follow``.
        fresh_seeds: The number of seeds on which the best one is played again, above all that an evaluation of this
            folder, or the recorder of its trial, has used: the best of many was chosen by ``seeds``, and its mean on
            them is too high. It is an evaluation of its own, ``Evaluation.fresh``. It does not go with ``follow``.
        success_when: ``"end"``: the info of the last step decides; or ``"once"``: that of any step is enough. None: as
            the recorder of the training, or ``"end"``. If ``success`` is a function, nothing else can be passed.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, no trial has such a checkpoint, an evaluation of this name has other
            arguments, or the value that says whether an episode succeeded is neither true nor false.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``evaluate("~/ray_results/my_sweep", trials="best:5", seeds="0:100", workers=8).to_pandas()``

        >>> evaluate("results/my_sweep", seeds="first")
        Traceback (most recent call last):
        ValueError: evaluate(seeds=...) takes seeds such as '0:40', '3,7' or [7], got 'first'.
    """
    checks.check_each(
        "evaluate",
        {"follow": follow, "until_idle": until_idle, "anew": anew, "stochastic": stochastic},
        {
            "stochastic": checks.FLAG,
            "follow": checks.FLAG,
            "until_idle": dataclasses.replace(checks.SECONDS, or_none=True),
            "anew": checks.FLAG,
        },
    )
    checks.a_count("a number of Ray tasks", 0).check("evaluate(workers=...)", workers)
    checks.a_count("a number of seeds", 0).check("evaluate(fresh_seeds=...)", fresh_seeds)
    _check_following(follow, until_idle, checkpoint, {"workers": workers, "anew": anew, "fresh_seeds": fresh_seeds})
    check_ray_for(policy, workers)
    which = ALL if follow else checkpoint
    request = Request.of(which, seeds, explore, connectors, env, policy, env_config, success, success_when)
    selectors = _selectors(clips, request)
    checks.an_instance("a tune_media.evaluation.evaluation.Progress", Progress).check(
        "evaluate(progress=...)", progress
    )
    place, is_foreign = named(source, filesystem), policy is not None
    find = functools.partial(find_sources, place, trials, request.checkpoint, is_foreign=is_foreign, waits=follow)
    sources = find()
    if follow and sources.only is not None:
        more = argument("follow=True, or --follow") + ", takes a folder that gets more."
        raise ValueError(f"{place.text!r} is one checkpoint: " + more)
    request = dataclasses.replace(request, only=sources.only)
    name = check_name(request.default_name if name is None else name)
    path = posixpath.join(sources.folder.path, evaluations.EVALUATIONS, name)
    evaluation = Evaluation(name, path, sources.folder.filesystem)
    progress = progress or Progress()
    progress.reads_checkpoints(sources.folder.path)
    make, load = function_named("evaluate", "env", env), function_named("evaluate", "policy", policy)
    loader = None if load is None else PolicyLoader(load, stochastic)
    with contextlib.closing(ClipRenderer(selectors, video)) as renderer:
        player = _EvaluationPlayer(request, make, loader, success, workers, renderer, progress, follow)
        if follow:
            _note_request(evaluation, request)
            progress.follows(name, path)
            evaluation.problems += _follow(Follower(find, until_idle), player, evaluation)
            sources = find()
        parts = list(parts_of(sources.series, request, name, path))
        if not parts:
            raise _no_checkpoint(place, sources.series, request.checkpoint)
        without = {series.trial.name for series in sources.series} - {part.trial.name for part in parts}
        evaluation.problems += [f"trial {name} has no checkpoint {request.checkpoint!r}" for name in sorted(without)]
        player.begin(evaluation, parts, anew=anew)
        player.play_all(evaluation, parts)
        _compare(evaluation, parts, request.success)
        _play_fresh(evaluation, parts, player, fresh_seeds, anew=anew)
    evaluation.problems += renderer.problems
    return evaluation


def _play_fresh(
    evaluation: Evaluation, parts: Sequence[EvaluationPart], player: _EvaluationPlayer, count: int, *, anew: bool
) -> None:
    """Play the best checkpoint on so many seeds by which it was not chosen, as another evaluation."""
    best = evaluation.best
    if not count or best is None:
        return
    part = next(part for part, row in zip(parts, evaluation.checkpoints, strict=True) if row is best)
    if not part.checkpoint.is_there:
        gone = f"{part.checkpoint.name} of {part.trial.name} was deleted"
        evaluation.problems.append(f"{gone}: it cannot be played on fresh seeds")
        return
    name = safe_name(f"{evaluation.name}-{FRESH}-{count}", max_length=MAX_NAME)
    fresh = Evaluation(name, posixpath.join(posixpath.dirname(evaluation.path), name), evaluation.filesystem)
    seeds = unused_seeds(fresh, part.trial, count)
    request = dataclasses.replace(player.request, seeds=seeds, conditions=(part.condition,), is_fresh=True)
    store = store_of(part.trial, part.condition, name, fresh.path)
    own = [EvaluationPart(part.trial, part.condition, part.checkpoint, store, part.params)]
    player = dataclasses.replace(player, request=request, own=set(), replaced=0)
    player.begin(fresh, own, anew=anew)
    player.play_all(fresh, own)
    _compare(fresh, own, request.success)
    evaluation.fresh = fresh


def _check_following(follow: bool, until_idle: float | None, checkpoint: Any, others: Mapping[str, Any]) -> None:
    """Raise ValueError if an argument does not go with ``follow``, as the ``others`` do not."""
    if until_idle is not None and not follow:
        what_to_do = remedy("pass " + argument("follow=True, or --follow") + ".")
        raise ValueError(argument("evaluate(until_idle=...)") + " says when following ends: " + what_to_do)
    if follow and checkpoint not in (LAST, ALL):
        what_to_do = remedy("leave out " + argument("checkpoint=") + ".")
        raise ValueError(argument("evaluate(follow=True), or --follow") + ", plays all checkpoints: " + what_to_do)
    for name, value in others.items() if follow else ():
        if value:
            what_to_do = remedy("leave out " + argument(f"{name}=, or --{name.replace('_', '-')}") + ".")
            raise ValueError(argument("evaluate(follow=True)") + f" {_WHY_NOT[name]}: " + what_to_do)


def _selectors(clips: Any, request: Request) -> tuple[Selector, ...]:
    """Return the selectors of clips; one episode is the best, the worst and the median."""
    selectors = () if clips is None or (isinstance(clips, tuple) and not clips) else as_selectors(clips)
    return selectors[:1] if len(request.seeds) == 1 else selectors


def _no_checkpoint(source: Named, series: Sequence[CheckpointSeries], which: str) -> ValueError:
    """Return the error of a source without a checkpoint that is wanted."""
    numbers = sorted({stored.number for of_trial in series for stored in of_trial.there()})
    there = f"; there are {checks.name_some(map(str, numbers))}" if numbers else ""
    if any(of_trial.pattern is not None for of_trial in series):
        what_to_do = remedy("pass a pattern of files, such as 'models/*.zip'.")
        text = (
            f"{source.text!r} has no checkpoint {which!r}{there}. The last number in the name of a file is its step: "
        )
        return ValueError(text + what_to_do)
    return ValueError(
        f"no trial has a checkpoint {which!r}{there}. Tune saves them with "
        "RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=..., checkpoint_at_end=True))"
    )


def _compare(evaluation: Evaluation, parts: Sequence[EvaluationPart], success: str | None) -> None:
    """Compare the parts of an evaluation; ``success`` should say whether an episode succeeded."""
    returns, successes = [part.returns() for part in parts], [part.successes() for part in parts]
    if success is not None and any(returns) and not any(successes):
        evaluation.problems.append(f"success={success!r} tells of no episode whether it succeeded")
    copies = [part.copies() for part in parts]
    evaluation.checkpoints = compared([part.line() for part in parts], returns, successes, copies)


@dataclass
class _EvaluationPlayer:
    """Plays what is missing of parts of an evaluation, and makes their clips.

    ``own`` has the ids of the episodes that it has played, ``replaced`` is the number of stored ones that it deleted.
    """

    request: Request
    make: Callable[[Any], Any] | None  # makes the envs
    loader: PolicyLoader | None
    success: Success | None
    workers: int
    renderer: ClipRenderer
    progress: Progress
    follows: bool = False  # it has played all that came
    own: set[str] = field(default_factory=set)
    replaced: int = 0
    is_warned: bool = False  # that the first seeds gave one episode

    def discard_others(self, parts: Sequence[EvaluationPart], *, anew: bool = False) -> None:
        """Delete the episodes of checkpoints whose bytes are others now, or of all; those of a deleted one stay."""
        digests: dict[str, str | None] = {}
        for part in parts:
            checkpoint = part.checkpoint
            if not part.rows() or not checkpoint.is_there:
                continue
            if not anew and checkpoint.path not in digests:
                digests[checkpoint.path] = checkpoint.digest()
            if anew or part.digest is None or part.digest != digests[checkpoint.path]:
                self.replaced += part.discard()

    def begin(self, evaluation: Evaluation, parts: Sequence[EvaluationPart], *, anew: bool) -> None:
        """Note what was asked for, and delete the episodes that are to be played again."""
        if _note_request(evaluation, self.request, anew=anew) and not self.follows:
            self.discard_others(parts, anew=True)
            _note_discarded(evaluation)
        self.discard_others(parts)

    def play_all(self, evaluation: Evaluation, parts: Sequence[EvaluationPart]) -> None:
        """Play what is missing of all parts, and note how many episodes were there before, and since when."""
        missing = sum(len(part.missing(self.request.seeds)) for part in parts)
        if missing or not self.follows:
            self.progress.begin(evaluation.name, len(parts) * len(self.request.seeds), missing)
            self.play(parts)
        rows = [row for part in parts for row in part.rows()]
        times = [row["finished_at"] or 0.0 for row in rows if row["episode_id"] not in self.own]
        evaluation.played, evaluation.reused, evaluation.replaced = len(rows) - len(times), len(times), self.replaced
        evaluation.reused_from = (min(times), max(times)) if times else None

    def play(self, parts: Sequence[EvaluationPart]) -> None:
        """Play the episodes that are missing, and store them as they come; then the clips."""
        request = self.request
        jobs: list[Job] = []
        finished: set[int] = set()
        for number, part in enumerate(parts):
            settings = request.settings(part.condition, self.make, self.success, self.renderer.video)
            jobs += part.jobs(number, request.seeds, settings, self.loader)
        left = {job.part: len(job.seeds) for job in jobs}
        for number, part in enumerate(parts):
            if number not in left:
                self.progress.finished(part.line())
        with contextlib.closing(played(jobs, self.workers)) as batches:
            for batch in batches:
                part = parts[batch.part]
                part.add(batch)
                self.own |= {episode.record.episode_id for episode in batch.episodes}
                if batch.ends_all and batch.error is not None:
                    names = ", ".join(dict.fromkeys([part.trial.name, part.checkpoint.name]))  # of a file, one
                    raise ValueError(f"{names}: " + batch.error)
                self.progress.played(len(batch.episodes))
                left[batch.part] -= len(batch.episodes)
                self._warn_of_copies(part)
                if batch.part not in finished and (batch.error is not None or not left[batch.part]):
                    finished.add(batch.part)
                    self.progress.finished(part.line())
        for part in parts:
            if not part.missing(request.seeds):
                part.finish(self.renderer)

    def _warn_of_copies(self, part: EvaluationPart) -> None:
        """Say once that the first seeds gave one episode, if they did."""
        if not self.is_warned and (warning := part.warning):
            self.progress.tells(warning + ".")
            self.is_warned = True


def _follow(follower: Follower, player: _EvaluationPlayer, evaluation: Evaluation) -> list[str]:
    """Play checkpoints as they come, until there will be no more; return which were deleted before."""
    conditions, stores = player.request.conditions, dict[tuple[str, str], EvaluatedTrial]()

    def store(trial: TrialFiles, condition: EnvCondition) -> EvaluatedTrial:
        place = trial.path, condition.label
        if place not in stores:
            stores[place] = store_of(trial, condition, evaluation.name, evaluation.path)
        return stores[place]

    failed: dict[tuple[str, int], str] = {}
    for series, checkpoint in follower.checkpoints():
        of_each = [(condition, store(series.trial, condition)) for condition in conditions]
        parts = [EvaluationPart(series.trial, condition, checkpoint, place) for condition, place in of_each]
        player.discard_others(parts)
        player.play(parts)
        if (error := next((part.error for part in parts if part.error is not None), None)) is not None:
            failed[series.trial.path, checkpoint.number] = error
    return follower.deleted(
        lambda series: {one.number for one in store(series.trial, conditions[0]).checkpoints(series.trial.path)}, failed
    )


def _note_request(evaluation: Evaluation, request: Request, *, anew: bool = False) -> bool:
    """Write what was asked for; raise if an evaluation of this name was asked for something else.

    Return whether all is to be played anew, also because a call that was to do so was killed before it had discarded
    all that was there: otherwise old and new episodes would be mixed.
    """
    path = posixpath.join(evaluation.path, evaluations.FACTS_FILE)
    before = json_file(evaluation.filesystem, path)
    anew = anew or bool(before.get(_ANEW))
    facts = request.facts()
    if before and (changed := [key for key in facts if before.get(key) != facts[key]]):
        changes = "; ".join(f"{key} was {_short(before.get(key))} and is {_short(facts[key])}" for key in changed)
        text = f"there is an evaluation {evaluation.name!r} with other arguments ({changes}); "
        raise ValueError(text + remedy("pass another " + argument("name=, or --name") + "."))
    labels = dict.fromkeys([*before.get(evaluations.CONDITIONS, ()), *(one.label for one in request.conditions)])
    noted = {"v": _VERSION, **facts, evaluations.CONDITIONS: list(labels), **({_ANEW: True} if anew else {})}
    if noted != before:
        write_atomically(evaluation.filesystem, path, strict_json.json_bytes(noted) + b"\n")
    return anew


def _note_discarded(evaluation: Evaluation) -> None:
    """Write that no episode is left of those that were to be played anew."""
    path = posixpath.join(evaluation.path, evaluations.FACTS_FILE)
    noted = {key: value for key, value in json_file(evaluation.filesystem, path).items() if key != _ANEW}
    write_atomically(evaluation.filesystem, path, strict_json.json_bytes(noted) + b"\n")


def function_named(caller: str, name: str, value: Any) -> Any:
    """Return the function that an argument of ``caller`` names; any other value as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return named_function(value)
    except ValueError as error:
        raise ValueError(argument(f"{caller}({name}=...)") + ": " + message_of(error)) from error


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(value)})"
