"""The worker's time for a mask toggle, compared with the minimal torch operations.

Both run on one thread with the same number of torch threads and the same memory. CPU time is
measured, so that other load on the machine has little effect.
"""

from __future__ import annotations

from time import thread_time
from typing import TYPE_CHECKING, Any

from tests.benchmarks import children
from tests.benchmarks.table import Line, ratio, show, times

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((6, 3, 2), (64, 64, 8), (1024, 768, 12))
"""Numbers of tokens, embedding sizes and numbers of heads."""
MIN_RATIO = 1.4
WARM_UPS = 3


def measure(repeats: int) -> int:
    """Measure each size in a separate process and print; return the number of missed targets."""
    lines: list[Line] = []
    for tokens, size, heads in SIZES:
        told = children.run(_toggles, tokens, size, heads, repeats)
        at_most = {"at_most": MIN_RATIO} if tokens >= 1024 else {}
        lines += [
            times(f"{tokens:,} × {size} × {heads}: run", told["run"]),
            times("  reading and pooling", told["reading"]),
            times("  least torch work", told["least"]),
            ratio("  run, reading and pooling ÷ least torch work", told["all"], told["least"],
                  **at_most),
        ]  # fmt: skip
    return show("The worker at a mask toggle, on and off as one; its thread's own time", lines)


def _toggles(tokens: int, size: int, heads: int, repeats: int) -> dict[str, Any]:
    from visualizer.process_settings import enable_huge_pages, fix_mmap_threshold

    fix_mmap_threshold()
    enable_huge_pages()  # before torch is imported
    from tests.benchmarks.peers import Torch
    from tests.benchmarks.stand import document
    from tests.support.screens import warm
    from visualizer.session.view import View
    from visualizer.session.worker_jobs import compute, run_document, shared_buffer_pool

    made, view = document(tokens, size, heads), View()
    run = compute(made, None)  # the same number of torch threads as on the worker
    told: dict[str, list[float]] = {name: [] for name in ("run", "reading", "least", "all")}
    for round_ in range(WARM_UPS + repeats):
        taken = dict.fromkeys(told, 0.0)
        for causal in (False, True):
            changed = made.with_setting("causal", causal)
            start = thread_time()
            run = run_document(changed, run, pool=shared_buffer_pool())
            taken["run"] += thread_time() - start
            taken["reading"] += _timed(lambda: warm(run, view))  # noqa: B023 - now
            least = Torch(run.trace)
            taken["least"] += _timed(lambda: least.toggle(causal))  # noqa: B023 - now
        taken["all"] = taken["run"] + taken["reading"]
        if round_ >= WARM_UPS:
            for name, seconds in taken.items():
                told[name].append(seconds / 2)
    return told


def _timed(act: Callable[[], object]) -> float:
    start = thread_time()
    act()
    return thread_time() - start
