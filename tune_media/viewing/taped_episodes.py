"""The episodes of an experiment that have tapes: which there are, which of them are wanted, and clips of them."""

from __future__ import annotations

import contextlib
import functools
import math
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.experiment.trial_files import TrialFiles, trials_named
from tune_media.recording.overlay import check_can_draw
from tune_media.recording.rendering import FrameFunction
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Creator, Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape import Tape
from tune_media.storage import episode_files
from tune_media.storage.filesystem import open_file, read_if_there, save_file
from tune_media.values import score
from tune_media.values.episode_record import REPLAY, EpisodeRecord
from tune_media.values.options import VideoOptions
from tune_media.values.problems import argument, message_of, remedy
from tune_media.values.video import Video
from tune_media.viewing.episode_table import EpisodeTable

BEST, WORST, LAST, ALL, WAITING = "best", "worst", "last", "all", "waiting"


@dataclass(frozen=True)
class TapedEpisode:
    """An episode that has a tape, so that clips of it can be made.

    Attributes:
        trial: Its trial.
        path: The Parquet file that has the tape, on the filesystem of the trial's media.
        row: The facts of the episode: the columns of the Parquet file, and ``rolled_back`` and ``abandoned``.
    """

    trial: TrialFiles
    path: str
    row: Mapping[str, Any]

    @classmethod
    def of_trial(cls, trial: TrialFiles) -> list[TapedEpisode]:
        """Return the episodes of a trial that have tapes; files that cannot be read are left out, with a warning."""
        found = []
        for report, is_rolled_back in trial.report_files.items():
            try:
                found += cls.of_report(trial, report, is_rolled_back=is_rolled_back)
            except Exception as error:  # of one file: it is gone, or broken
                trial.pass_over(episode_files.parquet_name(report), error)
        return found

    @classmethod
    def of_report(cls, trial: TrialFiles, report: str, *, is_rolled_back: bool = False) -> list[TapedEpisode]:
        """Return the episodes of a report (its path in the index) that have tapes.

        Raises:
            OSError: The storage does not answer, or the file is gone.
            pyarrow.ArrowException: The file is none of a report's.
        """
        more = {"rolled_back": is_rolled_back, "abandoned": trial.is_abandoned}
        with trial.open_media(episode_files.parquet_name(report)) as file:
            path = posixpath.join(trial.media_path, episode_files.parquet_name(report))
            return [cls(trial, path, row | more) for row in episode_files.taped_rows(file)]

    @property
    def id(self) -> str:
        """Its ``episode_id``."""
        return str(self.row["episode_id"])

    @property
    def record(self) -> EpisodeRecord:
        """Its facts."""
        return episode_files.record_of(self.row)

    @property
    def waits(self) -> bool:
        """Whether its recorder wanted a clip of it that is not rendered."""
        section, recorder, clips = self.row["section"], self.row["recorder"], self.trial.unrendered.get(self.id, ())
        return any(place == section and key.startswith(f"{recorder}/") for place, key in clips)

    def tape(self) -> bytes:
        """Return its tape as it is stored.

        Raises:
            OSError: The storage does not answer, or the file is gone.
        """
        with open_file(self.trial.media_filesystem, self.path) as file:
            return episode_files.tape_of(file, self.row["section"], self.row["recorder"], self.id)

    def recipe(self) -> bytes:
        """Return the recipe that makes its env, which is executable.

        Raises:
            RenderError: There is none.
            OSError: The storage does not answer.
        """
        content = None
        if self.row["recipe"] is not None:
            path = posixpath.join(self.trial.media_path, episode_files.recipe_name(self.row["recipe"]))
            content = read_if_there(self.trial.media_filesystem, posixpath.normpath(path))
        if content is None:
            make = (
                "pass a function that makes it: " + argument("env=") + ", or `tune-media render --env module:function`"
            )
            raise RenderError(f"how the env of episode {self.id} is made is not stored with it; " + remedy(make))
        return content

    def render(
        self,
        *,
        env: Creator | str | None = None,
        frame: FrameFunction | str | None = None,
        height: int | None = None,
        video: VideoOptions | None = None,
    ) -> Video | dict[str, Video]:
        """Play the episode in a process of its own, check each step, and return its clip, or its clips by view.

        The process runs the code that made the env when the episode was recorded. Render only experiments of people
        whom you trust.

        Args:
            env: Makes the env instead: a function of the ``env_config``, or ``"module:function"``; it may have another
                camera, or render larger.
            frame: The source of frames instead of the recorder's: a function of the env, ``"module:function"``, or the
                name of one of its methods.
            height: Height to scale to, pixels. None: as ``video`` says.
            video: Size, speed, quality, overlays, and which frames are kept. None: the frames that were, or would
                have been, recorded.

        Raises:
            RenderError: The replay is not the episode; the message says which step differs first, and why. Or the env
                cannot be made, or does not render.
            OSError: The storage does not answer.
        """
        tape = self.tape()
        if height is not None:
            video = _options(tape, height=height) if video is None else replace(video, height=height)
        with contextlib.closing(RenderPool(env, frame)) as pool:
            clips = pool.render(recipe_of(self, env), tape, video=video, is_lenient=True, **self.place())
        videos = self.videos(clips)
        return videos[""] if set(videos) == {""} else videos

    def place(self) -> dict[str, Any]:
        """Return the indices of the env runner and the sub-env that it was played on."""
        return {name: int(self.row[name] or 0) for name in ("env_runner", "env_index")}

    def videos(self, clips: Mapping[str, EncodedVideo]) -> dict[str, Video]:
        """Return its encoded clips, by view, as clips that know their episode."""
        record = replace(self.record, rendered=REPLAY, note=None)
        return {
            view: Video.from_encoded(clip, episode=replace(record, view=view or None), note=clip.note)
            for view, clip in clips.items()
        }


