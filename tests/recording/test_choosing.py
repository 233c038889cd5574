import numpy as np
import pytest

from tune_media import EpisodeRecord, Image, selection
from tune_media.recording.choosing import chosen_by, laid_out, selector_reason
from tune_media.recording.episode import Candidate
from tune_media.selection import as_selectors

RAISES = selection.where(lambda record: record.metrics["missing"] > 0, name="won")


def record(id, value=0.0, finished_at=0.0, **metrics):
    return EpisodeRecord(f"e{id}", value, 1, id=id, finished_at=finished_at, metrics=metrics)


def candidate(record, **media):
    return Candidate(record, {}, media=media)


def test_a_result_holds_one_value_or_a_list_by_the_selectors_limit_without_missing_winners():
    selectors = as_selectors(("best", selection.best(3, name="top")))
    a, b = record("a"), record("b")
    result = laid_out(selectors, {"best": [b], "top": [a, b]}, {"a": candidate(a)})
    assert result == {"top": [a]}
    assert laid_out(selectors, {"best": [a]}, {"a": candidate(a)}) == {"best": a}


@pytest.mark.parametrize(("name", "key"), [("map", "map"), ("best", "best_picture"), ("data", "data_picture")])
def test_a_picture_is_filed_under_its_name_unless_something_else_has_it(name, key):
    one, image = record("a"), Image(np.zeros((8, 8), np.uint8))
    result = laid_out(as_selectors("best"), {"best": [one]}, {"a": candidate(one, **{name: image})})
    assert result == {"best": one, key: {"best": image}}


def test_the_reason_of_a_missing_metric_names_those_there_are():
    reason = selector_reason(RAISES, KeyError("missing"), [record("a", speed=1.0), record("b", goals=2.0)])
    has = "the metrics of these episodes are: goals, speed (collect= adds some)"
    assert reason == f"keep='won' raised KeyError: 'missing'; {has}"
    assert selector_reason(RAISES, KeyError("missing"), [record("a")]).endswith("are: none (collect= adds some)")
    assert "metrics" not in selector_reason(RAISES, TypeError("no"), [record("a", speed=1.0)])


def test_a_selector_that_raises_costs_the_others_nothing():
    best, records = selection.best(), [record("a", 1.0), record("b", 2.0)]
    chosen, (reason,) = chosen_by([RAISES, best], records, argument="clips")
    assert chosen == selection.winners(records, [best]) == {"best": records[1:]}
    assert reason.startswith("clips='won' raised KeyError: 'missing'; ")
    with pytest.raises(KeyError):
        chosen_by([RAISES], records, strict=True)
