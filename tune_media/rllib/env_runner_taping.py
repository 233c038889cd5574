"""Decides whether the clips of an RLlib env runner's episodes are rendered while they run, or later of their tapes."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Collection, Iterable
from threading import Thread
from typing import Any

from typing_extensions import override

from tune_media.recording.episode import AllFrames, RunningTape
from tune_media.recording.own_frames import OwnFrames
from tune_media.recording.pictures import SPARSE, Pictures
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import describe, inside, sub_env
from tune_media.replay.child_processes import HAS_CHILDREN, child_processes
from tune_media.replay.recipe import Recipe
from tune_media.replay.taping import Taping
from tune_media.replay.verdicts import differences_of_renderer, is_refused_here, verdict_on
from tune_media.rllib.recipes import env_runner_recipe, is_nondeterministic
from tune_media.rllib.settings import RecorderSettings
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

_VERDICT_HOLDS = 1.0  # seconds: a stale verdict does harm for so long at the most
_MOST_ENCODED = 8  # at once, until it is known whether the env repeats its episodes; an encoder takes 7 MB and more
_MOST_RENDERING = 30.0  # seconds, until it is known whether the env repeats its episodes; then one is enough


class EnvRunnerTaping(Taping):
    """Tapes the episodes of an env runner, and knows which are rendered directly. Its thread calls everything here.

    No env is made here. With ``auto``, all frames of the episodes are rendered until the Algorithm has proven, in
    another process, that the env repeats them; then only their own frames are. Meanwhile, a few sub-envs are encoded,
    and of the others the checksums of all frames are on the tapes, with which a replay is compared. If rendering has
    taken half a minute, one episode at a time is rendered to its end, and of the others only their own frames are.
    """

    def __init__(
        self, settings: RecorderSettings, section: str, env_runner: int, recorder: Recorder, threads: Iterable[Thread]
    ) -> None:
        super().__init__(recorder, threads)
        self._settings, self._section, self._index = settings, section, env_runner
        self._whole: RunningTape | None = None  # of the episode that is rendered to its end, even past the time limit
        self._read_again_at = 0.0  # the verdict, by the monotonic clock
        # those of these envs, and of earlier ones whose tapes have not been collected yet, by hash
        self.recipes: dict[str, Recipe] = {}
        self.may_be_made_elsewhere = True  # nothing speaks against making one like them in another process

    @override
    def frames_of(self, tape: RunningTape) -> AllFrames | OwnFrames:
        if not (self.mode == AUTO and self.recipe is not None):
            return super().frames_of(tape)
        if self._whole is None or not self._recorder.records(self._whole):
            self._whole = tape
        if tape is not self._whole and self._is_long():
            return self._frames.own_frames(SPARSE, has_last=self._shows_last)
        is_encoded = self._recorder.number_encoded() < _MOST_ENCODED
        return AllFrames(is_encoded, functools.partial(self._rest_of, tape))

    def _is_long(self) -> bool:
        return self._recorder.clock.rendering > _MOST_RENDERING

    def _rest_of(self, tape: RunningTape, step: int, pictures: Pictures) -> OwnFrames | None:
        """Return the frames of an episode that are rendered instead of all, if rendering takes long."""
        if self.mode == DIRECT or tape is self._whole or tape.fault is not None or not self._is_long():
            return None
        return self._frames.rest(step, pictures)

    def _compare_with_renderer(self) -> None:
        """Record directly if the driver, which would render, has other packages or another kind of machine."""
        if self.mode == AUTO and (differences := differences_of_renderer()):
            reason = "clips would be rendered by the driver, which is not like this env runner"
            self.go_direct_and_report(f"render='auto': {reason}: {'; '.join(differences)}")

    def begin_round(self) -> None:
        """A round begins: read what is known of the env by now, which takes a millisecond or two."""
        if self.recipe is None or (self.mode == DIRECT and self._global_draws.names is not None):
            return
        if time.monotonic() < self._read_again_at and not is_refused_here(self.recipe.hash):
            return
        self._look_up_draws(self.recipe)
        if self.mode == DIRECT:
            self._read_again_at = time.monotonic() + _VERDICT_HOLDS
            return
        verdict = verdict_on(self.recipe.hash)
        if verdict is not None and not verdict.repeats:
            self.go_direct(verdict.reason)  # it was reported where it was found
        elif verdict is not None and self.plan.render == AUTO:
            self.is_proven(verdict)
            self._whole = None
            self._read_again_at = time.monotonic() + _VERDICT_HOLDS

    def are_new(self, env_runner: Any, env: Any, first: int = 0, *, children: Collection[int] = ()) -> None:
        """Envs were made, from sub-env ``first`` on: tape them. Before any was made, the ``children`` were there."""
        if first == 0:
            self.start_over()
            self._whole, self._read_again_at = None, 0.0
            self.watch_children()
            reason = self._why_not_elsewhere(env_runner, env, children)
            if reason is not None and self.mode != DIRECT:
                self.give_up(reason)
            self.may_be_made_elsewhere, self.recipe = reason is None, None
            if self.tapes or (self._settings.check_frame and self.may_be_made_elsewhere):
                self.recipe = self._noted_recipe(env_runner, env)
            if self.recipe is not None:
                self.recipes[self.recipe.hash] = self.recipe
                self._compare_with_renderer()
        if self.tapes:
            self.put_all_on_tape(env, self._settings.env_indices, first=first)
        if first == 0:
            self.begin_round()  # the verdict of an earlier env runner or trial

    def recipes_of(self, hashes: Collection[str | None]) -> dict[str, bytes]:
        """Return the recipes that some tapes refer to, and forget those that no tape refers to any more."""
        now = None if self.recipe is None else self.recipe.hash
        self.recipes = {hash: recipe for hash, recipe in self.recipes.items() if hash in hashes or hash == now}
        return {hash: recipe.content for hash, recipe in self.recipes.items() if hash in hashes}

    def _why_not_elsewhere(self, env_runner: Any, env: Any, children: Collection[int]) -> str | None:
        """Return why no env like these is made in another process, or None if it may be."""
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
            recipe = env_runner_recipe(env_runner, env, self._settings.frame, self.plan.video)
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
