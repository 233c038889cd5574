import pytest

from tune_media.values.foreign import is_a, shown, without_address


class Hostile:
    """An object whose class and texts raise."""

    @property
    def __class__(self):
        raise RuntimeError("no class")

    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


class Liar:
    __class__ = dict


def test_an_object_whose_text_raises_is_named_by_its_type():
    assert shown(Hostile()) == shown(Hostile(), str) == "<Hostile>"


def test_an_error_in_an_objects_class_is_not_seen_and_a_lie_not_believed():
    with pytest.raises(RuntimeError):
        isinstance(Hostile(), dict)
    assert not is_a(Hostile(), dict)
    assert isinstance(Liar(), dict)
    assert not is_a(Liar(), dict)
    assert is_a({}, (list, dict))


def test_a_message_is_the_same_in_every_process():
    functions = [lambda: 1, lambda: 2]
    assert shown(functions[0]) != shown(functions[1])
    first, second = (without_address(f"{function} failed at 3") for function in functions)
    assert first == second
    assert first.endswith("> failed at 3")
