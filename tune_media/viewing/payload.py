"""The JSON that the front end reads: clips in columns, trials with the hyperparameters that differ, metrics by trial.

Columns keep it small: 100,000 clips are a few MB before compression. A column is one of

    {"same": value}                        every clip has this value
    {"of": [values], "at": [numbers]}      each clip has the value at that place of the list
    {"all": [values]}                      one value a clip
"""

from __future__ import annotations

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tune_media.experiment import evaluations
from tune_media.experiment.params import UNKNOWN, UNSET, differing, is_unknown, setting_of
from tune_media.experiment.status import UNENDED, TrialStatus
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.storage.entry import why_missing
from tune_media.storage.filesystem import json_file
from tune_media.values import score, strict_json
from tune_media.values.metric_names import main_metrics
from tune_media.values.number import as_number
from tune_media.values.secrets import without_secret
from tune_media.viewing import verdict_picture
from tune_media.viewing.comparison import (
    clip_scores,
    from_elsewhere,
    importances_of,
    judged,
    last_scores,
    success_rates,
    verdict_on,
)
from tune_media.viewing.importance import by_importance
from tune_media.viewing.inference import Estimate
from tune_media.viewing.looks import COLORS

_OF_GATE = re.compile(r"(base|candidate)(_.*)?", re.DOTALL)  # the folders of its episodes
_MAX_PARAMS = 40
_MAX_TEXT = 120
_MAX_LOST = 100  # lost media of a trial that the page lists
_MAX_SETTING = 2000  # characters of a value of the whole config
_TEXTS = ("section", "key", "kind", "note")
_NUMBERS = {
    "step": "step",
    "iteration": "training_iteration",
    "return": "episode_return",
    "length": "episode_length",
    "frames": "frames",
    "fps": "fps",
    "stride": "frame_stride",
    "width": "width",
    "height": "height",
    "seed": "seed",
}


def index_payload(
    trials: Sequence[TrialFiles],
    title: str,
    lines_of: Callable[[TrialFiles], Sequence[Line]] = lambda trial: trial.lines,
) -> dict[str, Any]:
    """Return the trials and their clips."""
    params, forks = shown_params(trials), evaluations.forks_in(trials)
    param = ShownParams()
    return {
        "title": title,
        "gate": gate_of(trials),
        "params": params,
        "returns": score.RETURNS,
        "colors": COLORS,
        "trials": [
            {
                "id": trial.id,
                "name": trial.name,
                "url": f"media/{trial.id}/",
                "params": param.all({name: setting_of(trial.config, name) for name in params}),
                "abandoned": trial.is_abandoned,
                "tapes": _tapes(trial),
                **({"unknown": True} if is_unknown(trial.config) else {}),
                **({"fork": forks[trial.id]} if trial.id in forks else {}),
            }
            for trial in trials
        ],
        "clips": _clips([(number, line) for number, trial in enumerate(trials) for line in lines_of(trial)]),
    }


def _clips(rows: Sequence[tuple[int, Line]]) -> dict[str, Any]:
    """Return clips as columns; a row is the number of the trial and an index line."""
    lines = [line for _, line in rows]
    return {
        "count": len(rows),
        "trial": column([number for number, _ in rows]),
        "folder": column([posixpath.dirname(line["path"]) for line in lines]),
        "file": column([posixpath.basename(line["path"]) for line in lines]),
        "suffix": column([posixpath.splitext(line["path"])[1] for line in lines]),
        "rolled_back": column([bool(line.get("rolled_back")) for line in lines]),
        **{name: column([_text(line.get(name)) for line in lines]) for name in _TEXTS},
        **{name: column([_number(line.get(field)) for line in lines]) for name, field in _NUMBERS.items()},
    }


def gate_of(trials: Sequence[TrialFiles]) -> dict[str, Any] | None:
    """Return what a gate's file says if these trials are its episodes; ``conditions`` are empty until its verdict."""
    ids = {posixpath.basename(trial.name): trial.id for trial in trials}
    if len({trial.experiment for trial in trials}) != 1 or not all(map(_OF_GATE.fullmatch, ids)):
        return None
    trial = trials[0]
    content = json_file(trial.filesystem, posixpath.join(trial.experiment, "gate.json"))
    found = strict_json.finite(content)
    if not isinstance(found.get("request"), dict):
        return None
    conditions = [one for one in found.get("conditions") or [] if isinstance(one, dict) and one.get("trials")]
    for condition in conditions:
        condition["trials"] = {role: ids.get(name) for role, name in condition["trials"].items()}
    names = ("verdict", "base", "candidate", "metric", "problems")
    request = {name: found["request"].get(name) for name in ("sign", "seeds")}
    return {**{name: found.get(name) for name in names}, **request, "conditions": conditions}


