"""The next steps that `tune-media` without a command tells a user."""

from __future__ import annotations

import shlex
from pathlib import Path

_RESULTS = "~/ray_results"
_START = """Start here:
  tune-media demo                  a real sweep, a few minutes
  tune-media doctor CartPole-v1    is my env recorded? (or module:EnvClass)

In your script:
  config.callbacks(tm.rllib.record_episodes())   # with RLlib
  env = tm.gym.RecordEpisodes(env)   # without: pass env.take() to tune.report
  clips = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
  tune.RunConfig(callbacks=clips)    # Tune stores the clips
"""


def next_steps(results: str = _RESULTS) -> str:
    """Return the commands to try next: to look at the newest experiment in a folder, if there is one, and to record."""
    try:
        indexes = Path(results).expanduser().glob("*/*/media/index.jsonl")
        newest = max(((index.stat().st_mtime, index) for index in indexes), default=None)
    except OSError:
        newest = None
    if newest is None:
        return _START
    path = shlex.quote(str(newest[1].parents[2]))
    return f"""Look at your newest experiment:
  tune-media watch --open {path}
  tune-media list {path}

{_START}"""
