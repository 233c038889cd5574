"""An experiment on disk: the files of its trials, read once for the viewer, the catalog and the trackers.

Comes in: the folders that a user names, and Tune's snapshots. Goes out: ``TrialFiles``, which has a trial's media,
hyperparameters, results and status, read once or kept up to date. It may import ``storage`` and ``values``.
"""

__all__ = [
    "evaluations",
    "experiments",
    "named",
    "params",
    "places",
    "policy_files",
    "results",
    "state",
    "status",
    "stored_media",
    "trial_files",
    "trial_folders",
]
