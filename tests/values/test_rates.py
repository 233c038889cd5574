"""The interval of a rate, against SciPy's."""

import math

import pytest
from scipy import stats

from tune_media.values.rates import wilson


@pytest.mark.parametrize(("count", "total"), [(40, 40), (0, 40), (1, 1), (0, 1), (7, 20), (39, 40), (500, 1000)])
def test_it_is_wilsons(count, total):
    truth = stats.binomtest(count, total).proportion_ci(method="wilson")
    assert wilson(count, total) == pytest.approx((truth.low, truth.high), abs=1e-12)


def test_nothing_has_no_rate():
    assert all(map(math.isnan, wilson(0, 0)))
