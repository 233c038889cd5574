"""A page over the experiment of a module, which gives its own fixture ``sweep``."""

import pytest

from tests.support.browser import served, viewer_page


@pytest.fixture(scope="module")
def url(sweep, tmp_path_factory):
    with served("watch", sweep, tmp_path_factory.mktemp("files")) as url:  # tests/e2e/test_viewer.py has the others
        yield url


@pytest.fixture
def viewer(browser, url):
    with viewer_page(browser, "watch") as viewer:
        viewer.url = url
        yield viewer
        assert viewer.errors == []
