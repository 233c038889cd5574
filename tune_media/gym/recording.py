"""The common part of the wrappers for single and vector envs: they report each reset and step to a ``Recording``."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.gym.episode_statistics import EpisodeStatistics, Reward, as_reward, by_objective, total
from tune_media.gym.fixed_length import FixedLengthClips
from tune_media.gym.wrapper_arguments import Arguments
from tune_media.gym.wrapper_taping import WrapperTaping
from tune_media.recording.choosing import CHOOSES_NOTHING, DATA, chosen_by, result_of
from tune_media.recording.collector import unmatched
from tune_media.recording.episode import Candidate, EpisodeStart
from tune_media.recording.episode_clips import Render
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import GYM_EXAMPLE, Renderer, describe, reset_seed, sub_env
from tune_media.recording.seeding import seeded
from tune_media.selection import RenderBudget, Trigger, every
from tune_media.values.checks import above_0, as_shown
from tune_media.values.episodes import EpisodeData, thinned
from tune_media.values.medium import new_id
from tune_media.values.video import Video

if TYPE_CHECKING:
    from tune_media.gym.video_folder import VideoFolder

MAX_UNTAKEN = 1000  # episodes whose data are held, without a warning, until the first take(): most never call it
_SAME_STEP_NOTE = "the vector env resets in the step that ends an episode: the final frame is missing"


class Recording:
    """Records the sub-envs of one env: statistics of all of them, clips and data of the chosen ones.

    Everything happens in the thread that steps the env. For each reset or step of the whole env, ``begin_reset`` or
    ``begin_step`` comes first, then ``start`` or ``step`` for each sub-env. Raises ValueError or OSError.
    """

    def __init__(self, env: Any, count: int, arguments: Arguments) -> None:
        arguments.check_env(env)
        self._env, self._count, self._plan = env, count, arguments.plan()
        self._renderer = Renderer(env, arguments.frame, GYM_EXAMPLE)
        self._indices, self._records_whole_episodes = arguments.indices(count), arguments.records_whole_episodes
        self._folder: VideoFolder | None = None
        if arguments.folder is not None:
            from tune_media.gym.video_folder import VideoFolder  # it loads Arrow, which only folders need

            self._folder = VideoFolder(arguments.folder, arguments.name_prefix, count, arguments.params)
        self._renders: dict[int, Render] = {}  # by sub-env, of the episodes that run
        self._clips: FixedLengthClips | None = None
        if arguments.video is not None and (arguments.step_trigger is not None or arguments.video_length):
            self._clips = FixedLengthClips(self._frames, arguments.video, arguments.video_length, self._write)
        self._step_trigger, self._steps = arguments.step_trigger, 0
        self._due: str | None = None  # the name of the clips that start at this step
        self._episodes = [-1] * count
        self.recorder = Recorder(self._plan, None if self._folder is None else self._file)
        self._replays = WrapperTaping(self.recorder, env, self._indices, arguments.env_fn, arguments.frame)
        self.recorder.candidates.most_untaken = MAX_UNTAKEN
        self._has_checked_paths = False
        self._abandoned_in_a_row = 0  # episodes that were reset in mid-episode, since the last one that ended
        self.statistics = EpisodeStatistics(count, arguments.buffer_length)
        self.writes_statistics = arguments.statistics  # into the infos

    @property
    def is_running(self) -> bool:
        """Whether a clip is being encoded."""
        running = map(self.recorder.running, self._indices)
        return bool(self._clips) or any(episode is not None and episode.clips is not None for episode in running)

    def records(self, index: int) -> bool:
        """Return whether steps of a sub-env are looked at; its statistics are kept in any case."""
        has_clips = self._clips is not None and index in self._indices
        return has_clips or self.recorder.running(index) is not None

    def reads_success(self, index: int) -> bool:
        """Return whether the info of a sub-env's next step may say that its episode succeeds."""
        episode = self.recorder.running(index)
        return episode is not None and episode.success.is_read

    def _frames(self, index: int) -> Mapping[str, Any]:
        """Return the current frames of a sub-env whose episode runs."""
        return self._renders[index]()

    def begin_reset(self) -> None:
        """The env has been reset."""
        self._renderer.new_step()
        self._due = None

    def begin_step(self) -> None:
        """The env has been stepped."""
        self._renderer.new_step()
        if self._step_trigger is not None:
            self._due, number = None, self._steps
            self._steps += 1
            with self._guard("step_trigger="):
                if self._step_trigger(number):
                    self._due = f"step-{number}"

    def capture(self) -> None:
        """The only env is in the middle of a step, and asks for a frame of what it shows now."""
        self._renderer.new_step()
        self._replays.give_up(f"{describe(self._env)} asks for frames within its steps, which no tape has")
        episode = self.recorder.running(0)
        if episode is not None and episode.clips is not None:
            with self.recorder.clock.render(), self.recorder.guard_clip(episode, "a frame"):
                episode.clips.feed_between()
        if self._clips is not None:
            self._record_clip(0, None)

    @property
    def fps(self) -> float:
        """Frames per second of the clips that begin from now on, if every frame is kept."""
        return (self._plan.video and self._plan.video.fps) or self._renderer.fps(0)

    @fps.setter
    def fps(self, fps: float) -> None:
        above_0().check("frames_per_sec", fps)
        self._renderer.set_fps = float(fps)

    def start(self, index: int, seed: int | None = None, observation: Any = None, info: Any = None) -> None:
        """The sub-env has been reset; ``observation`` is needed only if the recorder looks at steps.

        ``info`` is needed only if infos may tell of successes.
        """
        if (running := self.recorder.running(index)) is not None and running.episode_length:
            self._note_abandoned(running.episode_length)
        self._break_off(index, "unfinished: the env was reset in mid-episode")
        self._episodes[index] += 1
        self.statistics.begin(index)
        if index not in self._indices:
            return
        with self.recorder.guard(index, "the start of an episode"):
            inner = sub_env(self._env, index)
            wrapper, on_tape = seeded(inner), self._replays.on_tape(inner)
            given_seed = wrapper.last if wrapper else on_tape.tape.seed if on_tape is not None else seed
            render = self._replays.watched(index, inner, functools.partial(self._renderer.frames, index))
            self._renders[index] = render
            start = EpisodeStart(
                new_id(),
                render if self._records_whole_episodes else None,
                self._renderer.fps(index),
                env=inner,
                vector_env=self._env,
                seed=reset_seed(inner) if given_seed is None else given_seed,
                seed_is_new=given_seed is not None,
                observation=observation,
                info=info,
                on_tape=on_tape,
                facts={"env_index": index},
            )
            is_wanted = self.recorder.start(index, start)
            if self._clips is not None:
                may_end_clip = self._plan.trigger is not None or index not in self._clips
                is_first = is_wanted and not self._records_whole_episodes and self._step_trigger is None
                self._record_clip(index, f"episode-{self._episodes[index]}" if is_first and may_end_clip else self._due)

    def _note_abandoned(self, steps: int) -> None:
        """Count an episode that is reset in mid-episode; say so if one sub-env has two, and none ended."""
        self.recorder.abandoned += 1
        self._abandoned_in_a_row += 1
        if self._abandoned_in_a_row > len(self._indices):
            self.recorder.problems.report(
                f"{describe(self._env)} was reset before the end of {self._abandoned_in_a_row} episodes in a row, the "
                f"last time after step {steps}. If a time limit is meant, put it inside the recorder, as in "
                f"RecordEpisodes(TimeLimit(env, {steps})), or pass max_episode_steps={steps} to gymnasium.make()",
                "episodes that no step ends have no return and no data, and are never chosen",
                kind="abandoned",
            )

    def resets_itself(self) -> None:
        """The only env resets itself in a step, which no tape shows."""
        self._replays.give_up(
            f"{describe(self._env)} resets itself, out of reach of a replay; put gymnasium.wrappers.Autoreset outside "
            "of RecordEpisodes"
        )

    def step(
        self,
        index: int,
        reward: Reward,
        action: Any = None,
        info: Any = None,
        *,
        observation: Any = None,
        picture: bool = True,
    ) -> None:
        """The sub-env has been stepped; not ``picture``: it already shows its next episode.

        Action and observation are needed only if the recorder looks at steps, the info only if it looks at infos or
        ``reads_success``.
        """
        self.statistics.add(index, reward)
        if index not in self._indices:
            return
        number = total(reward)
        self.recorder.step(index, number, action, info, picture=picture, observation=observation, env_index=index)
        if self._clips is not None and picture:
            self._record_clip(index, self._due)

    def reward(self, reward: Any) -> Reward:
        """Return the reward of a step; NaN, with a warning, of one that is no number; the user's loop continues."""
        try:
            return as_reward(reward)
        except Exception:
            if self._plan.strict:
                raise
            text = f"{describe(self._env)} gave the reward {as_shown(reward)}, which is not a number"
            self.recorder.problems.report(text, "the returns of such episodes are NaN", kind="reward")
            return math.nan

    def end(self, index: int, *, terminated: bool, picture: bool = True, info: Any = None) -> dict[str, Any]:
        """The sub-env's episode is over: return its statistics. Not ``picture``: it shows its next episode."""
        ended = self.statistics.end(index)
        if index in self._indices:
            self._abandoned_in_a_row = 0
            if picture:
                self.show_last(index)
            episode, metrics = self.recorder.running(index), by_objective(ended["r"])
            is_cut = not picture and episode is not None and episode.clips is not None
            self.recorder.end(
                index,
                metrics=metrics,
                terminated=terminated,
                info=info,
                note=_SAME_STEP_NOTE if is_cut else None,
                on_end=functools.partial(self._replays.has_ended, shows_last=picture),
            )
            if self._clips is not None and self._clips.end_with_episodes:
                self._close_clip(index, whole=True)
        return ended

    def take(self) -> dict[str, Any]:
        """Return the chosen clips, and the data, of the episodes that ended since the last call."""
        self._check_paths()
        candidates, plan = self.recorder.candidates, self._plan
        episodes, records = candidates.data(), candidates.records()
        chosen, reasons = chosen_by(plan.selectors, records, strict=plan.strict)
        for reason in reasons:
            self.recorder.problems.report(reason, CHOOSES_NOTHING)
        seen = [record.id for record in records] + [episode.record.id for episode in episodes]
        winners = candidates.take({record.id for several in chosen.values() for record in several}, seen)
        taken, note = self._replays.taken(winners, episodes), self._note_dropped()
        for id, winner in winners.items():
            if winner.no_clip is not None:
                taken.lose(id, winner.no_clip)
                self.recorder.problems.report(winner.no_clip, lost=1)
        if not episodes:
            return self.recorder.news()
        recipes = {} if (recipe := self._replays.recipe) is None else {recipe.hash: recipe.content}
        tiled, kept = plan.tiled, thinned(episodes)
        result = result_of(plan.selectors, chosen, taken, kept, recipes, is_tiled=tiled, note=note)
        metrics = result[DATA].metrics()
        return result | ({"custom_metrics": metrics} if metrics else {}) | self.recorder.news()

    def _note_dropped(self) -> str | None:
        """Return how many episodes ended too long before the first ``take()``, and hold more from now on."""
        candidates = self.recorder.candidates
        candidates.most_untaken = None
        dropped, candidates.dropped = candidates.dropped, 0
        if not dropped:
            return None
        reason = f"{dropped:,} episodes ended too long before take(); call it at least every {MAX_UNTAKEN:,} episodes"
        self.recorder.problems.report(reason, "the data of episodes are left out", kind="untaken")
        return reason

    def _check_paths(self) -> None:
        """Report the paths of ``collect=`` that no step has had, once."""
        episodes = self.statistics.episode_count
        if episodes and not self._has_checked_paths:
            self._has_checked_paths = True
            for reason in unmatched(*self.recorder.collector.never_matched(), episodes):
                self.recorder.problems.report(reason, "a value is missing")

    def close(self) -> None:
        """Save unfinished clips, marked as such, and end the process that renders."""
        self._check_paths()
        self._replays.close()
        for index in range(self._count):
            self.show_last(index)
            self._break_off(index, "unfinished: the env was closed")
            self._close_clip(index, whole=False)
        if self._folder is not None:
            with self._guard("saving the data of episodes", "they are not in the folder", lost=0):
                self._folder.flush()

    def _record_clip(self, index: int, name: str | None) -> None:
        """Start a clip that is not a whole episode if there is a name for it, and add the current frame."""
        assert self._clips is not None
        if name is not None or index in self._clips:
            with self._guard("a clip"):
                if name is not None:
                    self._clips.open(index, name, self._renderer.fps(index))
                self._clips.feed(index)

    def show_last(self, index: int) -> None:
        """The sub-env will be reset or closed: record the frame that it shows, if ``every`` skipped it."""
        self.recorder.show_last(index)
        if self._clips is not None:
            with self._guard("a clip"):
                self._clips.feed_last(index)

    def _close_clip(self, index: int, *, whole: bool) -> None:
        if self._clips is not None:
            with self._guard("saving a clip"):
                self._clips.close(index, whole=whole)

    def _break_off(self, index: int, note: str) -> None:
        """Save an episode that is over before its end, unless it has not made a step."""
        if self._clips is not None and self._clips.end_with_episodes:
            self._close_clip(index, whole=False)
        if self.statistics.lengths[index] == 0:
            self.recorder.abandon(index)
            return
        with self.recorder.guard(index, "saving an unfinished episode"):
            candidate = self.recorder.break_off(index, note)
            if candidate is not None:
                self._save(candidate, whole=False)

    def _file(self, data: EpisodeData, candidate: Candidate | None) -> None:
        """Write the clips of an episode that has ended to the folder, and its data from time to time."""
        if self._folder is not None:
            try:
                if candidate is not None:
                    self._save(candidate, running=data.record.episode_length)
            finally:
                with self._guard("saving the data of episodes", "they are tried again with later ones", lost=0):
                    self._folder.add(data, candidate)

    def _save(self, candidate: Candidate, *, whole: bool = True, running: int = 0) -> None:
        """Write the clips of an episode to the folder, if there is one."""
        index = candidate.record.env_index
        if self._folder is not None and index is not None:
            for view, video in candidate.videos().items():
                name = f"episode-{self._episodes[index]}"
                self._folder.write(index, name, video, view=view, whole=whole, running=running)

    def _write(self, index: int, name: str, clip: EncodedVideo, whole: bool) -> None:
        self.recorder.stills.look([clip])
        if self._folder is not None:
            running = int(sum(self.statistics.lengths))
            self._folder.write(index, name, Video.from_encoded(clip), whole=whole, running=running)

    @contextlib.contextmanager
    def _guard(self, subject: str, consequence: str = "no clip", *, lost: int = 1) -> Iterator[None]:
        """Turn an exception of a user's function or env into a warning; the user's loop continues."""
        try:
            yield
        except Exception as error:
            if self._plan.strict:
                raise
            self.recorder.problems.report_error(subject, error, consequence, lost=lost)


