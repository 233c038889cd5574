"""The sub-envs of one env runner: how they are rendered, and the seeds that their resets take."""

from __future__ import annotations

from typing import Any

from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import Renderer, describe, sub_envs
from tune_media.recording.seeding import SeededResets, SeedTurns, seeded, share
from tune_media.rllib.settings import RecorderSettings
from tune_media.values.problems import FrameError
from tune_media.values.sections import EVALUATION


class SubEnvAccess:
    """Renders the sub-envs of one env runner, and seeds their resets. The env runner's thread calls everything here."""

    def __init__(self, settings: RecorderSettings, section: str, env_runner: int, recorder: Recorder) -> None:
        self._settings, self._section, self._index, self._recorder = settings, section, env_runner, recorder
        self._renderer: Renderer | None = None
        self._seeds: dict[int, SeedTurns] = {}  # by sub-env; an env that replaces a failed one continues them
        self._has_looked = False

    def are_new(self, env_runner: Any, env: Any, first: int = 0) -> None:
        """Envs were made, from sub-env ``first`` on: see if their frames are in reach, and seed them."""
        self._renderer = None
        if self._settings.check_frame and self._settings.plan.video is not None and not self._has_looked:
            self._has_looked = True
            try:
                Renderer(env, self._settings.frame)
            except FrameError as error:
                self._recorder.problems.report(str(error))
        if self._settings.seeds and self._section == EVALUATION:
            self._give_seeds(env_runner.config, env, first)

    def renderer_of(self, env: Any) -> Renderer:
        """Return the env's renderer, made anew for a new env. Raises FrameError if its frames are out of reach."""
        if self._renderer is None or self._renderer.env is not env:
            self._renderer = Renderer(env, self._settings.frame)
        return self._renderer

    def at(self, index: int) -> None:
        """The sub-env with this index has been stepped: its last frame is old."""
        if self._renderer is not None:
            self._renderer.at(index)

    def start_seeds_over(self) -> None:
        """Go back to the first seed: an evaluation begins."""
        for seeds in self._seeds.values():
            seeds.start_over()

    def _give_seeds(self, config: Any, env: Any, first: int) -> None:
        reachable = sub_envs(env)
        if not reachable:
            self._recorder.problems.report(
                f"the sub-envs of {describe(env)} are in other processes or in one batch, out of reach; wrap each env "
                "in tune_media.gym.FixedSeeds where it is made",
                "seeds= has no effect",
            )
        runners, count = max(1, config.num_env_runners), max(1, config.num_envs_per_env_runner)
        for index, inner in enumerate(reachable, start=first):
            if not hasattr(inner, "reset"):  # an ExternalEnv of the old API stack
                reason = f"nobody resets {describe(inner)} here: its simulator is outside"
                self._recorder.problems.report(reason, "seeds= has no effect")
            elif seeded(inner) is None:  # two recorders in one list share the seeds of the first
                seeds = share(self._settings.seeds, max(0, self._index - 1), runners, index, count)
                turns = self._seeds.setdefault(index, SeedTurns(seeds))
                SeededResets(inner, turns)
                if turns.have_all_failed:
                    self._recorder.problems.report(
                        f"{describe(inner)} failed with each of the seeds {', '.join(map(str, seeds))} in turn, and "
                        "was replaced each time; its next episodes take none of them",
                        "seeds= has no effect until the next evaluation",
                        kind="each seed failed",
                    )
