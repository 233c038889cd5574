"""``tune_media.fork``: another policy, or the same with other draws, goes on with an episode from one of its steps."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow.fs

from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.clips import ClipRenderer
from tune_media.evaluation.evaluate import function_named
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.jobs import LoadPolicy, Played, joined_batches, played, ray_started
from tune_media.evaluation.measure import RETURN, SUCCESS
from tune_media.evaluation.part import EvaluationPart
from tune_media.evaluation.request import HOW, EnvCondition, as_checkpoint, code_digest
from tune_media.evaluation.sides import Side, side_of
from tune_media.experiment.results import json_file
from tune_media.experiment.trial_files import TrialFiles
from tune_media.recording.overlay import check_can_draw
from tune_media.recording.success import Success, check_success
from tune_media.replay.player import RenderError
from tune_media.replay.prefix import ForkPoint
from tune_media.replay.recipe import LoadedRecipe, Recipe
from tune_media.replay.tape import Tape
from tune_media.rllib.checkpoint_player import PlayedAs, PlayerSettings
from tune_media.selection import Selector
from tune_media.steps import StepFacts
from tune_media.storage.filesystem import write_atomically
from tune_media.values.checks import a_count, as_shown, check_each, suggests_names
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeData
from tune_media.values.medium import joined
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions
from tune_media.values.rates import wilson
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes
from tune_media.viewing.catalog import load
from tune_media.viewing.forks import FACTS_FILE, FORKED_AT, ORIGINAL, evaluations_of, short_id
from tune_media.viewing.places import folder_at
from tune_media.viewing.statistics import Estimate, estimate
from tune_media.viewing.table import with_interval
from tune_media.viewing.taped_episodes import TapedEpisode, choose, recipe_of

VERSION = 1
_CLIPS = 5
_SELECTOR = "fork"
_NUMBER = re.compile(r"^seed \d+: ")  # of a continuation, in the error of a job


@dataclass(frozen=True)
class Continuations:
    """How the episodes end with which a policy goes on from one step.

    Attributes:
        at: The number of steps before the policy takes over.
        returns: The return of each whole episode, its first steps included.
        lengths: The length of each.
        successes: Whether each succeeded; None: not known.
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

    def outcome(self, metric: str) -> Estimate:
        """Return the success rate with Wilson's interval, or the mean return with Student's; of one episode without."""
        if metric == SUCCESS:
            won = sum(map(bool, self.successes))
            ends = wilson(won, len(self.successes)) if self.count > 1 else (math.nan, math.nan)
            return Estimate(won / len(self.successes), *ends)
        found = estimate(np.array(self.returns))
        return found if self.count > 1 else Estimate(found.value)

    def facts(self, metric: str) -> dict[str, Any]:
        """Return them as JSON."""
        found = self.outcome(metric)
        ends = {"low": found.low, "high": found.high} if self.count > 1 else {"low": None, "high": None}
        of_each = {"returns": self.returns, "lengths": self.lengths, "successes": self.successes}
        return {
            "at": self.at,
            "value": found.value,
            **ends,
            "continuations": self.count,
            **{name: list(values) for name, values in of_each.items()},
        }


@dataclass(frozen=True)
class Fork:
    """What has become of an episode with which a policy went on.

    Attributes:
        episode: The id of the episode.
        policy: The checkpoint that took over, as it was given.
        metric: ``success`` if it is known of all episodes, otherwise ``return``.
        original: The episode itself; ``at`` is its length.
        continuations: The episodes that the policy made of it.
        is_same: Whether the first of them is the original again, to the last bit.
        path: The folder of the episodes and clips, an experiment whose trials are the original and the continuations.
        link: What the address of the viewer's page ends with if it compares the clips of both.
        problems: What is missing besides, such as clips.

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
        """Return what ``--json`` prints.

        ``v`` (1), ``forked_from``, ``forked_at``, ``policy``, ``metric``, ``path``, ``problems``, ``is_same``, and
        ``original`` and ``continued``, each with ``at``, ``value``, ``low`` and ``high`` (None: one episode),
        ``continuations``, ``returns``, ``lengths`` and ``successes``.
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
            "problems": list(self.problems),
        }


class ForkProgress:
    """Told how far a fork is; this one says nothing."""

    def runs(self, experiment: str, policy: str) -> None:
        """Code that is stored with the episode and with the policy is run next."""

    def continued(self, found: Continuations, metric: str) -> None:
        """All continuations from a step have been played."""


