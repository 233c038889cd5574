"""Plays policies of other libraries than RLlib: CleanRL's, Stable-Baselines3's, your own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tune_media.recording.episode import EpisodeStart, OnTape
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.replay import playing
from tune_media.replay.prefix import Prefix
from tune_media.replay.recipe import EnvConfig, Recipe
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.selection import as_selectors
from tune_media.values.episodes import EpisodeData
from tune_media.values.medium import new_id
from tune_media.values.problems import argument

_NAME, _SLOT = "episodes", 0


class ForeignPolicyPlayer:
    """Plays episodes of a single-agent env of Gymnasium's with any policy; it raises what the user's functions raise.

    ``load`` takes the checkpoint's folder, and returns a function from an observation to an action. ``settings.env``
    makes the env from ``env_config``, or the tape of ``settings.fork`` does.
    """

    def __init__(
        self, load: Callable[[str], Callable[[Any], Any]], checkpoint: Path, settings: playing.PlayerSettings
    ) -> None:
        self.played_as = playing.PlayedAs(None, None)
        self._policy = load(str(checkpoint))
        if not callable(self._policy):
            must = " must return a function from an observation to an action, and returned "
            returned = type(self._policy).__name__
            raise playing.CheckpointError("the function of " + argument("policy=") + must + returned)
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
        success: dict[str, Any] = {"success": settings.success, "success_when": settings.success_when}
        self._recorder = Recorder(Plan(_NAME, as_selectors("last"), video=None, tapes=True, **success))

    @property
    def recipes(self) -> Mapping[str, bytes]:
        """What makes the env again, by its hash."""
        return {} if self._recipe is None else {self._recipe.hash: self._recipe.content}

    def play(self, seed: int) -> EpisodeData:
        """Play the episode of a seed (of the env, Python, NumPy and torch), or the continuation with this number."""
        prefix = self._prefix
        if prefix is not None:
            prefix.number = seed
        playing.seed_everything(seed if prefix is None else prefix.point.seed)
        observation, info = self._env.reset(seed=seed)
        assert self._tapes.tape is not None
        recipe = None if self._recipe is None else self._recipe.hash
        start = EpisodeStart(
            new_id(),
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
            action = self._policy(observation)
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

    def close(self) -> None:
        """Close the env."""
        with contextlib.suppress(Exception):
            self._env.close()
