"""The filter's language: the table of episodes (Python) and the page (JavaScript) read each text alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.page_code import Filtered
from tests.support.properties import many
from tune_media.values.safe_names import shown_names
from tune_media.viewing.configurations import short

NAMES = [f"PPO_Cart_a1b2c_0000{at}_{at}_lr=0.1_2026-11-26_10-00-00" for at in range(4)]
COLUMNS = {  # of hyperparameters, as strict JSON has them; ... is not set
    **{"lr": [0.00012345, 9.8765, 123.456, 1 / 3], "seed": [0, 1, 1234567, 3], "my name": [3, 4, 5, 6]},
    **{"act": ["relu", "tanh", "e lu", "x or y"], "gamma": [None, 0.95, 0.5, "NaN"], "det": [True, False, ..., True]},
    **{"run": ["<function warm>", "<class 'a.Env'>", "cold", "cold"], "opt": [0.1, "auto", 0.01, ...]},
}
PARAMS = [{name: own[at] for name, own in COLUMNS.items() if own[at] is not ...} for at in range(4)]
ATOMS = {  # the rows that each lets through
    **{"seed=0": {0}, "seed = 1": {1}, "seed!=0": {1, 2, 3}, "seed >=3": {2, 3}, "seed<1": {0}, "seed==1234567": {2}},
    **{"seed=1..3": {1, 3}, "seed=..1": {0, 1}, "lr=100..": {2}, "lr<=0.5": {0, 3}, "seed=1.23e6": set()},
    **{"lr=1.23e-4": {0}, "lr=9.88": {1}, "lr=9.876": set(), "lr=9.8765": {1}, "lr=123.5": {2}, "lr=123": set()},
    **{"lr=0.3333": {3}, "lr=0.333": set(), "lr>0.5": {1, 2}, 'act="e lu"': {2}, 'act="x or y"': {3}},
    **{"act=relu": {0}, "act!=relu": {1, 2, 3}, '"act"=tanh': {1}, '"my name" >= 5': {2, 3}, "act=Relu": set()},
    **{"gamma=None": {0}, "gamma=null": {0}, "gamma!=none": {1, 2, 3}, "gamma=NaN": {3}, "gamma>0.6": {1}},
    **{"det=true": {0, 3}, "det=False": {1}, "det!=true": {1, 2}, "det=yes": {0, 3}, "det=no": {1}, "det=unset": {2}},
    **{"run=warm": {0}, "run=a.Env": {1}, "run=cold": {2, 3}, "trial=a1b2c_00001": {1}, "PPO_CART": {0, 1, 2, 3}},
    **{"opt>0.05": {0}, "opt=1e-1": {0}, "opt=auto": {1}, "opt=..0.05": {2}, "opt!=0.1": {1, 2, 3}},
    **{"trial=PPO_Cart_a1b2c_00002": {2}, f'trial="{NAMES[0]}"': {0}, "c_00003": {3}, "nothing": set()},
}


@pytest.fixture(scope="module")
def trials(page_code):
    return Filtered(page_code, PARAMS, NAMES)


def chain(items, words, meet):
    """Return some of the items, each a text with its rows, joined by some of the words."""

    def joined(parts):
        (_, (text, rows)), *others = parts
        for word, (other, its) in others:
            text, rows = f"{text} {word} {other}", meet(rows, its)
        return text, rows

    return st.lists(st.tuples(st.sampled_from(words), items), min_size=1, max_size=3).map(joined)


def nested(items):
    either = chain(chain(items, ["", "and", "AND", "&", "&&"], set.__and__), ["or", "Or", "|", "||"], set.__or__)
    negated = st.tuples(st.sampled_from(["not", "NOT"]), items).map(lambda no: (f"{no[0]} {no[1][0]}", ALL - no[1][1]))
    return negated | either.map(lambda part: (f"({part[0]})", part[1]))


ALL = set(range(4))
FILTERS = st.recursive(st.sampled_from(list(ATOMS.items())), nested, max_leaves=8).map(
    lambda part: (part[0][1:-1] if part[0][0] == "(" else part[0], part[1])
)


@pytest.mark.parametrize("text", ATOMS)
def test_each_comparison_finds_its_rows(trials, text):
    assert trials.found(text) == sorted(ATOMS[text])


@many
@given(FILTERS)
def test_and_or_not_and_parentheses_are_those_of_sets(trials, part):
    assert trials.found(part[0]) == sorted(part[1])


@many
@given(st.text(st.sampled_from('ab"()<>=!|& .1eé-') | st.characters(codec="utf-8"), max_size=30))
def test_any_text_is_a_filter_or_has_a_problem(trials, text):
    try:
        trials.table.found(text)
    except ValueError as error:
        assert str(error)
    assert isinstance(trials.on_page(text), (str, list))


@pytest.mark.parametrize("part", ["(", "not ", "not ("])
def test_a_filter_that_is_nested_too_deep_says_so(trials, part):
    assert "more than 100 parentheses" in trials.on_page(part * 50_000 + "seed=1")
    with pytest.raises(ValueError, match="more than 100 parentheses"):
        trials.table.found(part * 50_000 + "seed=1")
    assert trials.found("(" * 90 + "seed=1" + ")" * 90) == [1]


VALUES = st.none() | st.booleans() | st.floats(-1e9, 1e9) | st.sampled_from(["NaN", "Infinity", "-Infinity", {}])
VALUES |= st.integers(-(2**53), 2**53) | st.text("ab e<>=!|&(),:/+-'", min_size=1).filter(lambda t: t == t.strip())


@many
@given(st.lists(VALUES, min_size=1, max_size=5, unique_by=repr), st.data())
def test_a_click_on_a_value_finds_the_trials_that_have_it(page_code, values, data):
    """Up to the digits that are shown, in which two numbers may be alike."""
    wanted = data.draw(st.sampled_from(range(len(values))))
    trials = Filtered(page_code, [{"p": value} for value in values], [f"t{at}" for at in range(len(values))])
    text = page_code("(value) => tuneMedia.filter.token('p', tuneMedia.filter.read(value))", values[wanted])
    found = trials.found(text)
    assert wanted in found and (found == [wanted] or isinstance(values[wanted], (int, float)))


@many
@given(st.from_regex(r"([A-Za-z]{1,4}_)?([0-9a-f]{5}_[0-9]{5}(_[0-9]{1,2}_lr=0.1)?)?", fullmatch=True), st.booleans())
def test_a_trial_is_called_by_the_same_names(page_code, name, is_inside):
    name = f"sweep/{name}" if is_inside else name
    assert page_code("(name) => tuneMedia.model.namesOf({ name })", name) == [name, *shown_names(name)]


@pytest.mark.parametrize(
    "text", ["<function warm 1b3f24bb>", "<class 'a.Env'>", "<class 'a.make.<locals>.Env' 1b3f24bb>", "<b>"]
)
def test_functions_and_classes_have_the_same_short_names(page_code, text):
    assert page_code("tuneMedia.filter.plain", text) == short(text)


RANGES = (
    ('"my  lr"=1 lr=1..2', "lr", "lr=3..", '"my  lr"=1 lr=3..'),
    ("a>1 and lr=1..2", "lr", "", "a>1"),
    ("lr=1..2 and a>1", "lr", "", "a>1"),
    ("a>1 and lr=1..2 and b>1", "lr", "lr=..5", "a>1 and b>1 lr=..5"),
    ("not lr=1..2", "lr", "lr=3..", "not lr=1..2 lr=3.."),
    ("a>1 | b>1", "lr", "lr=3..", "(a>1 | b>1) lr=3.."),
    ('(a>1 or b>1) "x or y"', "lr", "lr=3..", '(a>1 or b>1) "x or y" lr=3..'),
    ('"my lr"=1..2', "my lr", "", ""),
)


@pytest.mark.parametrize(("text", "name", "token", "result"), RANGES)
def test_a_range_in_the_filter_leaves_all_else_as_it_is(page_code, text, name, token, result):
    assert page_code("(all) => tuneMedia.range.replaced(...all)", [text, name, token]) == result


ENDS = (
    ([0.25, 0.5], [0, 8], "x=2..4"),
    ([0, 0.5], [0, 8], "x=..4"),
    ([0.5, 1], [-1e-13, 1e-13], "x=0.."),
    ([0.25, 0.75], [1e6, 1e6 + 1], "x=1000000.25..1000000.75"),
    ([0.33333, 0.66667], [0, 1], "x=0.3333..0.6667"),
    ([0, 1], [0, 1], ""),
)
TOKEN_OF = "([ends, [low, high]]) => tuneMedia.range.tokenOf('x', ends, (share) => low + share * (high - low))"


@pytest.mark.parametrize(("ends", "axis", "token"), ENDS)
def test_a_range_of_an_axis_is_short(page_code, ends, axis, token):
    assert page_code(TOKEN_OF, [ends, axis]) == token


@many
@given(st.lists(st.floats(0, 1), min_size=2, max_size=2).map(sorted), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_no_value_at_an_end_of_a_range_is_left_out(page_code, ends, first, length):
    axis = [first, first + length]
    low, high = (axis[0] + share * (axis[1] - axis[0]) for share in ends)
    trials = Filtered(page_code, [{"x": low}, {"x": high}], "ab")
    assert trials.found(page_code(TOKEN_OF, [ends, axis])) == [0, 1]
