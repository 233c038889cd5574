import pytest

from tune_media.recording.plan import Plan
from tune_media.rllib.settings import RecorderSettings


def settings(**options):
    return RecorderSettings(Plan("episodes", ()), **options)


@pytest.mark.parametrize("section", ["evaluation", "train"])
def test_only_chosen_sections_are_recorded(section):
    other = {"evaluation": "train", "train": "evaluation"}[section]
    assert settings(sections=(section,)).records_on(section, 0)
    assert not settings(sections=(section,)).records_on(other, 0)
    assert settings(sections=(section, other)).records_on(other, 7)


def test_the_evaluation_is_recorded_unless_something_else_is_chosen():
    assert settings().records_on("evaluation", 1)
    assert not settings().records_on("train", 1)
