from ray.tune.logger import LoggerCallback

import tune_media as tm
from tune_media.callbacks.callback import MediaLoggerCallback
from tune_media.callbacks.late_readers import late_readers


class DataLoggerCallback(LoggerCallback):
    """Slices RLlib's list of the last episodes, as people wrote it before there was a recorder."""

    def log_trial_result(self, iteration, trial, result):
        return result["episode_media"]["episode_data"][-result["episodes_this_iter"] :]


def test_a_callback_that_would_slice_our_path_is_named_with_the_remedy():
    ours, theirs = tm.JsonMediaLoggerCallback(), DataLoggerCallback()
    (warning,) = late_readers([LoggerCallback(), ours, theirs], MediaLoggerCallback)
    assert "DataLoggerCallback reads episode_media" in warning
    assert "before JsonMediaLoggerCallback" in warning
    assert list(late_readers([theirs, ours, LoggerCallback()], MediaLoggerCallback)) == []
    assert list(late_readers([theirs], MediaLoggerCallback)) == []
