import importlib.metadata
import json
from types import SimpleNamespace

import pytest

from tune_media.values.installing import pip_install

GIT = {"url": "https://host/me/tune_media.git", "vcs_info": {"vcs": "git", "commit_id": "1a2b"}}


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        (None, "'tune-media[viewer]'"),  # from an index
        ({"url": "file://{here}", "dir_info": {}}, "'{here}[viewer]'"),
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "-e '{here}[viewer]'"),
        ({"url": "file://{here}/deleted", "dir_info": {}}, "'tune-media[viewer]'"),
        (GIT, "'tune-media[viewer] @ git+https://host/me/tune_media.git'"),
        (GIT | {"url": "file://{here}"}, "'tune-media[viewer] @ git+file://{here}'"),
        ({"url": "https://host/t.whl", "archive_info": {}}, "'tune-media[viewer] @ https://host/t.whl'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(origin, named, tmp_path, monkeypatch):
    here = tmp_path / "my source"
    here.mkdir()
    url = origin and origin["url"].replace("{here}", here.as_uri().removeprefix("file://"))
    text = origin and json.dumps(origin | {"url": url})
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    shown = url.partition("file://")[2] if "git+file" in named else str(here)
    assert pip_install("viewer") == pip_install("viewer").remedy == f"pip install {named.replace('{here}', shown)}"


def test_without_metadata_it_is_the_name(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert pip_install("gym") == "pip install 'tune-media[gym]'"
