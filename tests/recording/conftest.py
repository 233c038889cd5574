from types import SimpleNamespace

import pytest


@pytest.fixture
def now(monkeypatch):
    """The time of the clocks, seconds: it passes only when a test, or an env of a test, sets it."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(
        "tune_media.recording.render_clock.time", SimpleNamespace(perf_counter=lambda: float(now.seconds))
    )
    return now
