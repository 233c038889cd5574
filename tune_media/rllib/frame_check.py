"""Renders one frame of an env before training needs it, so that an env that cannot be recorded is known at once.

The first evaluation may be an hour away. The trial uses an env of its own: the env that RLlib steps is not touched, and
neither are the random numbers of the process. RLlib's and the user's numbers are the same with and without it.
"""

from __future__ import annotations

import logging
from typing import Any

from tune_media.recording.problems import FrameError, Problems
from tune_media.recording.rendering import Renderer
from tune_media.replay.second_env import close_env, pygame_in_use, same_random_numbers
from tune_media.rllib.second_env import env_maker
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)


def try_frame(env_runner: Any, frame: Any, problems: Problems, *, named_after: Any = None) -> None:
    """Make another env like an env runner's, reset it, render a frame, close it, and report a frame that is none.

    An env that cannot be made a second time, or that fails in its reset, is not reported: only rendering is tried.

    Args:
        env_runner: The env runner, or the rollout worker of the old API stack.
        frame: The ``frame=`` of ``record_episodes``.
        problems: The recorder's problems.
        named_after: The env that RLlib steps, by which a problem names the other one, too: RLlib gives its envs names
            of its own, and a problem with two names would be told twice. None: the other one itself.
    """
    with same_random_numbers():
        env, in_use = None, pygame_in_use()
        try:
            make = env_maker(env_runner)
            if make is None:
                return
            env = make()
            env.reset(seed=0)
        except Exception as error:
            logger.info("no frame check: a second env cannot be made or reset (%s)", error_text(error))
            close_env(env, in_use)
            return
        try:
            Renderer(env, frame, named_after=named_after).frames(0)
        except FrameError as error:
            problems.report(str(error))
        except Exception as error:
            problems.report_error("a frame check", error)
        finally:
            close_env(env, in_use)
