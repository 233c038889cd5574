import pytest

from tune_media.replay.render_cost import RenderCost


@pytest.mark.parametrize(
    ("rendering", "stepping", "winners", "is_worth_it"),
    [
        (200.0, 0.07, 2, True),  # HalfCheetah without a GPU
        (200.0, 0.07, 9, False),  # nearly all are rendered in any case
        (0.3, 1.2, 2, False),  # an Atari game: the emulator takes longer than its picture
        (0.3, 1.2, 1, True),
        (0.0, 0.0, 1, True),  # too fast to measure: either way
    ],
)
def test_a_replay_is_worth_it_if_rendering_all_candidates_takes_clearly_longer(
    rendering, stepping, winners, is_worth_it
):
    """Ten episodes of 100 steps; times of a step, ms."""
    cost = RenderCost.of(rendering, 1000, stepping * winners / 10, 100 * winners)
    assert cost.is_replay_worth_it is is_worth_it
