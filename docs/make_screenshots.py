"""Makes the pictures of the docs from an experiment of ``tune-media demo`` (its one argument).

python docs/make_screenshots.py ~/ray_results/tune_media_demo_2026-11-22_03-37-59
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

import tune_media as tm
from tune_media.viewing.grid import write_grid
from tune_media.viewing.grid_choice import choose_tiles
from tune_media.viewing.watch import make_watch_server

FOLDER = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 820}
COLORS = 128
TENSORBOARD_PORT = 6017
WAIT_MS = 120_000
PLAYING = "[...document.querySelectorAll('.card video')].every((video) => video.currentTime > 1)"


def shoot(page: Any, name: str, height: int = SIZE["height"]) -> None:
    """Save what the page shows, with few colors, so that the file is small."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height})
    Image.open(path).convert("RGB").quantize(COLORS).save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def shoot_viewer(browser: Any, experiment: str) -> None:
    """Take the pictures of the viewer: all trials, one trial, one clip."""
    server = make_watch_server(experiment, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page(viewport=SIZE)
    page.goto(f"http://localhost:{server.port}/")
    page.wait_for_selector(".card.winner")
    page.wait_for_function(PLAYING, timeout=WAIT_MS)
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    shoot(page, "viewer-grid")
    page.keyboard.press("w")
    page.wait_for_selector(".u-over")
    page.keyboard.press("Space")
    page.wait_for_timeout(2500)
    page.keyboard.press("Space")
    page.wait_for_timeout(500)
    shoot(page, "viewer-trial")
    page.keyboard.press("d")
    page.click(".film[aria-current=true] .film-facts")
    page.wait_for_selector(".u-over")
    page.wait_for_timeout(1000)
    page.evaluate("tuneMedia.app.instance.group.showFrame(130)")
    page.wait_for_timeout(500)
    shoot(page, "viewer-clip")
    page.close()
    server.shutdown()


def shoot_tensorboard(browser: Any, experiment: str) -> None:
    """Take the pictures of TensorBoard: the Episodes tab, and the GIFs in the Images tab."""
    program = Path(sys.executable).with_name("tensorboard")
    folder, name = Path(experiment).parent, Path(experiment).name  # TensorBoard shows the folder as it is given
    command = [program, "--logdir", name, "--port", str(TENSORBOARD_PORT), "--samples_per_plugin", "images=1000"]
    server = subprocess.Popen([str(word) for word in command], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "Press CTRL+C" in line)
        page = browser.new_page(viewport=SIZE)
        page.goto(f"http://localhost:{TENSORBOARD_PORT}/#episodes")
        frame = page.wait_for_selector("iframe[src*=plugin_entry]", timeout=WAIT_MS).content_frame()
        frame.wait_for_selector(".card.winner", timeout=WAIT_MS)
        frame.wait_for_function(PLAYING, timeout=WAIT_MS)
        shoot(page, "tensorboard-episodes")
        page.goto(f"http://localhost:{TENSORBOARD_PORT}/#images")
        page.wait_for_selector("tf-image-loader img", timeout=WAIT_MS)
        page.wait_for_timeout(5000)
        shoot(page, "tensorboard", height=536)
        page.close()
    finally:
        server.terminate()
        server.wait()


def shoot_mlflow(browser: Any, experiment: str) -> None:
    """Take the picture of the page that MLflow's parent run has."""
    (path,) = Path(experiment).glob("mlartifacts/**/trials.html")
    page = browser.new_page(viewport=SIZE)
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelector('video').currentTime > 1", timeout=WAIT_MS)
    shoot(page, "mlflow-trials", height=620)
    page.close()


def make_gif(experiment: str) -> None:
    """Make the moving picture: the last clip of each trial, side by side."""
    path = write_grid(choose_tiles(tm.load(experiment), step=4), FOLDER / "sweep.gif", width=720)
    print(path, path.stat().st_size // 1000, "kB")


def main(experiment: str) -> None:
    """Make all pictures."""
    make_gif(experiment)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot_viewer(browser, experiment)
        shoot_tensorboard(browser, experiment)
        shoot_mlflow(browser, experiment)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
