"""``tune_media.report``: one page that says which of two policies is better, where, and what differs with it."""

from __future__ import annotations

import contextlib
import datetime
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media._version import __version__
from tune_media.evaluation.clips import ClipRenderer
from tune_media.evaluation.decisive import decisive
from tune_media.evaluation.findings import Findings, Pair, findings
from tune_media.evaluation.gate import FILE as GATE_FILE
from tune_media.evaluation.jobs import LoadPolicy
from tune_media.evaluation.match import Match, folder_of, note
from tune_media.evaluation.measure import RETURN, Measure
from tune_media.evaluation.pairs import ROLES, Pairs
from tune_media.evaluation.request import LAST, EnvCondition, as_conditions, suffix_of
from tune_media.evaluation.sequential import LEVEL, Margin, Standing
from tune_media.evaluation.starts import starts_of
from tune_media.experiment.results import json_file
from tune_media.experiment.trial_files import TrialFiles
from tune_media.recording.success import Success
from tune_media.storage.episode_files import parquet_name, rows_of_parquet
from tune_media.values.checks import a_count, local_path, name_some, suggests_names
from tune_media.values.options import VideoOptions
from tune_media.values.secrets import error_text
from tune_media.viewing.places import Folder, folder_at
from tune_media.viewing.single_page import report_page
from tune_media.viewing.taped_episodes import TapedEpisode

FILE = "report.json"
VERSION = 1
_SEEDS = "0:40"
_CLIPS = 5


@dataclass(frozen=True)
class Report:
    """What two policies did on the same seeds, and what it shows.

    Attributes:
        base, candidate: What was compared, as it was given.
        path: The folder of the episodes, an experiment with the trials ``base`` and ``candidate``.
        found: What they show.
        page: The page that was written.
        problems: What is missing, such as clips.
    """

    base: str
    candidate: str
    path: str
    found: Findings
    page: Path
    problems: Sequence[str] = ()

    @property
    def sentence(self) -> str:
        """What it comes to."""
        return self.found.sentence

    def facts(self) -> dict[str, Any]:
        """Return what ``--json`` prints: all figures.

        ``v`` (1), ``base``, ``candidate``, ``path``, ``page``, ``problems``, ``sentence``, ``metric``,
        ``mode``, ``interval`` (``fixed``, or a gate's: ``sequential``), ``seeds``, ``won`` and ``lost``;
        ``difference``, and each of ``values`` and ``reasons`` (the sure ones), with ``name``, ``base``,
        ``candidate``, ``difference``, ``low``, ``high``, ``p`` (corrected), ``is_sure`` and ``is_rate``;
        ``by_seed``; ``split`` (None, or ``condition``, ``won`` of ``seeds``, ``others_won`` of ``others``,
        ``p``, all of the half that was held out); ``facts_tried`` and ``endings``.
        """
        return {
            "v": VERSION,
            "base": self.base,
            "candidate": self.candidate,
            "path": self.path,
            "page": str(self.page),
            **self.found.facts(),
            "problems": list(self.problems),
        }


class ReportProgress:
    """Told how far a report is; this one says nothing."""

    def plays(self, base: str, candidate: str) -> None:
        """Code of both is run next."""

    def played(self, condition: str, seeds: int, of: int) -> None:
        """So many seeds are played under a condition."""


