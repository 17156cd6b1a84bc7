"""Time from process start to the window and the first results, compared with `import torch`."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from tests.benchmarks import children
from tests.benchmarks.table import Line, ratio, show, times

WINDOW_MS = 500.0
IMPORT_TIMES = 1.5
TORCH = "import sys, time, torch; print(time.time() - float(sys.argv[1]))"


def measure(repeats: int) -> int:
    """Measure and print; return the number of missed targets."""
    starts, imports = [], []
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(repeats + 1):
            start = children.python("-m", "tests.benchmarks.launch", str(time.time()), folder)
            torch = children.python("-c", TORCH, str(time.time()))
            if round_:  # the first start reads files from disk
                starts.append(start)
                imports.append(torch)
    return show(f"Start, {repeats} fresh processes", _lines(starts, imports))


def _lines(starts: list[dict[str, Any]], imports: list[float]) -> list[Line]:
    windows = [start["window_s"] for start in starts]
    numbers = [start["numbers_s"] for start in starts]
    early = sum(not start["has_torch"] for start in starts)
    told = f"{early:9} of {len(starts)}"
    return [
        times("process start → first window painted", windows, WINDOW_MS),
        Line("  of these before torch was in", told, "all", early == len(starts)),
        times("process start → first numbers painted", numbers),
        times("process start → torch imported, nothing else", imports),
        ratio("  first numbers ÷ import torch", numbers, imports, at_most=IMPORT_TIMES),
    ]
