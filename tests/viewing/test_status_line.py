import contextlib
import io
import time

from tune_media.viewing import status_line
from tune_media.viewing.status_line import StatusLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_file_each_stage_is_a_line_and_progress_is_not():
    file = io.StringIO()
    with StatusLine(file, clock=iter([0.0, 1.4, 75.0]).__next__) as line:
        line.stage("Starting")
        line.progress("half")
        line.stage("Done")
    assert file.getvalue() == "[  1 s] Starting\n[ 75 s] Done\n"


def test_on_a_terminal_the_line_is_redrawn_while_nothing_happens(monkeypatch):
    monkeypatch.setattr(status_line, "_TICK", 0.001)
    seconds = iter(range(10**6))
    file = Terminal()
    with contextlib.suppress(ValueError), StatusLine(file, clock=lambda: float(next(seconds))) as line:
        line.stage("Starting Ray")
        while file.getvalue().count("Starting Ray") < 4:  # the thread draws
            time.sleep(0.001)
        raise ValueError  # the command fails
    assert not line._thread.is_alive()
    drawn = file.getvalue().split("\r\x1b[K")[1:]
    assert [int(line[1:4]) for line in drawn] == list(range(1, len(drawn) + 1))
    assert file.getvalue().endswith("Starting Ray\r\n")


def test_a_line_is_cut_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    file = Terminal()
    with StatusLine(file, clock=lambda: 0.0) as line:
        line.stage("a long text that would wrap and scroll")
    assert all(len(part) <= 20 for part in file.getvalue().replace("\n", "").split("\r\x1b[K"))