@suggests_names
def fork(
    episode: Any,
    *,
    at: int,
    policy: Any,
    times: int = 1,
    checkpoint: str | int = "last",
    explore: bool | None = None,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    policy_loader: LoadPolicy | str | None = None,
    success: Success | None = None,
    workers: int = 0,
    clips: int = _CLIPS,
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: ForkProgress | None = None,
) -> Fork:
    """Play the first steps of an episode as they were, and let a policy go on from there.

    The env is made again as when the episode was taped, and the policy sees each step from the reset on, so that its
    recurrent state and its connectors are those that it would have; only its actions are not made before the fork. A
    replay that differs in one of these steps is an error. Continuation 0 has the draws of an evaluated episode: if
    its own policy goes on with it, it is the same episode again. The others are in the same world, with other draws of
    the policy.

    Checkpoints, and what makes the env of an episode, are executable: they are pickles. Fork only episodes and
    checkpoints of people whom you trust.

    Args:
        episode: ``EXPERIMENT:EPISODE``: the folder or URI of an experiment, or of one of its evaluations, and the id of
            an episode that has a tape, the beginning of it, or ``best``, ``worst`` or ``last``. Or the episode itself,
            of ``Catalog.episode``.
        at: How many of its steps are played before the policy takes over. 0: only the reset.
        policy: The folder or URI of a checkpoint; an experiment, for its best trial; or ``EXPERIMENT:TRIAL``. It is of
            RLlib's new API stack, unless there is a ``policy_loader``.
        times: The number of continuations.
        checkpoint: The checkpoint of a trial: ``"last"``, ``"best"``, or a number.
        explore, connectors, success: As of ``tune_media.evaluate``.
        env: Makes the env instead, if how it was made is not stored with the episode.
        policy_loader: For checkpoints of other libraries: as ``policy`` of ``tune_media.evaluate``.
        workers: The number of Ray tasks at a time. 0: all is played in this process.
        clips: The number of continuations of which clips are made.
        video: Size, speed, quality and overlays of the clips that are made; those that are there stay as they are.
            None: as those of the episode, with the fork written in.
        filesystem: A pyarrow filesystem that both are on.
        progress: Told how far it is.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, the env does not repeat the episode, or the policy cannot be played.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.

    Example:
        ``fork("runs/mine:worst", at=120, policy="runs/main", times=20).continuations.returns``
    """
    a_count("a number of steps", 0).check("fork(at=...)", at)
    a_count("a number of continuations").check("fork(times=...)", times)
    a_count("a number of clips", 0).check("fork(clips=...)", clips)
    how = (explore, connectors, env, policy_loader, success, workers)
    with Forks("fork", episode, policy, checkpoint, *how, filesystem, progress) as forks:
        if at >= forks.steps:
            raise ValueError(
                f"fork(at=...) takes less than the {forks.steps} steps of the episode, got {as_shown(at)}."
            )
        forks.put_into(f"fork-{forks.name}-at-{at}", {FORKED_AT: at})
        found = forks.play(at, times)
        lines = forks.add_clips(at, min(clips, found.count), video)
        metric = forks.metric([found])
        forks.progress.continued(found, metric)
        return Fork(
            forks.episode.id,
            forks.policy,
            metric,
            forks.original,
            found,
            forks.is_same(at),
            forks.path,
            forks.compare_link(lines),
            forks.problems,
        )


def _taped_episode(episode: Any, filesystem: pyarrow.fs.FileSystem | None = None) -> TapedEpisode:
    """Return the episode that a text names.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: The text names none, or several.
        OSError: The storage does not answer.
    """
    if isinstance(episode, TapedEpisode):
        return episode
    experiment, _, id = str(episode).rpartition(":")
    if not experiment or "/" in id or folder_at(str(episode), filesystem).is_there:
        raise ValueError(
            f"fork takes an episode as EXPERIMENT:EPISODE, where EPISODE is its id, best, worst or last, got "
            f"{as_shown(episode)}."
        )
    there = load(experiment, filesystem).taped_episodes()
    found = choose([there], id)
    if len(found) != 1:
        why = f"{len(found)} episodes are meant by {id!r}" if there else "none of its episodes has a tape"
        raise ValueError(f"{experiment!r} has no such episode: {why}.")
    return found[0]


