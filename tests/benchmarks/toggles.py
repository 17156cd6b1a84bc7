"""Time from a changed setting to a painted frame, compared with the minimum and other tools."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from functools import partial

from tests.benchmarks import children, peers
from tests.benchmarks.stand import Stand, application, document
from tests.benchmarks.table import Line, middle, ratio, show, times
from visualizer.attention.run import set_torch_thread_count

SIZES = ((6, 3, 2), (64, 64, 8), (1024, 768, 12))
"""Numbers of tokens, embedding sizes and numbers of heads."""
TOGGLE_MS = {6: 8.0, 64: 10.0}
PANES_MS = 12.0
LONG_MS = 80.0
MIN_RATIO = 1.4
PYQTGRAPH_RATIOS = {64: 0.7}
AHEAD = {64: 5.0, 1024: 3.0}
WARM_UPS = 2


Samples = dict[str, list[float]]
"""Times in seconds by measurement; those of a round were taken directly after one another."""


def _pairs(taken: list[float]) -> list[float]:
    """Add the times of each pair of consecutive measurements, with and without the mask."""
    return [first + second for first, second in zip(taken[::2], taken[1::2], strict=True)]


class Drawers:
    """The other drawing tools, with the same weights with and without the mask."""

    def __init__(self, stand: Stand) -> None:
        self.weights = []
        for _ in range(2):
            stand.toggle()
            self.weights.append(stand.trace.read("weights"))
        size = stand.board.viewport().size()
        sizes = (size.width(), size.height())
        self.graph = peers.PyQtGraph(self.weights[1], *sizes)
        self.all: dict[str, peers.Matplotlib | peers.PyQtGraph] = {
            "bare": peers.Matplotlib(self.weights[1], *sizes, is_labelled=False),
            "full": peers.Matplotlib(self.weights[1], *sizes, is_labelled=True),
            "graph": self.graph,
        }

    def close(self) -> None:
        self.graph.close()

    def time(self, samples: Samples) -> None:
        for name, drawer in self.all.items():
            drawer.draw()  # after other tools, the first frame takes up to twice as long
            for weights in self.weights:
                drawer.weights = weights
                samples[name].append(peers.seconds(drawer.draw))


def measure(repeats: int) -> int:
    """Measure each size in a separate process and print; return the number of missed targets."""
    return sum(_measure(repeats, *size) for size in SIZES)


def _measure(repeats: int, tokens: int, size: int, heads: int) -> int:
    told = children.run(_timed, repeats, tokens, size, heads)
    named = f"{tokens:,} tokens × {size} × {heads} heads"
    missed = show(f"{named}, all stages, 1280 × 800", _lines(tokens, told["stages"]))
    seen = f"{told['seen']} of {heads} heads seen, board {told['board']}"
    lines = [*_lines(tokens, told["weights"]), *_drawers_lines(tokens, told["weights"])]
    return missed + show(f"{named}, weights only, {seen}", lines)


def _lines(tokens: int, samples: Samples) -> list[Line]:
    toggle, least = _pairs(samples["toggle"]), _pairs(samples["least toggle"])
    shown = times("mask toggle → painted", samples["toggle"], TOGGLE_MS.get(tokens, 0))
    if tokens >= 1024:
        shown = middle("mask toggle → painted", samples["toggle"], LONG_MS)
    at_most = {"at_most": MIN_RATIO} if tokens >= 1024 else {}
    return [
        shown,
        times("  board painted → all panes painted", samples["panes"], PANES_MS),
        times("  least torch work for it", samples["least toggle"]),
        ratio("  painted ÷ least torch work", toggle, least, **at_most),
        times("sentence edit → painted", samples["edit"]),
        times("  least torch work for it", samples["least edit"]),
        times("  nn.MultiheadAttention with all weights", samples["module"]),
        ratio("  painted ÷ least torch work", samples["edit"], samples["least edit"]),
        ratio("  painted ÷ nn.MultiheadAttention", samples["edit"], samples["module"]),
    ]


def _drawers_lines(tokens: int, samples: Samples) -> list[Line]:
    toggle = _pairs(samples["toggle"])
    at_least = {"at_least": AHEAD[tokens]} if tokens in AHEAD else {}
    of_pyqtgraph = {"at_least": PYQTGRAPH_RATIOS[tokens]} if tokens in PYQTGRAPH_RATIOS else {}
    full, bare, graph = (_pairs(samples[name]) for name in ("full", "bare", "graph"))
    return [
        times("matplotlib, drawn only, bars and labels", samples["full"]),
        times("matplotlib, drawn only, bare images", samples["bare"]),
        times("pyqtgraph, drawn only, bare images", samples["graph"]),
        ratio("matplotlib with bars and labels ÷ our toggle", full, toggle, **at_least),
        ratio("matplotlib with bare images ÷ our toggle", bare, toggle),
        ratio("pyqtgraph with bare images ÷ our toggle", graph, toggle, **of_pyqtgraph),
    ]


# ------------------------------------------------------------------- in a process of its own


@application()
def _timed(repeats: int, tokens: int, size: int, heads: int) -> dict[str, object]:
    with closing(Stand.with_numbers(document(tokens, size, heads))) as stand:
        stand.show_grid()  # the benchmark of the flow board has its own part
        stages = _round_by_round(stand, repeats, None)
        stand.look_at_weights()
        with closing(Drawers(stand)) as drawers:
            weights = _round_by_round(stand, repeats, drawers)
        seen, board = stand.heads_in_view, stand.size_text
    return {"stages": stages, "weights": weights, "seen": seen, "board": board}


def _round_by_round(stand: Stand, repeats: int, drawers: Drawers | None) -> Samples:
    samples: Samples = defaultdict(list)
    document = stand.workspace.document
    # Also on this thread, for the other tools.
    set_torch_thread_count(document.tokens(), document.spec)
    for round_ in range(WARM_UPS + repeats):
        if round_ == WARM_UPS:
            samples.clear()  # previous rounds were a warm-up
        if drawers:  # the window is in front, like those of the other tools
            stand.toggle()
            stand.toggle()
        for _ in range(2):
            samples["toggle"].append(stand.toggle())
            samples["panes"].append(stand.panes_after)
            least = peers.Torch(stand.trace)
            toggle = partial(least.toggle, stand.is_causal)
            samples["least toggle"].append(peers.seconds(toggle))
        samples["edit"].append(stand.edit())
        least = peers.Torch(stand.trace)
        samples["least edit"].append(peers.seconds(least.edit))
        samples["module"].append(peers.seconds(least.multi_head))
        if drawers:
            drawers.time(samples)
    return samples