@dataclass(frozen=True)
class RenderOptions:
    """How clips of tapes are rendered. If all is left out: as they were, or would have been, recorded.

    Attributes:
        env, frame, height: See ``TapedEpisode.render``.
        every: Keep every n-th frame. None: those that were, or would have been, recorded.
        overlay: See ``VideoOptions``.
    """

    env: str | None = None
    frame: str | None = None
    height: int | None = None
    every: int | None = None
    overlay: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.overlay:
            VideoOptions(overlay=self.overlay)  # checks the names
            check_can_draw()

    def video(self, tape: bytes) -> VideoOptions | None:
        """Return how a tape is rendered; None if as it was recorded."""
        if not (self.height or self.every or self.overlay):
            return None
        return _options(tape, height=self.height, every=self.every, overlay=self.overlay)


@dataclass(frozen=True)
class Rendered:
    """The result of rendering an episode: its clips, or the reason why there is none."""

    episode: TapedEpisode
    clips: Mapping[str, Video] = field(default_factory=dict)  # by view; the name of the only one is ""
    problem: str = ""


class ClipFolder:
    """A folder that clips are written into, as ``<folder>/<trial>/<step>-<section>-<return>-<id>.mp4``.

    ``files`` has the episode of each file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: dict[str, TapedEpisode] = {}

    def add(self, rendered: Rendered) -> None:
        """Write the clips of an episode."""
        for view, clip in rendered.clips.items():
            file = self._folder / _safe(rendered.episode.trial.name) / _file_name(rendered.episode.row, view)
            save_file(file, clip.data)
            self.files[str(file)] = rendered.episode


def render_each(
    episodes: Iterable[TapedEpisode],
    options: RenderOptions,
    progress: Callable[[int], None] = lambda steps: None,
) -> Iterator[Rendered]:
    """Render episodes one after the other, sorted by recipe: each recipe has its own process.

    ``progress`` is told the number of steps that have been played since the last call.
    """
    by_recipe: dict[Any, list[TapedEpisode]] = {}
    for episode in episodes:
        by_recipe.setdefault((posixpath.dirname(episode.trial.media_path), episode.row["recipe"]), []).append(episode)
    with contextlib.closing(RenderPool(options.env, options.frame)) as pool:
        for of_recipe in by_recipe.values():
            try:
                recipe = recipe_of(of_recipe[0], options.env)
            except (RenderError, OSError) as error:  # the recipe is not there
                yield from (Rendered(episode, problem=message_of(error).redacted()) for episode in of_recipe)
                continue
            render = functools.partial(pool.render, recipe, is_lenient=True)
            for episode in of_recipe:
                yield _rendered(episode, render, options, progress)


def of_trial(trials: Sequence[TrialFiles], name: str) -> list[list[TapedEpisode]]:
    """Return the episodes that have tapes of the trials that are wanted, trial by trial.

    ``name`` is ``"best"`` (the first of ``trials`` that has tapes), ``"all"``, or a trial's name, or a part of it that
    no other has.
    """
    if name == BEST:
        return [next(filter(None, map(TapedEpisode.of_trial, trials)), [])]
    return [TapedEpisode.of_trial(trial) for trial in (trials if name == ALL else trials_named(name, trials))]


def choose(of_trials: Iterable[Sequence[TapedEpisode]], which: str) -> list[TapedEpisode]:
    """Return the episodes that are wanted, of those of each trial.

    ``which`` is ``"best"`` or ``"worst"`` (by return) or ``"last"`` of each trial, of its evaluations if these have
    tapes, and of episodes that it has not left behind, if there are any; ``"waiting"``: those whose clips the sweep was
    to render and has not; the id of an episode, or its beginning; or comparisons such as ``"return < 20 and distance >
    3"``, with the columns and the metrics of the episodes as names.
    """
    if which in (BEST, WORST, LAST):
        return [_outstanding(episodes, which) for episodes in of_trials if episodes]
    episodes = [episode for of_trial in of_trials for episode in of_trial]
    if not episodes:
        return []
    if which == WAITING:
        return [episode for episode in episodes if episode.waits]
    if not re.search(r"[<>=]", which):
        try:
            return [by_id(episodes, which)]
        except KeyError as error:
            raise ValueError(
                f"{which!r} is neither best, worst, last or waiting, nor a condition such as 'return < 20', "
                "nor the id of one episode with a tape. `tune-media list --json` shows the ids of episodes with clips."
            ) from error
    return [episodes[number] for number in EpisodeTable.of_rows([episode.row for episode in episodes]).found(which)]


def _outstanding(episodes: Sequence[TapedEpisode], which: str) -> TapedEpisode:
    """Return the best, worst or last episode of a trial: one whose return is NaN only if there are no others."""
    counting = [episode for episode in episodes if score.does_count(episode.row)] or list(episodes)
    evaluated = [episode for episode in counting if episode.row["section"] == "evaluation"] or counting
    if which == LAST:
        return max(evaluated, key=lambda e: (e.row["training_iteration"] or 0, e.row["finished_at"] or 0))
    of_number = [episode for episode in evaluated if not math.isnan(float(episode.row["episode_return"]))] or evaluated
    chosen = max if which == BEST else min
    return chosen(of_number, key=lambda episode: float(episode.row["episode_return"]))


def by_id(episodes: Sequence[TapedEpisode], id: str) -> TapedEpisode:
    """Return the episode with an id, or with an id that begins so; KeyError if there is none, or several."""
    matching = {episode.id: episode for episode in reversed(episodes) if id and episode.id.startswith(str(id))}
    if id in matching:
        return matching[id]
    if len(matching) == 1:
        return next(iter(matching.values()))
    if matching:
        raise KeyError(f"{len(matching)} episodes with a tape have ids that begin with {id!r}")
    raise KeyError(
        f"no episode with a tape has the id {id!r}; the ids are in the column episode_id of load(...).episodes()"
    )


def recipe_of(episode: TapedEpisode, env: Creator | str | None = None) -> Recipe:
    """Return the recipe of an episode; without content if it is not stored, and ``env`` makes the env instead."""
    try:
        content = episode.recipe()
    except RenderError:
        if env is None:
            raise
        content = b""
    return Recipe(str(episode.row["recipe"] or ""), content)


def _rendered(
    episode: TapedEpisode,
    render: Callable[..., dict[str, EncodedVideo]],
    options: RenderOptions,
    progress: Callable[[int], None],
) -> Rendered:
    done, steps = 0, int(episode.row["episode_length"])

    def tell(step: int, total: int) -> None:
        nonlocal done
        progress(max(0, step - done))  # a tape that has ended its process is played again
        done = max(done, step)

    try:
        tape = episode.tape()
        clips = render(tape, video=options.video(tape), on_step=tell, **episode.place())
        rendered = Rendered(episode, episode.videos(clips))
    except (RenderError, OSError, KeyError, ValueError) as error:
        rendered = Rendered(episode, problem=message_of(error).redacted())
    progress(steps - done)
    return rendered


def _file_name(row: Mapping[str, Any], view: str) -> str:
    step, total, id = int(row["step"] or 0), float(row["episode_return"]), _safe(str(row["episode_id"]))[:12]
    return f"step_{step:09d}-{_safe(row['section'])}-return_{total:g}-{id}{_safe(f'-{view}') if view else ''}.mp4"


def _safe(text: str) -> str:
    return re.sub(r"[^\w.+=-]+", "_", text)


def _options(
    tape: bytes, *, height: int | None = None, every: int | None = None, overlay: Sequence[str] = ()
) -> VideoOptions:
    return VideoOptions(height=height, every=every or Tape.unpacked(tape).every, overlay=tuple(overlay))
