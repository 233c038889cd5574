import random
from types import SimpleNamespace

import numpy as np
import pygame
import pytest

from tune_media.replay.second_env import close_env, pygame_in_use, same_random_numbers


def test_random_numbers_go_on_as_if_nothing_had_been_drawn():
    torch = pytest.importorskip("torch")

    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draw()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with same_random_numbers():
        assert draw() == expected
    assert draw() == expected


def test_closing_an_env_does_not_end_the_pygame_of_others(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame.init()
    try:
        in_use = pygame_in_use()
        close_env(SimpleNamespace(close=lambda: pygame.quit()), in_use)
        assert pygame.get_init()
        close_env(SimpleNamespace(close=lambda: pygame.quit()), [])
        assert not pygame.get_init()
    finally:
        pygame.quit()
