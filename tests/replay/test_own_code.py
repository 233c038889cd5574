"""The hashes of the code that an env consists of."""

from tune_media.replay.own_code import code_hashes


class Windy:
    def step(self):
        """Step in the wind."""
        return all(name != "wind" for name in vars(self))


class Calm:
    def step(self):
        """Step without any."""
        return all(name != "calm" for name in vars(self))


class AlsoCalm:
    def step(self):
        """Its docstring does not count."""
        return all(name != "calm" for name in vars(self))


def test_the_first_text_of_a_comprehension_is_no_docstring():
    windy, calm, also_calm = (list(code_hashes([one]).values()) for one in (Windy, Calm, AlsoCalm))
    assert windy != calm == also_calm
    assert calm
