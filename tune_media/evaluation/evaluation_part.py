"""One checkpoint under one condition: its episodes, its clips and its line of the table."""

from __future__ import annotations

import math
import posixpath
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tune_media.evaluation.checkpoints import CheckpointSeries, StoredCheckpoint
from tune_media.evaluation.clip_renderer import ClipRenderer
from tune_media.evaluation.evaluated_trial import RECORDER, SECTION, EvaluatedTrial
from tune_media.evaluation.evaluation import EvaluatedCheckpoint
from tune_media.evaluation.jobs import OVERWRITTEN, Job, Played
from tune_media.evaluation.memory import PolicyLoader
from tune_media.evaluation.request import ALL, EnvCondition, Request
from tune_media.experiment import params as hyperparameters
from tune_media.experiment.trial_files import TrialFiles
from tune_media.replay import playing
from tune_media.values.episodes import success_rate, summarized
from tune_media.values.rates import SUCCESS_RATE
from tune_media.values.safe_names import name_digest
from tune_media.values.secrets import without_secret
from tune_media.viewing import inference, wording
from tune_media.viewing.copies import TapeEnds
from tune_media.viewing.taped_episodes import TapedEpisode

_LACKS_CLIPS = "lacks_clips"  # in a result: the next evaluation of this name makes them


@dataclass
class EvaluationPart:
    """One checkpoint under one condition."""

    trial: TrialFiles
    condition: EnvCondition
    checkpoint: StoredCheckpoint
    store: EvaluatedTrial
    params: Mapping[str, Any] = field(default_factory=dict)  # of the trial, that differ between the evaluated trials
    added: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters that are stored besides those of the trial
    facts: Mapping[str, Any] = field(default_factory=dict)  # further facts for its result
    error: str | None = None  # why episodes are missing

    def __post_init__(self) -> None:
        self._ends = TapeEnds(self._files())
        self.played_as = self.store.played_as(self.checkpoint.training_iteration) if self.rows() else None

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the episodes that are stored."""
        return self.store.episodes(self.checkpoint.training_iteration)

    def missing(self, seeds: Sequence[int]) -> tuple[int, ...]:
        """Return the seeds whose episodes are not stored."""
        there = {row["seed"] for row in self.rows()}
        return tuple(seed for seed in seeds if seed not in there)

    def discard(self) -> int:
        """Delete its episodes, so that they are played anew; return how many."""
        count = len(self.rows())
        self.store.discard(self.checkpoint.training_iteration)
        self.played_as, self._ends = None, TapeEnds(self._files())
        return count

    def jobs(
        self, number: int, seeds: Sequence[int], settings: playing.PlayerSettings, loader: PolicyLoader | None
    ) -> list[Job]:
        """Return the job that plays the missing episodes of some seeds; nothing if none is missing."""
        missing = self.missing(seeds)
        return [Job(number, self.checkpoint, settings, missing, loader)] if missing else []

    @property
    def digest(self) -> str | None:
        """The digest of the checkpoint that its episodes were played with; None: it is not known."""
        return None if self.played_as is None else self.played_as.digest

    def returns(self) -> dict[int, float]:
        """Return the return on each seed."""
        return {row["seed"]: float(row["episode_return"]) for row in self.rows()}

    def successes(self) -> dict[int, bool]:
        """Return for each seed whether its episode succeeded; unknown ones are left out."""
        return {row["seed"]: row["success"] for row in self.rows() if row["success"] is not None}

    def copies(self, seeds: Collection[int] | None = None) -> dict[int, int]:
        """Return a number for each seed (of ``seeds``), equal for those that gave copies; empty if none did."""
        rows = [row for row in self.rows() if seeds is None or row["seed"] in seeds]
        return self._ends.copies(self.store.reports(self.checkpoint.training_iteration), rows)

    @property
    def warning(self) -> str:
        """That the first seeds gave one episode, if they did."""
        return wording.copied_at_first(len(self.rows()), len(set(self.copies().values())))

    def _files(self) -> TrialFiles:
        return TrialFiles(posixpath.basename(self.store.folder), self.store.filesystem, self.store.folder)

    def line(self) -> EvaluatedCheckpoint:
        """Return its line of the table, without the comparison to others."""
        returns, copies = self.returns(), self.copies()
        numbers = np.array([copies.get(seed, -1 - place) for place, seed in enumerate(returns)])
        mean = inference.Estimate(math.nan)
        if returns and not any(map(math.isnan, returns.values())):
            mean = inference.estimate(np.array(list(returns.values())), copies=numbers if copies else None)
        played_as = self.played_as or playing.PlayedAs(None, None)
        rate = self._success_rate()
        notes = [played_as.note, wording.copied(len(returns), len(set(copies.values()))) if copies else None]
        return EvaluatedCheckpoint(
            self.trial.name,
            self.condition.label,
            self.checkpoint.name,
            self.checkpoint.training_iteration,
            len(returns),
            mean.value,
            mean.low,
            mean.high,
            played_as.explore,
            played_as.connectors,
            "; ".join(filter(None, notes)) or None,
            self.error,
            self.params,
            success_rate=rate.get(SUCCESS_RATE, math.nan),
            success_low=rate.get(f"{SUCCESS_RATE}_low", math.nan),
            success_high=rate.get(f"{SUCCESS_RATE}_high", math.nan),
            success_once_rate=self.share("success_once"),
            success_at_end_rate=self.share("success_at_end"),
        )

    def add(self, played: Played) -> None:
        """Store episodes that have been played, and note why no more of them were."""
        now = played.played_as
        if now is not None and self.played_as is not None and self.digest not in (None, now.digest):
            self.error = self.error or OVERWRITTEN
            return
        self.error = played.error or self.error
        now = now and now.after(self.played_as)
        self.played_as = now or self.played_as
        if not played.episodes or now is None:
            return
        iteration, config = self.checkpoint.training_iteration, self.trial.read_config()
        env_config = config.get("env_config")
        changed = {**(env_config if isinstance(env_config, dict) else {}), **dict(self.condition.overrides)}
        self.store.write_params({**config, **({"env_config": changed} if changed else {}), **self.added})
        self.store.note_played_as(iteration, now)
        self.store.add_played(iteration, self.checkpoint.step, played.episodes, played.recipes)

    def finish(self, renderer: ClipRenderer) -> None:
        """Make the clips that are missing, and write the result, in the shape of RLlib's, unless all is there."""
        result = self.store.result(self.checkpoint.training_iteration)
        if self.played_as is not None and (result is None or result.get(_LACKS_CLIPS)):
            failed = renderer.failed
            self.add_clips(renderer)
            self.write_result(**({_LACKS_CLIPS: True} if renderer.failed > failed else {}))

    def write_result(self, **more: Any) -> None:
        """Write the result of the episodes that are stored, and ``more``, in place of an earlier one."""
        assert self.played_as is not None
        iteration, step = self.checkpoint.training_iteration, self.checkpoint.step
        facts = {
            SECTION: {"env_runners": self._summary()},
            "config": {"env_config": dict(self.condition.overrides)},
            "checkpoint": self.checkpoint.name,
            "digest": self.digest,
            "explored": self.played_as.explore,
            "connectors": self.played_as.connectors,
            "note": self.played_as.note,
            "evaluated_at": time.time(),
            "seeds": len(self.rows()),
            **self.facts,
            **more,
        }
        self.store.finish(iteration, facts if step == iteration else {"timesteps_total": step, **facts})

    def taped(self) -> list[TapedEpisode]:
        """Return the episodes that have tapes."""
        iteration = self.checkpoint.training_iteration
        return [
            episode
            for episode in TapedEpisode.of_trial(self._files().read())
            if episode.row["training_iteration"] == iteration
        ]

    def add_clips(self, renderer: ClipRenderer, *, with_notes: bool = False) -> None:
        """Make the clips that are missing, ``with_notes`` of their episodes if that is wanted."""
        if not renderer.selectors:
            return
        iteration, taped = self.checkpoint.training_iteration, self.taped()
        notes = {episode.id: episode.row["note"] for episode in taped}
        there = {
            (str(line["key"]).removeprefix(f"{RECORDER}/").partition("/")[0], str(line.get("episode_id")))
            for line in self.store.clips(iteration)
        }
        for name, clip in renderer.clips(taped, there):
            if with_notes and clip.episode is not None:
                clip = clip.of_episode(clip.episode, notes.get(clip.episode.episode_id))
            self.store.add_clip(clip, SECTION, f"{RECORDER}/{name}", self.checkpoint.step, iteration)

    def share(self, name: str) -> float:
        """Return the share of successes, once or at the end, of episodes of which both are known; NaN if none is."""
        known = [row[name] for row in self.rows() if None not in (row["success_once"], row["success_at_end"])]
        return sum(known) / len(known) if known else math.nan

    def _success_rate(self) -> dict[str, float]:
        """Return the share of episodes that succeeded and the ends of its interval, in which copies count once."""
        outcomes, copies = self.successes(), self.copies()
        sizes = list(Counter(copies[seed] for seed in outcomes).values()) if copies else []
        count = len(outcomes) ** 2 / sum(size**2 for size in sizes) if len(sizes) > 1 else 0.0
        return success_rate(outcomes.values(), count if copies else None)

    def _summary(self) -> dict[str, Any]:
        rows, line, rate = self.rows(), self.line(), self._success_rate()
        returns = [row["episode_return"] for row in rows]
        return {
            "episode_return_mean": line.return_mean,
            "episode_return_min": min(returns),
            "episode_return_max": max(returns),
            "episode_return_mean_low": line.return_low,
            "episode_return_mean_high": line.return_high,
            "episode_len_mean": float(np.mean([row["episode_length"] for row in rows])),
            "num_episodes": len(rows),
            "custom_metrics": {**summarized(dict(row["metrics"]) for row in rows), **rate},
        }


