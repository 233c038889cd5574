"""What a user can do next, for `tune-media` without a command."""

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
    """Return the commands to try next: to look at the newest experiment if there is one, and to record.

    Args:
        results: The folder in which Tune puts experiments.

    Example:
        >>> print(next_steps("/no/such/folder").splitlines()[0])
        Start here:
    """
    newest = newest_experiment(Path(results).expanduser())
    if newest is None:
        return _START
    path = shlex.quote(str(newest))
    return f"""Look at your newest experiment:
  tune-media watch --open {path}
  tune-media list {path}

{_START}"""


def newest_experiment(results: Path) -> Path | None:
    """Return the experiment in a folder whose media were listed last, or None if there is none.

    Args:
        results: The folder in which Tune puts experiments.
    """
    try:
        indexes = [(index.stat().st_mtime, index) for index in results.glob("*/*/media/index.jsonl")]
    except OSError:
        return None
    return max(indexes)[1].parents[2] if indexes else None
