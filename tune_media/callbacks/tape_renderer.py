"""Renders the clips that came as tapes, beside training, and appends each finished clip to the outbox.

A clip that is still to be rendered is a row of the kind ``tape``, which stays in the outbox until the clip is made or
given up. So the renderer has no cursor, and holds up no reader. The clips of a trial and key are rendered in the order
in which they came. Tiled clips come last: they are made of the files of others, by another process.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from tune_media.callbacks.backend import Status
from tune_media.callbacks.outbox import TAPE, ContentLostError, NewRow, OutboxFullError, Row, no_room
from tune_media.callbacks.outbox_thread import OutboxThread
from tune_media.callbacks.rows import medium_row, name_row
from tune_media.callbacks.services import Services
from tune_media.callbacks.tiler import Tiler, tiled_content
from tune_media.encoding.encoder import EncodedVideo
from tune_media.encoding.stills import SHOWS_NOTHING, Stills
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool, background_niceness
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import refuse, verdict_on
from tune_media.storage.entry import DROPPED, FAILED, ONLY_TAPE, MediaEntry
from tune_media.values.medium import Medium
from tune_media.values.plain import pack, unpack
from tune_media.values.problems import Problem
from tune_media.values.secrets import error_text, redacted
from tune_media.values.threads import start_thread
from tune_media.values.tiled import TiledClips

logger = logging.getLogger("tune_media")

_STALE_SECONDS = 60.0  # after so long a clip is not rendered any more if a newer one of its key waits
_MOST_TAPES = 1000  # that wait
_SHARE = 0.25  # of the room of the outbox that tapes may take
_IN_A_ROW = 8  # tapes of one recipe, while others wait: a process serves one recipe
_KILL_SECONDS = 5.0  # until a thread whose process was killed has noticed
_PROCESS_NAME = "the render process"


def tape_row(trial_id: str, entry: MediaEntry, entries: Sequence[MediaEntry]) -> NewRow:
    """Return the row of a clip that is still to be made, a ``TapedClip`` or ``TiledClips``, of a result's media."""
    clip = entry.medium
    if isinstance(clip, TiledClips):
        return NewRow(trial_id, TAPE, name_row(entry).packed(), tiled_content(clip, entries))
    assert isinstance(clip, TapedClip)
    data, recipe = name_row(entry, clip.facts()), (clip.recipe.hash, clip.recipe.content)
    return NewRow(trial_id, TAPE, data.packed(), pack([clip.tape, clip.episode]), recipe=recipe)


@dataclass(frozen=True, eq=False)
class _WaitingClip:
    """A clip that is still to be rendered; it waits ``since`` then, by the monotonic clock."""

    row: Row
    entry: MediaEntry
    since: float

    @property
    def episode(self) -> tuple[str, str, str]:
        """Its episode, which may wait under several keys, and with several views."""
        return self.row.trial, self.row.recipe, str(self.entry.medium.facts().get("episode_id"))

    @property
    def is_tiled(self) -> bool:
        """Whether it is made of other clips."""
        return self.entry.medium.kind == TiledClips.kind

    @property
    def group(self) -> tuple[str, str, str]:
        """Its trial and its key."""
        return self.row.trial, self.entry.section, self.entry.key


