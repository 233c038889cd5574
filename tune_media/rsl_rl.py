"""Makes the log folder of an rsl_rl run a trial, live: ``logger={"class_name": "tune_media.rsl_rl:LogWriter"}``.

The folders of several runs beside each other are an experiment that the viewer, the commands and ``tune_media.load``
open, as they open Tune's. It writes with the functions that write trials elsewhere, and is the only file of this
package that knows rsl_rl.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import logging
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow.fs

from tune_media.experiment.results import result_time
from tune_media.storage.clip_names import KEY, is_clip_name, section_of
from tune_media.storage.index_lines import MediumLine, read_index
from tune_media.storage.trial_folder import ERRORS, TrialFolder
from tune_media.values.checks import as_shown, local_path
from tune_media.values.metric_names import LENGTH_NAME, RETURN_NAMES
from tune_media.values.number import whole_number
from tune_media.values.problems import Problem, Problems
from tune_media.values.secrets import error_text, redacted
from tune_media.values.sections import EVALUATION, TRAIN
from tune_media.values.video import Video

_Base: Any = object
with contextlib.suppress(ImportError):  # before 5.4 there is none, and rsl_rl calls most methods of its own alone
    from rsl_rl.utils.log_writer import LogWriter as _RslRlWriter

    _Base = _RslRlWriter

logger = logging.getLogger(__name__)

_LOCAL = pyarrow.fs.LocalFileSystem()
_NAMES = {"Train/mean_reward": RETURN_NAMES[0], "Train/mean_episode_length": LENGTH_NAME}
_OVER_SECONDS = {f"{name}/time" for name in _NAMES}  # rsl_rl gives seconds as their iteration
_TENSORBOARD = "torch.utils.tensorboard:SummaryWriter"
_OF_ONE_RUN = ("log_dir", "logger", "run_name", "resume", "load_run", "load_checkpoint")  # no hyperparameters
_STEP = re.compile(r"-step-(\d+)\.mp4")
_WATCH = """
import os, sys
path, content, errors = sys.argv[1:]
told = sys.stdin.read()
if told != "end":
    with open(errors, "a") as file:
        file.write(told or "The process ended before its training: it failed, or was killed.\\n")
    with open(path + ".new", "w") as file:
        file.write(content)
    os.utime(path + ".new", (1, 1))
    os.replace(path + ".new", path)
