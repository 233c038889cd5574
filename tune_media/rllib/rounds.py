"""The Algorithm's side of a recorder: begins and ends the rounds, and puts the recorded episodes into the results."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tune_media.ray_compat import experiment_of
from tune_media.recording.choosing import DATA, NUM_ABANDONED, NUM_LOST
from tune_media.replay.verdicts import ReplayVerdict, decide, take_refused, verdict_on
from tune_media.rllib import ray_names
from tune_media.rllib.counting import ReportedEpisodes
from tune_media.rllib.env_runner_requests import before_training, evaluates, go_on_from
from tune_media.rllib.gather import AsyncGather, EnvRunnerClient, collect
from tune_media.rllib.problem_reports import ProblemReports
from tune_media.rllib.prover import Prover
from tune_media.rllib.requests import LOCAL, Requests
from tune_media.rllib.round_choice import Round, RoundResult
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.will_record import endless, never_ended, reasons_for_nothing, recorder_names, unmatched_paths
from tune_media.rllib.windowed_means import WindowedMeans
from tune_media.values.episode_record import AUTO
from tune_media.values.problems import NUM_PENDING, NUM_UNANSWERED, PROBLEMS, Problem
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION, TRAIN

logger = logging.getLogger(__name__)

_ENV_RUNNERS, _CUSTOM_METRICS = "env_runners", "custom_metrics"
_OURS = {DATA, NUM_ABANDONED, NUM_LOST, NUM_PENDING, NUM_UNANSWERED, PROBLEMS}


class Rounds:
    """The rounds of one recorder in an Algorithm. The Algorithm's thread calls everything here.

    Nothing here raises, unless the recorder is strict: a fault becomes a problem in the next result.
    """

    def __init__(self, settings: RecorderSettings) -> None:
        self._settings, self._plan = settings, settings.plan
        self._seen = {section: EnvRunnerClient() for section in settings.sections}
        self._async = {section: AsyncGather(self._plan, seen) for section, seen in self._seen.items()}
        self._window = WindowedMeans(settings.window)
        self._returned: dict[str, Any] = {}
        self._iteration: Callable[[], int] | None = None
        self._is_evaluating = self._is_mixed = False
        self._problems, self._has_checked_paths = ProblemReports(self._plan.name), False
        # by section, until one of its episodes ends: how many did not, in each round in which some did not
        self._abandoned: dict[str, list[int]] = {section: [] for section in settings.sections}
        self._prover, self._recipes = Prover(self._plan.views), set[str]()

    def begin(self, algorithm: Any) -> None:
        """An Algorithm has been made."""
        with self._guard("finding the trial"):
            self._problems.begin(algorithm)
        with self._guard("watching the training iterations"):
            self._iteration = ray_names.watch_steps(algorithm, functools.partial(self._begin_iteration, algorithm))
        with self._guard("watching the custom_evaluation_function"):
            ray_names.watch_custom_evaluation(algorithm, self._returned.update)
        with self._guard("adding the recorder's state to the checkpoints"):
            load = functools.partial(self._set_state, algorithm=algorithm)
            ray_names.keep_in_checkpoints(algorithm, f"tune_media/{self._plan.name}", self._state, load)
        with self._guard("looking for reasons why nothing will be recorded"):
            self._look_ahead(algorithm)

    def _begin_iteration(self, algorithm: Any) -> None:
        """A training iteration starts: no evaluation is under way, even if the last one raised and never ended."""
        if self._is_evaluating:
            self._leave_out_of_training(algorithm, False)

    def begin_evaluation(self, algorithm: Any) -> None:
        """An evaluation starts: episodes that its env runners finished since the last one are late."""
        self._returned.clear()
        self._leave_out_of_training(algorithm, True)
        with self._guard("reading RLlib's metrics"):
            self._is_mixed = ray_names.mixes_evaluations(algorithm)
        group = algorithm.eval_env_runner_group
        if EVALUATION in self._seen and group is not None:
            with self._guard("the start of the evaluation"):
                if _is_busy(algorithm, EVALUATION):
                    self._async[EVALUATION].begin_round(group)
                else:
                    self._seen[EVALUATION].begin_round(group, self._plan.name)

    def end_evaluation(self, algorithm: Any, metrics: dict[str, Any]) -> None:
        """Put the episodes of an evaluation into its metrics, and the values of a ``custom_evaluation_function``."""
        for name, value in self._returned.items():
            metrics.setdefault(name, value)
        self._returned.clear()
        self._leave_out_of_training(algorithm, False)
        group = algorithm.eval_env_runner_group
        if EVALUATION in self._seen and group is not None:
            iteration = algorithm.iteration if self._iteration is None else self._iteration()
            self._put(algorithm, self._round(algorithm, EVALUATION, iteration, metrics), metrics)

    def end_iteration(self, algorithm: Any, result: dict[str, Any]) -> None:
        """Put the episodes of a training iteration into its result."""
        if TRAIN in self._seen and algorithm.env_runner_group is not None:
            self._put(algorithm, self._round(algorithm, TRAIN, result["training_iteration"], result), result)
        with self._guard("reporting problems"):
            self._put_problems(result)

    def _leave_out_of_training(self, algorithm: Any, is_evaluating: bool) -> None:
        """Record nothing while RLlib evaluates on the local training env runner: it has no other for evaluations."""
        group, self._is_evaluating = algorithm.env_runner_group, is_evaluating
        if TRAIN in self._seen and group is not None and algorithm.eval_env_runner_group is None:
            request = functools.partial(evaluates, name=self._plan.name, is_evaluating=is_evaluating)
            with self._guard("leaving an evaluation out of the training episodes"):
                self._seen[TRAIN].requests.tell(group, request, only=[LOCAL])

    def env_runners_are_new(self, group: Any, section: str, indices: Collection[int] | None = None) -> None:
        """Env runners (None: all) were restarted, or a checkpoint was loaded: triggers continue to count episodes.

        This does not wait: an env runner does it before the next sample that it is asked for.
        """
        if section in self._seen and group is not None:
            request = functools.partial(go_on_from, name=self._plan.name, starts=self._seen[section].starts)
            with self._guard("handing the episode counters to the env runners"):
                self._seen[section].requests.tell(group, request, indices)

    def _round(self, algorithm: Any, section: str, iteration: int, metrics: dict[str, Any]) -> Round:
        with self._guard("reading RLlib's metrics"):
            is_mixed = section == EVALUATION and self._is_mixed
            return Round(
                section,
                iteration,
                ray_names.env_steps_lifetime(algorithm),
                not algorithm.config.enable_env_runner_and_connector_v2,
                _timeout(algorithm),
                ReportedEpisodes() if is_mixed else ReportedEpisodes.of(metrics.get(_ENV_RUNNERS, {})),
                is_exact=section == EVALUATION
                and not is_mixed
                and ray_names.counts_all_evaluation_episodes(algorithm)
                and recorder_names(algorithm.config).count(self._plan.name) <= 1,  # another one has taken them
            )
        return Round(section, iteration)

    def _look_ahead(self, algorithm: Any) -> None:
        """Add the problems that are known before training: arguments that match nothing, envs that do not render."""
        for reason in reasons_for_nothing(self._settings, algorithm.config):
            self._problems.add(reason)
        request, recipes = functools.partial(before_training, name=self._plan.name), {}
        for group in filter(None, (algorithm.env_runner_group, algorithm.eval_env_runner_group)):
            for reply in Requests().call(group, request, _timeout(algorithm)).answers.values():
                for problem in reply.problems:
                    self._problems.add(problem.text)
                if reply.recipe is not None:
                    recipes[reply.recipe.hash] = reply.recipe
        experiment = experiment_of(algorithm)
        self._recipes |= set(recipes)
        for recipe in recipes.values():
            self._prover.check(recipe, experiment)

    def _put(self, algorithm: Any, of_round: Round, result: dict[str, Any]) -> None:
        """Collect the episodes of a round and put them into its result: the clips first, they exist nowhere else."""
        collected, section = None, of_round.section
        with self._guard("the collection of this round's episodes"):
            if _is_busy(algorithm, section):
                collected = self._async[section].collect(_group(algorithm, section), of_round)
            else:
                collected = collect(_group(algorithm, section), self._plan, self._seen[section], of_round)
        if collected is None:
            return
        with self._guard("putting this round's clips into the result"):
            if collected.chosen:
                env_runners, key = self._place(result, collected.chosen)
                env_runners.setdefault(key, {}).update(collected.chosen)
        batch = collected.chosen.get(DATA)
        self._recipes |= set(batch.recipes) if batch else set()
        counted = batch.counted() if batch else []
        with self._guard("putting this round's numbers into the result"):
            self._put_metrics(result, {**collected.metrics, **self._window.add(section, counted)})
        with self._guard("checking this round"):
            self._check(algorithm, of_round, collected, len(counted))
        if self._plan.render == AUTO:
            with self._guard("proving the tapes of this round"):
                self._prover.prove(collected.samples)
        with self._guard("reporting problems"):
            self._put_problems(result, collected.problems)

    def _put_metrics(self, result: dict[str, Any], metrics: dict[str, float]) -> None:
        if not metrics:
            return
        there = self._env_runners(result).setdefault(_CUSTOM_METRICS, {})
        if isinstance(there, dict):
            there.update({**metrics, **there})  # RLlib's and the user's own stay as they are
        else:
            self._problems.add(
                f"the means of the episodes' values are not in the results: a metric of your own, {there!r}, is in "
                f"their place, result[{_ENV_RUNNERS!r}][{_CUSTOM_METRICS!r}]; log it under another name"
            )

    def _put_problems(self, result: dict[str, Any], problems: Sequence[Problem] = ()) -> None:
        for text in self._prover.problems():
            self._problems.add(text)
        env_runners = self._env_runners(result)
        self._problems.put(env_runners, [*problems, *self._refused()], _free_key(env_runners, self._plan.name))

    def _refused(self) -> list[Problem]:
        """Return the clips that this process has not made of their tapes."""
        refusals = []
        for recipe in self._recipes:
            lost = take_refused(recipe)
            verdict = verdict_on(recipe) if lost else None
            if verdict is not None and not verdict.repeats:
                reason = f"{verdict.reason}; later episodes are rendered while they run"
                refusals.append(Problem.no_clip(reason, lost))
        return refusals

    def _place(self, result: dict[str, Any], keys: Iterable[str]) -> tuple[dict[str, Any], str]:
        """Return a result's dict for the clips, and a free key: the recorder's name, unless another metric has it."""
        env_runners = self._env_runners(result)
        key = _free_key(env_runners, self._plan.name, keys)
        if key != self._plan.name:
            self._problems.add(
                f"the clips are at {key!r} instead of {self._plan.name!r} in the results, where another "
                "metric is, of RLlib's or of your own; give the recorder another name="
            )
        return env_runners, key

    def _env_runners(self, result: dict[str, Any]) -> dict[str, Any]:
        is_dict = isinstance(result.get(_ENV_RUNNERS, {}), dict)
        env_runners: dict[str, Any] = result.setdefault(_ENV_RUNNERS if is_dict else f"{_ENV_RUNNERS}_clips", {})
        return env_runners

    def _check(self, algorithm: Any, of_round: Round, collected: RoundResult, episodes: int) -> None:
        """Add the problems that a round shows: paths that match nothing, episodes that do not end."""
        if not self._has_checked_paths and collected.matched and episodes:
            self._has_checked_paths = True
            for reason in unmatched_paths(collected.matched, episodes):
                self._problems.add(reason)
        reason = ""
        if of_round.section == EVALUATION and self._plan.sees_all:
            ended = episodes if of_round.reported.count is None else of_round.reported.count
            reason = endless(collected.unfinished, ended, algorithm.config)
        if DATA in collected.chosen or reason:
            self._abandoned.pop(of_round.section, None)
        elif (counts := self._abandoned.get(of_round.section)) is not None and NUM_ABANDONED in collected.chosen:
            counts.append(collected.chosen[NUM_ABANDONED])
            if reason := never_ended(of_round.section, counts):
                del self._abandoned[of_round.section]
        if reason:
            self._problems.add(reason)

    def _state(self) -> dict[str, Any]:
        return {
            "windows": self._window.state(),
            "starts": {section: seen.starts for section, seen in self._seen.items()},
            "verdicts": {recipe: asdict(verdict) for recipe in self._recipes if (verdict := verdict_on(recipe))},
        }

    def _set_state(self, state: dict[str, Any], algorithm: Any) -> None:
        with self._guard("loading the recorder's state"):
            self._window.set_state(state["windows"])
            for section, seen in self._seen.items():
                seen.starts = {**seen.starts, **state["starts"].get(section, {})}
            self.env_runners_are_new(algorithm.env_runner_group, TRAIN)
            self.env_runners_are_new(algorithm.eval_env_runner_group, EVALUATION)
            for recipe, verdict in state["verdicts"].items():
                decide(recipe, ReplayVerdict.of(verdict))

    @contextlib.contextmanager
    def _guard(self, doing: str) -> Iterator[None]:
        """Turn a fault in the Algorithm into a problem, which comes with the next result; training continues."""
        try:
            yield
        except Exception as error:
            if self._plan.strict:
                raise
            logger.info("record_episodes %r: %s failed", self._plan.name, doing, exc_info=True)
            self._problems.add(f"episodes may be missing: {doing} failed: {error_text(error)}")


def _timeout(algorithm: Any) -> float | None:
    """Return how long an Algorithm waits for its env runners, seconds, or None for as long as it takes."""
    timeout = algorithm.config.evaluation_sample_timeout_s
    return None if timeout is None else float(timeout)


def _free_key(env_runners: dict[str, Any], name: str, keys: Iterable[str] = ()) -> str:
    """Return the key at which a result has nothing, or what we have put there without these keys: the name, if free."""

    def is_free(key: str) -> bool:
        there = env_runners.get(key)
        is_ours = isinstance(there, dict) and not there.keys().isdisjoint(_OURS) and there.keys().isdisjoint(keys)
        return key not in env_runners or is_ours

    numbered = (f"{name}_clips_{number}" for number in itertools.count(2))
    return next(filter(is_free, itertools.chain((name, f"{name}_clips"), numbered)))


def _group(algorithm: Any, section: str) -> Any:
    """Return the ``EnvRunnerGroup`` that plays the episodes of a section, or None."""
    return algorithm.eval_env_runner_group if section == EVALUATION else algorithm.env_runner_group


def _is_busy(algorithm: Any, section: str) -> bool:
    """Return whether env runners still play when a round of a section ends, so that their answers take long."""
    is_busy = ray_names.evaluates_in_parallel if section == EVALUATION else ray_names.is_asynchronous
    return bool(is_busy(algorithm) and ray_names.remote_env_runners(_group(algorithm, section)))
