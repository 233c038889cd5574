"""The JSON pages of the viewer's server that are the same for everybody, made once until a file changes."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tune_media.experiment.status import TrialStatus
from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import Trials
from tune_media.values import score
from tune_media.viewing import payload
from tune_media.viewing.curves import Curves

_SMALL = 1000  # bytes that are not worth compressing
_LEVEL = 6


class Page:
    """A page's content, and the same compressed."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.etag = payload.etag_of(content)
        self.compressed = gzip.compress(content, _LEVEL) if len(content) > _SMALL else None


class TrialPages:
    """The pages about all trials. Any thread may ask; a page is made once, not once a request."""

    def __init__(self, trials: Trials, title: str, *, plays: bool = False) -> None:
        self._trials, self._title = trials, title
        self._more = {"plays": plays}
        self._curves = Curves()
        self._made: dict[str, tuple[Any, Page]] = {}
        self._part: dict[str, Any] = {}  # the last first view of a part of the trials, while they are read
        self._locks: dict[str, threading.Lock] = {}

    def first(self) -> Page:
        """Return the content of the first view: a part of the clips, and the scores.

        It does not wait for a look at the files of all trials; the pages that are asked for next do. While they are
        read for the first time, it shows those that are read by now.
        """
        trials = self._trials.known()
        if reading := self._trials.reading:
            return self._part_of([trial for trial in trials if trial.results_version is not None], reading[1])
        trials, self._part = self._trials.known(), {}  # all of them, if the last came meanwhile
        statuses = self._trials.known_statuses()
        is_read = all(trial.results_version is not None for trial in trials)
        metrics = [trial.last_metrics for trial in trials] if is_read else self._trials.metrics_of(trials)
        version = [(trial.name, trial.state, trial.results_version) for trial in trials], statuses
        returns, ranking = score.ranking_returns(metrics), None
        if returns:
            ranking = json.loads(self._ranking(trials, statuses, returns[0], "", 1).content)
        first = partial(payload.first_payload, trials, self._title, metrics, statuses=statuses, ranking=ranking)
        return self._page("first", version, lambda: self._more | first())

    def _part_of(self, trials: Sequence[TrialFiles], count: int) -> Page:
        """Return the first view of those of ``count`` trials that are read; the view grows when twice as many are."""
        if len(trials) >= 2 * len(self._part.get("trials", ())):
            metrics = [trial.last_metrics for trial in trials]
            self._part = self._more | payload.first_payload(trials, self._title, metrics, is_whole=False)
        return Page(payload.json_content(self._part | {"reading": [len(trials), count]}))

    def index(self) -> Page:
        """Return all trials and their clips."""
        trials = self._trials.all()
        version = [(trial.name, trial.state) for trial in trials], payload.gate_of(trials)
        return self._page("index", version, lambda: self._more | payload.index_payload(trials, self._title))

    def metrics(self) -> Page:
        """Return the last metrics of all trials, and what became of them."""
        trials = self._trials.all()
        metrics, statuses = self._trials.metrics_of(trials), self._trials.statuses_of(trials)
        pending, unreadable = self._trials.pending(), self._trials.unreadable
        version = [(trial.name, trial.results_version) for trial in trials], statuses, pending, unreadable
        make = partial(payload.metrics_payload, trials, metrics, statuses, pending, unreadable)
        return self._page("metrics", version, make)

    def curves(self, metric: str, *, iqm: bool = False) -> Page:
        """Return a metric of all trials over training, and its means over runs, see ``Curves.bands``."""
        trials = self._trials.all()
        self._trials.metrics_of(trials)  # it finds out which results have changed
        statuses = self._trials.statuses_of(trials)
        version = metric, iqm, statuses, [(trial.name, trial.results_version) for trial in trials]
        bands = partial(self._curves.bands, trials, statuses, metric, iqm=iqm)
        return self._page("curves", version, lambda: self._curves.of(trials, metric) | {"bands": bands()})

    def configurations(self, metric: str, section: str, sign: int) -> Page:
        """Return the configurations and their scores over their runs, see ``configurations_payload``."""
        trials = self._trials.all()
        self._trials.metrics_of(trials)
        return self._ranking(trials, self._trials.statuses_of(trials), metric, section, sign)

    def _ranking(
        self, trials: Sequence[TrialFiles], statuses: Sequence[TrialStatus], metric: str, section: str, sign: int
    ) -> Page:
        """Return the page of the configurations; the first view has it inside, so that they are judged once."""
        known = [*statuses] if any(status.word for status in statuses) else []
        version = metric, section, sign, known, [(t.name, t.state, t.results_version) for t in trials]
        make = partial(payload.configurations_payload, trials, known, metric, section, sign=sign)
        return self._page("configurations", version, make)

    def _page(self, name: str, version: Any, make: Callable[[], Any]) -> Page:
        with self._locks.setdefault(name, threading.Lock()):  # a slow page holds up no other
            made_of, page = self._made.get(name, (None, None))
            if page is None or made_of != version:
                page = Page(payload.json_content(make()))
                self._made[name] = (version, page)
            return page
