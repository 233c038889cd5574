import contextlib
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.viewing import write_trial
from tune_media.viewing.watch import make_watch_server


@contextlib.contextmanager
def served(folder, **options):
    """Serve an experiment; yield a function that returns what is at a path."""
    server = make_watch_server(str(folder), **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def get(path, **headers):
        request = urllib.request.Request(f"http://localhost:{server.port}{path}", headers=headers)
        with urllib.request.urlopen(request) as response:
            return response.read()

    try:
        yield get
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_page_and_the_data_are_served_on_localhost_and_to_no_other_host(tmp_path):
    write_trial(tmp_path / "exp" / "trial", 0)
    with served(tmp_path / "exp") as get:
        assert b"static/app.js" in get("/")
        assert b'"title":"exp"' in get("/data/index.json")
        for host in ("[::1]", "[::1]:6007", "localhost", "LOCALHOST:1", "127.0.0.1"):
            assert b'"title":"exp"' in get("/data/index.json", Host=host)
        for host in ("evil.example", "evil.example:6007", "[::1].evil.example", "localhost:x", "localhost.", "::1:80"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                get("/data/index.json", Host=host)


def test_a_folder_may_come_later(tmp_path):
    with pytest.raises(FileNotFoundError):
        make_watch_server(str(tmp_path / "exp"))
    with pytest.raises(ValueError, match=r"is not an experiment: .* If its sweep starts later, pass --wait\."):
        make_watch_server(str(tmp_path))
    with served(tmp_path / "exp", wait=True) as get:
        assert b'"trials":[]' in get("/data/index.json")
        write_trial(tmp_path / "exp" / "trial", 0)
        deadline = time.monotonic() + 60
        while b'"name":"trial"' not in get("/data/index.json"):
            assert time.monotonic() < deadline
