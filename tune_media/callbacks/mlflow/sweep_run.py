"""The parent run of a sweep: its page, its description and its chart, made of the runs of its trials."""

from __future__ import annotations

import html
import json
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tune_media.callbacks.mlflow.private_names import NOTE_TAG, PARENT_TAG
from tune_media.callbacks.mlflow.run import SEARCHED_TAG, best_clip_of
from tune_media.callbacks.mlflow.saved_view import BEST_RETURN, view_link
from tune_media.callbacks.mlflow.sweep_page import TrialLine, as_text, best_first, sweep_page
from tune_media.experiment.results import result_step
from tune_media.values.score import CLIP_LABEL

PAGE = "trials.html"
"""The page of the sweep, an artifact of the parent run."""

_MAX_CURVES = 50  # each is a request
_MAX_NOTE = 4500  # characters; MLflow takes tags of 5,000


class SweepRun:
    """The parent run of a sweep.

    Args:
        client: MLflow's client.
        experiment_id: The MLflow experiment.
        run_id: The parent run.
        sweep: The name of the Tune experiment.
        folder: Where a clip is for a moment. None: the system's folder for temporary files.
    """

    def __init__(self, client: Any, experiment_id: str, run_id: str, sweep: str, folder: Path | None = None) -> None:
        self._client, self._experiment_id, self._run_id, self._sweep = client, experiment_id, run_id, sweep
        self._folder = folder

    def summarize(self) -> None:
        """Log the page of all trials, the description, and the best returns of the trials as metrics."""
        runs = self._runs()
        lines = [
            TrialLine(
                run.info.run_name,
                run.info.status,
                json.loads(run.data.tags.get(SEARCHED_TAG, "{}")),
                best_clip_of(run.data.tags),
                run.info.run_id,
                self._curve(run) if number < _MAX_CURVES else (),
                run.data.metrics,
            )
            for number, run in enumerate(runs)
        ]
        self._log_returns(lines, [run.info.start_time for run in runs])
        self._client.log_text(self._run_id, sweep_page(self._sweep, lines, self._clip), PAGE)
        note = self._client.get_run(self._run_id).data.tags.get(NOTE_TAG)
        if not note or PAGE in note:  # a description that somebody has written stays
            self._client.set_tag(self._run_id, NOTE_TAG, self._note(lines))

    def _runs(self) -> list[Any]:
        """Return the runs of all trials; MLflow answers with a thousand at a time."""
        filters, runs, token = f"tags.`{PARENT_TAG}` = '{self._run_id}'", [], None
        while True:
            page = self._client.search_runs(
                [self._experiment_id], filters, order_by=["attributes.start_time"], page_token=token
            )
            runs += page
            token = page.token
            if not token:
                return runs

    def _curve(self, run: Any) -> list[tuple[float, float]]:
        """Return the best return at each step that changed it, and at the last step that the trial reached."""
        history = self._client.get_metric_history(run.info.run_id, BEST_RETURN)
        points = sorted((float(point.step), point.value) for point in history if math.isfinite(point.value))
        reached = result_step(run.data.metrics)
        return [*points, (reached, points[-1][1])] if points and reached > points[-1][0] else points

    def _log_returns(self, lines: Sequence[TrialLine], times: Sequence[int]) -> None:
        """Log a series over the trials, which MLflow draws in the tab «Model metrics»: each one's best return."""
        from mlflow.entities import Metric

        metrics, best = [], float("-inf")
        for number, (line, time_ms) in enumerate(zip(lines, times, strict=True)):
            if line.best is not None:
                best = max(best, line.best.episode_return)
                metrics.append(Metric("trials/best_return", line.best.episode_return, time_ms, number))
                metrics.append(Metric("trials/best_return_so_far", best, time_ms, number))
        for start in range(0, len(metrics), 1000):
            self._client.log_batch(self._run_id, metrics=metrics[start : start + 1000])

    def _clip(self, line: TrialLine) -> bytes:
        if line.best is None:
            return b""
        with tempfile.TemporaryDirectory(prefix="tune_media-", dir=self._folder) as folder:
            return Path(self._client.download_artifacts(line.run_id, line.best.file, folder)).read_bytes()

    def _note(self, lines: Sequence[TrialLine]) -> str:
        """Return the description, in Markdown: links, and a table of the best trials."""
        here = f"#/experiments/{quote(self._experiment_id)}/runs"
        names = list(dict.fromkeys(name for line in lines for name in line.params))[:6]
        score_label, ranked = best_first(lines)
        scores = [] if score_label == CLIP_LABEL else [score_label]
        note = (
            f"[Chart and clips of all trials]({here}/{self._run_id}/artifacts/{PAGE}) · "
            f"[All trials with their hyperparameters]({view_link(self._experiment_id, self._sweep)})\n\n"
            f"| trial | {''.join(f'{_text(name)} | ' for name in (*scores, 'best return', *names))}best clip |\n"
            f"|{'---|' * (len(scores) + len(names) + 3)}\n"
        )
        for line, score in ranked:
            numbers = [*(as_text(score) for _ in scores), as_text(line.best.episode_return if line.best else None)]
            params = "".join(
                f"{_text(value)} | " for value in (*numbers, *(line.params.get(name, "") for name in names))
            )
            clip = f"[{line.best.caption}]({here}/{line.run_id}/artifacts/{quote(line.best.file)})" if line.best else ""
            row = f"| [{_text(line.name)}]({here}/{line.run_id}) | {params}{clip} |\n"
            if len(note) + len(row) > _MAX_NOTE:
                break
            note += row
        return note


def _text(value: Any) -> str:
    """Return a value as text that Markdown does not read as markup."""
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html.escape(" ".join(str(value).split())[:60], quote=False))
