import sys

import pytest

from tune_media.cli import gate_process


@pytest.fixture
def in_this_process(monkeypatch):
    """Have the gate command play in this process; tests/cli/test_gate_process.py has the process that it starts."""

    def play(arguments):
        kind, content = gate_process.play(arguments, lambda sign: None)
        if kind == "error":
            raise gate_process.GateError(content)
        return content

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(gate_process, "gate_in_process", play)
