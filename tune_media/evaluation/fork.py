"""``tune_media.fork``: another policy, or the same with other draws, continues an episode from one of its steps."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlencode

import numpy as np
import pyarrow.fs

from tune_media.evaluation.checkpoint_sources import side_of
from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.clip_renderer import ClipRenderer
from tune_media.evaluation.evaluate import function_named, refused_exits
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.jobs import OVERWRITTEN, Played, check_ray_for, joined_batches, played, ray_started
from tune_media.evaluation.measure import RETURN, SUCCESS
from tune_media.evaluation.memory import LoadPolicy, Manner, PolicyLoader
from tune_media.evaluation.request import HOW, EnvCondition, as_checkpoint, code_digest
from tune_media.evaluation.sides import Side
from tune_media.experiment import evaluations
from tune_media.experiment.named import Named, named
from tune_media.experiment.trial_files import TrialFiles
from tune_media.recording.overlay import check_can_draw
from tune_media.recording.success import Success, check_success
from tune_media.replay import playing
from tune_media.replay.player import RenderError
from tune_media.replay.prefix import ForkPoint
from tune_media.replay.recipe import LoadedRecipe, Recipe
from tune_media.replay.tape import Tape
from tune_media.selection import Selector
from tune_media.steps import StepFacts
from tune_media.storage.filesystem import json_file, write_atomically
from tune_media.values import checks, strict_json
from tune_media.values.episodes import EpisodeData
from tune_media.values.medium import joined
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions
from tune_media.values.problems import argument, message_of, remedy
from tune_media.values.rates import wilson
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import error_text
from tune_media.viewing import inference, wording
from tune_media.viewing.catalog import load
from tune_media.viewing.taped_episodes import BEST, LAST, WORST, TapedEpisode, choose, of_trial, recipe_of

VERSION = 1
_CLIPS = 5
_SELECTOR = "fork"


@dataclass(frozen=True)
class Continuations:
    """The outcomes of the episodes that a policy continues from one step.

    Attributes:
        at: The number of steps before the policy takes over.
        returns: The return of each whole episode, its first steps included.
        lengths: The length of each.
        successes: Whether each succeeded, or None if that is not known.
        distinct: How many different episodes they are. 1: the draws of the policy do not matter.

    >>> Continuations(3, (5.0, 7.0), (9, 9), (True, False), 2).outcome("return").value
    6.0
    """

    at: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool | None, ...]
    distinct: int

    @property
    def count(self) -> int:
        """The number of episodes that count: equal ones are one if there are no others."""
        return 1 if self.distinct == 1 else len(self.returns)

    def outcome(self, metric: str) -> inference.Estimate:
        """Return the success rate with Wilson's interval, or the mean return with Student's; of one episode without."""
        if metric == SUCCESS:
            won = sum(map(bool, self.successes))
            ends = wilson(won, len(self.successes)) if self.count > 1 else (math.nan, math.nan)
            return inference.Estimate(won / len(self.successes), *ends)
        mean = inference.estimate(np.array(self.returns))
        return mean if self.count > 1 else inference.Estimate(mean.value)

    def facts(self, metric: str) -> dict[str, Any]:
        """Return them as JSON."""
        outcome, has_ends = self.outcome(metric), self.count > 1
        return {
            "at": self.at,
            "value": outcome.value,
            "low": outcome.low if has_ends else None,
            "high": outcome.high if has_ends else None,
            "continuations": self.count,
            **{name: list(getattr(self, name)) for name in ("returns", "lengths", "successes")},
        }


@dataclass(frozen=True)
class Fork:
    """The outcome of a fork: an episode that a policy continued.

    Attributes:
        episode: The id of the episode.
        policy: The checkpoint that took over, as it was given.
        metric: ``success`` if it is known of all episodes, otherwise ``return``.
        original: The episode itself; ``at`` is its length.
        continuations: The episodes that the policy made of it.
        is_same: Whether the first of them is the original again, to the last bit.
        path: The folder of the episodes and clips, an experiment whose trials are the original and the continuations.
        link: The end of the address at which the viewer compares the clips of both.
        problems: Things that are missing, such as clips, each in a sentence.

    >>> before, after = (Continuations(at, (value,), (9,), (None,), 1) for at, value in ((9, 9.0), (3, 20.0)))
    >>> Fork("e1", "runs/b", "return", before, after, False, "folder").facts()["continued"]["value"]
    20.0
    """

    episode: str
    policy: str
    metric: str
    original: Continuations
    continuations: Continuations
    is_same: bool
    path: str
    link: str = ""
    problems: Sequence[str] = ()

    def facts(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints.

        ``v`` (1), ``forked_from``, ``forked_at``, ``policy``, ``metric``, ``path``, ``link``, ``problems``,
        ``is_same``, and ``original`` and ``continued``, each with ``at``, ``value``, ``low`` and ``high``
        (None: one episode), ``continuations``, ``returns``, ``lengths`` and ``successes``.
        """
        return {
            "v": VERSION,
            "forked_from": self.episode,
            "forked_at": self.continuations.at,
            "policy": self.policy,
            "metric": self.metric,
            "original": self.original.facts(self.metric),
            "continued": self.continuations.facts(self.metric),
            "is_same": self.is_same,
            "path": self.path,
            "link": self.link,
            "problems": list(self.problems),
        }


