"""Renders the clips that came as tapes, beside training, and appends each finished clip to the outbox.

A clip that is still to be rendered is a row of its own kind, which stays in the outbox until it is known what becomes
of the clip. So the renderer has no cursor: it takes tapes in any order, and holds up no reader.
"""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from typing_extensions import override

from tune_media.callbacks.backend import Status
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.outbox import TAPE, ContentLostError, NewRow, Outbox, OutboxFullError, Row, no_room
from tune_media.callbacks.outbox_thread import OutboxThread
from tune_media.callbacks.summary import Summary
from tune_media.encoding.encoder import EncodedVideo
from tune_media.encoding.stills import SHOWS_NOTHING, Stills
from tune_media.replay.process import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_actor import NoRoomError
from tune_media.replay.render_pool import RenderPool, background_niceness
from tune_media.replay.tape import Tape
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import Verdict, decide, verdict_on
from tune_media.storage.entry import DROPPED, FAILED, ONLY_TAPE, MediaEntry, entries_of, packed_medium, packed_name
from tune_media.storage.retention import KeptFiles, StoredFile, value_of_line
from tune_media.values.options import MediaOptions
from tune_media.values.plain import pack, unpack
from tune_media.values.recording_problems import RecordingProblem
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger("tune_media")

_STALE_SECONDS = 60.0  # after so long a clip is not rendered any more if a newer one of its key waits
_MOST_TAPES = 1000  # that wait
_SHARE = 0.25  # of the room of the outbox that tapes may take
_IN_A_ROW = 8  # tapes of one recipe and node, while others wait: each has a process of its own
_KILL_SECONDS = 5.0  # until a thread whose process was killed has noticed
_RENDERERS_NAME = "the render process"


def tape_row(trial_id: str, entry: MediaEntry) -> NewRow:
    """Return the row of a clip that is still to be rendered.

    Args:
        trial_id: The trial.
        entry: Its medium is a ``TapedClip``.
    """
    clip = entry.medium
    assert isinstance(clip, TapedClip)
    data, recipe = packed_name(entry, clip.facts(), node=clip.node), (clip.recipe.hash, clip.recipe.content)
    return NewRow(trial_id, TAPE, data, pack([clip.tape, clip.episode]), recipe=recipe)


@dataclass(frozen=True, eq=False)
class _Waiting:
    """A clip that is still to be rendered.

    Attributes:
        row: Its row.
        entry: Its place, with a medium without content.
        node: The id of the node of the cluster on which its tape was recorded; empty: not known.
        since: When it began to wait, by the monotonic clock.
    """

    row: Row
    entry: MediaEntry
    node: str
    since: float

    @property
    def place(self) -> tuple[str, str]:
        """What its process is for: a recipe, on a node."""
        return self.row.recipe, self.node

    @property
    def episode(self) -> tuple[str, str, str]:
        """Its episode, which may wait under several keys, and with several views."""
        return self.row.trial, self.row.recipe, str(self.entry.medium.facts().get("episode_id"))

    @property
    def group(self) -> tuple[str, str, str]:
        """Its trial and its key."""
        return self.row.trial, self.entry.section, self.entry.key

    @property
    def is_best(self) -> bool:
        """Whether it shows the best episode of its round."""
        return self.entry.key.rpartition("/")[2] == "best"


