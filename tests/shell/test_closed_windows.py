"""The memory of closed windows is freed."""

from __future__ import annotations

import pytest

from tests.benchmarks import children

MODULE = "tests.support.closed_windows"
TIMES = 10
GROWTH = 1.025


@pytest.mark.slow
def test_memory_of_closed_windows_is_freed() -> None:
    """The results of the first window are included; memory does not grow with further windows."""
    kept = children.python("-m", MODULE, str(TIMES))
    assert (kept["first"], kept["others"]) == (0, 0)
    taken = kept["bytes"]
    assert len(taken) > 2
    assert taken[-1] <= GROWTH * taken[0], taken
