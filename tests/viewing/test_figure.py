import builtins
import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.viewing import write_trial
from tune_media import cli

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def sweep(tmp_path):
    for number, lr in enumerate(("<b>", "$2", "$2", "<b>", "none")):
        write_trial(tmp_path / "exp" / f"t_{number}", 3 * number, lr=lr, seed=number)
    return tmp_path / "exp"


def run(*arguments):
    return CliRunner().invoke(cli.main, ["figure", *map(str, arguments)])


def test_a_figure_has_a_row_a_configuration_and_the_numbers_of_compare(sweep, tmp_path):
    result = run(sweep, "-o", tmp_path / "out" / "figure.svg")
    assert result.exit_code == 0, result.output
    root = ET.fromstring((tmp_path / "out" / "figure.svg").read_text())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    table = tm.load(sweep).compare()
    assert [text for text in texts if text.startswith("lr ")] == [f"lr {lr}" for lr in table["config/lr"]]
    told = [text for text in texts if " run" in text and "interval" not in text]
    for text, (_, row) in zip(told, table.iterrows(), strict=True):
        start = f"{row['mean']:.4g} [{row['low']:.4g}, {row['high']:.4g}]" if row["n"] > 1 else f"{row['mean']:.5g}"
        assert text.startswith(start)
    assert len(list(root.iter(f"{SVG}circle"))) == 5 + 3  # runs and means
    assert any(text.endswith("runs, mean, 95 % interval") for text in texts)
    width = float(root.get("width"))
    assert all(0 <= float(mark.get("cx")) <= width for mark in root.iter(f"{SVG}circle"))


def test_the_lowest_may_be_the_best_and_names_are_checked(sweep, tmp_path):
    assert run(sweep, "-o", tmp_path / "a.svg", "--metric", "episode_return_mean", "--min").exit_code == 0
    first = [text.text for text in ET.parse(tmp_path / "a.svg").iter(f"{SVG}text") if text.get("font-weight")]
    assert first == [f"lr {tm.load(sweep).compare(metric='episode_return_mean', mode='min')['config/lr'][0]}"]
    wrong = run(sweep, "-o", tmp_path / "b.svg", "--metric", "episode_return_men")
    assert (wrong.exit_code, "did you mean 'episode_return_mean'" in wrong.output) == (1, True)
    assert run(sweep, "-o", tmp_path / "b.doc").exit_code == 2


@pytest.mark.parametrize(
    ("scores", "shown"),
    [
        ((1e-13, 3e-13), ["1e-13", "1.5e-13", "2e-13", "2.5e-13", "3e-13"]),
        ((1e17, 3e17), ["1e+17", "1.5e+17", "2e+17", "2.5e+17", "3e+17"]),
        ((1e17, 1e17), ["9.9e+16", "9.95e+16", "1e+17", "1.005e+17", "1.01e+17"]),
        ((2e-13, 2e-13), ["0", "1e-13", "2e-13", "3e-13", "4e-13"]),
        ((1e9, 1e9 + 2), ["1000000000", "1000000000.5", "1000000001", "1000000001.5", "1000000002"]),
        ((5e-324, 0.0), ["-0.4", "-0.2", "0", "0.2", "0.4"]),
    ],
    ids=["tiny", "huge", "huge and equal", "tiny and equal", "close", "nothing"],
)
def test_the_ticks_are_sensible_at_any_size_of_the_scores(tmp_path, scores, shown):
    for number, score in enumerate(scores):
        folder = tmp_path / "exp" / f"t_{number}"
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps({"lr": number}))
        (folder / "result.json").write_text(json.dumps({"training_iteration": 1, "episode_return_mean": score}))
    result = run(tmp_path / "exp", "-o", tmp_path / "a.svg")
    assert result.exit_code == 0, result.output
    texts = [text for text in ET.parse(tmp_path / "a.svg").iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert [text.text for text in texts if "interval" not in text.text] == shown
    width = 0.0
    for text in texts[:-1]:  # each has its room
        assert width < float(text.get("x")) - 2.6 * len(text.text)
        width = float(text.get("x")) + 2.6 * len(text.text)


def test_matplotlib_draws_pictures_and_pdf(sweep, tmp_path):
    pytest.importorskip("matplotlib")
    assert run(sweep, "-o", tmp_path / "a.png").exit_code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert tm.load(sweep).save_figure(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_without_matplotlib_the_command_says_how_to_install_it(sweep, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *more, **named):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = run(sweep, "-o", tmp_path / "a.png")
    assert result.exit_code == 1
    assert "pip install 'tune-media[figure]', or name a .svg file" in result.output
