"""An experiment of one fake trial that a test drives result by result, with a callback of its own."""

from pathlib import Path

import pyarrow.fs

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tune_media.callbacks.session import _SESSIONS
from tune_media.storage.trial_media import read_lines

SIZE = 8192  # more than what is kept in a row of the outbox


class Sweep:
    """An experiment of one trial, result by result; ``state`` is what the callback of an earlier process knew."""

    def __init__(self, folder, state=None, *, backend=None, storage=None, last=None, **options):
        self.folder = folder
        self.callback = tm.MediaLoggerCallback(backend or tm.Backend(), tm.MediaOptions(**options))
        self.trial = FakeTrial(folder, filesystem=storage)
        if state:
            self.callback.set_state(state)
        if last:
            self.trial.last_result = {"training_iteration": last}
        self.callback.log_trial_start(self.trial)

    def report(self, iteration, **result):
        result |= {"training_iteration": iteration}
        self.callback.log_trial_result(iteration, self.trial, result)
        self.trial.last_result = result
        return result

    def settle(self):
        """Wait until all is stored."""
        assert self.reader.wait(30)

    @property
    def session(self):
        return _SESSIONS[str(self.trial.storage.experiment_driver_staging_path)]

    @property
    def reader(self):
        return self.session.storage

    def end(self):
        """End the trial and the experiment; return what the callback knew."""
        state = self.callback.get_state()
        self.callback.log_trial_end(self.trial)
        self.callback.on_experiment_end([self.trial])
        return state

    @property
    def path(self):
        return Path(self.trial.storage.trial_fs_path)

    def lines(self):
        """Return the valid lines of the trial."""
        return [line.fields() for line in read_lines(pyarrow.fs.LocalFileSystem(), str(self.path)).lines]


def blob(number):
    """Return a file that no other one equals."""
    return tm.Artifact(bytes([number]) * SIZE, name=f"{number}.bin")
