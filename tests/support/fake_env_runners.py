"""Env runners without Ray, for what Ray does seldom: lost answers, restarts."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from tune_media.recording.episode import EpisodeStart
from tune_media.recording.plan import Plan
from tune_media.rllib import ray_names
from tune_media.rllib.env_runner import EnvRunnerRecording
from tune_media.rllib.env_runner_requests import recordings_of
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import as_selectors


class FakeEnvRunner:
    """What the recorder needs of an env runner."""

    def __init__(self, index=1):
        self.worker_index = index
        self.config = SimpleNamespace(
            env=None,
            in_evaluation=False,
            enable_env_runner_and_connector_v2=True,
            num_envs_per_env_runner=1,
            max_requests_in_flight_per_env_runner=1,
            num_env_runners=1,
        )

    def get_metrics(self):
        return {}


class FakeGroup:
    """The env runner actors of an Algorithm; their answers can be lost.

    ``loses``: what befalls each of the next requests, ``answer`` (too late), an error in place of the answer, or None.
    ``hung``, ``dead``: indices of env runners. ``sent``: the name and the env runner of each request. ``timeouts``: how
    long answers were waited for each time, and from which env runners.
    """

    def __init__(self, *env_runners, local=None):
        self.env_runners, self.local_env_runner = list(env_runners), local
        self.loses, self.hung, self.dead = [], set(), set()
        self.sent, self.timeouts = [], []
        self._worker_manager = self

    def actors(self):
        return {env_runner.worker_index: FakeActor(env_runner, self) for env_runner in self.env_runners}

    def healthy_actor_ids(self):
        return [index for index in self.actors() if index not in self.dead]


@dataclasses.dataclass
class FakeActor:
    env_runner: FakeEnvRunner
    group: FakeGroup


@dataclasses.dataclass
class FakeReference:
    """The reference to an answer, which arrives in time, late, or never."""

    group: FakeGroup
    answer: Any
    is_late: bool = False
    is_hung: bool = False


def fake_ray(monkeypatch):
    """Send requests to env runners without Ray."""

    def send(actor, request):
        group, index = actor.group, actor.env_runner.worker_index
        group.sent.append((request.func.__name__, index))
        if index in group.hung:
            return FakeReference(group, None, is_hung=True)
        lost = group.loses.pop(0) if group.loses else None
        if isinstance(lost, Exception):
            return FakeReference(group, lost)
        return FakeReference(group, request(actor.env_runner), is_late=lost == "answer")

    def finished(references, timeout):
        if timeout != 0 and references:
            next(iter(references.values())).group.timeouts.append((timeout, sorted(references)))
        return {
            index: one.answer
            for index, one in references.items()
            if not one.is_hung and (timeout == 0 or not one.is_late)
        }

    monkeypatch.setattr(ray_names, "send", send)
    monkeypatch.setattr(ray_names, "finished", finished)


def recording_on(env_runner, keep=("best", "worst")):
    settings = RecorderSettings(Plan("episodes", as_selectors(keep)), sections=("train",))
    recording = recordings_of(env_runner)["episodes"] = EnvRunnerRecording(
        settings, env_runner, owner=SimpleNamespace(children=set(), threads=[])
    )
    return recording


def play(recording, name, value, metrics=None):
    """Record an episode of one step."""
    recorder = recording.recorder
    shades = itertools.count(10, 20)  # pictures that are all the same would be reported
    recorder.start(0, EpisodeStart(name, lambda: {"": np.full((8, 8, 3), next(shades), np.uint8)}, 10.0))
    recorder.step(0, value)
    recorder.end(0, metrics=metrics)
