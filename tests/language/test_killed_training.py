"""A training killed at any moment ends as an undisturbed one."""

from __future__ import annotations

import os

import pytest

from tests.support.killed_training import kill_many

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no programs")
def test_killed_trainings_end_with_the_same_losses() -> None:
    count = kill_many(8, seed=3)
    assert count["kills"] >= 8
    assert count["within a write"] >= 2
    assert count["trainings ended"] >= 1
