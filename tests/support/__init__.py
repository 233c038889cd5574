"""Envs, faults and readers that several tests share."""

import pytest

pytest.register_assert_rewrite("tests.support.trial_life", "tests.support.experiment", "tests.support.faults")
