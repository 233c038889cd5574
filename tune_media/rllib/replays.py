"""Decides whether the clips of an RLlib env runner's episodes are rendered while they run, or later of their tapes."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any

from typing_extensions import override

from tune_media.recording.clips import CHECKED, ENCODED, MOST_BEGUN, Wanted
from tune_media.recording.episode import RunningEpisode, RunningTape
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import describe, inside, sub_env
from tune_media.replay.child_processes import HAS_CHILDREN, child_processes
from tune_media.replay.env_state import Baseline
from tune_media.replay.recipe import Recipe
from tune_media.replay.taping import Taping
from tune_media.replay.verdicts import is_refused_here, verdict_on
from tune_media.rllib.recipes import env_runner_recipe, is_nondeterministic
from tune_media.rllib.settings import RecorderSettings
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY, EpisodeRecord
from tune_media.values.secrets import error_text
from tune_media.values.sections import EVALUATION

logger = logging.getLogger(__name__)

_VERDICT_HOLDS = 1.0  # seconds: if a tape differs, that is found out seconds later anyway
_MOST_ENCODED = 8  # at once, until it is known whether the env repeats its episodes; an encoder takes 7 MB and more
_MOST_RENDERING = 30.0  # seconds, until it is known whether the env repeats its episodes; then they only begin here


class EnvRunnerTaping(Taping):
    """Tapes the episodes of an env runner, and knows which are rendered directly. Its thread calls everything here.

    No env is made here. With ``auto``, episodes are rendered directly until the Algorithm has proven, in a process of
    its own, that the env repeats them; then they are taped only. Of many sub-envs, a few are encoded meanwhile, and of
    the others the frames' checksums are kept, so that a clip made of their tapes is known to be right. If rendering has
    taken half a minute, one episode is rendered to its end, and of the others no more than the first frames.

    Args:
        env_runner: Its index.

    Attributes:
        recipes: The recipes of these envs, and of earlier ones whose tapes have not been collected yet, by hash.
        may_be_made_elsewhere: Whether nothing speaks against making one like them in another process.
    """

    def __init__(self, settings: RecorderSettings, section: str, env_runner: int, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._settings, self._section, self._index = settings, section, env_runner
        self._whole: RunningTape | None = None  # of the episode that is rendered as a whole, whatever it takes
        self._has_whole = False  # whether such a one has ended
        self._read_again_at = 0.0  # the verdict, by the monotonic clock
        self.recipes: dict[str, Recipe] = {}
        self._base: Baseline | None = None
        self.may_be_made_elsewhere = True

    @override
    def frames_of(self, tape: RunningTape) -> Wanted | None:
        if not self._is_unproven:
            return super().frames_of(tape)
        if not self._has_whole and (self._whole is None or not self._recorder.records(self._whole)):
            self._whole = tape
        if self.are_enough(tape):
            return Wanted(False, count=MOST_BEGUN)
        return CHECKED if self._recorder.number_encoded() >= _MOST_ENCODED else ENCODED

    @property
    def _is_unproven(self) -> bool:
        return self.mode == AUTO and self.recipe is not None

    @override
    def are_enough(self, tape: RunningTape) -> bool:
        """Return whether the rest of an episode is rendered of its tape: if rendering the first ones took long.

        One episode is rendered as a whole.
        """
        is_long = self._recorder.clock.rendering > _MOST_RENDERING
        return is_long and self._is_unproven and tape is not self._whole and tape.fault is None

    @override
    def proof(self, episode: RunningEpisode, record: EpisodeRecord, leads: bool) -> None:
        self._has_whole = self._has_whole or episode.tape is self._whole
        super().proof(episode, record, leads)

    def begin_round(self) -> None:
        """A round begins: read what is known of the env by now, which takes a millisecond."""
        if self.mode == DIRECT or self.recipe is None:
            return
        if time.monotonic() < self._read_again_at and not is_refused_here(self.recipe.hash):
            return
        verdict = verdict_on(self.recipe.hash)
        if verdict is not None and not verdict.repeats:
            self.go_direct(verdict.reason)  # whoever found it out has said so
        elif verdict is not None and self.plan.render == AUTO:
            self.is_proven(verdict)
            self._whole = None
            self._read_again_at = time.monotonic() + _VERDICT_HOLDS

    def are_new(self, env_runner: Any, env: Any, first: int = 0, *, children: Collection[int] = ()) -> None:
        """Envs were made: put their episodes on tape from now on.

        Args:
            env: Its vector env, or one of its sub-envs.
            first: The index of the first sub-env in it.
            children: The child processes that were there before the first envs were made.
        """
        if first == 0:
            self.start_over()
            self._whole, self._has_whole, self._read_again_at = None, False, 0.0
            self.watch_children()
            reason = self._why_not_elsewhere(env_runner, env, children)
            if reason is not None and self.mode != DIRECT:
                self.give_up(reason)
            self.may_be_made_elsewhere, self.recipe, self._base = reason is None, None, None
            if self.tapes or (self._settings.check_frame and self.may_be_made_elsewhere):
                self.recipe = self._noted_recipe(env_runner, env)
            if self.recipe is not None:
                self.recipes[self.recipe.hash] = self.recipe
        if self.tapes:
            entropy = (env_runner.config.seed, self._index) if self._section == EVALUATION else None
            self.put_all_on_tape(env, self._settings.env_indices, entropy, first=first, base=self._base)
        if first == 0:
            self.begin_round()  # what an earlier env runner, or trial, has found out

    def recipes_of(self, hashes: Collection[str | None]) -> dict[str, bytes]:
        """Return the recipes that some tapes refer to, and forget those that no tape refers to any more."""
        now = None if self.recipe is None else self.recipe.hash
        self.recipes = {hash: one for hash, one in self.recipes.items() if hash in hashes or hash == now}
        return {hash: one.content for hash, one in self.recipes.items() if hash in hashes}

    def _why_not_elsewhere(self, env_runner: Any, env: Any, children: Collection[int]) -> str | None:
        """Return why no env like these is made in another process; None: it may be."""
        id = env_runner.config.env
        if isinstance(id, str) and is_nondeterministic(id):  # RLlib replaces the spec of the env
            return f"the spec of env {id!r} says that it is nondeterministic"
        for layer in inside(sub_env(env, 0)):
            if (getattr(layer, "metadata", None) or {}).get("tune_media") == DIRECT:
                return f"the metadata of env {describe(env)} say 'tune_media': 'direct'"
        if sub_env(env, 0) is not None and child_processes() - set(children):
            return HAS_CHILDREN.format(describe(env))
        return None

    def _noted_recipe(self, env_runner: Any, env: Any) -> Recipe | None:
        """Return how the envs are made; if that cannot be stored, no clip can be made of a tape."""
        why, remedy = "", "its tapes need tune-media render --env module:function"
        try:
            recipe, self._base = env_runner_recipe(env_runner, env, self._settings.frame, self.plan.video)
        except Exception as error:
            recipe, why = None, f" ({error_text(error)})"
        if recipe is None and self.tapes:
            reason = f"how env {describe(env)} is made cannot be stored{why}"
            if self.plan.render == REPLAY:
                self.give_up(reason)
            else:
                self.go_direct(reason)
            if self.plan.tapes:
                self._recorder.problems.report(reason, remedy, kind="recipe")
        return recipe
