import pytest

from tune_media.callbacks.outbox import FOLDER_VARIABLE
from tune_media.callbacks.session import _SESSIONS


@pytest.fixture
def outboxes(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "outbox"))
    return tmp_path / "outbox"


@pytest.fixture
def sessions_end(outboxes):
    yield
    for session in list(_SESSIONS.values()):
        session.end_now()
