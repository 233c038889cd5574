"""The first step at which two policies differ."""

import random
from types import SimpleNamespace

import pytest

from tests.support.taped import take_step
from tune_media.evaluation.decisive import differs_at, first_difference
from tune_media.replay.tape import Tape

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray


def test_it_is_the_first_step_at_which_an_action_differs():
    draws = random.Random(0)
    for _ in range(20):
        at, length = draws.randrange(1, 90), 100
        tapes = [Tape(seed=1), Tape(seed=1)]
        for number, tape in enumerate(tapes):
            tape.began(3)
            for step in range(1, length):
                take_step(tape, int(number and step == at), 256 * step + (step > at) * 512 * number)
        assert first_difference(*(Tape.unpacked(tape.packed()) for tape in tapes)) == at


@pytest.mark.parametrize(("start", "wanted"), [(3, 2), (4, 0)])
def test_episodes_that_begin_differently_do_so_from_the_start(start, wanted):
    episodes = []
    for number in range(2):
        tape = Tape(seed=1)
        tape.began(start if number else 3)
        for step in range(1, 5):
            take_step(tape, int(number and step == 2), step)
        episodes.append(SimpleNamespace(tape=tape.packed))
    assert differs_at(*episodes) == wanted
