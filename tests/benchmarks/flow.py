"""The flow board compared with the grid of panels: mask toggles and hovered cells."""

from __future__ import annotations

import random
from contextlib import closing

from tests.benchmarks import children
from tests.benchmarks.stand import Stand, application, document
from tests.benchmarks.table import ratio, show, times

SIZES = ((64, 64, 8), (1024, 768, 12))
"""Numbers of tokens, embedding sizes and numbers of heads."""
HOVER_MS = {64: 9.0, 1024: 14.0}
MAX_GRID_RATIO = 1.0
"""Maximum ratio of the time of a toggle on the flow board to the time with all stages and heads."""
WARM_UPS = 2
HOVERS = 20
POINTER_RANGE = (0.3, 0.7)
"""Range of pointer positions, as fractions of the width and height; it contains the matrices."""


def measure(repeats: int) -> int:
    """Measure each size in a separate process and print; return the number of missed targets."""
    return sum(_measure(repeats, *size) for size in SIZES)


def _measure(repeats: int, tokens: int, size: int, heads: int) -> int:
    told = children.run(_timed, repeats, tokens, size, heads)
    lines = [
        times("pointer → ribbons painted", told["hover"], HOVER_MS[tokens]),
        times("mask toggle → painted, flow", told["flow"]),
        times("mask toggle → painted, stages × heads", told["grid"]),
        ratio("flow ÷ stages × heads", told["flow"], told["grid"], at_most=MAX_GRID_RATIO),
    ]
    return show(f"{tokens:,} tokens × {size} × {heads} heads, flow board, 1280 × 800", lines)


# ------------------------------------------------------------------- in a process of its own


@application()
def _timed(repeats: int, tokens: int, size: int, heads: int) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {"hover": [], "flow": [], "grid": []}
    draw = random.Random(0)
    with closing(Stand.with_numbers(document(tokens, size, heads))) as stand:
        for round_ in range(WARM_UPS + repeats):
            if round_ == WARM_UPS:
                for earlier in samples.values():
                    earlier.clear()
            stand.show_flow()
            samples["flow"] += [stand.toggle(), stand.toggle()]
            for _ in range(HOVERS):
                across, down = draw.uniform(*POINTER_RANGE), draw.uniform(*POINTER_RANGE)
                taken = stand.hover(stand.board, across, down)
                samples["hover"] += [taken] if taken else []
            stand.leave(stand.board)  # no toggle is measured while a cell is explained
            stand.show_grid()
            samples["grid"] += [stand.toggle(), stand.toggle()]
    return samples