def _policy_side(
    policy: Any, checkpoint: Any, load_policy: Any, filesystem: pyarrow.fs.FileSystem | None
) -> tuple[Side, StoredCheckpoint]:
    """Return who takes over, and its checkpoint.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: The folder has no checkpoint, or one that cannot go on with an episode.
        OSError: The storage does not answer.
    """
    side = side_of(policy, as_checkpoint(checkpoint), filesystem, is_foreign=load_policy is not None)
    if side.checkpoint is None:
        raise ValueError(f"{side.name!r} is an evaluation: name the checkpoint that takes over, or its experiment.")
    if not side.is_rllib and load_policy is None:
        raise ValueError(
            f"{side.checkpoint.path!r} is no checkpoint of RLlib's. Pass a function that loads the policy: "
            "policy_loader=, or --policy-loader module:function"
        )
    return side, side.checkpoint


class Forks:
    """Continues an episode from any of its steps, and stores what becomes of it.

    Args:
        caller: The function that has the arguments, for the messages.
        episode, policy, checkpoint, explore, connectors, env, policy_loader: As of ``fork``.
        success, workers, filesystem, progress: As of ``fork``.

    Attributes:
        episode: The episode.
        policy: The checkpoint that takes over, as it was given.
        steps: The length of the episode.
        name: Its id, as a part of a folder's name.
        original: What it came to.
        path: The folder that everything goes to.
        progress: As given.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, or the episode cannot be continued.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer.
    """

    def __init__(
        self,
        caller: str,
        episode: Any,
        policy: Any,
        checkpoint: Any,
        explore: Any,
        connectors: Any,
        env: Any,
        policy_loader: Any,
        success: Any,
        workers: Any,
        filesystem: pyarrow.fs.FileSystem | None,
        progress: ForkProgress | None,
    ) -> None:
        check_success(success)
        check_each(caller, {"explore": explore, "connectors": connectors}, HOW)
        a_count("a number of Ray tasks", 0).check(f"{caller}(workers=...)", workers)
        self._settings, self._workers = PlayerSettings(explore, connectors, success=success), workers
        self._load = function_named(caller, "policy_loader", policy_loader)
        self._side, self._checkpoint = _policy_side(policy, checkpoint, self._load, filesystem)
        self.policy, self.episode = self._side.name, _taped_episode(episode, filesystem)
        self.progress, self._problems = progress or ForkProgress(), list[str]()
        make = function_named(caller, "env", env)
        self.progress.runs(self.episode.trial.experiment, self.policy)
        row = self.episode.row
        try:
            self._tape = self.episode.tape()
            self._taped = Tape.unpacked(self._tape)
            self._recipe = _recipe(self.episode, make)
        except Exception as error:  # of the user's code, too, which a recipe runs
            told = str(error) if isinstance(error, (RenderError, ValueError)) else error_text(error)
            raise ValueError(f"episode {self.episode.id} cannot be continued: {told}") from error
        self.steps, self.name = len(self._taped), short_id(self.episode.id)
        self.original = Continuations(
            self.steps, (float(row["episode_return"]),), (self.steps,), (row["success"],), distinct=1
        )
        self._filesystem, self.path = self.episode.trial.filesystem, ""
        self._parts: dict[int, EvaluationPart] = {}
        self._open = contextlib.ExitStack()
        self._renderer: ClipRenderer | None = None

    def __enter__(self) -> Forks:
        if self._workers:
            self._open.enter_context(ray_started(self._workers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def problems(self) -> list[str]:
        """What is missing, and what a reader must know, each once."""
        return list(dict.fromkeys(self._problems))

    def put_into(self, name: str, facts: Mapping[str, Any]) -> None:
        """Put everything into an evaluation of the episode's experiment, with these facts, and the episode itself, too.

        A digest of the policy and of how it is played is added to its name.
        """
        known = {
            "policy": {"name": self.policy, **self._side.facts()},
            "explore": self._settings.explore,
            "connectors": self._settings.connectors,
            "code": [code_digest(one) for one in (self._load, self._settings.success)],
            "recipe": self._recipe.hash,
        }
        evaluations = evaluations_of(self.episode.trial.experiment)
        self.path = posixpath.join(evaluations, f"{name}-{name_digest(str(known))[:6]}")
        path = posixpath.join(self.path, FACTS_FILE)
        if not json_file(self._filesystem, path):
            told = {"v": VERSION, "forked_from": self.episode.id, **facts, **known}
            write_atomically(self._filesystem, path, json_bytes(told) + b"\n")
        self._store_original()

    def play(self, at: int, times: int) -> Continuations:
        """Let the policy go on from a step, and store the episodes.

        A policy that does not explore goes on twice; if both episodes are the same, there are no others.

        Raises:
            ValueError: The env does not repeat the first steps, or the policy cannot be played.
            OSError: The storage does not answer.
        """
        self._play(at, range(min(times, 2)))
        part, contents = self._part(at), self._contents(at)
        is_known = len(set(contents)) == 1 and part.played_as is not None and part.played_as.explore is False
        if times > 2 and not is_known:
            self._play(at, range(times))
            contents = self._contents(at)
        part.write_result()
        rows = sorted((row for row in part.rows() if row["seed"] < times), key=lambda row: row["seed"])
        notes = [str(row["note"]).removeprefix(self._note(at)).removeprefix("; ") for row in rows]
        self._problems += filter(None, notes)
        returns, lengths = ([row[f"episode_{name}"] for row in rows] for name in ("return", "length"))
        successes = tuple(row["success"] for row in rows)
        contents = contents[: len(rows)]
        distinct = len(set(contents)) if len(contents) == len(rows) else len(rows)
        return Continuations(at, tuple(returns), tuple(lengths), successes, distinct)

    def metric(self, found: Sequence[Continuations]) -> str:
        """Return what episodes are measured by: success if it is known of all, otherwise the return."""
        is_known = all(one is not None for of in (self.original, *found) for one in of.successes)
        return SUCCESS if is_known else RETURN

    def is_same(self, at: int) -> bool:
        """Return whether the first continuation from a step has the actions, rewards and checksums of the episode."""
        return self._contents(at)[:1] == [_content(self._taped)]

    def add_clips(self, at: int, count: int, video: VideoOptions | None) -> list[tuple[str, str]]:
        """Make clips of the first continuations, and of the episode itself.

        Returns:
            The clips that are there: the name of the trial, and the path in its folder.
        """
        if not count:
            return []
        if self._renderer is None:
            self._renderer = self._open.enter_context(contextlib.closing(ClipRenderer(())))
            self._renderer.problems = self._problems
        renderer = self._renderer
        renderer.selectors = (Selector(_SELECTOR, functools.partial(_first, count), None),)
        found = []
        for part, mark in ((self._parts[-1], None), (self._part(at), ForkMark(at))):
            renderer.video = video or self._video(mark)
            part.add_clips(renderer, with_notes=mark is not None)
            lines = part.store.clips(part.checkpoint.training_iteration)
            found += [(posixpath.basename(part.store.folder), str(line["path"])) for line in lines]
        return found

    def compare_link(self, clips: Sequence[tuple[str, str]]) -> str:
        """Return the end of the address at which the viewer compares the first clip of each trial, in their order."""
        of_each: dict[str, str] = {}
        for trial, path in clips:
            of_each.setdefault(trial, f"{trial}\t{path}")
        ticked = "\n".join(of_each.values())
        return f"#{urlencode({'view': 'compare', 'ticked': ticked})}" if len(of_each) > 1 else ""

    def _play(self, at: int, numbers: range) -> None:
        """Play the continuations that are missing."""
        part, place, row = self._part(at), self.episode.place(), self.episode.row
        point = ForkPoint(
            self._tape, at, self._recipe, (place["env_runner"], place["env_index"]), abs(int(row["seed"] or 0))
        )
        settings = dataclasses.replace(self._settings, fork=point)
        load_policy = None if self._side.is_rllib else self._load
        jobs = [job for number in numbers for job in part.jobs(0, (number,), settings, load_policy)]
        if not jobs:
            return
        found = []
        with contextlib.closing(played(jobs, self._workers)) as batches:
            for batch in batches:
                if batch.error is not None:
                    raise ValueError(
                        f"episode {self.episode.id} cannot be continued from step {at} by {self.policy}: "
                        f"{_NUMBER.sub('', batch.error)}"
                    )
                found.append(batch)
        whole = joined_batches(found)
        noted = [_with_note(episode, self._note(at)) for episode in whole.episodes]
        part.add(dataclasses.replace(whole, episodes=noted))

    def _note(self, at: int) -> str:
        return f"continues episode {self.episode.id} from step {at} on"

    def _part(self, at: int) -> EvaluationPart:
        """Return what stores the continuations from a step."""
        if at not in self._parts:
            folder = f"at-{at:0{len(str(self.steps))}}"
            self._parts[at] = self._new_part(folder, self._side.trial, self._checkpoint, {FORKED_AT: at})
        return self._parts[at]

    def _new_part(
        self, name: str, trial: TrialFiles, checkpoint: StoredCheckpoint, added: Mapping[str, Any]
    ) -> EvaluationPart:
        folder = posixpath.join(self.path, name)
        store = EvaluatedTrial(self._filesystem, folder, f"{name}-{name_digest(folder)[:6]}")
        facts = {} if name == ORIGINAL else {"forked_from": self.episode.id, **added}
        return EvaluationPart(trial, EnvCondition(), checkpoint, store, {}, added, facts)

    def _store_original(self) -> None:
        """Store the episode beside its continuations, so that the viewer can compare them."""
        episode, row = self.episode, self.episode.row
        iteration, step = int(row["training_iteration"] or 0), int(row["step"] or 0)
        checkpoint = StoredCheckpoint(episode.trial.filesystem, episode.trial.path, 0, iteration, step)
        part = self._parts[-1] = self._new_part(ORIGINAL, episode.trial, checkpoint, {FORKED_AT: self.steps})
        if part.rows():
            return
        data = EpisodeData(episode.record, tape=self._tape, recipe=self._recipe.hash)
        part.add(Played(0, [data], {self._recipe.hash: self._recipe.content}, PlayedAs(row["explored"], None)))
        part.write_result()

    def _contents(self, at: int) -> list[tuple[Any, ...]]:
        """Return what the tapes of the continuations from a step have, in their order."""
        taped = sorted(self._part(at).taped(), key=lambda one: int(one.row["seed"]))
        return [_content(Tape.unpacked(one.tape())) for one in taped]

    def _video(self, mark: ForkMark | None) -> VideoOptions | None:
        """Return how clips are made: as of the episode, with the fork written in if that is possible."""
        if mark is None:
            return None
        try:
            check_can_draw()
        except ImportError as error:
            self._problems.append(f"the clips do not show where they fork: {error}")
            return None
        own = LoadedRecipe.of(self._recipe.content).video or VideoOptions()
        return dataclasses.replace(own, every=self._taped.every, overlay=(*own.overlay, mark))


@dataclass(frozen=True)
class ForkMark:
    """Writes into a clip where its episode forks.

    Attributes:
        at: The last step that is played as it was.

    >>> mark = ForkMark(3)
    >>> mark(StepFacts(3, 1.0, 3.0, None, None)), mark(StepFacts(4, 1.0, 4.0, None, None))
    ('replayed, fork at 3', 'forked at 3')
    """

    at: int

    def __call__(self, step: StepFacts) -> str:
        """Return the text for a step."""
        return f"forked at {self.at}" if step.step > self.at else f"replayed, fork at {self.at}"


def _recipe(episode: TapedEpisode, env: Callable[[Any], Any] | None) -> Recipe:
    """Return what makes the env of an episode.

    Raises:
        RenderError: It is not stored, and there is no other.
        Exception: Whatever the user's code raises.
    """
    if env is None:
        return recipe_of(episode)
    try:
        config = LoadedRecipe.of(episode.recipe(), env).config
    except RenderError:
        config = {}
    return Recipe.of(env, config)


def _content(tape: Tape) -> tuple[Any, ...]:
    """Return what two tapes of the same steps have in common."""
    actions = tuple(repr(part) for part in tape.actions.packed())
    return (tape.checks.packed(), actions, None if tape.rewards is None else tape.rewards.tobytes())


def _with_note(episode: EpisodeData, note: str) -> EpisodeData:
    record = dataclasses.replace(episode.record, note=joined(note, episode.record.note))
    return dataclasses.replace(episode, record=record)


def _first(count: int, records: Sequence[EpisodeRecord]) -> list[EpisodeRecord]:
    return sorted(records, key=lambda record: record.seed or 0)[:count]


def sentence(found: Fork) -> str:
    """Return a fork in a sentence.

    >>> before, after = (Continuations(at, (value,), (9,), (None,), 1) for at, value in ((9, 9.0), (3, 20.0)))
    >>> sentence(Fork("e1", "runs/b", "return", before, after, False, "folder"))
    'Episode e1 (return 9, 9 steps), continued by runs/b from step 3 on: return 20 (1 continuation).'
    """
    before, after = found.original, found.continuations
    told = (
        "the same episode again, to the last bit" if found.is_same and after.count == 1 else shown(after, found.metric)
    )
    was = f"{shown(before, found.metric, counts=False)}, {counted(before.at, 'step')}"
    return f"Episode {found.episode} ({was}), continued by {found.policy} from step {after.at} on: {told}."


def shown(found: Continuations, metric: str, *, counts: bool = True) -> str:
    """Return an outcome with its interval, and the number of continuations.

    >>> shown(Continuations(3, (5.0, 7.0), (9, 9), (True, False), 2), "success")
    'success 0.5 [0.0945, 0.905] (2 continuations)'
    """
    one = found.outcome(metric)
    figures = with_interval(one.value, one.low, one.high, digits=3)
    return f"{metric} {figures}" + (f" ({counted(found.count, 'continuation')})" if counts else "")