"""


@dataclasses.dataclass
class _Sight:
    """The state of an mp4 at the last call."""

    iteration: int  # of the first call that saw it
    size: int
    modified: int  # ns
    is_tried: bool = False  # it was looked into at this size
    is_taken: bool = False


class LogWriter(_Base):
    """Writes results, hyperparameters, clips and the status of a run to its log folder, as a trial has them.

    rsl_rl makes it, and calls its methods, if the training config has
    ``logger={"class_name": "tune_media.rsl_rl:LogWriter"}``. Steps are rsl_rl's iterations. Clips are all mp4 below the
    log folder; they are copied into its ``media``, since RecordVideo overwrites them after a restart. A fault is a
    warning, and the training goes on; an exception that ends the process is the trial's error.

    Args:
        log_dir: The folder of the run.
        also: Another writer of rsl_rl's, which gets every call, too, as rsl_rl's ``logger``: ``{"class_name":
            "WandbLogWriter", "project_name": "walkers"}``, or ``"tensorboard"``. None: none.

    Raises:
        TypeError, ValueError: ``also`` is no writer, or the writer does not take its arguments.
        ImportError: rsl_rl is older than 5.4, or the other writer needs a library that is not installed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "run")
    >>> writer = LogWriter(str(folder))
    >>> writer.store_config({}, {"seed": 1, "algorithm": {"gamma": 0.99}})
    >>> writer.add_scalar("Train/mean_reward", 3.0, 1)
    >>> writer.stop()
    >>> import tune_media as tm
    >>> (trial,) = tm.load(folder.parent).trials
    >>> trial.last_metrics["episode_return_mean"], trial.config["algorithm/gamma"], trial.status.word
    (3.0, 0.99, 'terminated')
    """

    def __init__(self, log_dir: str, also: Mapping[str, Any] | str | None = None) -> None:
        _check_version()
        self._folder = local_path("LogWriter(log_dir)", log_dir).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._problems = Problems(lambda problem: logger.warning("tune_media: %s", problem))
        self._other = None if also is None else _OtherWriter(also, str(self._folder), self._problems)
        self._trial = TrialFolder(_LOCAL, str(self._folder))
        self._steps = 0  # of an iteration, in each env; 0: not known
        self._start: int | None = None  # the first iteration of this process
        self._result: dict[str, Any] = {}  # of the iteration that is being logged
        self._is_written = True
        self._sights: dict[str, _Sight] = {}
        stats = {path: path.stat() for path in self._folder.rglob("*.mp4") if path.is_file()}
        self._old = {(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}
        self._earlier = [  # the time of each result of earlier processes, its iteration, and the first of its process
            (result_time(result), iteration, iteration + 1 - whole_number(result.get("iterations_since_restore")))
            for result in self._trial.results()
            for iteration in [whole_number(result.get("training_iteration"))]
        ]
        lines, _ = read_index(_LOCAL, str(self._folder))
        self._lines = {line.id: line for line in lines}
        self._watch: subprocess.Popen[bytes] | None = None
        with self._guard("the status"):
            self._trial.write_status("RUNNING")
            told = [str(self._trial.status_file), self._trial.status_text("ERROR"), str(self._folder / ERRORS)]
            self._watch = subprocess.Popen(  # its input ends if this process is killed
                [sys.executable, "-I", "-S", "-c", _WATCH, *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._earlier_hook, sys.excepthook = sys.excepthook, self._fail

    def store_config(self, env_cfg: Any, train_cfg: Mapping[str, Any]) -> None:
        """Write the hyperparameters; a run that goes on keeps its first ones."""
        self._pass_on("store_config", env_cfg, train_cfg)
        self._steps = whole_number(train_cfg.get("num_steps_per_env"))
        with self._guard("the config"):
            if self._trial.params() is None:
                self._trial.write_params({**_as_dict(train_cfg), "env": _as_dict(env_cfg)})

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int) -> None:
        """Add a metric to the result of an iteration, which is written when the next one begins."""
        self._pass_on("add_scalar", tag, scalar_value, global_step)
        if tag in _OVER_SECONDS:
            return
        if global_step != self._result.get("training_iteration"):
            self._write_result()
            self._begin(global_step)
        self._result[_NAMES.get(tag, tag)] = float(scalar_value)
        self._is_written = False

    def save_model(self, model_path: str, it: int) -> None:
        """Name a checkpoint in the result of its iteration."""
        self._pass_on("save_model", model_path, it)
        name = Path(model_path).name
        if it == self._result.get("training_iteration") and self._result.get("checkpoint_dir_name") != name:
            self._result["checkpoint_dir_name"], self._is_written = name, False
            self._write_result()

    def save_file(self, path: str) -> None:
        """Only the other writer uploads files."""
        self._pass_on("save_file", path)

    def save_video(self, video: Path, it: int) -> None:
        """Look at an mp4, and take it if it is whole and has grown no more since the last call."""
        path = Path(video).absolute()
        name = path.relative_to(self._folder).as_posix()
        if name.startswith("media/"):
            return
        self._pass_on("save_video", video, it)
        self._look_at(path, name, it)

    def _look_at(self, path: Path, name: str, it: int) -> None:
        with self._guard(f"clip {name}"), contextlib.suppress(FileNotFoundError):
            stat = path.stat()
            sight = self._sights.get(name)
            if sight is None or (sight.size, sight.modified) != (stat.st_size, stat.st_mtime_ns):
                first = it if sight is None or sight.is_taken else sight.iteration
                self._sights[name] = _Sight(first, stat.st_size, stat.st_mtime_ns)
            elif not sight.is_tried:
                sight.is_tried = True
                with contextlib.suppress(ValueError):  # it is not whole
                    self._take(name, Video.from_file(path), sight)
                    sight.is_taken = True

    def stop(self) -> None:
        """Take the last clips, and note that the run has ended."""
        last = whole_number(self._result.get("training_iteration"))
        for path in [*self._folder.rglob("*.mp4")] * 2:
            name = path.relative_to(self._folder).as_posix()
            if not name.startswith("media/"):
                self._look_at(path, name, last)
        left_out = sorted(name for name, sight in self._sights.items() if not sight.is_taken)
        if left_out:
            logger.warning("tune_media: not a whole mp4, and left out: %s", ", ".join(left_out))
        if self._result:
            self._result["done"], self._is_written = True, False
            self._write_result()
        with self._guard("the status"):
            self._trial.write_status("TERMINATED")
            self._tell_watch("end")
        self._pass_on("stop")

    def _fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception ends the process, which Python tells its hook: the trial has failed with it."""
        with self._guard("the error"):
            self._tell_watch(redacted("".join(traceback.format_exception(kind, error, trace))))
        self._earlier_hook(kind, error, trace)

    def _tell_watch(self, text: str) -> None:
        """Tell the watching process how the run ends, and wait until it has written that."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.communicate(text.encode(errors="replace"))
        if sys.excepthook == self._fail:
            sys.excepthook = self._earlier_hook

    def _pass_on(self, method: str, *arguments: Any) -> None:
        if self._other is not None:
            self._other.call(method, *arguments)

    def _begin(self, iteration: int) -> None:
        """Begin an iteration; after a restart, clips of later ones are rolled back."""
        if self._start is None:
            self._start = iteration
            with self._guard("the restart"):
                later = [line for line in self._lines.values() if (line.training_iteration or 0) > iteration]
                self._roll_back(later)
        self._result = {
            "trial_id": self._folder.name,
            "timestamp": time.time(),
            "training_iteration": iteration,
            "iterations_since_restore": iteration - self._start + 1,
            "done": False,
        }

    def _write_result(self) -> None:
        with self._guard("a result"):
            if not self._is_written:
                self._trial.add_result(self._result)
        self._is_written = True

    def _take(self, name: str, video: Video, sight: _Sight) -> None:
        """Store a clip, unless an earlier process did; the same pictures under another name are another clip.

        It begins in the iteration that its name says, if it does, or else it has the one that saw it first.
        """
        id = hashlib.sha256(name.encode() + b"\0" + video.data).hexdigest()[:32]
        if id in self._lines:
            return
        video.reidentify(id, None)
        section = EVALUATION if EVALUATION in map(section_of, name.split("/")) else TRAIN
        seconds, start = sight.modified / 1e9, self._start or 0
        seen, first = sight.iteration, start
        is_old = (self._folder / name, sight.size, sight.modified) in self._old
        if is_old:  # its process may have been killed before it took the clip
            before = [(iteration + 1, began) for written, iteration, began in self._earlier if written <= seconds]
            seen, first = before[-1] if before else (start, 0)
        step = _STEP.search(name) if is_clip_name(name) and self._steps else None
        iteration = min(seen, first + int(step[1]) // self._steps) if step else seen
        (line,) = self._trial.add_clip(video, section, KEY, iteration, iteration, seconds).lines
        self._lines[line.id] = line
        if is_old and iteration > start:
            self._roll_back([line])

    def _roll_back(self, lines: list[MediumLine]) -> None:
        undone = [dataclasses.replace(line, undone=self._trial.next_row()) for line in lines]
        self._trial.add_lines(undone)
        self._lines |= {line.id: line for line in undone}

    @contextlib.contextmanager
    def _guard(self, subject: str) -> Iterator[None]:
        """Turn a fault into a problem: the training goes on."""
        try:
            yield
        except Exception as error:
            text = f"{subject} of {self._folder} is not stored: {error_text(error)}"
            self._problems.add(Problem(text), (subject, type(error)))


class _OtherWriter:
    """A writer of rsl_rl's that gets every call, too; each kind of fault of it is one problem."""

    def __init__(self, also: Mapping[str, Any] | str, log_dir: str, problems: Problems) -> None:
        given = {"class_name": also} if isinstance(also, str) else also
        if not isinstance(given, Mapping) or not isinstance(given.get("class_name"), str):
            example = '{"class_name": "WandbLogWriter", "project_name": ...} or "tensorboard"'
            raise TypeError(
                f"LogWriter(also=...) takes a writer as rsl_rl's logger does, {example}, got {as_shown(also)}."
            )
        from rsl_rl.utils import resolve_callable

        arguments = {name: value for name, value in given.items() if name != "class_name"}
        if is_plain := given["class_name"] == "tensorboard":
            arguments = {"flush_secs": 10, **arguments}  # as rsl_rl has it
        writer_class = resolve_callable(_TENSORBOARD if is_plain else given["class_name"])
        self._writer: Any = writer_class(log_dir=log_dir, **arguments)
        self._name, self._problems = given["class_name"], problems
        # rsl_rl gives all writers but this one scalars over seconds, and W&B takes no step that is lower
        self._takes_seconds = "WandbLogWriter" not in [base.__name__ for base in type(self._writer).__mro__]

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method that rsl_rl calls of its writers, if this one has it."""
        if method == "add_scalar" and arguments[0] in _OVER_SECONDS and not self._takes_seconds:
            return
        try:
            if hasattr(self._writer, method):
                getattr(self._writer, method)(*arguments)
            elif method == "stop" and hasattr(self._writer, "close"):  # TensorBoard's
                self._writer.close()
        except Exception as error:
            self._problems.report_error(f"{self._name}.{method}", error, "not logged by also=")


def _check_version() -> None:
    """Raise ImportError if rsl_rl is here, and has no writers: its loop would call none."""
    if _Base is object:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version("rsl-rl-lib")
            raise ImportError(
                f"rsl_rl {version} takes no log writers, which 5.4 is the first to do: leave logger= as it was, and "
                "open the log folder as it is, `tune-media watch logs`."
            )


def _as_dict(config: Any) -> Any:
    """Return a config as dicts, without what only one run has; it may be an object with ``to_dict``, or dataclasses."""
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    elif dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if not isinstance(config, Mapping):
        return config
    return {str(name): _as_dict(value) for name, value in config.items() if name not in _OF_ONE_RUN}
