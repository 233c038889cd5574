"""The logger callbacks: drop-ins for Ray's own that log media, too.

In come results of trials, in Tune's loop. Out go files on the storage, and calls to trackers. It imports the wings up
to ``replay`` and ``experiment``; each tracker is imported only in the folder of its name.
"""

__all__ = ["backend", "callback", "deliver", "finished_trial", "json", "tensorboard"]
