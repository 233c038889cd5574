"""The code in the README and the docs runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if CODE.search(page.read_text())], ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(CODE.findall(page.read_text())))
    env = os.environ | {"HOME": str(tmp_path), "RAY_AIR_NEW_OUTPUT": "0"}
    result = subprocess.run([sys.executable, script], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
