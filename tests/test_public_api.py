"""The public API is that of the golden file, so that a commit which changes it shows this in its diff."""

import difflib
import sys
from importlib.metadata import version

import pytest

from tests.support.public_api import GOLDEN, ROOT, api


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="later releases of Python print signatures otherwise")
@pytest.mark.skipif(
    f"click=={version('click')}\n" not in (ROOT / "constraints.txt").read_text(),
    reason="other releases of Click print help otherwise",
)
def test_the_public_api_is_that_of_the_golden_file():
    was, now = GOLDEN.read_text().splitlines(), api().splitlines()
    changed = "\n".join(difflib.unified_diff(was, now, "golden file", "now", lineterm="", n=1))
    renew = f"python -m tests.support.public_api > {GOLDEN.relative_to(ROOT)}"
    assert not changed, (
        f"the public API changed; if it is meant to, tell users in CHANGELOG.md, and run {renew}\n{changed}"
    )
