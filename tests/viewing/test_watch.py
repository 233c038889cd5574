import contextlib
import time
import urllib.error
import urllib.request

import pytest

from tests.support.browser import watched
from tests.support.viewing import write_trial
from tune_media.viewing.watch import make_watch_server, reachable_at, ssh_line


@contextlib.contextmanager
def served(folder, **options):
    with watched(folder, **options) as url:

        def get(path, **headers):
            request = urllib.request.Request(f"{url.replace('127.0.0.1', 'localhost')}{path}", headers=headers)
            with urllib.request.urlopen(request) as response:
                return response.read()

        yield get


def test_the_page_and_the_data_are_served_on_localhost_and_to_no_other_host(tmp_path):
    write_trial(tmp_path / "exp" / "trial", 0)
    with served(tmp_path / "exp") as get:
        assert b"static/app.js" in get("")
        assert b'"title":"exp"' in get("data/index.json")
        for host in ("[::1]", "[::1]:6007", "localhost", "LOCALHOST:1", "127.0.0.1"):
            assert b'"title":"exp"' in get("data/index.json", Host=host)
        for host in ("evil.example", "evil.example:6007", "[::1].evil.example", "localhost:x", "localhost.", "::1:80"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                get("data/index.json", Host=host)


def test_a_folder_may_come_later(tmp_path):
    with pytest.raises(FileNotFoundError):
        make_watch_server(str(tmp_path / "exp"))
    with served(tmp_path / "exp", wait=True) as get:
        assert b'"trials":[]' in get("data/index.json")
        write_trial(tmp_path / "exp" / "trial", 0)
        deadline = time.monotonic() + 60
        while b'"name":"trial"' not in get("data/index.json"):
            assert time.monotonic() < deadline


def test_the_link_is_one_that_a_browser_can_open(monkeypatch):
    monkeypatch.setattr("socket.getfqdn", lambda: "lab3.example")
    known = {"lab3.example"}

    def look_up(name, port):
        if name not in known:
            raise OSError
        return [name]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    assert reachable_at("0.0.0.0", 6007) == "http://lab3.example:6007"
    known.clear()
    assert reachable_at("0.0.0.0", 6007) == "http://127.0.0.1:6007"
    assert reachable_at("fe80::1", 1) == "http://[fe80::1]:1"


def test_without_a_display_it_says_how_to_reach_it(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    monkeypatch.setattr("socket.gethostname", lambda: "node7")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    assert ssh_line("127.0.0.1", 6007) == "ssh -L 6007:127.0.0.1:6007 me@node7"
    monkeypatch.setenv("DISPLAY", ":0")
    assert ssh_line("127.0.0.1", 6007) is None
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22")
    assert ssh_line("10.0.0.2", 80) == "ssh -L 80:10.0.0.2:80 me@node7"


@pytest.mark.parametrize("wait", [False, True])
def test_an_empty_path_is_not_the_current_folder(wait, tmp_path, monkeypatch):
    write_trial(tmp_path / "trial", 0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder ''"):
        make_watch_server("", wait=wait)
