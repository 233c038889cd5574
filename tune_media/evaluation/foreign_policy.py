"""Plays policies of other libraries than RLlib: CleanRL's, Stable-Baselines3's, your own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tune_media.evaluation.memory import Manner, PolicyLoader, manner_of, reset_of
from tune_media.recording.episode import EpisodeStart, OnTape
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.replay import playing
from tune_media.replay.prefix import Prefix
from tune_media.replay.recipe import EnvConfig, Recipe
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.selection import as_selectors
from tune_media.values.episodes import EpisodeData
from tune_media.values.medium import joined, new_id
from tune_media.values.problems import argument
from tune_media.values.secrets import error_text

_NAME, _SLOT = "episodes", 0


class ForeignPolicyPlayer:
    """Plays episodes of a single-agent env of Gymnasium's with any policy; it raises what the user's functions raise.

    The policy's ``reset()`` is called before each episode. If it has none, the loader's manner says how it is told.
    ``settings.env`` makes the env from ``env_config``, or the tape of ``settings.fork`` does.
    """

    def __init__(self, loader: PolicyLoader, checkpoint: Path, settings: playing.PlayerSettings) -> None:
        self.played_as = playing.PlayedAs(None, None, loader.note)
        self.seed = 0  # of the episode that is played, or was last
        self._loader, self._checkpoint = loader, checkpoint
        self._is_new = False  # the policy has played nothing yet
        self._load()
        self._prefix: Prefix | None = None
        self._recipe: Recipe | None = None
        if settings.fork is None:
            assert settings.env is not None
            self._env = settings.env(EnvConfig(settings.env_config))
            self._tapes = TapeRecorder(self._env)
            with contextlib.suppress(Exception):  # how the env is made cannot be pickled: there will be no clips
                self._recipe = Recipe.of(settings.env, settings.env_config, self._env)
        else:
            self._env, self._recipe = settings.fork.env(), settings.fork.recipe
            self._tapes = TapeRecorder(self._env)
            self._prefix = Prefix(self._env, settings.fork, playing.seed_everything)
        how: dict[str, Any] = {"success": settings.success, "success_when": settings.success_when}
        plan = Plan(_NAME, as_selectors("last"), video=None, tapes=True, later=settings.video, **how)
        # there is a player for every few seeds: what its recorder has to say, notes and errors of the command say once
        self._recorder = Recorder(plan, problems_are_collected=True)

    @property
    def recipes(self) -> Mapping[str, bytes]:
        """What makes the env again, by its hash."""
        return {} if self._recipe is None else {self._recipe.hash: self._recipe.content}

    def episodes(self, seeds: Sequence[int]) -> Iterator[EpisodeData | None]:
        """Yield the episode of each seed; None if an episode has been played that only shows the manner."""
        if self._loader.manner is None and self._reset is not None:
            self._loader.manner = Manner(note=self._note)
            self.played_as = replace(self.played_as, note=self._note)
        if self._loader.manner is None and len(seeds) > 1:  # one episode needs to know of no other
            first, second, *seeds = seeds
            yield from self._probed(first, second)
        if self._loader.manner is None or self._loader.manner.error is None:
            yield from map(self.play, seeds)

    def _probed(self, first: int, second: int) -> Iterator[EpisodeData | None]:
        """Play the first seed again after the second one, and find out the manner; yield the episodes last."""
        loader, note, traces = self._loader, self._note, [playing.Trace(), playing.Trace()]
        episodes = [self.play(first, traces[0])]
        yield None
        try:
            episodes.append(self.play(second))
            yield None
            self.play(first, traces[1])
            yield None
        except playing.CheckpointError:
            raise
        except Exception as error:  # one that has planned a single episode, for example, has no more actions
            traces[1].error = error_text(error)
        manner = manner_of(loader, first, traces, note)
        if manner.is_loaded_anew:
            traces.append(playing.Trace())
            self._load()
            self.play(first, traces[2])
            yield None
            manner = manner_of(loader, first, traces, note)
            if manner.error is None:
                self._load()
                episodes[1:] = [self.play(second)]
        loader.manner = manner
        self.played_as = replace(self.played_as, note=joined(self.played_as.note, manner.note))
        if manner.error is None:
            yield from episodes

    def play(self, seed: int, trace: playing.Trace | None = None) -> EpisodeData:
        """Play the episode of a seed (of the env, Python, NumPy and torch), or the continuation with this number."""
        prefix = self._prefix
        if prefix is not None:
            prefix.number = seed
        self._begin(seed)
        act = self._policy if trace is None else trace.watched(self._policy)
        observation, info = self._env.reset(seed=seed)
        assert self._tapes.tape is not None
        recipe = None if self._recipe is None else self._recipe.hash
        start = EpisodeStart(
            new_id(),
            fps=playing.fps_of(self._env),
            env=self._env,
            seed=seed,
            seed_is_new=True,
            observation=observation,
            info=info,
            on_tape=OnTape(self._tapes.tape, recipe, is_rendered_later=False),
            facts={"env_runner": 0, "env_index": 0, "section": "evaluation"},
        )
        self._recorder.start(_SLOT, start)
        terminated = truncated = False
        while not (terminated or truncated):
            action = act(observation)
            observation, reward, terminated, truncated, info = self._env.step(action)
            action = action if prefix is None else prefix.action
            self._recorder.step(_SLOT, float(reward), action, info, observation=observation)
        self._recorder.end(_SLOT, terminated=bool(terminated), info=info)
        data = self._recorder.candidates.data()
        self.played_as = self.played_as.noted(self._recorder.success)
        self._recorder.candidates.take((), [episode.record.id for episode in data])
        if not data:
            raise playing.CheckpointError(f"the episode of seed {seed} was not recorded")
        record = replace(data[0].record, seed=seed)
        return replace(data[0], record=record if prefix is None else playing.on_fork(record, prefix))

    def _begin(self, seed: int) -> None:
        """Seed the generators, and tell the policy that an episode begins."""
        self.seed, manner = seed, self._loader.manner
        if manner is not None and manner.is_loaded_anew and not self._is_new:
            self._load()
        self._is_new = False
        playing.seed_everything(seed if self._prefix is None else self._prefix.point.seed)
        if self._reset is not None:
            self._reset()

    def close(self) -> None:
        """Close the env."""
        with contextlib.suppress(Exception):
            self._env.close()

    def _load(self) -> None:
        """Load the policy as it is at the beginning."""
        self._policy: Any = None  # the one before need not wait in memory until another one is there
        self._reset: Callable[[], Any] | None = None
        playing.seed_everything(0)  # what is drawn while it is loaded is the same each time
        self._policy = self._loader.load(str(self._checkpoint))
        if not callable(self._policy):
            must = " must return a function from an observation to an action, and returned "
            returned = type(self._policy).__name__
            raise playing.CheckpointError("the function of " + argument("policy=") + must + returned)
        self._reset, self._note = reset_of(self._policy)
        self._is_new = True