class ForkProgress:
    """Called while a fork plays; this one prints nothing."""

    def runs(self, experiment: str, policy: str) -> None:
        """Code that is stored with the episode and with the policy is run next."""


@checks.suggests_names
@refused_exits()
def fork(
    episode: Any,
    candidate: Any,
    *,
    at: int,
    times: int = 1,
    checkpoint: str | int = "last",
    explore: bool | None = False,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    policy: LoadPolicy | str | None = None,
    success: Success | None = None,
    workers: int = 0,
    clips: int = _CLIPS,
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: ForkProgress | None = None,
) -> Fork:
    """Play the first steps of an episode as they were, and let a policy continue from there.

    The env is made again as when the episode was taped, and the policy sees each step from the reset on, so that its
    recurrent state and its connectors are those that it would have; only its actions are not made before the fork. A
    replay that differs in one of these steps is an error. Continuation 0 has the draws of an evaluated episode: if
    its own policy continues it, it is the same episode again. The others are in the same world, with other draws of
    the policy.

    Checkpoints, and what makes the env of an episode, are executable: they are pickles. Fork only episodes and
    checkpoints of people whom you trust.

    Args:
        episode: ``EXPERIMENT:EPISODE``: the folder or URI of an experiment, or of one of its evaluations, and the id of
            an episode that has a tape, the beginning of it, or, of the winner, ``best``, ``worst`` or ``last``. Or
            the episode itself, of ``Catalog.episode``.
        candidate: Who takes over, as of ``tune_media.gate``: the folder or URI of a checkpoint; an experiment, for its
            winner; or ``EXPERIMENT:TRIAL``. It is of RLlib's new API stack, unless there is a ``policy``.
        at: How many of its steps are played before the candidate takes over. 0: only the reset.
        times: The number of continuations.
        checkpoint: The checkpoint of a trial: ``"last"``, ``"best"``, or a number.
        explore, connectors, policy, success: As of ``tune_media.evaluate``.
        env: Makes the env instead, if how it was made is not stored with the episode.
        workers: The number of Ray tasks at a time. 0: all is played in this process.
        clips: The number of continuations that get clips.
        video: Size, speed, quality and overlays of the clips that are made; those that are there stay as they are.
            None: as those of the episode, with the fork written in.
        filesystem: A pyarrow filesystem that both are on.
        progress: Called while it plays.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, the env does not repeat the episode, or the policy cannot be played.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``fork("runs/mine:worst", "runs/main", at=120, times=20, explore=True).continuations.returns``
    """
    checks.a_count("a number of steps", 0).check("fork(at=...)", at)
    checks.a_count("a number of continuations").check("fork(times=...)", times)
    checks.a_count("a number of clips", 0).check("fork(clips=...)", clips)
    checks.an_instance("a tune_media.evaluation.fork.ForkProgress", ForkProgress).check("fork(progress=...)", progress)
    check_success(success)
    checks.a_count("a number of Ray tasks", 0).check("fork(workers=...)", workers)
    check_ray_for(policy, workers)
    checks.check_each("fork", {"explore": explore, "connectors": connectors}, HOW)
    policy_place, taped = named(candidate, filesystem), _taped_episode(episode, filesystem)
    (progress or ForkProgress()).runs(taped.trial.experiment, policy_place.text)
    load_policy = function_named("fork", "policy", policy)
    side, stored = _policy_side(policy_place, checkpoint, load_policy)
    make = function_named("fork", "env", env)
    settings = playing.PlayerSettings(explore, connectors, success=success, video=video)
    player = ForkPlayer(ForkRequest(taped, at, side, stored, settings, load_policy, make, workers))
    with ray_started(workers) if workers else contextlib.nullcontext():
        player.begin()
        continuations = player.play(times)
        lines = player.add_clips(min(clips, continuations.count), video)
    has_success = None not in (*player.original.successes, *continuations.successes)
    metric, outcomes = SUCCESS if has_success else RETURN, (player.original, continuations)
    link, problems = _compare_link(lines), list(dict.fromkeys(player.problems))
    return Fork(taped.id, side.name, metric, *outcomes, player.is_same(), player.path, link, problems)


