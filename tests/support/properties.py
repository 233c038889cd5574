"""How hypothesis makes examples up for tests: the same ones in each run, so many, and by no clock; and plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
many = settings(max_examples=100, derandomize=True, deadline=None, database=None, suppress_health_check=_HEALTH)
few = settings(many, max_examples=25)  # each of which is written and read, or simulated

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)  # halves of characters, too
DTYPES = hnp.scalar_dtypes()
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
ARRAYS = hnp.arrays(DTYPES | hnp.byte_string_dtypes() | hnp.unicode_string_dtypes(), SHAPES).map(lambda array: array.T)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=9) | ARRAYS
_HASHABLE = st.booleans() | st.integers() | TEXTS | st.tuples(st.integers(), TEXTS)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = TEXTS | st.integers(-(2**63), 2**63 - 1)
    groups = st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.tuples()
    return groups | st.dictionaries(keys, inner, max_size=3)


PLAIN = st.recursive(_LEAVES, _nested, max_leaves=8)
"""What ``pack`` writes."""
_NUMBERS_OF_NUMPY = DTYPES.flatmap(hnp.from_dtype)
_SETS = st.sets(_HASHABLE, max_size=3) | st.frozensets(_HASHABLE, max_size=3)
EXACT = st.recursive(_LEAVES | _NUMBERS_OF_NUMPY | _SETS, _nested, max_leaves=8)
"""What ``pack_exactly`` writes."""


def assert_same(one: Any, other: Any) -> None:
    """Assert that two values are equal and of the same types, arrays and media included."""
    assert isinstance(other, type(one))
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name, value in one.items():
            assert_same(value, other[name])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif hasattr(one, "__dict__"):
        assert_same(public(one), public(other))
    else:
        assert one == other or one != one


def public(value: Any) -> dict[str, Any]:
    """Return the public fields of an object."""
    return {name: field for name, field in vars(value).items() if not name.startswith("_")}
