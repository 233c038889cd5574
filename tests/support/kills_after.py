"""A progress of an evaluation that kills its process, as a machine may."""

import os
import signal

from typing_extensions import override

from tune_media.evaluation.evaluation import Progress


class KillsAfter(Progress):
    """Kills the process when so many episodes have been played."""

    def __init__(self, episodes: int) -> None:
        self.left = episodes

    @override
    def played(self, episodes: int) -> None:
        self.left -= episodes
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
