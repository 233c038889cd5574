import base64
import re

import tune_media as tm
from tests.support.recorded import make_experiment, make_trial
from tune_media.viewing import notebook


def test_the_best_clip_of_each_trial_plays_the_winner_first(tmp_path):
    html = tm.load(make_experiment(tmp_path / "exp"))._repr_html_()
    clips = [base64.b64decode(found) for found in re.findall(r"data:video/mp4;base64,([^']+)", html)]
    assert [clip[4:8] for clip in clips] == [b"ftyp", b"ftyp"]
    assert html.index("trial_b: return 9, step 20") < html.index("trial_a: return 3, step 20")


def test_names_with_html_stay_text(tmp_path):
    make_trial(tmp_path / "exp" / "<b>x", {}, {1: 1.0})
    html = tm.load(tmp_path / "exp")._repr_html_()
    assert "&lt;b&gt;x" in html
    assert "<b>" not in html


def test_clips_too_large_for_a_notebook_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(notebook, "_MAX_BYTES", 10)
    monkeypatch.setattr(notebook, "_MAX_ROWS", 2)
    html = tm.load(make_experiment(tmp_path / "exp"))._repr_html_()
    assert "<video" not in html
    assert "3 more rows" in html
