import pytest

from tune_media.steps import final, running


def test_a_running_value_has_all_statistics_unless_some_are_named():
    assert running("speed").statistics == ("avg", "sum", "min", "max", "last")
    assert running("speed", statistics="max").statistics == ("max",)


def test_a_final_value_has_no_statistics():
    assert (final("goals").kind, final("goals").statistics) == ("final", ())


def test_unknown_statistics_are_refused():
    with pytest.raises(ValueError, match="median"):
        running("speed", statistics=("avg", "median"))