@suggests_names
def report(
    base: Any,
    candidate: Any = None,
    *,
    output: str | Path = "report.html",
    metric: str | None = None,
    mode: str | None = None,
    seeds: Any = None,
    checkpoint: str | int = "last",
    explore: bool | None = None,
    connectors: str | None = None,
    env: Callable[[Any], Any] | str | None = None,
    env_config: Mapping[str, Any] | None = None,
    policy: LoadPolicy | str | None = None,
    success: Success | None = None,
    workers: int = 0,
    folder: str | None = None,
    clips: int = _CLIPS,
    video: VideoOptions | None = None,
    filesystem: pyarrow.fs.FileSystem | None = None,
    progress: ReportProgress | None = None,
) -> Report:
    """Write one HTML page about two policies on the same seeds: who wins, on which seeds, and what differs with it.

    The page has everything inside, clips too: it opens from disk, without a network, and can be mailed.

    Of equal policies it finds a difference in one of twenty reports at most, and gives reasons only with a difference
    (``evaluation/findings.py``). That values differ together does not show that one causes the other.

    Checkpoints are executable: they hold pickles. Compare only checkpoints of people whom you trust.

    Args:
        base: The folder or URI of a checkpoint; an experiment, for its best trial; ``EXPERIMENT:TRIAL``; an
            evaluation that is there; or, without a candidate, the folder of a gate or a report, of which nothing is
            played again.
        candidate: The same.
        output: The page.
        metric: ``"return"``, ``"success"``, ``"length"``, or the name of a custom metric. None: the return; with a
            folder, its own.
        mode: ``"max"`` or ``"min"``: whether a larger or a smaller metric is better. None: ``"max"``.
        seeds: The seeds: a text such as ``"0:40"``, or a list. None: those of an evaluation that is there, or 0 to 39.
        checkpoint, explore, connectors, env, policy, success, workers: As of ``tune_media.gate``.
        env_config: Keys of the ``env_config`` with other values. A list of values: each seed is played with each. Of
            a gate's folder: the condition that is shown, if there are several.
        folder: The folder for the episodes. None: ``reports/<candidate>-<digest>`` here. A report that was interrupted
            goes on if it has the same folder.
        clips: Of how many of the seeds with the largest differences the page has clips.
        video: Size, speed, quality and overlays of the clips.
        filesystem: A pyarrow filesystem that both are on.
        progress: Told how far it is.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: An argument cannot work, both play in different envs, or an episode cannot be played.
        TypeError: An argument is of the wrong type.
        OSError: The storage does not answer, or the page cannot be written.

    Example:
        ``report("runs/main", "runs/mine:PPO_3", workers=8).sentence``
    """
    a_count("a number of Ray tasks", 0).check("report(workers=...)", workers)
    a_count("a number of seeds", 0).check("report(clips=...)", clips)
    page = local_path("report(output=...)", output)
    progress = progress or ReportProgress()
    if candidate is None:
        given = {"metric": metric, "mode": mode, "seeds": seeds, "explore": explore, "connectors": connectors}
        given |= {"env": env, "policy": policy, "success": success, "folder": folder, "workers": workers or None}
        given["checkpoint"] = None if checkpoint == LAST else checkpoint
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong is not None:
            raise ValueError(f"report({wrong}=...) takes nothing without a candidate: nothing is played.")
        place = folder_at(str(base), filesystem)
        progress.plays(str(base), str(base))
    else:
        measure = Measure.of(metric or RETURN, mode or "max", 0.0, None)
        match = Match.of(
            "report",
            base,
            candidate,
            _SEEDS,
            seeds=seeds,
            checkpoint=checkpoint,
            explore=explore,
            connectors=connectors,
            env=env,
            env_config=env_config,
            policy=policy,
            success=success,
            filesystem=filesystem,
        )
        overrides = [dict(condition.overrides) for condition in match.request.conditions]
        facts = {**match.facts(), **measure.facts(), "overrides": overrides}
        place = folder_of(folder, "reports", candidate, facts)
        named = {"base": str(base), "candidate": str(candidate)}
        note(place, FILE, facts, named, "folder=, or --folder")
        progress.plays(str(base), str(candidate))
        _play(match, measure, place, workers, progress)
    played = _Played.of(place, {} if candidate is not None else env_config)
    found = findings(played.pairs, played.measure, played.of_gate)
    with contextlib.closing(ClipRenderer((), video)) as renderer:
        chosen = [played.pairs[at] for at in found.decisive[:clips]]
        shown = [
            {**one, **_told(pair, played.measure)}
            for pair, one in zip(chosen, decisive([played.taped(pair) for pair in chosen], renderer), strict=True)
        ]
        problems = [*played.problems, *renderer.problems]
    done = Report(played.base, played.candidate, place.path, found, page, problems)
    facts_of_page = {
        **found.facts(),
        "base": _short(played.base),
        "candidate": _short(played.candidate),
        "decisive": shown,
        "markdown": found.markdown(),
        "latex": found.latex(),
        "conditions": [label for label in played.labels if label],
        "problems": problems,
        "made": datetime.date.today().isoformat(),
        "version": __version__,
    }
    page.parent.mkdir(parents=True, exist_ok=True)
    title = f"{facts_of_page['candidate']} against {facts_of_page['base']}"
    page.write_bytes(report_page(facts_of_page, title).encode("utf-8", "replace"))
    return done