def _tapes(trial: TrialFiles) -> list[dict[str, Any]]:
    """Return the newest clip under each key that exists as a tape only, and the report that has this tape."""
    reports = {line["step"]: line["path"] for line in trial.report_lines} if trial.tapes else {}
    names = ("section", "key", "step", "episode_id")
    tapes = [line for line in trial.tapes if line.get("step") in reports]
    return [
        {name: line.get(name) for name in names}
        | {"report": reports[line["step"]], "note": _text(line.get("note"), _MAX_SETTING)}
        for line in tapes
    ]


def lost_payload(trial: TrialFiles) -> dict[str, Any]:
    """Return how many media of a trial were lost, and of the newest the step, the place and the reason."""
    lost = trial.lost
    newest = [
        {
            "step": _number(line.get("step")),
            "tag": f"{line['section']}/{line['key']}",
            "why": _text(why_missing(line), _MAX_SETTING),
        }
        for line in lost[-_MAX_LOST:]
    ]
    return {"count": len(lost), "newest": newest}


def shown_params(trials: Sequence[TrialFiles]) -> list[str]:
    """Return the names of the hyperparameters that the page shows: those that differ, and not too many."""
    return differing([trial.config for trial in trials])[:_MAX_PARAMS]


def first_payload(
    trials: Sequence[TrialFiles],
    title: str,
    metrics: Sequence[dict[str, float]],
    lines_of: Callable[[TrialFiles], Sequence[Line]] | None = None,
    *,
    statuses: Sequence[TrialStatus] = (),
    ranking: Mapping[str, Any] | None = None,
    is_whole: bool = True,
) -> dict[str, Any]:
    """Return as much as the first view shows: of each trial and key the last and the best clip, and the scores.

    It has the form of ``index_payload``, with the metrics that rank the trials added, and with ``ranking``, which is
    the ``configurations_payload`` of the first of these. If it is not whole, since more trials are being read, it does
    not ask which hyperparameters matter.
    """
    returns = score.ranking_returns(metrics)
    scores = [{name: values[name] for name in returns if name in values} for values in metrics]
    columns = {t.id: t.media if lines_of is None else t.media.of_lines(lines_of(t)) for t in trials}
    first = index_payload(trials, title, lambda trial: list(columns[trial.id].lines(columns[trial.id].shown())))
    first["metrics"] = metrics_payload(trials, scores, statuses, params=first["params"], is_whole=is_whole)
    if ranking is not None:
        first["judged"] = {configurations_key(returns[0], "", 1): ranking}
    return first


CLIP = "clip"  # a score that is no metric: the best return of a trial's clips in a section


def scores_of(trials: Sequence[TrialFiles], metric: str, section: str) -> list[float | None]:
    """Return the score of each trial: a metric of its results, or for ``clip`` its best clip's return in a section."""
    if metric == CLIP:
        return clip_scores(trials, section)
    return last_scores(trials, metric)


def configurations_key(metric: str, section: str, sign: int) -> str:
    """Return the name under which the page holds the configurations of a score."""
    return f"{metric}|{section if metric == CLIP else ''}|{'min' if sign < 0 else 'max'}"


