"""Records the episodes of one RLlib env runner under one name."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tune_media.recording.choosing import Winners
from tune_media.recording.episode import Candidate, EpisodeStart, RunningEpisode
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import sub_env
from tune_media.recording.seeding import seeded
from tune_media.rllib import ray_names, stacks
from tune_media.rllib.counting import FetchedEpisodes, watch_fetches
from tune_media.rllib.env_runner_taping import EnvRunnerTaping
from tune_media.rllib.env_tap import EnvTap, Transition
from tune_media.rllib.own_values import add_own_values
from tune_media.rllib.replies import EpisodesReply, FirstReply, Unfinished
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.sub_env_access import SubEnvAccess
from tune_media.selection import RenderBudget
from tune_media.values.episode_record import DIRECT
from tune_media.values.medium import new_id
from tune_media.values.problems import FrameError
from tune_media.values.sections import EVALUATION, TRAIN

logger = logging.getLogger(__name__)

_NOT_COLLECTED = (
    "record_episodes %r: evaluation episodes are recorded, but so far nobody collects them, and no result has a clip. "
    "If the recorder is only in evaluation_config (callbacks or callbacks_class), pass it to config.callbacks(...) "
    "instead; it records evaluations (sections='evaluation') from there."
)


@dataclasses.dataclass
class _Running:
    """A running episode."""

    id: str
    # at its first step: the old API stack resets an evaluation's first episode before users set the task
    task: Any = None
    has_stepped: bool = False
    # the sum that its env gave each agent so far; empty for a single-agent env
    rewards: dict[str, float] = dataclasses.field(default_factory=dict)

    def step(self, last: Transition, env: Any, index: int) -> None:
        """Note the parts of a step of the sub-env with this index that its record will need."""
        if isinstance(last.reward, dict):
            for agent, reward in last.reward.items():
                self.rewards[str(agent)] = self.rewards.get(str(agent), 0.0) + float(reward)
        if not self.has_stepped:
            self.has_stepped, self.task = True, stacks.task_of(sub_env(env, index))


class EnvRunnerRecording:
    """The recording of one env runner, or of the old API stack's rollout worker, under one name.

    The env runner's thread calls everything here: RLlib's hooks, and, between two samples, the Algorithm's requests.
    Of several callbacks with the same name, only the ``owner`` records.
    """

    def __init__(self, settings: RecorderSettings, env_runner: Any, owner: Any) -> None:
        self.owner, self._settings = owner, settings
        self._id, self._index, self._section = new_id(), stacks.index_of(env_runner), stacks.section_of(env_runner)
        self.place = (self._index, self._id)  # the env runner's index, and the id of this recording
        self.stack = stacks.stack_of(env_runner.config)
        self._fetched = FetchedEpisodes(
            env_runner.config.num_envs_per_env_runner, env_runner.config.max_requests_in_flight_per_env_runner
        )
        plan = settings.plan
        if self._section == EVALUATION:
            watch_fetches(env_runner, self._fetched.fetch)
            # these hold a winner, whatever number of episodes RLlib counts
            plan = dataclasses.replace(plan, selectors=tuple(map(self._fetched.choosing_from_each, plan.selectors)))
        self.recorder = Recorder(plan, problems_are_collected=True)
        if isinstance(plan.trigger, RenderBudget):
            ray_names.watch_samples(env_runner, self.recorder.clock.resume)
        self._sub_envs = SubEnvAccess(settings, self._section, self._index, self.recorder)
        self.replays = EnvRunnerTaping(settings, self._section, self._index, self.recorder, owner.threads)
        self._running: dict[int, _Running] = {}  # by sub-env
        self._counted: dict[int, tuple[RunningEpisode, EnvTap]] = {}  # by sub-env: episodes that need only rewards
        self._unseen_ends = 0  # since the last answer
        # is_evaluating: a training env runner plays an evaluation, whose episodes are left out
        # is_known: the recorder of an Algorithm has sent a request
        self.is_evaluating = self.is_known = self._has_warned = False
        self._last: EpisodesReply | None = None

    # The env runner's events.

    def new_env(self, env_runner: Any, env: Any) -> None:
        """A vector env was made, for the first time or after a failure: the episodes of the old one are lost."""
        self.recorder.abandon_all(failed=True)
        self.stack.tap(env_runner, env)
        self._sub_envs.are_new(env_runner, env)
        self.replays.are_new(env_runner, env, children=self.owner.children)
        self.stack.put_on_tape(env_runner)
        self._counted.clear()

    def new_sub_env(self, env_runner: Any, env: Any, index: int) -> None:
        """The old API stack made a sub-env, for the first time or after a failure."""
        self.recorder.abandon(index, failed=True)
        self.stack.tap(env_runner, env)
        self._sub_envs.are_new(env_runner, env, index)
        self.replays.are_new(env_runner, env, index, children=self.owner.children)

    def start(self, episode: Any, env_runner: Any, env: Any, index: int) -> None:
        """An episode starts: the sub-env has been reset."""
        self._counted.pop(index, None)
        if self.is_evaluating:
            return
        if self._section == EVALUATION and not self.is_known and not self._has_warned:
            self._has_warned = True
            logger.warning(_NOT_COLLECTED, self._settings.plan.name)
        renderer, no_clip = None, None
        try:
            renderer = self._sub_envs.renderer_of(env)
            renderer.at(index)
        except FrameError as error:
            if self._settings.plan.strict:
                raise
            no_clip = str(error)
        with self.recorder.guard(index, "the start of an episode"):
            begun: stacks.StackEpisode = self.stack(episode, env_runner, env, index)
            inner = sub_env(env, index)
            wrapper, on_tape = seeded(inner), self.replays.on_tape(inner)
            seed, is_known = wrapper.last if wrapper else on_tape.tape.seed if on_tape is not None else None, True
            if seed is None:
                seed, is_known = begun.own_seed()
            self._running[index] = _Running(new_id())
            render = None
            if renderer is not None:
                render = self.replays.watched(index, inner, functools.partial(renderer.frames, index))
            start = EpisodeStart(
                begun.id,
                render,
                renderer.fps(index) if renderer else 0.0,
                env=inner,
                vector_env=env,
                seed=seed,
                seed_is_new=is_known,
                agents=begun.agents,
                no_clip=no_clip,
                observation=begun.transition(0.0).observation if self.recorder.looks_at_steps else None,
                info=begun.reset_info() if self.recorder.plan.tells_success else None,
                on_tape=on_tape,
                facts={
                    "id": self._running[index].id,
                    "env_runner": self._index,
                    "env_index": index,
                    "section": self._section,
                    "explored": bool(env_runner.config.explore),
                },
            )
            self.recorder.start(index, start, episode=episode)

    def count(self, index: int) -> bool:
        """Count the step that a sub-env has made, if its reward is all that is needed; return whether it is."""
        if (counted := self._counted.get(index)) is None:
            return False
        episode, tap = counted
        if (reward := tap.plain_reward(index, self.recorder.collector.may_find)) is None:
            return False
        episode.count(reward)
        if episode.success.is_read:
            self.recorder.success.step(episode.success, tap.info(index))
        if episode.episode_length >= episode.next_place:
            self._sub_envs.at(index)
            self.recorder.take_own_frame(episode)
        return True

    def step(self, episode: Any, env_runner: Any, env: Any, index: int) -> None:
        """The sub-env has been stepped, and ``count`` said no."""
        recorded = self.recorder.running(index)
        if recorded is None:
            return
        self._sub_envs.at(index)
        with self.recorder.guard(index, "a step"):
            last = self.stack(episode, env_runner, env, index).transition(
                recorded.episode_return, whole=self.recorder.looks_at_steps
            )
            running = self._running.get(index)
            if running is not None:
                running.step(last, env, index)
            self.recorder.step(
                index,
                last.total_reward,
                last.action,
                last.info,
                observation=last.observation,
                episode=episode,
                env_index=index,
                of_agents=isinstance(last.reward, dict),
            )
        tap, counted = self.stack.tap_of_all(env_runner), self.recorder.only_counted(index)
        if tap is not None and counted is not None:
            self._counted[index] = (counted, tap)

    def end(self, episode: Any, env_runner: Any, env: Any, index: int, earlier_chunks: Sequence[Any] = ()) -> None:
        """The episode is over; its last step has been recorded."""
        self._counted.pop(index, None)
        running = self._running.pop(index, None)
        if running is None or self.recorder.running(index) is None:
            return
        with self.recorder.guard(index, "the end of an episode"):
            on_stack = self.stack(episode, env_runner, env, index)
            facts = on_stack.end_facts()
            if self.recorder.plan.tells_success:
                facts["info"] = on_stack.transition(facts.get("episode_return", 0.0), whole=False).info
            self._fetched.ended(running.id)
            more = functools.partial(add_own_values, stacks.fields_of(episode))
            returns = stacks.agent_returns(episode, earlier_chunks, running.rewards)
            facts["of_agents"] = bool(returns)
            self.recorder.end(index, more, metrics=returns, task=running.task, on_end=self.replays.has_ended, **facts)

    def fail(self, index: int) -> None:
        """The sub-env has failed, and its episode with it."""
        self._counted.pop(index, None)
        self.recorder.abandon(index, failed=True)

    def pause(self, env_runner: Any) -> None:
        """Nothing is stepped until the next sample is asked for.

        RLlib stops looking at its sub-envs when the last episode that it was asked for has ended. With several agents,
        it has already counted those that ended in the same step, without a hook, and its means leave them out.
        """
        self.recorder.clock.pause()
        if self.stack is not stacks.NewStackEpisode:
            return
        for index, running in self._running.items():
            has_agents = bool(running.rewards) and self.recorder.running(index) is not None
            if has_agents and stacks.NewStackEpisode.is_over(env_runner, index):
                self.recorder.abandon(index)
                self._unseen_ends += 1

    # The Algorithm's requests.

    def before_training(self) -> FirstReply:
        """Return the problems so far, and the recipe if a frame is to be rendered before training.

        That is not needed if the first training episode will show one right away, and be proven later.
        """
        settings, plan = self._settings, self._settings.plan
        is_soon = self._section == TRAIN and plan.trigger is None and plan.render != DIRECT
        wants_frame = settings.check_frame and plan.video is not None and not is_soon
        recipe = self.replays.recipe if wants_frame and self.replays.may_be_made_elsewhere else None
        return FirstReply(self.recorder.problems.take(), recipe)

    def evaluates(self, is_evaluating: bool) -> None:
        """Leave out the episodes that a training env runner starts from now on, or go on; running ones are dropped."""
        if self.is_evaluating != is_evaluating:
            self.recorder.abandon_all()
        self.is_evaluating = is_evaluating

    def begin_round(self, env_runner: Any) -> tuple[int, str]:
        """Begin an evaluation; return the env runner's index and the recording's id."""
        self._fetched.begin_round()
        self.replays.begin_round()
        if self.stack is stacks.NewStackEpisode:  # the old one has already reset the envs for the next episodes
            self._sub_envs.start_seeds_over()
        return self.place

    def end_round(self) -> None:
        """The winners of a round are about to be handed over: a training iteration has no other beginning."""
        if self._section == TRAIN:
            self.replays.begin_round()

    def answer(self, received: Collection[str]) -> EpisodesReply:
        """Return the finished episodes, without those of an answer whose serial is in ``received``."""
        last = self._last
        problems, abandoned, unseen_ends = self.recorder.problems.take(), self.recorder.abandoned, self._unseen_ends
        self.recorder.abandoned = self._unseen_ends = 0
        if last is not None and last.serial in received:
            self.take((), [episode.record.id for episode in last.data])  # if the request for the winners was lost
        elif last is not None:
            problems, abandoned = last.problems + problems, last.abandoned + abandoned
            unseen_ends += last.unseen_ends
        data = [
            dataclasses.replace(episode, is_late=self._fetched.is_late(episode.record.id))
            for episode in self.recorder.candidates.data()
            if not self._fetched.is_open(episode.record.id)
        ]
        in_time = {episode.record.id for episode in data if not episode.is_late}
        self._last = EpisodesReply(
            *self.place,
            new_id(),
            data,
            [record.id for record in self.recorder.candidates.records() if record.id in in_time],
            self._fetched.times_of(in_time),
            problems,
            Unfinished(self.recorder.longest_running(), *self.recorder.collector.never_matched()),
            abandoned,
            self.recorder.starts.counts(),
            kept=Winners(self._light_candidates(in_time)),
            unseen_ends=unseen_ends,
            recipes=self.replays.recipes_of({episode.recipe for episode in data}),
            samples=self.replays.proofs(),
        )
        return self._last

    def _light_candidates(self, ids: Collection[str]) -> dict[str, Candidate]:
        """Return those of some candidates that hold neither clips nor steps nor pictures; they stay here, too."""
        light = [item for item in self.recorder.candidates.held() if item.record.id in ids and item.is_light]
        return {item.record.id: dataclasses.replace(item, tape=None) for item in light}

    def take(self, winners: Collection[str], seen: Collection[str]) -> Winners:
        """Hand over the winners, and drop all other episodes that took part."""
        for id in seen:
            self._fetched.forget(id)
            self.replays.forget(id)
        kept = self.recorder.candidates.take(winners, seen)
        taken = Winners({id: dataclasses.replace(winner, tape=None) for id, winner in kept.items()})
        for id, winner in kept.items():
            if winner.no_clip is not None:
                taken.lose(id, winner.no_clip)
        return taken

    def go_on_from(self, starts: Mapping[str, Mapping[str, int]]) -> None:
        """Continue to count episodes from a checkpoint; see ``env_runner_requests.go_on_from``."""
        of_this = starts.get(str(self._index), {})
        self.recorder.starts.go_on_from({int(index): count for index, count in of_this.items()})
