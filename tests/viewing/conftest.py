"""A page over the experiment of a module, which gives its own fixture ``sweep``."""

import pytest

from tests.support.browser import served, viewer_at
from tests.support.page_code import page_code


@pytest.fixture(scope="module")
def url(sweep, tmp_path_factory):
    with served("watch", sweep, tmp_path_factory.mktemp("files")) as url:  # tests/e2e/test_viewer.py has the others
        yield url


@pytest.fixture
def viewer(browser, url):
    with viewer_at(browser, url) as viewer:
        yield viewer


@pytest.fixture(scope="session", name="page_code")
def _page_code():
    with page_code() as run:
        yield run