def metrics_payload(
    trials: Sequence[TrialFiles],
    metrics: Sequence[dict[str, float]],
    statuses: Sequence[TrialStatus] = (),
    pending: int = 0,
    unreadable: Sequence[tuple[str, str]] = (),
    *,
    params: Sequence[str] | None = None,
    is_whole: bool = True,
) -> dict[str, Any]:
    """Return the data that change with each result: the last metrics, and all that follows from them.

    It is ``{"trials": [id, ...], "metrics": {name: [value or null, ...]}, "main": [name, ...], "params": [name, ...],
    "newest": seconds, "pending": number, "status": [[word, error], ...], "iterations": number, "unreadable":
    [[path, reason], ...], "apart": {name: [id, ...]}}``: ``main`` are the metrics that matter most, ``params`` the
    hyperparameters with those first that matter most, ``newest`` is when the last result was written, since 1970,
    ``iterations`` at which all end that have not, and ``apart`` has the trials that are ranked behind the others by a
    return, see ``from_elsewhere``. ``statuses`` are empty if not read yet; for the last two arguments see
    ``first_payload``.
    """
    names = sorted({name for values in metrics for name in values})
    rare = {"pending": pending, "unreadable": unreadable, "apart": _apart(trials, metrics, statuses)}
    return {
        "trials": [trial.id for trial in trials],
        "metrics": {name: [_metric(values.get(name)) for values in metrics] for name in names},
        **(_order_of(trials, names, score.ranking_returns(metrics), params, is_whole=is_whole) if trials else {}),
        **{name: value for name, value in rare.items() if value},
        **(_state_of(statuses) if statuses else {}),
    }


def _apart(
    trials: Sequence[TrialFiles], metrics: Sequence[dict[str, float]], statuses: Sequence[TrialStatus]
) -> dict[str, list[str]]:
    """Return the ids of the trials that are ranked behind the others, by the return that ranks them."""
    found = {}
    for name in score.ranking_returns(metrics):
        scores = [score.finite(values, name) for values in metrics]
        elsewhere = from_elsewhere(trials, statuses or [TrialStatus()] * len(trials), scores, name)
        if any(elsewhere):
            found[name] = [trial.id for trial, is_elsewhere in zip(trials, elsewhere, strict=True) if is_elsewhere]
    return found


def _metric(value: float | None) -> Any:
    """Return a metric as strict JSON has it."""
    return value if value is None or math.isfinite(value) else strict_json.told_apart(value)


def _order_of(
    trials: Sequence[TrialFiles],
    names: Sequence[str],
    returns: Sequence[str],
    params: Sequence[str] | None,
    *,
    is_whole: bool,
) -> dict[str, Any]:
    """Return which metrics and hyperparameters matter most, and when the last result was written."""
    main = [*returns, *(name for name in main_metrics(names) if name not in returns)]
    params = shown_params(trials) if params is None else params
    if is_whole:
        scores = scores_of(trials, main[0], "") if main else clip_scores(trials)
        params = by_importance(params, [trial.config for trial in trials], scores)
    return {
        "main": main,
        "params": params,
        "newest": max(trial.results_version[1] if trial.results_version else 0 for trial in trials) / 1e9,
    }


def _state_of(statuses: Sequence[TrialStatus]) -> dict[str, Any]:
    """Return the status of each trial, and the iteration at which all end that have not, if there is one."""
    state: dict[str, Any] = {"status": [[status.word, status.error] for status in statuses]}
    ends = {status.iterations for status in statuses if status.word in UNENDED}
    return {**state, "iterations": ends.pop()} if len(ends) == 1 and None not in ends else state


