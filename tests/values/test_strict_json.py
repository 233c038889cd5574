import math

import pytest

from tune_media.values.strict_json import parse_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"seed": %d}' % 2**70, {"seed": 2**70}),
        (b'["\\ud800", 1e400, Infinity]', ["\ud800", math.inf, math.inf]),
        (memoryview(b'{"a": [1, 2.5, null, true]}'), {"a": [1, 2.5, None, True]}),
    ],
)
def test_whatever_python_reads_is_parsed(text, value):
    assert parse_json(text) == value


def test_text_that_is_not_json_is_refused():
    with pytest.raises(ValueError, match="Unterminated"):
        parse_json(b'{"half')
