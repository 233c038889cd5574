"""``tune-media gallery``: the viewer as a folder that opens from disk, without a server."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tune_media.experiment.experiments import experiment_at
from tune_media.experiment.places import Folder
from tune_media.experiment.status import TrialStatus
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.storage.filesystem import read_if_there, save_file
from tune_media.storage.trial_folder import RESULTS
from tune_media.values import checks, score
from tune_media.values.problems import remedy
from tune_media.values.secrets import error_text
from tune_media.viewing.curves import Curves
from tune_media.viewing.episode_details import episode_details
from tune_media.viewing.front_end import SHOWN, STATIC, page, static_files
from tune_media.viewing.payload import (
    CLIP,
    config_payload,
    configurations_key,
    configurations_payload,
    first_payload,
    index_payload,
    json_content,
    metrics_payload,
)

logger = logging.getLogger(__name__)

POSTER = ".jpg"
_MARK = "data/index.js"  # a folder that has it is a gallery
_THREADS = 4
_KINDS = ("video", "image")  # that the page shows; other media would be published unseen
_NOT_COPIED = ("index.html", "tensorboard.js")
_QUOTED_PATH = re.compile(r"""(['"`])[^'"`\n]*[/\\]([^'"`\n/\\]*)\1""")
_PATH = re.compile(r"""(?:[a-zA-Z][\w+.-]*:/|~|\b[a-zA-Z]:)?(?:[/\\][^\s/\\'"`:;,()<>\[\]]+)+[/\\]""")
_MAX_JUDGED = 4000  # trials times metrics whose configurations a gallery holds


@dataclass
class Gallery:
    """The clips and pictures of an experiment that go into a gallery.

    Attributes:
        only: Keys or sections, or parts of keys; clips under others are left out. Empty: all.
        missing: Files that could not be read, after ``write``.
        statuses: What became of each trial; empty: unknown.
        lines: The index lines of the clips by the id of their trial; of others, all that ``only`` lets in.
    """

    title: str
    trials: list[TrialFiles]
    only: Collection[str] = ()
    missing: list[str] = field(default_factory=list)
    statuses: list[TrialStatus] = field(default_factory=list, repr=False)
    lines: dict[str, list[Line]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, path: str, only: Collection[str] = (), *, errors: bool = True) -> Gallery:
        """Read an experiment; with ``errors``, its page says why trials failed, see ``published``."""
        return cls.in_folder(experiment_at(path), only, errors=errors)

    @classmethod
    def in_folder(cls, folder: Folder, only: Collection[str] = (), *, errors: bool = True) -> Gallery:
        """Read the experiment of a folder, as ``of`` does."""
        folder_trials = Trials([LogDirectory(folder)])
        trials = folder_trials.all()
        folder_trials.metrics_of(trials)
        statuses = folder_trials.statuses_of(trials)
        shown = [published(status) if errors else TrialStatus(status.word) for status in statuses]
        return cls(folder.name, trials, only, statuses=shown)

    @property
    def unknown(self) -> dict[str, str]:
        """The names in ``only`` that no medium has, each with the end of a message: which names there are."""
        names = sorted({name for trial in self.trials for line in trial.lines for name in _names_of(line)})
        return {name: checks.did_you_mean(name, names) for name in self.only if name not in names}

    @property
    def files(self) -> dict[tuple[str, str], tuple[TrialFiles, Line]]:
        """The files by trial and path; an episode that is the best and the worst has one file."""
        return {(trial.id, line["path"]): (trial, line) for trial in self.trials for line in self.lines_of(trial)}

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self.files)

    @property
    def nbytes(self) -> int:
        """The size of the files, as the index has it."""
        sizes = [line.get("bytes") for _, line in self.files.values()]
        return sum(size for size in sizes if isinstance(size, int))

    def write(self, output: Path, progress: Callable[[int], None] = lambda done: None, *, steps: bool = False) -> Path:
        """Write the folder. Files that an earlier run has copied already are not copied again.

        ``progress`` is called with the number of files that have been copied since the last call.
        """
        if output.exists() and any(output.iterdir()) and not (output / _MARK).exists():
            told = f"{output} has files that are not a gallery's; "
            raise FileExistsError(told + remedy("name another folder with -o."))
        with ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(lambda item: self._copy(output, *item), self.files.values()):
                progress(1)
        for name, content in self.data(steps=steps):
            save_file(output / "data" / f"{name}.js", b'tuneMedia.deliver("%s", %s);\n' % (name.encode(), content))
        for name in static_files():
            if name not in _NOT_COPIED:
                save_file(output / "static" / name, (STATIC / name).read_bytes())
        content = page("index.html", self.title, "files").encode("utf-8", "replace")
        return save_file(output / "index.html", content)

    def content(self, trial: TrialFiles, path: str) -> bytes | None:
        """Return the content of a clip; None, and note it, if it cannot be read."""
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):  # a storage that does not answer
            place = trial.media_file(path)
            content = read_if_there(*place) if place else None
            if content is not None:
                return content
        self.missing.append(f"{trial.name}/{path}")
        return None

    def _copy(self, output: Path, trial: TrialFiles, line: Line) -> None:
        target = output / "media" / trial.id / line["path"]
        if target.exists() and target.stat().st_size == line.get("bytes"):
            return
        if (content := self.content(trial, line["path"])) is not None:
            save_file(target, content)
            if line.get("kind") == "video":
                _write_poster(target, content)

    def data(self, *, steps: bool, posters: str = POSTER) -> Iterator[tuple[str, bytes]]:
        """Yield the data that the page reads, as JSON, each with its name."""
        metrics = [trial.last_metrics for trial in self.trials]
        returns = score.ranking_returns(metrics)
        ranking = configurations_payload(self.trials, self.statuses, returns[0]) if returns else None
        shown = partial(first_payload, self.trials, self.title, metrics, self.lines_of)
        first = shown(statuses=self.statuses, ranking=ranking)
        for name, content in (("first", first), ("index", index_payload(self.trials, self.title, self.lines_of))):
            yield name, json_content(_published(content) | {"posters": posters})
        yield "metrics", json_content(metrics_payload(self.trials, metrics, self.statuses))
        curves = Curves()
        of_returns = {
            name: curves.of(self.trials, name)
            | {"bands": curves.bands(self.trials, self.statuses, name)}
            | {"iqm": curves.bands(self.trials, self.statuses, name, iqm=True)}
            for name in returns
        }
        yield "curves", json_content(of_returns)
        yield "configurations", json_content(self._judged(metrics))
        for trial in self.trials:
            clips = {line["path"]: episode_details(trial, line, with_steps=steps) for line in self.lines_of(trial)}
            details = {"curves": self._curves(trial), "config": config_payload(trial), "clips": clips}
            yield f"trial-{trial.id}", json_content(details)

    def _judged(self, metrics: Sequence[Mapping[str, float]]) -> dict[str, Any]:
        """Return the configurations by each score and its better end; of too many trials, by returns and clips only."""
        all_names = {name for trial_metrics in metrics for name in score.finite_numbers(trial_metrics)}
        returns = score.ranking_returns(metrics)
        others = sorted(all_names.difference(returns))
        names = [*returns, *(others if len(others) * len(self.trials) <= _MAX_JUDGED else ())]
        sections = sorted({line["section"] for trial in self.trials for line in self.lines_of(trial)})
        judge = partial(configurations_payload, self.trials, self.statuses)
        return {
            configurations_key(name, section, sign): judge(name, section, sign=sign)
            for name, section in [*((name, "") for name in names), *((CLIP, section) for section in sections)]
            for sign in (1, -1)
        }

    def lines_of(self, trial: TrialFiles) -> list[Line]:
        """Return the index lines of a trial's clips."""
        if trial.id not in self.lines:
            self.lines[trial.id] = [line for line in trial.lines if _is_wanted(line, self.only)]
        return self.lines[trial.id]

    def _curves(self, trial: TrialFiles) -> dict[str, Any]:
        try:
            return trial.curves()
        except OSError:
            self.missing.append(f"{trial.name}/{RESULTS}")
            return {"step": [], "metrics": {}}


