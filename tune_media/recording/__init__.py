"""Records episodes on an env runner, whatever framework steps them.

In come the resets, steps and ends that ``rllib`` or ``gym`` reports. Out go the records and values of all episodes, and
the clips of those that may be chosen. It may import ``values`` and ``encoding``.
"""

__all__ = [
    "argument_checks",
    "choosing",
    "collector",
    "episode",
    "episode_clips",
    "overlay",
    "overlay_lines",
    "own_frames",
    "pictures",
    "plan",
    "recorder",
    "rendering",
    "seeding",
    "series",
    "success",
]
