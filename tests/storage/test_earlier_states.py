"""What earlier states of tune_media have left, from before its first release, opens, or it is said what reads it."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.commands import command
from tune_media.callbacks.outbox import FOLDER_VARIABLE

STATES = Path(__file__).parents[1] / "data" / "earlier"  # by date; ``outbox.sql`` is of a killed sweep
NAMES_OF_OUTBOXES = {"2026-11-25": "20261125-063002-f063af5d", "2026-11-28": "a4902e21bd6b89fc"}
ONLY_OLDER = "an older one, which only tune_media of before 26 November 2026 reads"


@pytest.fixture
def state(request, tmp_path):
    return shutil.copytree(STATES / request.param, tmp_path / request.param)


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [("2026-11-25", 1, ["Nothing can be read in", ONLY_OLDER]), ("2026-11-28", 0, ["episodes/best", "step_000000002"])],
    indirect=["state"],
)
def test_an_experiment_opens_or_its_index_is_named(state, code, told):
    said = command("list", state / "storage", "--all", code=code)
    assert all(text in said for text in told), said
    assert "add a recorder" not in said


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        ("2026-11-25", 1, "of another version of tune_media, whose"),
        ("2026-11-28", 0, "stored 2 media files"),
    ],
    indirect=["state"],
)
def test_an_outbox_is_delivered_or_named(state, code, told, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(state / "outboxes"))
    folder = state / "outboxes" / NAMES_OF_OUTBOXES[state.name]
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "outbox.sqlite") as database:
        database.executescript((state / "outbox.sql").read_text().replace("{storage}", str(state / "storage")))
    assert told in command("deliver", state / "storage", code=code)


def test_a_field_of_json_is_there_or_its_version_has_grown():
    state = STATES / "2026-11-28"
    earlier = map(json.loads, (state / "list.jsonl").read_text().splitlines())
    for before, rows in zip(earlier, (["--rows", "trials"], ["--rows", "configurations"], []), strict=True):
        now = json.loads(command("list", state / "storage", "--json", *rows).splitlines()[0])
        assert now["v"] > before["v"] or before.keys() <= now.keys(), before.keys() - now.keys()