def published(status: TrialStatus) -> TrialStatus:
    """Return a trial's status as it may be sent to others: of the paths in its error, only the last part.

    >>> published(TrialStatus("error", "OSError: no '/home/me/my data/x.npz', see s3://bucket/me/log.txt")).error
    "OSError: no '…/x.npz', see …/log.txt"
    """
    return TrialStatus(status.word, _without_paths(status.error))


def _without_paths(text: str) -> str:
    return _PATH.sub("…/", _QUOTED_PATH.sub(r"\1…/\2\1", text))


def _published(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload in which the notes of tapes may be sent to others."""
    for trial in payload["trials"]:
        for tape in trial["tapes"]:
            tape["note"] = _without_paths(tape["note"] or "")
    return payload


def default_folder(experiment: str) -> Path:
    """Return the default folder of a gallery, in the working directory.

    >>> default_folder("s3://bucket/sweep/").as_posix()
    'sweep_gallery'
    """
    return Path(f"{posixpath.basename(experiment.rstrip('/')) or 'experiment'}_gallery")


def _is_wanted(line: Line, only: Collection[str]) -> bool:
    """Return whether the page shows the medium of an index line, and ``only`` lets it in."""
    if line.get("kind") not in _KINDS or posixpath.splitext(line["path"])[1].lower() not in SHOWN:
        return False
    return not only or bool(_names_of(line) & set(only))


def _names_of(line: Line) -> set[str]:
    """Return the names by which ``only`` lets a line in."""
    return {line["key"], line["section"], *line["key"].split("/")}


def _write_poster(clip: Path, content: bytes) -> None:
    from tune_media.encoding.decode import decode_video
    from tune_media.encoding.picture_files import jpeg_from_frame

    try:
        save_file(clip.with_name(clip.name + POSTER), jpeg_from_frame(next(iter(decode_video(content)))))
    except Exception as error:  # the clip plays without a poster
        logger.info("tune_media: %s has no poster: %s", clip.name, error_text(error))


def human_size(nbytes: int) -> str:
    """Return a size as people read it.

    >>> human_size(1_234_567), human_size(2_000_000_000)
    ('1.2 MB', '2.0 GB')
    """
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"