def _taped_episode(episode: Any, filesystem: pyarrow.fs.FileSystem | None) -> TapedEpisode:
    """Return the episode that a text names. Raises FileNotFoundError, ValueError, OSError."""
    if isinstance(episode, TapedEpisode):
        return episode
    place = named(str(episode), filesystem) if ":" in str(episode) else None
    id = place.part if place else ""
    if place is None or not id:
        takes = "an episode as EXPERIMENT:EPISODE, where EPISODE is its id, best, worst or last"
        raise ValueError(checks.refusal("fork", takes, episode))
    catalog, is_of_winner = load(place.place), id in (BEST, WORST, LAST)  # as render has it
    there = of_trial(catalog.winner_first(), BEST) if is_of_winner else [catalog.taped_episodes()]
    chosen = choose(there, id)
    if len(chosen) != 1:
        why = f"{len(chosen)} episodes are meant by {id!r}" if any(there) else "none of its episodes has a tape"
        raise ValueError(f"{place.place.path!r} has no such episode: {why}.")
    return chosen[0]


def _policy_side(candidate: Named, checkpoint: Any, load_policy: Any) -> tuple[Side, StoredCheckpoint]:
    """Return who takes over, and its checkpoint. Raises FileNotFoundError, ValueError, OSError."""
    side = side_of(candidate, as_checkpoint(checkpoint), is_foreign=load_policy is not None)
    if side.checkpoint is None:
        what_to_do = remedy("name the checkpoint that takes over, or its experiment.")
        raise ValueError(f"{side.name!r} is an evaluation: " + what_to_do)
    if not side.is_rllib and load_policy is None:
        words = argument("policy=, or --policy") + " module:function"
        what_to_do = remedy("Pass a function that loads the policy: " + words)
        raise ValueError(f"{side.checkpoint.path!r} is no checkpoint of RLlib's. " + what_to_do)
    return side, side.checkpoint


@dataclass(frozen=True)
class ForkRequest:
    """Which episode is continued, from which step, by whom, and how."""

    episode: TapedEpisode
    at: int  # the number of steps before the policy takes over
    side: Side
    checkpoint: StoredCheckpoint
    settings: playing.PlayerSettings
    load_policy: LoadPolicy | None  # loads the policy of another library's checkpoint; None: it is one of RLlib's
    make: Callable[[Any], Any] | None  # makes the env instead; None: as when the episode was taped
    workers: int  # the number of Ray tasks at a time; 0: all is played in this process