def _play(match: Match, measure: Measure, place: Folder, workers: int, progress: ReportProgress) -> None:
    """Play all seeds that are missing.

    Raises:
        ValueError: An episode cannot be played, or the envs differ.
        OSError: The storage does not answer.
    """
    seeds = match.request.seeds
    for condition in match.request.conditions:
        parts = match.parts(condition, place)
        pairs = Pairs(parts, seeds, measure, LEVEL, plays_all=True)
        with contextlib.closing(match.play(parts, condition, workers)) as played:
            for _ in pairs.decide(played):
                progress.played(condition.label, len(pairs.scores), len(seeds))
        if pairs.error is not None:
            raise ValueError(f"the two cannot be compared: {pairs.error}")
        for part in parts:
            part.write_result()


@dataclass(frozen=True)
class _Played:
    """The episodes in the folder of a gate or a report.

    Attributes:
        base, candidate: What was compared, as it was given.
        measure: What decides.
        labels: The conditions.
        pairs: The pairs.
        of_gate: How the gate stands; None: it is a report's folder.
        tapes: The episodes with tapes by their ids.
        problems: What is missing.
    """

    base: str
    candidate: str
    measure: Measure
    labels: Sequence[str]
    pairs: Sequence[Pair]
    of_gate: Standing | None
    tapes: Mapping[str, TapedEpisode]
    problems: Sequence[str]

    def taped(self, pair: Pair) -> tuple[TapedEpisode | None, TapedEpisode | None]:
        """Return the episodes of a pair."""
        return self.tapes.get(pair.base["episode_id"]), self.tapes.get(pair.candidate["episode_id"])

    @classmethod
    def of(cls, place: Folder, env_config: Mapping[str, Any] | None) -> _Played:
        """Read the folder of a gate or a report.

        Args:
            place: The folder.
            env_config: The condition of a gate that is read.

        Raises:
            FileNotFoundError: There is no such folder.
            ValueError: It is none, or a report's, which has no condition to choose; or the gate has several conditions,
                or could not decide.
            OSError: The storage does not answer.
        """
        known = {file: json_file(place.filesystem, posixpath.join(place.path, file)) for file in (FILE, GATE_FILE)}
        file = next((file for file, told in known.items() if told), None)
        if file is None:
            if not place.is_there:
                raise FileNotFoundError(f"there is no folder {place.path!r}")
            raise ValueError(f"{place.path!r} has neither {GATE_FILE} nor {FILE}: name a candidate to compare it with.")
        told = known[file]
        asked = told["request"]
        measure = Measure(asked["metric"], asked["sign"], Margin(0.0), None)
        labels, seeds, of_gate = asked["conditions"], asked["seeds"], None
        if file == GATE_FILE:
            verdict = _verdict(told, env_config)
            labels, seeds = [verdict["condition"]], seeds[: verdict["seeds"]]
            low, high = (verdict[end] for end in ("low", "high"))
            of_gate = Standing(
                verdict["verdict"],
                verdict["seeds"],
                low=-float("inf") if low is None else low,
                high=float("inf") if high is None else high,
            )
        elif env_config:
            raise ValueError("report(env_config=...) takes nothing with a report's folder: it shows all conditions.")
        overrides = asked.get("overrides", [{}])  # a gate has none: one of its conditions is shown
        tapes: dict[str, TapedEpisode] = {}
        found: list[tuple[Mapping[str, Any], list[dict[int, dict[str, Any]]]]] = []
        for label, condition in zip(labels, overrides, strict=True):
            names = [f"{role}{suffix_of(label)}" for role in ROLES]
            trials = [TrialFiles(one, place.filesystem, posixpath.join(place.path, one)).read() for one in names]
            tapes |= {one.id: one for trial in trials for one in TapedEpisode.of_trial(trial)}
            found.append((condition, [_rows(trial) for trial in trials]))
        taped = [tapes[row["episode_id"]] for row in found[0][1][0].values() if row["episode_id"] in tapes]
        problems = []
        starts: Mapping[int, Mapping[str, float]] = {}
        try:
            starts = starts_of([one for one in taped if one.row["seed"] in seeds])
        except Exception as error:  # of the user's code in a recipe
            problems.append(f"the resets of the seeds are not known ({error_text(error)})")
        pairs = [
            Pair(seed, ours[seed], theirs[seed], condition, starts.get(seed, {}))
            for seed in seeds
            for condition, (ours, theirs) in found
            if seed in ours and seed in theirs
        ]
        if len(pairs) < len(seeds) * len(labels):
            problems.append(f"{len(pairs)} of {len(seeds) * len(labels)} pairs of episodes are played")
        return cls(told["base"], told["candidate"], measure, labels, pairs, of_gate, tapes, problems)


