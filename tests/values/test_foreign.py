from tune_media.values.foreign import shown, without_address


def test_a_message_is_the_same_in_every_process():
    functions = [lambda: 1, lambda: 2]
    assert shown(functions[0]) != shown(functions[1])
    first, second = (without_address(f"{function} failed at 3") for function in functions)
    assert first == second
    assert first.endswith("> failed at 3")