class ForkPlayer:
    """Continues an episode from one of its steps, and stores the continuations beside the episode itself.

    ``original`` says how the episode itself ended; everything goes to the folder ``path``. Raises ValueError, OSError.
    """

    def __init__(self, request: ForkRequest) -> None:
        self._request = request
        episode, row = request.episode, request.episode.row
        try:
            self._tape = episode.tape()
            self._taped = Tape.unpacked(self._tape)
            self._recipe = _recipe(episode, request.make)
        except Exception as error:  # of the user's code, too, which a recipe runs
            reason = message_of(error) if isinstance(error, (RenderError, ValueError)) else error_text(error)
            raise ValueError(f"episode {episode.id} cannot be continued: " + reason) from error
        at, steps = request.at, len(self._taped)
        if at >= steps:
            raise ValueError(checks.refusal("fork(at=...)", f"less than the {steps} steps of the episode", at))
        self.original = Continuations(steps, (float(row["episode_return"]),), (steps,), (row["success"],), distinct=1)
        name = f"fork-{evaluations.short_id(episode.id)}-at-{at}-{name_digest(str(self._facts()))[:6]}"
        self.path = posixpath.join(evaluations.evaluations_of(episode.trial.experiment), name)
        self._continued = self._new_part(f"at-{at:0{len(str(steps))}}", request.side.trial, request.checkpoint, at)
        iteration, step = int(row["training_iteration"] or 0), int(row["step"] or 0)
        checkpoint = StoredCheckpoint(episode.trial.filesystem, episode.trial.path, 0, iteration, step)
        self._original = self._new_part(evaluations.ORIGINAL, episode.trial, checkpoint, steps)
        self.problems: list[str] = []  # also what a reader must know; some may be there twice

    def begin(self) -> None:
        """Write what is played, and store the episode itself, so that the viewer can compare both."""
        episode, path = self._request.episode, posixpath.join(self.path, evaluations.FACTS_FILE)
        if not json_file(episode.trial.filesystem, path):
            facts = {"v": VERSION, "forked_from": episode.id, evaluations.FORKED_AT: self._request.at, **self._facts()}
            write_atomically(episode.trial.filesystem, path, strict_json.json_bytes(facts) + b"\n")
        if self._original.rows():
            return
        data = EpisodeData(episode.record, tape=self._tape, recipe=self._recipe.hash)
        played_as = playing.PlayedAs(episode.row["explored"], None)
        self._original.add(Played(0, [data], {self._recipe.hash: self._recipe.content}, played_as))
        self._original.write_result()

    def play(self, times: int) -> Continuations:
        """Let the policy continue it, and store the episodes. Raises ValueError, OSError.

        A policy that does not explore plays twice; if both episodes are the same, there are no others.
        """
        self._play(range(min(times, 2)))
        part, contents = self._continued, self._contents()
        are_all_equal = len(set(contents)) == 1 and part.played_as is not None and part.played_as.explore is False
        if times > 2 and not are_all_equal:
            self._play(range(times))
            contents = self._contents()
        part.write_result()
        rows = sorted((row for row in part.rows() if row["seed"] < times), key=lambda row: row["seed"])
        notes = [str(row["note"]).removeprefix(self._note).removeprefix("; ") for row in rows]
        self.problems += filter(None, notes)
        returns, lengths = ([row[f"episode_{name}"] for row in rows] for name in ("return", "length"))
        successes = tuple(row["success"] for row in rows)
        contents = contents[: len(rows)]
        distinct = len(set(contents)) if len(contents) == len(rows) else len(rows)
        return Continuations(self._request.at, tuple(returns), tuple(lengths), successes, distinct)

    def is_same(self) -> bool:
        """Return whether the first continuation has the actions, rewards and checksums of the episode."""
        return self._contents()[:1] == [_content(self._taped)]

    def add_clips(self, count: int, video: VideoOptions | None) -> list[tuple[str, str]]:
        """Make clips of the first continuations, and of the episode itself; return the trial and path of each."""
        if not count:
            return []
        lines = []
        selector = Selector(
            _SELECTOR, lambda records: sorted(records, key=lambda record: record.seed or 0)[:count], None
        )
        with contextlib.closing(ClipRenderer([selector])) as renderer:
            renderer.problems = self.problems
            for part, mark in ((self._original, None), (self._continued, ForkMark(self._request.at))):
                renderer.video = video or (self._video(mark) if mark else None)
                part.add_clips(renderer, with_notes=mark is not None)
                trial = posixpath.basename(part.store.folder)
                lines += [(trial, str(line["path"])) for line in part.store.clips(part.checkpoint.training_iteration)]
        return lines

    def _facts(self) -> dict[str, Any]:
        """Return the policy and how it is played, as JSON."""
        request = self._request
        return {
            "policy": {"name": request.side.name, **request.side.facts()},
            "explore": request.settings.explore,
            "connectors": request.settings.connectors,
            "code": [code_digest(function) for function in (request.load_policy, request.settings.success)],
            "recipe": self._recipe.hash,
        }

    def _play(self, numbers: range) -> None:
        """Play the continuations that are missing."""
        request, part = self._request, self._continued
        episode, place = request.episode, request.episode.place()
        seed = abs(int(episode.row["seed"] or 0))
        point = ForkPoint(self._tape, request.at, self._recipe, (place["env_runner"], place["env_index"]), seed)
        settings = dataclasses.replace(request.settings, fork=point)
        load, loader = request.load_policy, None
        if load is not None and not request.side.is_rllib:
            loader = PolicyLoader(load, manner=Manner())  # each continuation is a job, and so loads its policy anew
        jobs = [job for number in numbers for job in part.jobs(0, (number,), settings, loader)]
        if not jobs:
            return
        done, digests = [], {part.digest}
        which = f"episode {episode.id} cannot be continued from step {request.at} by {request.side.name}: "
        with contextlib.closing(played(jobs, request.workers)) as batches:
            for batch in batches:
                if batch.error is not None:
                    raise ValueError(which + batch.error)
                done.append(batch)
                digests |= set() if batch.played_as is None else {batch.played_as.digest}
        if len(digests - {None}) > 1:
            raise ValueError(which + OVERWRITTEN)
        whole, noted = joined_batches(done), []
        for data in whole.episodes:
            record = dataclasses.replace(data.record, note=joined(self._note, data.record.note))
            noted.append(dataclasses.replace(data, record=record))
        part.add(dataclasses.replace(whole, episodes=noted))

    @property
    def _note(self) -> str:
        return f"continues episode {self._request.episode.id} from step {self._request.at} on"

    def _new_part(self, name: str, trial: TrialFiles, checkpoint: StoredCheckpoint, at: int) -> EvaluationPart:
        episode, folder = self._request.episode, posixpath.join(self.path, name)
        store = EvaluatedTrial(episode.trial.filesystem, folder, f"{name}-{name_digest(folder)[:6]}")
        added = {evaluations.FORKED_AT: at}
        facts = {} if name == evaluations.ORIGINAL else {"forked_from": episode.id, **added}
        return EvaluationPart(trial, EnvCondition(), checkpoint, store, {}, added, facts)

    def _contents(self) -> list[tuple[Any, ...]]:
        """Return the steps of the continuations, in their order."""
        taped = sorted(self._continued.taped(), key=lambda episode: int(episode.row["seed"]))
        return [_content(Tape.unpacked(episode.tape())) for episode in taped]

    def _video(self, mark: ForkMark) -> VideoOptions | None:
        """Return how clips are made: as of the episode, with the fork written in if that is possible."""
        try:
            check_can_draw()
        except ImportError as error:
            self.problems.append(f"the clips do not show where they fork: {error}")
            return None
        options = LoadedRecipe.of(self._recipe.content).video or VideoOptions()
        return dataclasses.replace(options, every=self._taped.every, overlay=(*options.overlay, mark))


