"""The files of one trial: the media, their index, the episode data; and the log of an experiment.

In come media and their places, or a folder. Out go files and index lines. It imports ``values``, and ``encoding`` only
to read the header of a clip.
"""

__all__ = [
    "clip_names",
    "entry",
    "episode_files",
    "filesystem",
    "fold",
    "index_lines",
    "known_media",
    "location",
    "log",
    "passed_over",
    "trial_folder",
    "trial_media",
]
