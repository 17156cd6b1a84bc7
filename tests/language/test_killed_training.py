"""A training run that is killed at any time ends like an undisturbed one."""

from __future__ import annotations

import os

import pytest

from tests.support import killed_training, killed_training_process

pytestmark = pytest.mark.slow
SEED = 283
"""A seed with which the first two kills follow 5.8 s and 1.1 s after the first progress, so that
the first one follows a checkpoint.
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no programs")
def test_killed_training_ends_with_the_same_losses() -> None:
    count = killed_training.kill_many(8, seed=3)
    assert count["kills"] >= 8
    assert count["within a write"] >= 2
    assert count["trainings ended"] >= 1


@pytest.mark.usefixtures("full_evaluation")
@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.release)])
def test_killed_processes_leave_the_shown_losses_and_a_recent_checkpoint(kills: int) -> None:
    count = killed_training_process.kill_many(kills, SEED)
    assert count["kills"] == kills
    assert count["with a checkpoint"] >= 1