def configurations_payload(
    trials: Sequence[TrialFiles],
    statuses: Sequence[TrialStatus],
    metric: str,
    section: str = "",
    *,
    sign: int = 1,
) -> dict[str, Any]:
    """Return the configurations, the best first: their hyperparameters, trials, and statistics as [value, low, high].

    ``ahead`` has half of its part over runs at its end, ``runs`` are [trial, score, status, step], and ``axes`` those
    of the first rows of the picture, and of all, see ``verdict_picture``. ``importance`` has the same of each
    hyperparameter, after its name, see ``Catalog.importance``. ``verdict`` has the parts of the sentence on the best
    one, see ``Verdict``. The score is a metric of the results, or ``clip`` for the best return of a clip in
    ``section``; ``sign`` is -1 if the lowest is the best.
    """
    all_statuses, scores = statuses or [TrialStatus()] * len(trials), scores_of(trials, metric, section)
    name = None if metric == CLIP else metric
    ranking = judged(trials, all_statuses, scores, sign=sign, metric=name) if trials else []
    names = list(ranking[0].configuration.params) if ranking else []
    importance, _ = importances_of(trials, all_statuses, scores, name)
    param = ShownParams()
    label = score.CLIP_LABEL if metric == CLIP else score.RETURNS.get(metric, metric)
    said = verdict_on(trials, ranking, label, sign=sign)
    rows = verdict_picture.rows(ranking, statuses, has_verdict=metric != CLIP)
    return {
        "names": names,
        "configurations": [
            {
                "params": param.all(entry.configuration.params),
                "place": entry.configuration.place,
                "trials": [trials[number].id for number in entry.configuration.trials],
                "left_out": [trials[number].id for number in entry.left_out],
                "n": entry.n,
                "typical": None if entry.typical is None else trials[entry.typical].id,
                "mean": _ends(entry.mean),
                "success": rate and _ends(rate),
                **({"only": entry.configuration.only} if entry.configuration.only is not None else {}),
                **({"unknown": True} if entry.configuration.is_unknown else {}),
                **({"called": entry.configuration.called} if entry.configuration.called else {}),
                **_drawn(row, trials),
            }
            for entry, row, rate in zip(ranking, rows, success_rates(trials, ranking), strict=True)
        ],
        "axes": [verdict_picture.axes(rows[: verdict_picture.FIRST]), verdict_picture.axes(rows)],
        "verdict": {**vars(said), "sentence": said.sentence},
        "importance": [[entry.name, *_ends(Estimate(entry.share, entry.low, entry.high))] for entry in importance],
    }


def _drawn(row: verdict_picture.Row, trials: Sequence[TrialFiles]) -> dict[str, Any]:
    """Return what the picture of the verdict has more of a configuration."""
    lead = row.lead
    return {
        "runs": [[trials[number].id, run.score, run.status, run.step] for number, run in row.runs.items()],
        "ahead": lead and [*_ends(Estimate(lead.value, lead.low, lead.high)), *_finite([lead.half_runs])],
        "clear": lead is not None and lead.is_clear,
        "words": row.words,
    }


def _ends(estimate: Estimate) -> list[float | None]:
    return _finite([estimate.value, estimate.low, estimate.high])


def _finite(values: Sequence[float]) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values]


def column(values: Sequence[Any]) -> dict[str, Any]:
    """Return a column in the shortest of its three forms.

    >>> column([7, 7]), column(["a", "b", "a", "a"])
    ({'same': 7}, {'of': ['a', 'b'], 'at': [0, 1, 0, 0]})
    """
    places: dict[Any, int] = {}
    indices = [places.setdefault(value, len(places)) for value in values]
    if len(places) <= 1:
        return {"same": next(iter(places), None)}
    if len(places) <= len(values) // 2 and any(isinstance(value, str) for value in places):
        return {"of": list(places), "at": indices}
    return {"all": list(values)}


def json_content(payload: Any) -> bytes:
    """Return a payload as compact JSON that any browser parses: ASCII, and no number that is not finite."""
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode("ascii")


def etag_of(content: bytes) -> str:
    """Return a short digest of a file's content."""
    return hashlib.blake2s(content, digest_size=12).hexdigest()


def config_payload(trial: TrialFiles) -> dict[str, Any]:
    """Return the whole config of a trial by name, without keys and passwords."""
    return ShownParams(_MAX_SETTING).all(trial.config)


class ShownParams:
    """Makes hyperparameters JSON: of bounded length, without keys and passwords. Equal ones are made once.

    What is not finite is a text, see ``told_apart``; what is not there is left out, and what is unknown is ``{}``.
    """

    def __init__(self, most: int = _MAX_TEXT) -> None:
        self._most = most
        self._made: dict[tuple[str, str], str | None] = {}

    def __call__(self, name: str, value: Any) -> Any:
        """Return a hyperparameter as the page shows it."""
        if value is UNKNOWN:
            return {}
        if not isinstance(value, str):
            return strict_json.told_apart(without_secret(name, value))
        if (name, value) not in self._made:
            self._made[name, value] = _text(strict_json.told_apart(without_secret(name, value)), self._most)
        return self._made[name, value]

    def all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return hyperparameters by name."""
        return {name: self(name, value) for name, value in values.items() if value is not UNSET}


def _text(value: Any, most: int = _MAX_TEXT) -> str | None:
    """Return a text of bounded length, or None."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= most else f"{value[: most - 1]}…"


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(as_number(value)) else None
