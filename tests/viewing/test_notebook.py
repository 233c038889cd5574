import html
import re

import pytest

import tune_media as tm
from tests.support.browser import Viewer, chromium
from tests.support.recorded import make_experiment, make_trial
from tune_media.viewing import notebook

CLIP = "data:video/mp4;base64,"


def page_of(experiment):
    """Return the line of text and the page in the frame."""
    text, page = re.fullmatch(
        r'<p>(.*)</p><iframe srcdoc="([^"]*)".*', tm.load(experiment)._repr_html_(), re.S
    ).groups()
    return text, html.unescape(page)


@pytest.mark.slow
def test_a_notebook_shows_the_viewer_with_the_clips_inside(tmp_path):
    experiment = make_experiment(tmp_path / "exp")
    cell = tm.load(experiment)._repr_html_()
    assert str(tmp_path) not in cell
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8><body>{cell}</body>")
    with chromium() as browser:
        page = browser.new_page()
        viewer = Viewer(page, "notebook")
        page.on("pageerror", lambda error: viewer.errors.append(str(error)))
        page.on("console", lambda said: said.type == "error" and viewer.errors.append(said.text))
        page.goto((tmp_path / "cell.html").as_uri())
        viewer.frame = page.wait_for_selector("iframe").content_frame()
        viewer.wait(
            "[...document.querySelectorAll('.card video')].filter((video) => video.readyState >= 2).length === 2"
        )
        assert viewer.all(".card", "e.dataset.trial") == ["trial_b", "trial_a", "trial_c"]
        viewer.frame.click(".card[data-trial=trial_b] .name")
        viewer.wait("document.querySelectorAll('.film').length === 3")
        viewer.frame.click(".film:first-of-type .film-facts")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2 && document.querySelector('.moment')")
        viewer.wait("document.querySelector('.no-steps')?.innerText.includes('collect=')")  # no values of its steps
        viewer.press("Escape")
        viewer.press("Escape")
        viewer.wait("document.querySelectorAll('.card').length === 3")
        assert viewer.errors == []


def test_names_with_html_stay_text(tmp_path):
    make_trial(tmp_path / "exp" / "<b>x", {"lr": "</script><script>alert(1)</script>"}, {1: 1.0})
    make_trial(tmp_path / "exp" / "y", {"lr": 2}, {1: 1.0})
    _, page = page_of(tmp_path / "exp")
    held = page.split("<script>")[1].split("</script>")[0]
    assert "alert(1)" in held
    assert "<" not in held


def test_clips_too_large_for_a_notebook_are_left_out(tmp_path, monkeypatch):
    experiment = make_experiment(tmp_path / "exp")
    assert page_of(experiment)[1].count(CLIP) == 5
    monkeypatch.setattr(notebook, "_MAX_CLIPS", 3)  # the best one of each trial comes first
    held = re.findall(r"step_0*(\d+)-[^\"]*\": ?\"data:", page_of(experiment)[1])
    assert held == ["20", "20", "30"]
    monkeypatch.undo()
    make_trial(tmp_path / "two" / "long", {}, {1: 9.0}, frames=200)
    make_trial(tmp_path / "two" / "short", {}, {1: 1.0}, frames=2)
    sizes = [len(row.read_bytes()) for row in tm.load(tmp_path / "two")]
    monkeypatch.setattr(notebook, "_MAX_BYTES", sizes[0] - 1)  # the best clip has no room, and the other has
    assert page_of(tmp_path / "two")[1].count(CLIP) == 1
    monkeypatch.setattr(notebook, "_MAX_BYTES", 10)
    text, page = page_of(experiment)
    assert CLIP not in page
    assert "5 media of 3 trials in exp; 0 clips are in this page" in text


def test_a_row_a_clip_and_a_picture_show_themselves(tmp_path):
    experiment = make_experiment(tmp_path / "exp")
    row = tm.load(experiment).best()
    shown = row._repr_html_()
    assert CLIP in shown
    assert "return 9" in shown
    clip = tm.Video.from_file(row["file"], episode=tm.EpisodeRecord("<b>", 9.0, 3), note="<script>")
    assert clip._repr_html_().startswith('<figure style="margin:0"><video src="data:video/mp4;base64,')
    assert "return 9, 4 frames, &lt;script&gt;" in clip._repr_html_()
    assert tm.Image.heatmap([[0, 1]])._repr_png_().startswith(b"\x89PNG")


def test_what_a_notebook_cannot_show_is_a_line_of_text(tmp_path, monkeypatch):
    folder = make_trial(tmp_path / "exp" / "<i>t", {}, {1: 1.0})
    row = tm.load(tmp_path / "exp").best()
    monkeypatch.setattr("tune_media.viewing.catalog_row.MOST_BYTES", 10)
    assert row._repr_html_().startswith("<p>CatalogRow(&lt;i&gt;t: video")
    monkeypatch.undo()
    for file in folder.rglob("*.mp4"):
        file.unlink()
    assert "<video" not in row._repr_html_()
    assert "&lt;i&gt;t" in row._repr_html_()