class TapeRenderer(OutboxThread):
    """Renders the tapes of an experiment one at a time, those of each trial and key in order.

    Tune's loop calls all methods without an underscore but ``turn``, ``failed`` and ``finished``.
    """

    niceness = 5

    def __init__(self, services: Services) -> None:
        super().__init__("render", services, self.niceness)
        self._summary = services.summary
        self._stills = Stills(lambda reason: self._faults.problems.add(Problem(f"{SHOWS_NOTHING}: {reason}")))
        self._pool, self._tiler = RenderPool(niceness=background_niceness()), Tiler(services)
        self._worker: threading.Thread | None = None  # renders one tape
        self._rendering: list[_WaitingClip] = []  # the clips of that tape, one for each key and view; empty: it is done
        self._recipe, self._in_a_row = "", 0  # of the last tape, and how many of that recipe came one after the other
        self._error: BaseException | None = None  # what went wrong with the last tape, if that was not expected
        self._is_over = False  # nothing more is rendered
        self._waiting: dict[int, _WaitingClip] = {}
        self._ends: dict[str, tuple[Status, float]] = {}  # of trials that have ended, and until when they wait
        self._has_warned = False

    # -- Tune's loop --------------------------------------------------------------------------------------------------

    def add(self, rows: Iterable[Row]) -> None:
        """Begin to render tapes."""
        now = time.monotonic()
        clips = [_WaitingClip(row, row.media().names(row.seq)[0], now) for row in rows]
        with self._lock:  # the keys and views of a tape come together
            self._waiting |= {clip.row.seq: clip for clip in clips}
        for clip in clips:
            if not clip.is_tiled:
                self._summary.taped()
        self._make_room()
        self.begin()
        self._outbox.wake()

    def goes_back(self, trial_id: str, iteration: int) -> None:
        """Render nothing of a trial that it leaves behind: its next result has an iteration again."""
        for waiting in self._all():
            if waiting.row.trial == trial_id and (waiting.entry.training_iteration or 0) >= iteration:
                self._leave(waiting, "the trial went back behind it", waits=False)

    def end_trial(self, trial_id: str, status: Status) -> bool:
        """Append the end of a trial when its clips are done, or after a while; return whether there are any."""
        with self._lock:
            waits = any(waiting.row.trial == trial_id for waiting in self._waiting.values())
            if waits:
                self._ends[trial_id] = status, time.monotonic() + self._services.options.flush_seconds
        self._outbox.wake()
        return waits

    def finish(self, seconds: float | None) -> None:
        """Render at most so long; the rest become tapes. None: all wait in the outbox for a restore."""
        self.close(seconds or 0.0)
        self._is_over = True
        self._pool.kill()
        self._tiler.kill()
        for thread in (self._thread, self._worker):
            if thread is not None:
                thread.join(_KILL_SECONDS)
        for waiting in self._all():
            if seconds is None and not waiting.is_tiled:
                self._summary.not_rendered()
            elif seconds is not None:
                self._leave(waiting, "the experiment ended first")
        self._append_ends()

    @property
    def ending(self) -> set[str]:
        """The trials that have ended, and whose end waits for their clips."""
        return set(self._ends)

    @property
    def is_empty(self) -> bool:
        """Whether no clip waits."""
        return not self._waiting

    def _make_room(self) -> None:
        waiting = self._all()
        nbytes = sum(clip.row.nbytes for clip in waiting)
        most = _SHARE * self._services.options.max_spilled_bytes
        for number, clip in enumerate(waiting):
            if nbytes <= most and len(waiting) - number <= _MOST_TAPES:
                return
            self._leave(clip, "too many clips waited")
            self._warn()
            nbytes -= clip.row.nbytes

    # -- the thread ---------------------------------------------------------------------------------------------------

    @override
    def turn(self) -> bool:
        self._leave_stale()
        for waiting in self._all():  # after a while the clips of a trial that has ended stay tapes
            if waiting.row.trial in self._ends and time.monotonic() > self._ends[waiting.row.trial][1]:
                self._leave(waiting, "the trial ended first")
        self._append_ends(but={waiting.row.trial for waiting in self._all()})
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not self._rendering and not self._is_over and (self._take() or self._take_tiled()):
            try:
                self._worker = start_thread("tune_media tape", self._work)
            except RuntimeError:
                self._rendering = []
                raise
        return False

    @override
    def failed(self, error: Exception) -> bool:
        self._faults.report(_PROCESS_NAME, "appending a clip to the outbox (it is tried again)", error, "away")
        return True

    @override
    def finished(self) -> bool:
        return self.is_empty

    def _all(self) -> list[_WaitingClip]:
        with self._lock:
            return [self._waiting[seq] for seq in sorted(self._waiting)]

    def _take(self) -> bool:
        """Choose the next tape, with all clips of it that wait; return whether there is one.

        While tapes of other recipes wait, a few of one are taken in a row, unless an older tape has one of their keys.
        """
        tapes: dict[tuple[str, str, str], list[_WaitingClip]] = {}
        for clip in self._all():
            if not clip.is_tiled:
                tapes.setdefault(clip.episode, []).append(clip)
        first: list[list[_WaitingClip]] = []  # the tapes that no older one of their keys comes before
        older: set[tuple[str, str, str]] = set()
        for clips in tapes.values():
            groups = {clip.group for clip in clips}
            if not groups & older:
                first.append(clips)
            older |= groups
        same = [clips for clips in first if clips[0].row.recipe == self._recipe]
        if not same or self._in_a_row >= _IN_A_ROW:
            others = [clips for clips in first if clips[0].row.recipe != self._recipe]
            same, self._in_a_row = others or same, 0
        if same:
            self._rendering, self._recipe = same[0], same[0][0].row.recipe
            self._in_a_row += 1
        return bool(same)

    def _take_tiled(self) -> bool:
        """Choose the next tiled clip whose clips are stored, when no tape waits; return whether there is one."""
        self._rendering = [clip for clip in self._all() if self._tiler.may_make(clip.row)][:1]
        return bool(self._rendering)

    def _work(self) -> None:
        try:
            with self._services.in_turn():
                self._render(self._rendering)
        except BaseException as error:
            self._error = error
        finally:
            self._rendering = []
            self._outbox.wake()

    def _render(self, waiting: list[_WaitingClip]) -> None:
        first = waiting[0]
        try:
            if first.is_tiled:
                self._append_medium(first, self._tiler.made(first.row, first.entry))
                return
            if self._is_refused(waiting):
                return
            clips = self._taped(first).clips_by(self._pool)
            if self._is_refused(waiting):  # since then
                return
            self._stills.look(clips.values())
        except ContentLostError as error:
            self._lose(first, FAILED, str(error))
            return
        except Exception as error:
            if not self._is_over:  # else the experiment ends, and the tape waits for a restore
                for clip in waiting:
                    self._give_up(clip, error)
            return
        for clip in waiting:
            if not self._gave_up:
                self._append_clip(clip, clips)

    def _give_up(self, waiting: _WaitingClip, error: Exception) -> None:
        """Leave a clip that was not rendered; if that is for its tape, its env runners record directly from now on."""
        if isinstance(error, RenderError) and error.is_of_env:
            self._refuse(waiting, error)
            return
        self._faults.report(_PROCESS_NAME, f"rendering {waiting.entry.path}", error)
        why = error_text(error)  # no process starts, the disk is full
        if isinstance(error, RenderError) and error.has_died:  # perhaps out of memory, which is not the env's fault
            why = f"the process that renders died of it twice ({why})"
        self._leave(waiting, why)

    def _taped(self, waiting: _WaitingClip) -> TapedClip:
        """Return a clip as its env runner sent it; raises ContentLostError if the disk has lost it."""
        tape, episode = unpack(waiting.row.content() or b"")
        recipe = Recipe(waiting.row.recipe, self._outbox.recipe(waiting.row.recipe))
        return TapedClip(tape, recipe, episode)

    def _append_clip(self, waiting: _WaitingClip, clips: dict[str, EncodedVideo]) -> None:
        try:
            self._append_medium(waiting, self._taped(waiting).finished(clips))
        except ContentLostError as error:
            self._lose(waiting, FAILED, str(error))
        except RenderError as error:
            self._refuse(waiting, error)

    def _append_medium(self, waiting: _WaitingClip, medium: Medium) -> None:
        row, content = medium_row(replace(waiting.entry, medium=medium), tape=waiting.row.seq)
        try:
            self._append(waiting, row.packed(), content)
        except OutboxFullError as error:
            self._faults.report("the outbox", "keeping media", error, kind=DROPPED)
            self._lose(waiting, DROPPED, no_room(error))

    def _lose(self, waiting: _WaitingClip, status: str, reason: str) -> bool:
        """Append the line of a clip without a file; return whether there was none yet."""
        row = name_row(waiting.entry, waiting.entry.medium.facts(), tape=waiting.row.seq)
        return self._append(waiting, row.as_lost(status, reason).packed(), None)

    def _refuse(self, waiting: _WaitingClip, error: RenderError) -> None:
        """Count a clip that cannot be rendered, and have the env runners record directly."""
        entry, reason = waiting.entry, redacted(str(error))
        try:
            refuse(waiting.row.recipe, reason)
        except Exception as fault:
            self._faults.report(_PROCESS_NAME, "telling the env runners to record directly", fault)
        advice = RuntimeError(
            f"{reason}. The env runners render the episodes of this env while they run, from their next evaluation on; "
            "to do so from the start, pass render='direct' to the recorder"
        )
        self._faults.report(_PROCESS_NAME, f"rendering {entry.path}", advice, kind=waiting.row.recipe)
        self._lose(waiting, FAILED, reason)

    def _is_refused(self, waiting: list[_WaitingClip]) -> bool:
        """Return whether the recipe of a tape is refused; if so, leave its clips, and count its episode."""
        verdict = verdict_on(waiting[0].row.recipe)
        if verdict is None or verdict.repeats:
            return False
        reason = redacted(verdict.reason)
        why = f"episodes of this env cannot be played again, and env runners record directly now ({reason})"
        are_new = [self._leave(clip, why, waits=False) for clip in waiting]
        if any(are_new):
            self._faults.problems.add(Problem(f"tapes that waited stay tapes: {why}", lost=1))
        return True

    def _leave_stale(self) -> None:
        """Leave clips that have waited long, if newer ones of their keys wait: rendering is slower than recording."""
        waiting, patience = self._all(), time.monotonic() - _STALE_SECONDS
        newest = {clip.group: clip for clip in waiting}
        rendering = self._rendering
        for clip in waiting:
            if clip.since < patience and clip is not newest[clip.group] and clip not in rendering:
                self._leave(clip, "rendering is slower than recording, and newer clips waited")
                if not clip.is_tiled:
                    self._warn()

    def _leave(self, waiting: _WaitingClip, why: str, *, waits: bool = True) -> bool:
        """List a clip as a tape, and return whether it was not yet; the last line counts it if it ``waits``.

        A tiled clip is dropped, which the storage's reader counts.
        """
        if waiting.is_tiled:
            return self._lose(waiting, DROPPED, f"not made: {why}")
        episode = waiting.entry.medium.facts().get("episode_id")
        note = f"not rendered: {why}; `tune-media render --episodes {episode}` makes its clip if the replay is the same"
        try:
            is_new = self._lose(waiting, ONLY_TAPE, note)
        except (OSError, sqlite3.Error) as error:
            self._faults.report("the outbox", "listing a clip that is not rendered", error)
            return False
        if is_new and waits:
            self._summary.not_rendered()
        return is_new

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tune_media: rendering is slower than recording, so older clips stay tapes and newer ones are "
                "rendered: %s. Record fewer episodes, or render fewer frames: VideoOptions(every=...).",
                self._summary.waiting_text(),
            )

    def _append(self, waiting: _WaitingClip, data: bytes, content: bytes | None) -> bool:
        """Replace the tape by the row of its clip, unless that is done; return whether it was not."""
        row = NewRow(waiting.row.trial, "media", data, content)
        is_new = self._outbox.replace_tape(waiting.row.seq, row, self._services.options.max_spilled_bytes)
        with self._lock:
            self._waiting.pop(waiting.row.seq, None)
        return is_new

    def _append_ends(self, but: Collection[str] = ()) -> None:
        for trial in self._ends.keys() - but:
            is_whole = all(waiting.row.trial != trial for waiting in self._all())
            self._outbox.end(trial, self._ends[trial][0], is_whole=is_whole)
            del self._ends[trial]
