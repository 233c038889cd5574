"""The viewer in Chromium: three ways to serve an experiment, and a page that keeps what goes wrong on it."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 60_000  # bounds a test on a busy machine; none waits that long


@dataclass
class Viewer:
    """A page with the viewer.

    Attributes:
        page: Playwright's page.
        frame: The frame that the viewer is in: the page's own, or that of TensorBoard's tab.
        errors: What the page logged as an error, and exceptions; of TensorBoard's own pages nothing.
    """

    page: Any
    host: str
    url: str = ""
    frame: Any = None
    errors: list[str] = field(default_factory=list)

    def open(self, url: str, link: str = "") -> Viewer:
        """Open a link, and wait for the first view."""
        self.page.goto("about:blank")
        self.page.goto(url if "#" in url else url + self.hash(link))
        self.frame = self.page.main_frame
        if self.host == "tensorboard":
            element = self.page.wait_for_selector("iframe[src*=plugin_entry]", timeout=WAIT_MS)
            self.frame = element.content_frame()
        self.frame.wait_for_selector("main", timeout=WAIT_MS)
        return self

    def hash(self, link: str) -> str:
        """Return the hash of an address that leads to a view."""
        from urllib.parse import quote

        if self.host != "tensorboard":
            return f"#{link}"
        return f"#episodes&p.episodes.link={quote(link, safe='')}" if link else "#episodes"

    def wait(self, condition: str, argument: Any = None) -> None:
        """Wait until an expression of JavaScript is true."""
        deadline = time.monotonic() + WAIT_MS / 1000
        while not self.frame.evaluate(condition, argument):  # the page's policy lets no wait_for_function run
            assert time.monotonic() < deadline, f"waited for {condition}"
            self.page.wait_for_timeout(30)

    def press(self, key: str) -> None:
        self.frame.evaluate("window.focus()")
        self.page.keyboard.press(key)

    def all(self, selector: str, expression: str = "e.innerText.trim()") -> list[Any]:
        """Return a value of each element that fits a selector."""
        found: list[Any] = self.frame.evaluate(
            f"(selector) => [...document.querySelectorAll(selector)].map((e) => {expression})", selector
        )
        return found

    def axe_violations(self) -> dict[str, list[str]]:
        """Return what axe-core finds on the page: the first elements of each fault. A test is skipped without it."""
        axe = pytest.importorskip("axe_playwright_python.base", reason="needs axe-core")
        if not self.frame.evaluate("'axe' in window"):
            self.frame.evaluate(axe.AXE_SCRIPT)
        result = self.frame.evaluate("axe.run({ resultTypes: ['violations'] })")
        assert result["passes"]
        return {fault["help"]: [node["html"] for node in fault["nodes"]][:3] for fault in result["violations"]}


@contextlib.contextmanager
def served(host: str, experiment: Path, folder: Path, token: str | None = None) -> Iterator[str]:
    """Serve an experiment by ``watch``, ``gallery`` (written into the folder) or ``tensorboard``; yield the address."""
    if host == "gallery":
        from tune_media.viewing.gallery import Gallery

        yield Gallery.of(str(experiment)).write(folder / "gallery").as_uri()
        return
    if host == "tensorboard":
        yield tensorboard_url(experiment, reload_interval=0)  # once: it would read on until the process ends
        return
    with watched(experiment, token=token) as url:
        yield url


@contextlib.contextmanager
def watched(folder: Path, **options: Any) -> Iterator[str]:
    """Serve a folder as ``watch`` does; yield the address."""
    from tune_media.viewing.watch import make_watch_server

    server = make_watch_server(str(folder), **options)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def tensorboard_url(experiment: Path | str, **flags: Any) -> str:
    """Start TensorBoard with the tab, even if this installation has no entry point for it; it ends with the process."""
    from tensorboard import default, program

    from tune_media.viewing.tensorboard_plugin import EpisodesLoader

    others = [plugin for plugin in default.get_plugins() if not plugin.__module__.startswith("tune_media")]
    board = program.TensorBoard(plugins=[*others, EpisodesLoader])
    board.configure(logdir=str(experiment), load_fast="false", port=0, **flags)
    return str(board.launch())


def find_chromium() -> str | None:
    """Return Debian's Chromium, if possible the one that never has a window: it needs half the CPU time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Yield Chromium; the test is skipped if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = find_chromium()
    if program is None:
        pytest.skip("needs Debian's chromium-headless-shell")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(
    browser: Any, experiment: Path, folder: Path, link: str = "", host: str = "watch", **more: Any
) -> Iterator[Viewer]:
    """Serve an experiment and open a view of its page, on which nothing may go wrong."""
    with served(host, experiment, folder, **more) as url, viewer_at(browser, url, host) as viewer:
        yield viewer.open(url, link)


@contextlib.contextmanager
def viewer_at(browser: Any, url: str, host: str = "watch") -> Iterator[Viewer]:
    """Yield a new page for a server, on which nothing may go wrong."""
    with viewer_page(browser, host) as viewer:
        viewer.url = url
        yield viewer
        assert viewer.errors == []


@contextlib.contextmanager
def viewer_page(browser: Any, host: str) -> Iterator[Viewer]:
    """Yield a new page; its errors are collected."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    viewer = Viewer(page, host)
    page.on("pageerror", lambda error: viewer.errors.append(str(error)))
    page.on("dialog", lambda dialog: (viewer.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on(
        "console",
        lambda message: (
            message.type == "error"
            and (host != "tensorboard" or "plugin" in message.location["url"])
            and viewer.errors.append(f"{message.text} {message.location['url']}")
        ),
    )
    try:
        yield viewer
    finally:
        page.close()
