"""Tests that all ranks end a job together, whatever happens on each of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.two_ranks import REFUSED, two_ranks

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("accelerate", reason="models are spread with accelerate")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no programs"),
]


def test_an_error_or_cancellation_on_one_rank_ends_the_job_on_both(tmp_path: Path) -> None:
    folder = tmp_path / "a folder of temporary files"
    folder.mkdir()
    statuses, outcomes = two_ranks(folder, "ends")
    expected = [REFUSED, "done", REFUSED, "cancelled", "done", "cancelled", REFUSED, "done"]
    assert outcomes == [expected, expected]
    assert statuses == [0, 0]


@pytest.mark.parametrize("why", ["failed run", "no memory in run"])
def test_ranks_do_not_wait_for_each_other_forever(tmp_path: Path, why: str) -> None:
    statuses, outcomes = two_ranks(tmp_path, why)
    assert not outcomes
    assert 0 not in statuses
