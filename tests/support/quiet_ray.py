"""Ray without the processes that only look on: its dashboard, and its log monitor.

Both start with ``include_dashboard=False``, too. ``ray.init`` waits seconds for the dashboard; the log monitor reads
all workers' logs ten times a second. No test needs them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import ray
from ray._private.node import Node

from tests.support.fork_workers import WITHOUT_RLLIB


@contextlib.contextmanager
def no_onlookers() -> Iterator[None]:
    """Start neither of them for a Ray that starts in this context."""
    with mock.patch.object(Node, "start_api_server"), mock.patch.object(Node, "start_log_monitor"):
        yield


def init(*, has_rllib: bool = True, **settings: Any) -> Any:
    """Start a Ray, as ``ray.init`` does, that prints no logs here; its workers are forked with RLlib unless told."""
    os.environ |= {} if has_rllib else {WITHOUT_RLLIB: "1"}
    with no_onlookers():
        return ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **settings)
