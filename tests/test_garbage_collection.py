from __future__ import annotations

import subprocess
import sys

from tests.architecture.project_graph import ROOT

LEFT_OUT = """
import gc
from visualizer.process_settings import (
    collect_garbage, is_garbage_collection_suspended, exclude_from_garbage_collection
)

seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
gc.set_threshold(1, 1, 1)
with exclude_from_garbage_collection():
    seen.clear()
    kept = [[] for _ in range(10_000)]
    with exclude_from_garbage_collection():
        pass
    print("during", seen, gc.isenabled(), is_garbage_collection_suspended())
is_tracked = any(each is kept for each in gc.get_objects())
print("after", gc.isenabled(), is_garbage_collection_suspended(), is_tracked)
gc.disable()
with exclude_from_garbage_collection():
    pass
print("as before", gc.isenabled())
seen.clear()
collect_garbage()
print("collects", seen)
"""


def test_what_is_made_during_an_import_is_left_out() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_OUT], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert ended.stdout.splitlines() == [
        "during [] False True",
        "after True False False",
        "as before False",
        "collects [2, 2]",
    ]
