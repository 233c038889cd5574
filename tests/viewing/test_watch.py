import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.support.viewing import write_trial
from tune_media.viewing.watch import make_watch_server


@pytest.fixture
def server(tmp_path):
    write_trial(tmp_path / "exp" / "trial", 0)
    server = make_watch_server(str(tmp_path / "exp"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_page_and_the_data_are_served_on_localhost(server):
    def get(path):
        with urllib.request.urlopen(f"http://localhost:{server.port}{path}") as response:
            return response.read()

    assert b"static/app.js" in get("/")
    assert b'"title":"exp"' in get("/data/index.json")


def test_a_request_for_another_host_is_refused(server):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/data/index.json", headers={"Host": "evil.example"}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)


def test_a_folder_may_come_later(tmp_path):
    with pytest.raises(FileNotFoundError):
        make_watch_server(str(tmp_path / "exp"))
    with pytest.raises(ValueError, match=r"is not an experiment: .* If its sweep starts later, pass --wait\."):
        make_watch_server(str(tmp_path))
    server = make_watch_server(str(tmp_path / "exp"), wait=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert b'"trials":[]' in response_of(server, "/data/index.json")
        write_trial(tmp_path / "exp" / "trial", 0)
        deadline = time.monotonic() + 60
        while b'"name":"trial"' not in response_of(server, "/data/index.json"):
            assert time.monotonic() < deadline
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def response_of(server, path):
    with urllib.request.urlopen(f"http://localhost:{server.port}{path}") as response:
        return response.read()