def _verdict(told: Mapping[str, Any], env_config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what a gate says under the condition that is wanted.

    Raises:
        ValueError: There is no such condition, or there are several, or the gate could not decide.
    """
    verdicts = {verdict["condition"]: verdict for verdict in told.get("conditions") or []}
    if not verdicts:
        raise ValueError("the gate was interrupted; run it again.")
    wanted = [condition.label for condition in as_conditions(env_config)] if env_config else list(verdicts)
    if len(wanted) != 1 or wanted[0] not in verdicts:
        there = name_some(verdicts)
        raise ValueError(f"the gate has the conditions {there}: name one with env_config=, or --env-config.")
    verdict: Mapping[str, Any] = verdicts[wanted[0]]
    if verdict["error"] is not None:
        raise ValueError(f"the gate could not decide: {verdict['error']}")
    return verdict


def _rows(trial: TrialFiles) -> dict[int, dict[str, Any]]:
    """Return the rows of the episodes of a trial by seed.

    Raises:
        ValueError: A file is damaged.
        OSError: The storage does not answer.
    """
    found: dict[int, dict[str, Any]] = {}
    for path in trial.report_files:
        with trial.open_media(parquet_name(path)) as file:
            found |= {row["seed"]: row for row in rows_of_parquet(file.read())}
    return found


def _told(pair: Pair, measure: Measure) -> dict[str, Any]:
    """Return what the page says of a decisive seed."""
    scores = [measure.sign * measure.value(row) for row in (pair.base, pair.candidate)]
    return {
        "seed": pair.seed,
        "condition": EnvCondition(tuple(pair.condition.items())).label,
        "base": scores[0],
        "candidate": scores[1],
        "better_by": measure.sign * (scores[1] - scores[0]),
    }


def _short(name: str) -> str:
    """Return the end of a path, since the page is sent to others.

    >>> _short("/home/me/runs/PPO_1/checkpoint_000003/")
    'PPO_1/checkpoint_000003'
    """
    return "/".join(name.replace("\\", "/").rstrip("/").split("/")[-2:])
