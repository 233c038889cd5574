"""The pages of the docs: their blocks of code, links and headings."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES = [*OUTSIDE, *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Return the blocks of code in a language, each with the number of lines above its first one."""
    text = page.read_text()
    return [(text.count("\n", 0, found.start(2)), found[2]) for found in _BLOCK.finditer(text) if found[1] == language]


def commands(page: Path) -> list[str]:
    """Return the shell commands of a page, without comments."""
    lines = [line for _, block in blocks(page, "console") for line in block.splitlines()]
    return [re.split(r"\s+# ", line)[0].strip() for line in lines if line.strip()]


def links(page: Path) -> list[str]:
    """Return the targets of a page's links and pictures that lead to a file or a heading."""
    text = _CODE.sub("", page.read_text())
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'<img src="([^"]+)"', text)
    return [target for target in targets if "://" not in target and not target.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def quoted(page: Path) -> list[str]:
    """Return the messages that a page quotes, one for each line of a block quote."""
    return re.findall(r"^> (.+)$", page.read_text(), re.MULTILINE)
