"""An experiment on disk: the files of its trials, read once for the viewer, the catalog and the trackers.

Comes in: the folder of a trial, and Tune's snapshots. Goes out: ``TrialFiles``, which has its media, hyperparameters,
results and status. It may import ``storage`` and ``values``.
"""

__all__ = [
    "evaluations",
    "named",
    "params",
    "places",
    "results",
    "state",
    "status",
    "stored_media",
    "trial_files",
    "trial_folders",
]
