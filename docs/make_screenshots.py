"""Makes the pictures of the docs from the demo's sweep (its folder is the one argument).

tune-media demo --storage FOLDER
mv FOLDER/tune_media_demo_* FOLDER/demo
python docs/make_screenshots.py FOLDER/demo
"""

from __future__ import annotations

import io
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
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SIZE = {"width": 1280, "height": 820}
COLORS = 128
TENSORBOARD_PORT = 6017
WAIT_MS = 120_000
LOADED = "[...document.querySelectorAll('.card video')].every((video) => video.readyState >= 2 && !video.seeking)"
SHOW = "(frame) => tuneMedia.app.instance.group.showFrame(frame)"
TOUR_SIZE = {"width": 1000, "height": 950}
TOUR_WIDTH, TOUR_COLORS = 800, 160
STEP_MS, FRAME_MS, PAUSE_MS = 350, 180, 1600
BEST_FRAMES, WORST_FRAMES = 20, 40


def shoot(page: Any, name: str, height: int = SIZE["height"]) -> None:
    """Save what the page shows, with few colors, so that the file is small."""
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height})
    Image.open(path).convert("RGB").quantize(COLORS).save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def open_viewer(browser: Any, url: str, size: dict[str, int]) -> Any:
    """Open the viewer, and pause all clips at their first frame."""
    page = browser.new_page(viewport=size, bypass_csp=True)  # the policy lets no wait_for_function run
    page.goto(url)
    page.wait_for_selector(".card.winner")
    page.wait_for_function(LOADED, timeout=WAIT_MS)
    page.keyboard.press("Space")
    return page


def show(page: Any, frame: int) -> None:
    """Show a frame of all clips, and wait until each is there."""
    page.evaluate(SHOW, frame)
    page.wait_for_function(LOADED, timeout=WAIT_MS)
    page.wait_for_timeout(150)


def shoot_viewer(browser: Any, url: str) -> None:
    """Take the pictures of the viewer: all trials, one trial, one clip."""
    page = open_viewer(browser, url, SIZE)
    page.keyboard.press("k")
    page.wait_for_function(LOADED, timeout=WAIT_MS)
    show(page, 9)
    shoot(page, "viewer-grid")
    page.keyboard.press("w")
    page.wait_for_selector(".u-over")
    page.wait_for_timeout(1500)
    show(page, 9)
    shoot(page, "viewer-trial")
    page.keyboard.press("d")
    page.click(".film[aria-current=true] .film-facts")
    page.wait_for_selector(".u-over")
    page.wait_for_timeout(1000)
    show(page, 9)
    shoot(page, "viewer-clip")
    page.close()


def make_tour(browser: Any, url: str) -> None:
    """Make the moving picture of README: the trials learn, play their best episode, then their worst."""
    page = open_viewer(browser, url, TOUR_SIZE)
    page.click("text=Charts")
    page.click("text=Curves")
    page.click("text=Charts")
    page.keyboard.press("]")  # larger cards
    pictures: list[Image.Image] = []
    durations: list[int] = []

    def add(milliseconds: int) -> None:
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        pictures.append(
            picture.resize((TOUR_WIDTH, TOUR_WIDTH * picture.height // picture.width), Image.Resampling.LANCZOS)
        )
        durations.append(milliseconds)

    page.keyboard.press("Home")
    steps = int(page.get_attribute("input[type=range]", "max")) + 1
    for step in range(steps):
        if step:
            page.keyboard.press("ArrowRight")
        page.wait_for_function(LOADED, timeout=WAIT_MS)
        show(page, 8)
        add(STEP_MS)
    for frame in range(BEST_FRAMES):
        show(page, frame)
        add(FRAME_MS)
    durations[-1] = PAUSE_MS
    page.keyboard.press("k")
    page.wait_for_timeout(1000)
    page.wait_for_function(LOADED, timeout=WAIT_MS)
    for frame in range(WORST_FRAMES):
        show(page, frame)
        add(PAUSE_MS // 2 if frame == 0 else FRAME_MS)
    durations[-1] = PAUSE_MS
    page.close()
    palette = pictures[-1].quantize(TOUR_COLORS, dither=Image.Dither.NONE)
    few = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    path = FOLDER / "tour.gif"
    few[0].save(path, save_all=True, append_images=few[1:], duration=durations, loop=0, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def shoot_tensorboard(browser: Any, experiment: str) -> None:
    """Take the pictures of TensorBoard: the Episodes tab, and the GIFs in the Images tab."""
    program = Path(sys.executable).with_name("tensorboard")
    folder, name = Path(experiment).parent, Path(experiment).name  # TensorBoard shows the folder as it is given
    command = [program, "--logdir", name, "--port", str(TENSORBOARD_PORT), "--samples_per_plugin", "images=1000"]
    server = subprocess.Popen([str(word) for word in command], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if "Press CTRL+C" in line)
        page = browser.new_page(viewport=SIZE, bypass_csp=True)
        page.goto(f"http://localhost:{TENSORBOARD_PORT}/#episodes")
        frame = page.wait_for_selector("iframe[src*=plugin_entry]", timeout=WAIT_MS).content_frame()
        frame.wait_for_selector(".card.winner", timeout=WAIT_MS)
        frame.wait_for_function(LOADED, timeout=WAIT_MS)
        frame.evaluate("() => tuneMedia.app.instance.group.pause()")
        frame.evaluate(SHOW, 9)
        page.wait_for_timeout(1000)
        shoot(page, "tensorboard-episodes")
        page.goto(f"http://localhost:{TENSORBOARD_PORT}/#images")
        page.wait_for_selector("tf-image-loader img", timeout=WAIT_MS)
        page.wait_for_timeout(5000)
        shoot(page, "tensorboard", height=536)
        page.close()
    finally:
        server.terminate()
        server.wait()


def shoot_card(browser: Any) -> None:
    """Make the card that hosts of code show with a link to the project, from card.html."""
    page = browser.new_page(viewport={"width": 1280, "height": 640})
    page.goto((FOLDER / "card.html").as_uri(), wait_until="networkidle")
    shoot(page, "card", 640)


def make_gif(experiment: str) -> None:
    """Make the moving picture of a grid: the worst clip of each trial at the last step, side by side."""
    tiles = choose_tiles(tm.load(experiment), step="last", key="episodes/worst")
    path = write_grid(tiles, FOLDER / "sweep.gif", width=720, columns=2).path
    print(path, path.stat().st_size // 1000, "kB")


def main(experiment: str) -> None:
    """Make all pictures."""
    make_gif(experiment)
    server = make_watch_server(experiment, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://localhost:{server.port}/"
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        make_tour(browser, url)
        shoot_viewer(browser, url)
        shoot_tensorboard(browser, experiment)
        shoot_card(browser)
        browser.close()
    server.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