class _Bench:
    """Where one clip is rendered at a time: a process, and a thread that waits for it.

    Args:
        pool: Has the process.

    Attributes:
        pool: The pool.
        place: The ``place`` of its last clip.
        in_a_row: How many clips of that place it has rendered one after the other.
        row: The number of the row of the clip that it renders now; None: it is free.
        error: What went wrong with its last clip, if that was not expected.
    """

    def __init__(self, pool: RenderPool) -> None:
        self.pool = pool
        self.place, self.in_a_row = ("", ""), 0
        self.row: int | None = None
        self.error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], None], row: int, outbox: Outbox) -> None:
        """Do work in its thread, and wake those that wait for the outbox."""
        self.row = row
        self._thread = threading.Thread(target=self._run, args=(work, outbox), name="tune_media bench", daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        """Wait for its thread."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self, work: Callable[[], None], outbox: Outbox) -> None:
        try:
            work()
        except BaseException as error:
            self.error = error
        finally:
            self.row = None
            outbox.wake()


class TapeRenderer(OutboxThread):
    """Renders the tapes of an experiment, the best and the newest clips first.

    Tune's loop calls all methods without an underscore but ``turn``, ``failed`` and ``finished``.

    Args:
        outbox: The outbox.
        faults: Counts faults.
        summary: Counts clips.
    """

    niceness = 5

    def __init__(self, outbox: Outbox, faults: Faults, summary: Summary) -> None:
        super().__init__("render", outbox, self.niceness)
        self.options = MediaOptions()
        self._faults, self._summary = faults, summary
        self._stills = Stills(lambda reason: summary.problems([RecordingProblem(f"{SHOWS_NOTHING}: {reason}")]))
        self._benches: list[_Bench] = []
        self._is_over = False  # nothing more is rendered
        self._waiting: dict[int, _Waiting] = {}
        self._ends: dict[str, tuple[Status, float]] = {}  # of trials that have ended, and until when they wait
        self._kept: dict[str, KeptFiles] = {}  # the clips of each trial that retention would keep
        self._has_warned = False

    # -- Tune's loop --------------------------------------------------------------------------------------------------

    def add(self, rows: Iterable[Row]) -> None:
        """Have tapes rendered."""
        for row in rows:
            facts = row.facts()
            (entry,) = entries_of(facts, None, row.seq)
            with self._lock:
                self._waiting[row.seq] = _Waiting(row, entry, facts.get("node", ""), time.monotonic())
            self._summary.taped()
            self._retain(row.trial, entry)
        self._make_room()
        self.begin()
        self._outbox.wake()

    def goes_back(self, trial_id: str, iteration: int) -> None:
        """Render nothing of a trial that it leaves behind: its next result has an iteration again."""
        for waiting in self._all():
            if waiting.row.trial == trial_id and waiting.entry.training_iteration >= iteration:
                self._leave(waiting, "the trial went back behind it", waits=False)
        if (kept := self._kept.get(trial_id)) is not None:
            for file in [file for file in kept.values() if file.order[0] >= iteration]:
                kept.discard(file.path)

    def keep_open(self, trial_id: str) -> None:
        """Append no end of a trial any more."""
        with self._lock:
            self._ends.pop(trial_id, None)

    def end_trial(self, trial_id: str, status: Status) -> bool:
        """Append the end of a trial when its clips are done, or after a while; return whether there are any."""
        with self._lock:
            self._kept.pop(trial_id, None)
            waits = any(waiting.row.trial == trial_id for waiting in self._waiting.values())
            if waits:
                self._ends[trial_id] = status, time.monotonic() + self.options.flush_seconds
        self._outbox.wake()
        return waits

    def finish(self, seconds: float) -> None:
        """Render what is left, at most so long; the rest stays a tape. Then append the ends of trials."""
        self._stop(seconds)
        for waiting in self._all():
            self._leave(waiting, "the experiment ended first")
        self._append_ends(self._ends)

    def interrupt(self) -> None:
        """Render nothing more; what is left waits in the outbox for a restore."""
        self._stop(0.0)
        for _ in self._all():
            self._summary.not_rendered()
        self._append_ends(self._ends)

    def _stop(self, seconds: float) -> None:
        self.close(seconds)
        self._is_over = True
        for bench in self._benches:
            bench.pool.kill()
        for thread in (self._thread, *self._benches):
            if thread is not None:
                thread.join(_KILL_SECONDS)

    @property
    def is_empty(self) -> bool:
        """Whether no clip waits."""
        return not self._waiting

    def _make_room(self) -> None:
        """Leave the oldest tapes if too many wait."""
        waiting = self._all()
        nbytes = sum(one.row.nbytes for one in waiting)
        most = _SHARE * self.options.max_spilled_bytes
        for number, one in enumerate(waiting):
            if nbytes <= most and len(waiting) - number <= _MOST_TAPES:
                return
            self._leave(one, "too many clips waited")
            self._warn()
            nbytes -= one.row.nbytes

    def _retain(self, trial_id: str, entry: MediaEntry) -> None:
        """Leave the clips of a trial that retention would delete, now that there is another one."""
        policy = self.options.retention
        if policy is None or not (policy.last or policy.best) or policy.best_trial_by:
            return
        files = self._kept.setdefault(trial_id, KeptFiles(policy, trial_id))
        order, keys = (entry.training_iteration, entry.time), {(entry.section, entry.key)}
        value = value_of_line(entry.medium.facts(), policy.by)
        files.add(StoredFile(entry.path, trial_id, 0, order, value, keys=keys))
        surplus = {file.path for file in files.take_surplus(is_best=False)}
        for waiting in self._all():
            if waiting.row.trial == trial_id and waiting.entry.path in surplus:
                why = "MediaOptions(retention=...) keeps newer or better ones"
                self._leave(waiting, why, waits=False, is_surplus=True)

    # -- the thread ---------------------------------------------------------------------------------------------------

    @override
    def turn(self) -> bool:
        self._leave_stale()
        self._end_trials()
        while len(self._benches) < self.options.renderers:
            pool = RenderPool(niceness=background_niceness(), resources=self.options.renderer_resources)
            self._benches.append(_Bench(pool))
        for bench in self._benches:
            error, bench.error = bench.error, None
            if error is not None:
                raise error
            waiting = self._next(bench) if bench.row is None and not self._is_over else None
            if waiting is not None:
                bench.begin(functools.partial(self._render, waiting, bench.pool), waiting.row.seq, self._outbox)
        return False

    @override
    def failed(self, error: Exception) -> bool:
        self._faults.report(_RENDERERS_NAME, "appending a clip to the outbox (it is tried again)", error, "away")
        return True

    @override
    def finished(self) -> bool:
        return self.is_empty

    def _all(self) -> list[_Waiting]:
        """Return all clips that wait, the oldest first."""
        with self._lock:
            return [self._waiting[seq] for seq in sorted(self._waiting)]

    def _next(self, bench: _Bench) -> _Waiting | None:
        """Return the clip that a bench renders next.

        Trials that have ended come first, then the best clips, then the newest. While tapes of other recipes or nodes
        wait, a few of one are rendered in a row.
        """
        under_way = self._under_way()
        waiting = [one for one in self._all() if one.episode not in under_way]
        if not waiting:
            return None
        same = [one for one in waiting if one.place == bench.place]
        others = [one for one in waiting if one.place != bench.place]
        if not same or (others and bench.in_a_row >= _IN_A_ROW):
            same, bench.in_a_row = others, 0
        chosen = max(same, key=lambda one: (one.row.trial in self._ends, one.is_best, one.row.seq))
        bench.place, bench.in_a_row = chosen.place, bench.in_a_row + 1
        return chosen

    def _under_way(self) -> set[tuple[str, str, str]]:
        """Return the episodes that are rendered now."""
        rows = {bench.row for bench in self._benches}
        return {one.episode for one in self._all() if one.row.seq in rows}

    def _render(self, waiting: _Waiting, pool: RenderPool) -> None:
        """Render the tape of a clip, and append all clips of it that wait to the outbox, each under its key."""
        try:
            taped = self._taped(waiting)
            verdict = verdict_on(waiting.row.recipe)
            if verdict is not None and not verdict.repeats and not _has_pictures(taped.tape):
                raise RenderError(
                    verdict.reason, 0 if verdict.differs else None
                )  # nothing would tell whether the clip is its episode
            clips = taped.clips_by(pool)
            self._stills.look(clips.values())
        except ContentLostError as error:
            self._lose(waiting, FAILED, str(error))
            return
        except Exception as error:
            if not self._is_over:  # else this process was told to end, and the tape waits for a restore
                self._give_up(waiting, error)
            return
        for one in self._all():
            if one.episode == waiting.episode and not self._gave_up:
                self._append_clip(one, taped.tape, clips)

    def _give_up(self, waiting: _Waiting, error: Exception) -> None:
        """Leave a clip that was not rendered; if that is for its tape, its env runners record directly from now on."""
        if isinstance(error, RenderError) and error.is_of_tape:
            self._refuse(waiting, error)
            return
        self._faults.report(_RENDERERS_NAME, f"rendering {waiting.entry.path}", error)
        if isinstance(error, NoRoomError):
            self._leave(waiting, str(error))
        elif isinstance(error, RenderError):  # for want of memory, say: that tells nothing of the env
            self._leave(waiting, f"the process that renders died of it twice ({error_text(error)})")
        else:  # this machine cannot start a process, or its disk is full
            self._leave(waiting, error_text(error))

    def _taped(self, waiting: _Waiting) -> TapedClip:
        """Return a clip as it came.

        Raises:
            ContentLostError: The disk has lost it.
        """
        tape, episode, *_ = unpack(waiting.row.content() or b"")  # development versions put the node here
        recipe = Recipe(waiting.row.recipe, self._outbox.recipe(waiting.row.recipe))
        return TapedClip(tape, recipe, episode, waiting.node)

    def _append_clip(self, waiting: _Waiting, tape: bytes, clips: dict[str, EncodedVideo]) -> None:
        """Append a clip, if it is one of these, which were rendered of a tape."""
        try:
            taped = self._taped(waiting)
            if taped.tape != tape:  # another episode with the same id
                return
            entry = replace(waiting.entry, medium=taped.finished(clips))
            self._append(waiting, *packed_medium(entry, at=list(waiting.row.stamp)))
        except ContentLostError as error:
            self._lose(waiting, FAILED, str(error))
        except RenderError as error:
            self._refuse(waiting, error)
        except OutboxFullError as error:
            self._faults.report("the outbox", "keeping media", error, kind=DROPPED)
            self._lose(waiting, DROPPED, no_room(error))

    def _lose(
        self, waiting: _Waiting, status: str, reason: str, *, is_refused: bool = False, is_surplus: bool = False
    ) -> bool:
        """Append that a clip has no file, and why; return whether that was not known.

        Args:
            waiting: The clip.
            status: Its status.
            reason: Why.
            is_refused: Whether its env does not repeat its episodes.
            is_surplus: Whether retention would delete it.
        """
        entry, own = waiting.entry, {"surplus": True} if is_surplus else {}
        facts = {"lost": status, "note": reason, "at": list(waiting.row.stamp)}
        facts |= {"recipe": waiting.row.recipe} if is_refused else {}
        return self._append(waiting, packed_name(entry, {**entry.medium.facts(), **own}, **facts), None)

    def _refuse(self, waiting: _Waiting, error: RenderError) -> None:
        """Count a clip that cannot be rendered, and have the env runners record directly."""
        entry, reason = waiting.entry, redacted(str(error))
        try:
            decide(waiting.row.recipe, Verdict(False, reason, differs=error.step is not None))
        except Exception as fault:
            self._faults.report(_RENDERERS_NAME, "telling the env runners to record directly", fault)
        told = RuntimeError(
            f"{reason}. The env runners render the episodes of this env while they run, from their next evaluation on; "
            "to do so from the start, pass render='direct' to the recorder"
        )
        self._faults.report(_RENDERERS_NAME, f"rendering {entry.path}", told, kind=waiting.row.recipe)
        self._lose(waiting, FAILED, reason, is_refused=error.step is not None)

    def _leave_stale(self) -> None:
        """Leave clips that have waited long, if newer ones of their keys wait: rendering is slower than recording."""
        waiting = self._all()
        newest: dict[tuple[str, str, str], int] = {}
        for one in waiting:
            newest[one.group] = max(newest.get(one.group, 0), one.entry.training_iteration)
        under_way = self._under_way()
        for one in waiting:
            is_late = one.episode not in under_way and time.monotonic() - one.since > _STALE_SECONDS
            if is_late and one.entry.training_iteration < newest[one.group]:
                self._leave(one, "rendering is slower than recording, and newer clips waited")
                self._warn()

    def _leave(self, waiting: _Waiting, why: str, *, waits: bool = True, is_surplus: bool = False) -> None:
        """Leave a clip as it is, a tape.

        Args:
            waiting: The clip.
            why: Why it is not rendered.
            waits: Whether anybody may want it later.
            is_surplus: Whether retention would delete it.
        """
        episode = waiting.entry.medium.facts().get("episode_id")
        note = f"not rendered: {why}; `tune-media render --episodes {episode}` makes the clip of the tape"
        try:
            is_new = self._lose(waiting, ONLY_TAPE, note, is_surplus=is_surplus)
        except (OSError, sqlite3.Error) as error:
            self._faults.report("the outbox", "listing a clip that is not rendered", error)
            return
        if is_new and waits:
            self._summary.not_rendered()

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tune_media: rendering is slower than recording, so older clips stay tapes and newer ones are "
                "rendered: %s. Record fewer episodes, or render fewer frames: VideoOptions(every=...).",
                self._summary.waiting_text(),
            )

    def _append(self, waiting: _Waiting, data: bytes, content: bytes | None) -> bool:
        """Append what has become of a clip, unless that is known already; return whether it was not."""
        row = NewRow(waiting.row.trial, "media", data, content)
        is_new = self._outbox.replace_tape(waiting.row.seq, row, self.options.max_spilled_bytes)
        with self._lock:
            self._waiting.pop(waiting.row.seq, None)
        return is_new

    def _end_trials(self) -> None:
        """Append the ends of trials of which no clip waits; after a while the clips of a trial stay tapes."""
        now = time.monotonic()
        with self._lock:
            late = {trial for trial, (_, until) in self._ends.items() if now > until}
        for waiting in self._all():
            if waiting.row.trial in late:
                self._leave(waiting, "the trial ended first")
        with self._lock:
            busy = {waiting.row.trial for waiting in self._waiting.values()}
            ended = [trial for trial in self._ends if trial not in busy]
        self._append_ends(ended)

    def _append_ends(self, trials: Iterable[str]) -> None:
        for trial in list(trials):
            with self._lock:
                status, _ = self._ends.get(trial, (None, 0.0))
                is_whole = all(waiting.row.trial != trial for waiting in self._waiting.values())
                if status is not None:  # under the lock: no start of the trial comes between
                    self._outbox.end(trial, status, is_whole=is_whole)
                    del self._ends[trial]


def _has_pictures(tape: bytes) -> bool:
    """Return whether a tape has checksums of frames with which those of its replay can be compared."""
    pictures = Tape.unpacked(tape).pictures
    return bool(pictures) and pictures.how != "sparse"
