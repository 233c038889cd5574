import tune_media as tm
from tests.support.recorded import make_experiment
from tune_media.viewing.table import media_table, printable, trial_table


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


def test_a_table_fits_the_terminal(tmp_path):
    catalog = tm.load(make_experiment(tmp_path / "exp"))
    assert max(map(len, trial_table(catalog, width=80).split("\n"))) <= 80
    assert "step_000000020" in trial_table(catalog, width=200)
    assert "best clip" not in trial_table(catalog, width=80)  # no room for the whole path
    assert "~" in trial_table(catalog, width=30)
    assert len(media_table(catalog).split("\n")) == len(catalog) + 1


def test_text_that_would_move_the_cursor_is_escaped():
    assert printable("a\x1b[31m\u202eb😀") == "a\\x1b[31m\\u202eb😀"
