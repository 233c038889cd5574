"""Code of the page that touches no page: texts of numbers, terms of the reward, where two episodes first differ."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.properties import many
from tests.support.taped import take_step
from tune_media.evaluation.decisive import first_difference
from tune_media.replay.tape import Tape


@many
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True, max_size=5))
@example([1.0, 0.99999])
@example([0.00112, 0.00114, 0.5, 50000.0])
def test_different_numbers_have_different_texts_of_few_digits(page_code, numbers):
    texts = page_code("tuneMedia.model.textsOf", numbers)
    assert len(set(texts)) == len(numbers)
    assert [float(text) for text in texts] == pytest.approx(numbers, rel=1e-3)


TERMS = """() => {
  const { rewardTerms } = tuneMedia.steps;
  const x = Array.from({ length: 3000 }, (_, at) => at + 1);
  const wave = (of) => x.map((step) => Math.sin(of * step));
  const rare = (of) => x.map((step) => (step % 997 === of ? of : 0));
  const values = [...[1, 2, 3].map(wave), ...[1, 2, 3, 4].map(rare), ...[4, 5, 6, 7, 8].map(wave)];
  const series = values.map((y, at) => ({ name: `v${at}`, kind: "value", x, y }));
  const sum = (parts) => x.map((_, at) => parts.reduce((total, part) => total + values[part][at], 0));
  return [[0, 1, 3, 6], [2, 4, 5, 11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]].map((parts) =>
    rewardTerms([{ name: "reward", kind: "reward", x, y: sum(parts) }, ...series]));
}"""


def test_the_terms_of_the_reward_are_found_among_twelve_values_some_of_them_rare(page_code):
    found = [[0, 1, 3, 6], [2, 4, 5, 11], list(range(12))]
    assert page_code(TERMS) == [[f"v{part}" for part in parts] for parts in found]


ORDER = """() => {
  const trials = [1, 3, 9].map((r) => ({ metrics: { r }, groups: new Map(), isBehind: () => r === 9 }));
  tuneMedia.model.rank(trials, "r");
  const all = trials.map((trial) => ({ trials: [trial], counting: [trial], typical: trial, mean: [trial.score] }));
  return [true, false].map((descending) => tuneMedia.configurations.configurationRows(
    { state: { sort: "score", descending }, configurations: { all } }, trials.map((trial) => ({ trial })))
    .map(({ mean }) => mean[0]));
}"""


def test_a_configuration_with_another_return_stands_behind_the_others(page_code):
    assert page_code(ORDER) == [[3, 1, 9], [1, 3, 9]]


COMMANDS = """() => {
  const app = { data: { title: "runs/sweepA, runs/sweepB" } };
  const [a, b] = ["sweepA/lr=0.1_0", "old/sweepB/lr=0.2_1"].map((name) => ({ name }));
  const { comparing, forking } = tuneMedia.commands;
  return [comparing(app, [a, b]).words, forking(app, a, "e1", 3).words.slice(0, 2)];
}"""


def test_a_command_names_the_experiment_of_its_trial_if_several_are_shown(page_code):
    gate = ["gate", "sweepA:lr=0.1_0", "old/sweepB:lr=0.2_1"]
    assert page_code(COMMANDS) == [gate, ["fork", "sweepA:e1"]]


LENGTH = 6
FIRST_DIFFERENCE = """(all) => tuneMedia.steps.firstDifference(
  all.map((one) => ({ series: tuneMedia.steps.seriesOf(one, { length: 6 }) })))"""
ACTIONS = st.lists(st.integers(1, 3), min_size=LENGTH, max_size=LENGTH)
ACTIONS |= st.lists(st.floats(0.5, 1), min_size=LENGTH, max_size=LENGTH)
STEPS = st.none() | st.integers(1, LENGTH)


@many
@given(ACTIONS, STEPS, STEPS, st.booleans(), st.booleans())
def test_the_first_action_that_differs_is_the_first_difference_on_tapes_and_on_the_page(
    page_code, actions, acts_at, returns_at, has_noise, are_vectors
):
    """Else it is the first step at which their envs return something else; rounding is no difference."""
    ours, theirs = np.array(actions), np.array(actions)
    theirs[acts_at - 1 if acts_at else []] += 1
    theirs = theirs + 1e-9 * np.sin(np.arange(LENGTH)) if has_noise else theirs
    tapes, episodes, wanted = [], [], acts_at or returns_at
    for number, taken in enumerate((ours, theirs)):
        taken = np.stack([taken, np.ones(LENGTH)], 1) if are_vectors else taken
        heights = [float(number and step >= (returns_at or LENGTH + 1)) for step in range(LENGTH + 1)]
        tapes.append(Tape(seed=1))
        tapes[-1].began(int(heights[0]))
        for action, height in zip(taken, heights[1:], strict=True):
            take_step(tapes[-1], action, int(height))
        own = {f"action/{at}": column.tolist() for at, column in enumerate(taken.reshape(LENGTH, -1).T)}
        steps = {"episode_step": list(range(LENGTH + 1)), "observation": [[1.0, height] for height in heights]}
        collected = {"drawn": [number + 1.0 * step for step in range(LENGTH)]} if wanted else {}  # from the start
        episodes.append({"actions": own, "steps": steps, "series": collected})
    assert first_difference(*tapes) == (wanted or LENGTH)
    found = page_code(FIRST_DIFFERENCE, episodes)
    assert (found and found["step"]) == wanted