def _compare_link(clips: Sequence[tuple[str, str]]) -> str:
    """Return the end of the address at which the viewer compares the first clip of each trial, in their order."""
    by_trial: dict[str, str] = {}
    for trial, path in clips:
        by_trial.setdefault(trial, f"{trial}\t{path}")
    ticked = "\n".join(by_trial.values())
    return f"#{urlencode({'view': 'compare', 'ticked': ticked})}" if len(by_trial) > 1 else ""


@dataclass(frozen=True)
class ForkMark:
    """Writes into a clip where its episode forks: ``at`` is the last step that is played as it was.

    >>> mark = ForkMark(3)
    >>> mark(StepFacts(3, 1.0, 3.0, None, None)), mark(StepFacts(4, 1.0, 4.0, None, None))
    ('replayed, fork at 3', 'forked at 3')
    """

    at: int
    says_the_step_only: ClassVar = True  # so a replay says the same

    def __call__(self, step: StepFacts) -> str:
        """Return the text for a step."""
        return f"forked at {self.at}" if step.step > self.at else f"replayed, fork at {self.at}"


def _recipe(episode: TapedEpisode, env: Callable[[Any], Any] | None) -> Recipe:
    """Return what makes the env of an episode. Raises RenderError, or what the user's code raises."""
    if env is None:
        return recipe_of(episode)
    try:
        config = LoadedRecipe.of(episode.recipe(), env).config
    except RenderError:
        config = {}
    return Recipe.of(env, config)


def _content(tape: Tape) -> tuple[Any, ...]:
    """Return the steps of a tape: equal for two tapes of the same steps."""
    actions = tuple(repr(part) for part in tape.actions.packed())
    return (tape.checks.packed(), actions, None if tape.rewards is None else tape.rewards.tobytes())


def sentence(fork: Fork) -> str:
    """Return a fork in a sentence.

    >>> before, after = (Continuations(at, (value,), (9,), (None,), 1) for at, value in ((9, 9.0), (3, 20.0)))
    >>> sentence(Fork("e1", "runs/b", "return", before, after, False, "folder"))
    'Episode e1 (return 9, 9 steps), continued by runs/b from step 3 on: return 20 (1 continuation).'
    """
    before, after = fork.original, fork.continuations
    was = f"{_shown(before, fork.metric)}, {counted(before.at, 'step')}"
    became = f"{_shown(after, fork.metric)} ({counted(after.count, 'continuation')})"
    if fork.is_same and after.count == 1:
        became = "the same episode again, to the last bit"
    return f"Episode {fork.episode} ({was}), continued by {fork.policy} from step {after.at} on: {became}."


def _shown(continuations: Continuations, metric: str) -> str:
    """Return an outcome with its interval.

    >>> _shown(Continuations(3, (5.0, 7.0), (9, 9), (True, False), 2), "success")
    'success 0.5 [0.0945, 0.905]'
    """
    outcome = continuations.outcome(metric)
    return f"{metric} {wording.with_interval(outcome.value, outcome.low, outcome.high, digits=3)}"
