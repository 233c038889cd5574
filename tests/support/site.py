"""Checks the built site: ``python -m tests.support.site docs/_build/html``.

Every link inside the site and every picture must lead somewhere, anchors included. Then Chromium, if there is one,
opens each page; an error in its console fails, and so does a request to another host.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.browser import FLAGS, find_chromium


class Page(HTMLParser):
    """The targets of a page's links, pictures and scripts, and the ids that a link can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name == "id" and value:
                self.ids.add(value)


def broken_links(site: Path) -> list[str]:
    """Return each link inside the site that leads nowhere, with its page."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            leads_to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(leads_to)
            if not leads_to.is_file() or (parts.fragment and known and unquote(parts.fragment) not in known.ids):
                broken.append(f"{path.relative_to(site)}: {target}")
    return broken


def browser_errors(site: Path, chromium: str) -> list[str]:
    """Open each page in Chromium, and return the errors in its console and its requests to other hosts."""
    from playwright.sync_api import sync_playwright

    errors: list[str] = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.on("console", lambda said: errors.append(f"{page.url}: {said.text}") if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: errors.append(f"{page.url}: {request.url} failed"))
        page.on(
            "request", lambda request: None if request.url[:5] in ("file:", "data:") else errors.append(request.url)
        )
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
        browser.close()
    return errors


def main(site: Path) -> int:
    """Check a site, print what is wrong, and return the exit code."""
    wrong = [f"broken link: {link}" for link in broken_links(site)]
    chromium = find_chromium()
    wrong += browser_errors(site, chromium) if chromium else []
    count = len(list(site.rglob("*.html")))
    print("\n".join(wrong) or f"{count} pages, no broken link" + (", no error in Chromium" if chromium else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
