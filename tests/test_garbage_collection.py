from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.garbage_collection import collect_due_garbage

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 2


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collecting_by_hand() -> Iterator[None]:
    """Have nothing else collect, and begin with no garbage."""
    thresholds = gc.get_threshold()
    gc.disable()
    gc.collect()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.parametrize("generation", range(OLDEST + 1))
def test_garbage_of_a_generation_is_collected_once_that_is_due(generation: int) -> None:
    kept = Cycle()
    for younger in range(generation):
        gc.collect(younger)  # it grows older
    cycle = weakref.ref(kept)
    del kept
    thresholds = [10**6] * (OLDEST + 1)
    gc.set_threshold(*thresholds)
    collect_due_garbage()
    assert cycle() is not None
    thresholds[generation] = gc.get_count()[generation] - 1
    gc.set_threshold(*thresholds)
    collect_due_garbage()
    assert cycle() is None
    assert gc.get_count()[generation] <= max(0, thresholds[generation])


LEFT_OUT = """
import gc
from visualizer.garbage_collection import collect_due_garbage, left_out_of_collections

seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
gc.set_threshold(1, 1, 1)
with left_out_of_collections():
    seen.clear()
    kept = [[] for _ in range(10_000)]
    collect_due_garbage()
    print("during", seen, gc.isenabled())
print("after", gc.isenabled(), any(each is kept for each in gc.get_objects()))
gc.disable()
with left_out_of_collections():
    pass
print("as before", gc.isenabled())
collect_due_garbage()
more = [[] for _ in range(100)]
collect_due_garbage()
print("collects", bool(seen))
"""


def test_what_is_made_during_an_import_is_left_out() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OUT], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert ended.stdout.splitlines() == [
        "during [] False",
        "after True False",
        "as before False",
        "collects True",
    ]
