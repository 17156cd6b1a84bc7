"""What a closed window held is freed."""

from __future__ import annotations

import pytest

from tests.benchmarks import children

MODULE = "tests.support.closed_windows"
TIMES = 20
GROWTH = 1.05


@pytest.mark.slow
def test_what_closed_windows_computed_is_freed_the_first_ones_too() -> None:
    kept = children.python("-m", MODULE, "0")
    assert (kept["first"], kept["others"]) == (0, 0)


@pytest.mark.slow
def test_memory_stays_while_four_windows_are_opened_and_closed_many_times() -> None:
    taken = children.python("-m", MODULE, str(TIMES))["bytes"]
    assert len(taken) > 4
    assert taken[-1] <= GROWTH * taken[0], taken
