"""Env runners without Ray, for what Ray does seldom: lost answers, restarts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tune_media.recording.plan import Plan
from tune_media.rllib.env_runner import EnvRunnerRecording
from tune_media.rllib.registry import recordings_of
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import as_selectors


class FakeEnvRunner:
    """What the recorder needs of an env runner."""

    def __init__(self, index=1):
        self.worker_index = index
        self.config = SimpleNamespace(
            in_evaluation=False,
            enable_env_runner_and_connector_v2=True,
            num_envs_per_env_runner=1,
            max_requests_in_flight_per_env_runner=1,
            num_env_runners=1,
        )

    def get_metrics(self):
        return {}


class FakeGroup:
    """Calls env runners; an answer can be lost on its way, or the request."""

    def __init__(self, *env_runners):
        self.env_runners = list(env_runners)
        self.loses = []
        self.timeouts = []

    def foreach_env_runner(self, function, local_env_runner, timeout_seconds):
        self.timeouts.append(timeout_seconds)
        lost = self.loses.pop(0) if self.loses else None
        if lost == "request":
            return []
        answers = [function(env_runner) for env_runner in self.env_runners]
        return [] if lost == "answer" else answers


def recording_on(env_runner, name="episodes", keep=("best", "worst")):
    """Return a new recording on an env runner."""
    settings = RecorderSettings(Plan(name, as_selectors(keep)), sections=("train",))
    recording = recordings_of(env_runner)[name] = EnvRunnerRecording(settings, env_runner, owner=None)
    return recording


def play(recording, name, value, metrics=None):
    """Record an episode of one step."""
    recorder = recording.recorder
    recorder.start(0, name, lambda: {"": np.zeros((8, 8, 3), np.uint8)}, 10.0)
    recorder.step(0, value)
    recorder.end(0, metrics=metrics)
