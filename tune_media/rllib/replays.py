"""Replays the winners of an RLlib env runner, in an env of its own that is made as RLlib made the first one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from tune_media.recording.episode import Candidate
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.rendering import describe
from tune_media.replay.recipe import Recipe
from tune_media.replay.replay_decision import Replayer, Taken
from tune_media.rllib.second_env import env_maker, recipe_of
from tune_media.rllib.settings import EVALUATION, RecorderSettings
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)


class Replays(Replayer):
    """Decides how an env runner renders its episodes, and replays its winners. Its thread calls everything here.

    Args:
        settings: The arguments of ``record_episodes``.
        section: The env runner's section; training episodes are never replayed.
        env_runner: Its index.
        recorder: Its recorder, which is told of problems.

    Attributes:
        recipe: How its envs are made; None: not known, or nothing is taped.
    """

    def __init__(self, settings: RecorderSettings, section: str, env_runner: int, recorder: EpisodeRecorder) -> None:
        super().__init__(recorder, settings.frame, is_possible=section == EVALUATION)
        self._settings, self._index = settings, env_runner
        self._has_own_envs = False  # the old API stack tells each sub-env its index
        self._watches_stop = False
        self.recipe: Recipe | None = None

    def are_new(self, env_runner: Any, env: Any, first: int = 0) -> None:
        """Envs were made: put their episodes on tape from now on.

        Args:
            env_runner: The env runner.
            env: Its vector env, or one of its sub-envs.
            first: The index of the first sub-env in it.
        """
        if self.tapes:
            entropy = (env_runner.config.seed, self._index)
            self.put_all_on_tape(env, self._settings.env_indices, entropy, first=first)
        if self.tapes and first == 0:
            self.recipe = self._noted_recipe(env_runner, env)

    def _noted_recipe(self, env_runner: Any, env: Any) -> Recipe | None:
        """Return how the envs are made; None, with a problem, if that cannot be stored."""
        try:
            return recipe_of(env_runner, env, self._settings.frame)
        except Exception as error:
            why = f"how env {describe(env)} is made cannot be stored ({error_text(error)})"
            remedy = "its tapes need tune-media render --env module:function"
            if self.plan.tapes:
                self._recorder.problems.report(why, remedy, kind="recipe")
            else:  # nobody has asked for tapes
                logger.info("recording %r: %s; %s", self.plan.name, why, remedy)
            return None

    def taken_from(self, env_runner: Any, winners: Mapping[str, Candidate]) -> Taken:
        """Return the winners of an env runner with their clips, by the id of their record."""
        self._has_own_envs = hasattr(env_runner, "env_creator")

        def make(index: int) -> Any:
            self._close_with(env_runner)
            make_env = env_maker(env_runner, index)
            assert make_env is not None
            return make_env()

        return self.taken(winners, make)

    @override
    def key_of(self, index: int) -> int:
        return index if self._has_own_envs else 0

    def _close_with(self, env_runner: Any) -> None:
        if self._watches_stop:
            return
        self._watches_stop, stop = True, env_runner.stop

        def stop_both(*args: Any, **kwargs: Any) -> Any:
            self.close()
            return stop(*args, **kwargs)

        env_runner.stop = stop_both