def parts_of(series: Sequence[CheckpointSeries], request: Request, name: str, folder: str) -> Iterator[EvaluationPart]:
    """Yield the parts of an evaluation; of all checkpoints, also those that were deleted after they had been played."""
    names = hyperparameters.differing([of_trial.trial.config for of_trial in series])
    for of_trial in series:
        trial, checkpoints = of_trial.trial, of_trial.chosen(request.checkpoint)
        settings = hyperparameters.settings_of(trial.config, names)
        params = {name: without_secret(name, value) for name, value in settings.items()}
        for condition in request.conditions:
            store = store_of(trial, condition, name, folder)
            there = {checkpoint.training_iteration for checkpoint in checkpoints}
            stored = store.checkpoints(trial.path) if request.checkpoint == ALL else ()
            deleted = [checkpoint for checkpoint in stored if checkpoint.training_iteration not in there]
            for checkpoint in sorted([*deleted, *checkpoints], key=lambda one: (one.number, one.training_iteration)):
                yield EvaluationPart(trial, condition, checkpoint, store, params)


def store_of(trial: TrialFiles, condition: EnvCondition, name: str, folder: str) -> EvaluatedTrial:
    """Return where the episodes of a trial go in the folder of the evaluation with this name."""
    own_name = trial.name.rpartition("/")[2]  # without that of its experiment
    path = posixpath.join(folder, f"{own_name}{condition.suffix}")
    id = f"{trial.trial_id}-{name_digest(f'{name} {condition.label}')[:6]}"
    return EvaluatedTrial(trial.filesystem, path, id)