class RecordingWrapper:
    """The part of a wrapper's interface that does not depend on the kind of env."""

    _recording: Recording

    @property
    def return_queue(self) -> deque[Reward]:
        """Returns of the last episodes that ended, at most ``buffer_length`` of them."""
        return self._recording.statistics.return_queue

    @property
    def length_queue(self) -> deque[int]:
        """Lengths of the last episodes that ended, steps."""
        return self._recording.statistics.length_queue

    @property
    def time_queue(self) -> deque[float]:
        """Durations of the last episodes that ended, seconds."""
        return self._recording.statistics.time_queue

    @property
    def episode_trigger(self) -> Trigger | RenderBudget:
        """The trigger that decides which episodes are recorded."""
        return self._recording.recorder.plan.trigger or every(1)

    @property
    def episode_count(self) -> int:
        """Number of episodes that ended."""
        return self._recording.statistics.episode_count

    @property
    def recording(self) -> bool:
        """Whether a clip is being encoded now."""
        return self._recording.is_running

    def take(self) -> dict[str, Any]:
        """Hand over the episodes that ended since the last call; each is handed over once.

        Returns:
            For ``tune.report``: by selector, the chosen clips; under ``data``, the records and values of all episodes;
            under ``custom_metrics``, the mean, minimum and maximum of their values; under ``problems``, why clips are
            missing, and how many, if any are; under ``num_abandoned``, how many episodes never ended, if any did not.
            Empty if no episode has ended and there is no problem.
        """
        return self._recording.take()
