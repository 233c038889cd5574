"""The interval of a rate, against SciPy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.properties import many
from tune_media.values.rates import total_of, wilson


@many
@given(st.integers(1, 3000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_it_is_wilsons_and_tells_of_how_many_it_is(rate):
    count, total = rate
    truth = stats.binomtest(count, total).proportion_ci(method="wilson")
    assert wilson(count, total) == pytest.approx((truth.low, truth.high), abs=1e-12)
    assert total_of(count / total, *wilson(count, total)) == total


def test_nothing_has_no_rate():
    assert all(map(math.isnan, wilson(0, 0)))
