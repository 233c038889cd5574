"""Everything that was recorded in one experiment, or in several: ``tune_media.load``."""

from __future__ import annotations

import html
import operator
import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow.fs

from tune_media.experiment.params import differing
from tune_media.experiment.places import Folder
from tune_media.experiment.status import TRIAL_FAILED, TrialStatus
from tune_media.experiment.trial_files import TrialFiles, trials_named
from tune_media.experiment.trial_folders import in_parallel, load_trials
from tune_media.storage.location import filesystem_of_trial
from tune_media.values import checks, score
from tune_media.values.number import as_number, counted
from tune_media.values.score import Scores
from tune_media.values.video import Video
from tune_media.viewing import comparison, data_frames
from tune_media.viewing.catalog_row import CatalogRow
from tune_media.viewing.configurations import Judged, titles
from tune_media.viewing.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

    from tune_media.viewing.taped_episodes import TapedEpisode

_Found = TypeVar("_Found")


class Catalog(Sequence[CatalogRow]):
    """Everything recorded in an experiment, one row a medium, ordered by trial, step and key.

    A row is a dict, see ``CatalogRow``. The catalog is read once, when it is loaded; load it again to see what a
    running experiment has recorded since.

    Attributes:
        path: The experiment's folder; of several, the first.
        filesystem: The pyarrow filesystem of that folder.
        trials: The trials, with their hyperparameters and metrics, even if nothing was recorded in them.
    """

    def __init__(
        self,
        folders: Sequence[Folder],
        trials: Sequence[TrialFiles],
        chosen: Sequence[npt.NDArray[np.int64]],
        part_of: Catalog | None = None,
    ) -> None:
        self.path, self.filesystem = folders[0].path, folders[0].filesystem
        self.trials = list(trials)
        self._folders = list(folders)
        self._chosen = list(chosen)  # for each trial, its rows that are in this catalog
        self._part_of = part_of
        self._ends = np.cumsum([len(rows) for rows in self._chosen], dtype=np.int64)
        self._rankings: dict[tuple[Any, ...], list[Judged]] = {}  # by what was asked for; episodes are read for them

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @overload
    def __getitem__(self, index: int) -> CatalogRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[CatalogRow]: ...

    def __getitem__(self, index: int | slice) -> CatalogRow | list[CatalogRow]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        try:
            index = operator.index(index)
        except TypeError:
            raise TypeError(
                f"a catalog takes the number of a row, got {checks.as_shown(index)}; rows are found with a loop, such "
                "as [row for row in catalog if row['key'] == 'episodes/best']"
            ) from None
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"the catalog has {len(self)} rows; there is no row {index}")
        number = int(np.searchsorted(self._ends, place, side="right"))
        place -= int(self._ends[number - 1]) if number else 0
        (row,) = self._rows(number, self._chosen[number][place : place + 1])
        return row

    def __iter__(self) -> Iterator[CatalogRow]:
        for number, rows in enumerate(self._chosen):
            yield from self._rows(number, rows)

    def __repr__(self) -> str:
        trials = sum(len(rows) > 0 for rows in self._chosen)
        return f"Catalog({counted(len(self), 'medium', 'media')} of {counted(trials, 'trial')} in {self.path})"

    def _repr_html_(self) -> str:
        title = posixpath.basename(self.path.rstrip("/"))
        summary = f"{counted(len(self), 'medium', 'media')} of {counted(len(self.trials), 'trial')} in {title}"
        table: str = self.to_pandas()._repr_html_()  # type: ignore[operator]
        return f"<p>{html.escape(summary)}; `tune-media watch` shows them</p>{table}"

    @property
    def reports(self) -> list[tuple[TrialFiles, str]]:
        """The files of episode data: each trial with the path of one of its ``episode_data/data-<step>.json``."""
        return [(trial, path) for trial in self.trials for path in trial.report_paths]

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each trial, by the trial's name."""
        return {trial.name: len(rows) for trial, rows in zip(self.trials, self._chosen, strict=True)}

    @cached_property
    def differing_params(self) -> list[str]:
        """The names of the hyperparameters that differ between all trials, also of a part of the catalog.

        Example:
            ``catalog.to_pandas().groupby([f"config/{name}" for name in catalog.differing_params])``
        """
        if self._part_of is not None:
            return self._part_of.differing_params
        self._read_of_all(lambda trial: trial.config)
        return differing([trial.config for trial in self.trials])

    @property
    def clips(self) -> Catalog:
        """The catalog of the clips alone, with all trials, also those without one."""
        chosen = [
            rows[np.array([trial.media.kind[row] == Video.kind for row in rows], bool)]
            for trial, rows in zip(self.trials, self._chosen, strict=True)
        ]
        return Catalog(self._folders, self.trials, chosen, self)

    def of_trials(self, names: Collection[str]) -> Catalog:
        """Return the catalog of the trials with these names, or the only ones with such parts of a name.

        The others are left out of everything.

        Raises:
            ValueError: No trial has such a name, or several have it as a part.
        """
        wanted = set(names_of_trials(self, _texts("names", names, "of_trials", "'trial_1'")))
        numbers = [number for number, trial in enumerate(self.trials) if trial.name in wanted]
        trials, chosen = [self.trials[number] for number in numbers], [self._chosen[number] for number in numbers]
        return Catalog(self._folders, trials, chosen, self)

    @property
    def statuses(self) -> list[TrialStatus]:
        """The status of each trial, in the words of Tune's last snapshot, with the error if it failed."""
        return self._read_of_all(lambda trial: trial.status)

    @cached_property
    def scores(self) -> Scores:
        """The score of each trial, by which the viewer and ``tune-media list`` judge them, see ``best``."""
        self._read_of_all(lambda trial: trial.last_metrics)
        metrics: list[dict[str, float]] = []
        returns: list[float | None] = []
        for trial, rows in zip(self.trials, self._chosen, strict=True):
            row = None if trial.is_abandoned else trial.media.best(rows)
            metrics.append({} if trial.is_abandoned else trial.last_metrics)
            returns.append(None if row is None else float(trial.media.episode_return[row]))
        return Scores.of(metrics, returns)

    def best_first(self) -> list[tuple[TrialFiles, float | None, CatalogRow | None]]:
        """Return each trial with its score and its best medium, the trial with the highest score first.

        The best medium is the one with the highest return, of an evaluation if there are any; without returns it is
        the newest clip. Behind the ranked trials come those whose return has another tag or unit of steps than that of
        most, then those without a score, such as abandoned trials, and those that failed.
        """
        scores, numbers = self.scores, self._best_first()
        return [(self.trials[number], scores.values[number], self._best_of(number)) for number in numbers]

    def _best_first(self, sign: int = 1) -> list[int]:
        scores, statuses = self.scores, self.statuses
        elsewhere = comparison.from_elsewhere(self.trials, statuses, scores.values, scores.metric)
        is_behind = [
            (status.word == TRIAL_FAILED, value is None, is_elsewhere)
            for status, value, is_elsewhere in zip(statuses, scores.values, elsewhere, strict=True)
        ]
        return sorted(scores.best_first(sign), key=is_behind.__getitem__)

    def winner_first(self, sign: int = 1) -> list[TrialFiles]:
        """Return the trials: the winner, then the others by their scores."""
        winner = self._winner(sign)
        return [self.trials[number] for number in sorted(self._best_first(sign), key=lambda number: number != winner)]

    @property
    def winner(self) -> TrialFiles | None:
        """The run of the best configuration whose score is nearest to its mean; None if no trial has a score."""
        number = self._winner()
        return None if number is None else self.trials[number]

    def _winner(self, sign: int = 1) -> int | None:
        ranking = self._judged(None, None, "max" if sign > 0 else "min", None)
        return ranking[0].typical if ranking else None

    @property
    def verdict(self) -> Verdict:
        """The verdict on the configurations: which is the best, and whether that is clear, or why there is none.

        ``print(catalog.verdict.sentence)``
        """
        return comparison.verdict_on(self.trials, self.judged, self.scores.label)

    @property
    def judged(self) -> list[Judged]:
        """The configurations as their scores judge them, the best first; ``compare`` returns them as a table."""
        return self._judged(None, None, "max", None)

    def best(self, by: str | None = None, mode: str = "max") -> CatalogRow | None:
        """Return the best clip of the winner, or the row with the best value of a field; None if there is none.

        The winner is the run of the best configuration (see ``compare``) whose score is nearest to its mean, so that no
        lucky seed stands for all; if it has no clip, the trial with the next best score. The score is the mean return
        of the last evaluation. If no trial has one, it is the mean training return, and if there is none either, a
        success rate, ``score`` or ``reward``, or else the best return of a clip. The viewer, ``tune-media list`` and
        ``tune-media grid`` show the same winner. A trial that failed never wins. The best clip of a trial is the one
        with the highest return, of an evaluation if there are any. A clip that was rolled back is taken only if there
        is no other. If no clip has a return, it is the newest clip of the winner, or, if that has none, of the
        experiment.

        Args:
            by: None for the score of the trials. Or a field of the rows, whatever trial they belong to:
                ``"episode_return"``, ``"episode_length"``, another field, or a name in the row's ``metrics``, or the
                last part of such a name.
            mode: ``"max"`` or ``"min"``.

        Raises:
            ValueError: ``mode`` is something else, or no row has such a number.
        """
        checks.one_of("max", "min").check("best(mode=...)", mode)
        checks.a_text("'episode_return'", or_none=True).check("best(by=...)", by)
        sign = 1 if mode == "max" else -1
        if by is None:
            order = [self.trials.index(trial) for trial in self.winner_first(sign)]
            ranked = (self._row(n, self.trials[n].media.best(self._chosen[n], sign)) for n in order)
            return next((row for row in ranked if row is not None), None) or self._newest(self._winner(sign))
        return data_frames.best_row(self, by, sign)

    def compare(
        self,
        by: str | Sequence[str] | None = None,
        metric: str | None = None,
        *,
        mode: str = "max",
        task: str | None = None,
    ) -> pd.DataFrame:
        """Return one row for each configuration: its score over all its training seeds, the best configuration first.

        Trials that differ only in a training seed (``seed``, ``env_seed``, ``rng``, or nothing at all: ``num_samples``)
        are runs of one configuration; so are runs of unknown hyperparameters if their names are equal up to a last
        number or a ``seed`` part: this is their ``name``. Trials that failed, were abandoned, or have no score
        are left out.

        The columns are ``config/<name>``, ``rank``, ``n`` (runs), ``mean`` and ``iqm`` (the interquartile mean), each
        with the ends of its 95 % interval (``low`` and ``high``, ``iqm_low`` and ``iqm_high``), ``behind``: how much
        worse the mean is than the best one's, with its interval, ``not_clearly_worse``: whether it may be as good as
        the best one, ``why`` (``close``: chance may explain the difference; ``equal``, ``one_run``, ``one_seed``,
        ``few_common_seeds``, ``few_equal``, ``unequal_training``, ``not_finite``, ``not_comparable``: best clips,
        ``failed``, ``other_return``: its return has another tag or unit of steps, or its policy was played otherwise,
        or ``unknown_config``: its ``params.json`` is damaged), ``failed_ahead``: the last score of its best failed run,
        if that is better than the best mean, and the names of the ``trials`` and of those that are ``left_out``. The
        interval of ``mean`` is over runs, and over evaluation seeds that all runs have; those of ``behind`` hold
        together. That of ``iqm`` is rliable's percentile bootstrap, which is too narrow with few runs. With one run, or
        two or three equal ones, there is none.

        Args:
            by: The hyperparameters that make a configuration, with or without ``config/``. None: all that differ but
                for training seeds.
            metric: A metric of the results, by its name or the last part of it, such as ``"success_rate"``. None: the
                score, see ``best``.
            mode: ``"max"`` or ``"min"``.
            task: The hyperparameter that names the task (such as ``"env"``), if a configuration has runs of several.

        Raises:
            ValueError: There is no such hyperparameter or metric, or ``mode`` is something else, or a configuration
                has more runs of one task than of another.

        Example:
            ``catalog.compare()[["config/lr", "n", "mean", "low", "high"]]``
        """
        return comparison.as_frame(self._judged(by, metric, mode, task), self.trials)

    def importance(self, metric: str | None = None) -> pd.DataFrame:
        """Return which hyperparameter matters: how much of the differences between scores each one explains.

        It looks at configurations (see ``compare``), from 20 on. A share is that of the variance of the scores' ranks
        which a hyperparameter explains besides the others that matter: by a trend, by a best value in the middle, or by
        differences between texts, but not by interplay with another one. The intervals hold for all hyperparameters
        together in 95 % of sweeps, so that one that does not matter is said to matter in at most one of twenty. They
        assume that the values were chosen at random or as a grid: a search that goes where scores are high
        (Optuna, PBT) mixes hyperparameters up.

        Args:
            metric: As in ``compare``.

        Returns:
            One row for each hyperparameter that differs, but for training seeds: ``hyperparameter``, ``share``, the
            ends ``low`` and ``high`` of its interval, and ``matters``: whether that begins above zero. Those that
            matter come first. Two hyperparameters with values in the same order have the same share: nobody can tell
            them apart.

        Raises:
            ValueError: There are fewer than 20 configurations with a score, or no such metric.

        Example:
            ``catalog.importance().query("matters")``
        """
        self._read_of_all(lambda trial: trial.config)
        name, scores = self._scores_by(metric)
        return comparison.importance_frame(*comparison.importances_of(self.trials, self.statuses, scores, name))

    def scores_by_configuration(
        self, by: str | Sequence[str] | None = None, metric: str | None = None, *, task: str | None = None
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the score of each run of each configuration in the layout that rliable takes: arrays (runs, tasks).

        Args:
            by: As in ``compare``.
            metric: As in ``compare``.
            task: As in ``compare``. None: there is one task.

        Raises:
            ValueError: As in ``compare``.

        Example:
            ``rliable.library.get_interval_estimates(catalog.scores_by_configuration(), aggregate)``
        """
        ranking = self._judged(by, metric, "max", task)
        names = titles([judged.configuration for judged in ranking])
        return dict(zip(names, (judged.scores for judged in ranking), strict=True))

    def _judged(self, by: str | Sequence[str] | None, metric: str | None, mode: str, task: str | None) -> list[Judged]:
        checks.one_of("max", "min").check("compare(mode=...)", mode)
        names = None if by is None else _texts("by", by, "compare", "'lr'")
        checks.a_text("'env'", or_none=True).check("compare(task=...)", task)
        checks.a_text("'success_rate'", or_none=True).check("compare(metric=...)", metric)
        asked = None if names is None else tuple(names), metric, mode, task
        if asked not in self._rankings:
            self._read_of_all(lambda trial: trial.config)
            metric, scores = self._scores_by(metric)
            sign = 1 if mode == "max" else -1
            self._rankings[asked] = comparison.judged(
                self.trials, self.statuses, scores, by=names, task=task, sign=sign, metric=metric
            )
        return self._rankings[asked]

    def _scores_by(self, metric: str | None) -> tuple[str | None, Sequence[float | None]]:
        """Return the whole name of a metric and its value of each trial; of None the scores."""
        checks.a_text("'success_rate'", or_none=True).check("compare(metric=...)", metric)
        if metric is None:
            return self.scores.metric, self.scores.values
        metric = comparison.metric_named(self.trials, metric)
        return metric, comparison.scores_by(self.trials, metric)

    def to_pandas(
        self, *, params: str = "differing", metrics: bool | str | Sequence[str] | None = True
    ) -> pd.DataFrame:
        """Return the rows as a DataFrame, each joined with its trial's hyperparameters and metrics.

        The columns ``config/<name>`` are hyperparameters, ``last/<metric>`` and ``best/<metric>`` the last and the
        largest finite value of a metric over the trial's results. The other columns are all fields of the index,
        even if nothing was recorded.

        Args:
            params: ``"differing"`` for the hyperparameters that differ between the trials, ``"all"`` or ``"none"``.
            metrics: True, or None, for the trial's returns and lengths (of RLlib) or its own numbers (of another
                trainable); False for none; or names, such as ``["env_runners/episode_return_mean"]``.

        Raises:
            ValueError: ``params`` is something else.
            TypeError: ``metrics`` is something else.
        """
        if metrics is None:
            metrics = True
        elif not isinstance(metrics, bool):
            metrics = _texts("metrics", metrics, "to_pandas", "'env_runners/episode_return_mean'")
        self._read_of_all(lambda trial: trial.config)
        if metrics:
            self._read_of_all(lambda trial: trial.metrics)
        rows = [list(self._rows(number, chosen)) for number, chosen in enumerate(self._chosen)]
        return data_frames.of_media(self.trials, rows, params, self.differing_params, metrics)

    def episodes(self, *, params: str = "differing") -> pd.DataFrame:
        """Return all recorded episodes of all trials as a DataFrame, one row each, with or without a clip.

        The columns are those of the Parquet files beside ``episode_data/data-<step>.json``; each metric has a column
        ``metrics/<name>`` of its own; ``series`` and ``values`` hold dicts. ``rolled_back`` is True for an episode that
        the trial has left behind, by going back to an earlier checkpoint; leave those out before you count or average.

        A million episodes take 1.3 GB at most. DuckDB reads a few columns of the same files in less time (source: the
        page Benchmarks, ``bench_million``).

        Args:
            params: As in ``to_pandas``.
        """
        self._read_of_all(lambda trial: trial.config)
        return data_frames.of_episodes(self.trials, params, self.differing_params)

    def taped_episodes(self) -> list[TapedEpisode]:
        """Return the episodes of all trials that have tapes, with or without a clip, in the order of their steps.

        Example:
            ``clips = [episode.render() for episode in catalog.taped_episodes() if episode.record.episode_return < 0]``
        """
        from tune_media.viewing.taped_episodes import TapedEpisode  # it loads PyAV

        return [episode for of_trial in self._read_of_all(TapedEpisode.of_trial) for episode in of_trial]

    def episode(self, id: str) -> TapedEpisode:
        """Return an episode that has a tape, to make a clip of it.

        Args:
            id: Its ``episode_id``, or the beginning of it.

        Raises:
            KeyError: No episode with a tape has this id, or several do.

        Example:
            ``catalog.episode("5c1e").render(height=720).data``
        """
        from tune_media.viewing.taped_episodes import by_id

        checks.a_text("'5c1e'").check("episode(id)", id)
        return by_id(self.taped_episodes(), id)

    def _rows(self, number: int, rows: npt.NDArray[np.int64]) -> Iterator[CatalogRow]:
        trial = self.trials[number]
        place = trial.contents.media_folder  # rows can be pickled, and need no catalog
        open_filesystem = partial(filesystem_of_trial, place, trial.filesystem, trial.trial_ids)
        for line in trial.media.lines(rows):
            file = posixpath.join(trial.media_path, line["path"])
            fields = {**line, "trial": trial.name, "params": trial.params, "file": file}
            if trial.is_abandoned:
                fields["abandoned"] = True
            yield CatalogRow(fields, open_filesystem, trial.config)

    def _row(self, number: int, row: int | None) -> CatalogRow | None:
        return None if row is None else next(self._rows(number, np.array([row], np.int64)))

    def _best_of(self, number: int) -> CatalogRow | None:
        """Return the best medium of a trial, or, if none has a return, its newest clip."""
        media, rows = self.trials[number].media, self._chosen[number]
        best = media.best(rows)
        return self._row(number, media.newest(rows) if best is None else best)

    def _newest(self, winner: int | None) -> CatalogRow | None:
        """Return the newest clip of the winner, or else of all trials."""
        newest = [
            self._row(number, trial.media.newest(self._chosen[number])) for number, trial in enumerate(self.trials)
        ]
        if winner is not None and newest[winner] is not None:
            return newest[winner]
        rows = [row for row in newest if row is not None]
        return max(rows, key=lambda row: (score.does_count(row), as_number(row.get("time") or 0.0)), default=None)

    def _read_of_all(self, read: Callable[[TrialFiles], _Found]) -> list[_Found]:
        """Read files of each trial, several trials at a time; the trials keep what they have read."""
        return in_parallel(read, self.trials)


def load(
    source: Any, filesystem: pyarrow.fs.FileSystem | None = None, *, columns: Mapping[str, str] | None = None
) -> Catalog:
    """Read what was recorded, while an experiment runs or afterwards.

    Args:
        source: The folder of an experiment, of one trial, or of experiments, or a file with the results of policies
            (CSV, JSON lines, JSON): a local path, a URI such as ``s3://bucket/experiment``, or a path on
            ``filesystem``. Or the ``ResultGrid`` that ``Tuner.fit()`` returned. Or a list of these. If there are
            several experiments, trials are called ``<experiment>/<trial>``. Runs of other tools are found up to six
            levels below a folder, and called by their paths in it; of several tasks, ``runs:CartPole-v1`` opens one.
        filesystem: A pyarrow filesystem that the paths are on. None: each path tells.
        columns: Of a table beside clips of other tools, the columns that have ``file``, ``return``, ``seed``,
            ``success`` and ``step``, such as ``{"return": "my_score"}``; of a file of results also ``policy`` and
            ``start``. None: those with the usual names.

    Raises:
        FileNotFoundError: There is no such folder.
        OSError: No trial can be read. If only some cannot, they are left out, with a warning.
        ValueError: The folder, or one of several, is no experiment, and has none in it; or runs of other tools in it
            are several experiments, which it names. Or ``columns`` names no fact.
        TypeError: ``source`` is something else.

    Example:
        ``tune_media.load("~/ray_results/my_sweep").best()["file"]``

        >>> load("no/such/experiment")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: There is no folder '...no/such/experiment'; pass the experiment's folder, which ...
    """
    folders, trials = load_trials(source, filesystem, columns)
    return Catalog(folders, trials, [np.arange(len(trial.media)) for trial in trials])


def names_of_trials(catalog: Catalog, texts: Iterable[str]) -> list[str]:
    """Return the names of the trials that are called by their names, or by parts that no other name has."""
    return list(dict.fromkeys(trial.name for text in texts for trial in trials_named(text, catalog.trials)))


def _texts(argument: str, wanted: str | Iterable[str], function: str, example: str) -> list[str]:
    """Return the texts that an argument of a function asks for."""
    if isinstance(wanted, str):
        return [wanted]
    texts = list(wanted) if isinstance(wanted, Iterable) else [wanted]
    for text in texts:
        checks.a_text(f"{example}, or a list of texts").check(f"{function}({argument}=...)", text)
    return texts
