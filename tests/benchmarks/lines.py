"""Time from a pointer move in the line view to a painted frame, in a long text."""

from __future__ import annotations

import random
from time import perf_counter

from tests.benchmarks import children
from tests.benchmarks.heartbeat import GAP_MS, Heart
from tests.benchmarks.stand import Stand, application, document
from tests.benchmarks.table import Line, show, times

SIZE = (512, 768, 12)
FRAME_MS = 25.0


def measure(repeats: int) -> int:
    """Measure in a separate process and print; return the number of missed targets."""
    told = children.run(_hover, 10 * repeats)
    gap = max(told["gaps"]) * 1000
    lines = [
        times("hover a cell of the heatmaps → painted, lines closed", told["cell"]),
        times("hover a token → its lines painted", told["token"], FRAME_MS),
        times("hover a line → painted", told["line"], FRAME_MS),
        times("scroll → painted", told["scroll"]),
        times("another threshold → painted", told["threshold"]),
        Line(
            "largest gap between ticks when the pane is opened",
            f"{gap:9.1f} ms",
            f"≤ {GAP_MS:g} ms",
            gap <= GAP_MS,
        ),
    ]
    tokens, _, heads = SIZE
    return show(f"{told['drawn']:,} lines of {heads} heads × {tokens} × {tokens}", lines)


@application()
def _hover(repeats: int) -> dict[str, object]:
    stand = Stand.with_numbers(document(*SIZE))
    chance = random.Random(5)
    cells = [stand.hover(stand.board, chance.random(), chance.random()) for _ in range(repeats)]
    heart = Heart()
    stand.open_lines()
    view = stand.window.panes["Lines"].view
    gaps = heart.gaps_since()
    told: dict[str, list[float]] = {name: [] for name in ("token", "line", "scroll", "threshold")}
    for number in range(-10, repeats):  # the first rounds are a warm-up
        moments = {
            "token": stand.hover(view, chance.choice((0.05, 0.95)), chance.uniform(0.1, 0.95)),
            "line": stand.hover(view, chance.uniform(0.35, 0.6), chance.uniform(0.1, 0.95)),
        }
        if number % 5 == 0:
            start = perf_counter()
            moments["threshold"] = stand.limit_lines(0.001 * (2 + number % 2)) - start
            start = perf_counter()
            moments["scroll"] = stand.scroll_lines(chance.random()) - start
        for name, seconds in moments.items():
            if number >= 0 and seconds:
                told[name].append(seconds)
    drawn = stand.drawn_lines
    stand.close()
    told["cell"] = [seconds for seconds in cells if seconds]
    return {**told, "gaps": gaps, "drawn": drawn}
