import re

from click.testing import CliRunner

import tune_media as tm
from tests.support.recorded import make_experiment, make_trial
from tune_media.cli import main
from tune_media.viewing.doctor import Diagnosis
from tune_media.viewing.table import cell_width
from tune_media.viewing.trials import configuration_table, media_table, trial_table


def test_one_line_a_trial_the_winner_first(tmp_path):
    lines = trial_table(tm.load(make_experiment(tmp_path / "exp")), width=200).split("\n")
    assert "mean training return" in lines[0]
    assert [line.split()[:4] for line in lines[1:]] == [
        ["trial_b", "0.2", "4", "9"],
        ["trial_a", "0.1", "3", "3"],
        ["trial_c", "0.3", "0", "no"],
    ]
    assert "gamma" not in lines[0]
    assert "step_000000020" in lines[1]


def test_a_table_fits_the_terminal_and_a_pipe_gets_all_of_it(tmp_path):
    catalog = tm.load(make_experiment(tmp_path / "exp"))
    assert max(map(len, trial_table(catalog, width=80).split("\n"))) <= 80
    assert "No room for 'best clip';" in trial_table(catalog, width=80)  # for the whole path
    assert max(map(len, trial_table(catalog, width=60).split("\n"))) <= 60
    assert "step_000000020" in trial_table(catalog)
    assert "…" not in trial_table(catalog) + media_table(catalog)
    assert len(media_table(catalog).split("\n")) == len(catalog) + 1


def test_names_that_are_cut_are_told_apart_and_numbers_are_not_cut(tmp_path):
    numbers = [("-1.2345e-05", "12345678901234567890"), ("-2.469e-05", "12345678901234567891"), ("0.1", "7")]
    for number, (lr, size) in enumerate(numbers):
        name = f"PPO_CartPole-v1_a1b2c_0000{number}_{number}_lr=0.000{number + 1}_2026-11-25_10-00-00"
        params = {"lr": float(lr), "size": int(size), "note": f"a text that says much {number}"}
        make_trial(tmp_path / "exp" / name, params, {10: -number})
    catalog = tm.load(tmp_path / "exp")
    for width in (100, 120):
        lines = trial_table(catalog, width=width).split("\n")
        lines = [line for line in lines if line.startswith("…")]
        assert [line[:9] for line in lines] == [f"…{number}_{number}_lr=0" for number in range(3)]
        assert all(re.search(rf"  {lr} .* {size} ", line) for line, (lr, size) in zip(lines, numbers, strict=True))
    assert max(map(len, lines)) <= 120


def test_columns_that_a_terminal_has_no_room_for_are_named(tmp_path):
    for number in range(3):
        params = {f"a_long_parameter_{letter}": 10.0**number for letter in "abcdefgh"} | {"seed": number // 2}
        make_trial(tmp_path / "exp" / f"{'x' * 40}_{number}", params, {10: -number, 20: 5.5})
    catalog = tm.load(tmp_path / "exp")
    for table in (trial_table(catalog, width=80), configuration_table(catalog, width=80, always=True)):
        assert max(map(len, table.split("\n"))) <= 80
        assert "a_long_parameter_h'" in table and " ".join(table.split()).endswith("`| cat` shows all.")


def test_sentences_end_their_lines_between_words(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.viewing.table._terminal_width", lambda: 40)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("seed,return\n" + "".join(f"{seed},{seed % 7}\n" for seed in range(20)))
    judged = CliRunner().invoke(main, ["gate", str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]).output
    for text in (judged, Diagnosis({"replay": "no: the env differs " * 3}, ["it cannot be made: " * 3]).text()):
        assert 30 < max(map(len, text.split("\n"))) <= 40


def test_emoji_and_wide_characters_keep_the_columns(tmp_path):
    for name, params in {"a": {"lr": 1}, "🤖 b": {"lr": 2}, "试验": {"lr": 3}}.items():
        make_trial(tmp_path / "exp" / name, params, {10: 1.0})
    lines = trial_table(tm.load(tmp_path / "exp"), width=200).split("\n")
    lr = lines[0].index("lr")
    assert {cell_width(re.match(r".*?(?= \d {3,})", line)[0]) + 1 for line in lines[1:]} == {lr}
