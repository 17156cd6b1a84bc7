"""How long until a change is on the screen, beside the least it takes and beside others."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks import peers
from tests.benchmarks.stand import Stand, document
from tests.benchmarks.table import Line, ratio, show, times
from visualizer.attention.run import share_cores

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = ((6, 3, 2), (64, 64, 8), (1024, 768, 12))
"""Tokens, embedding size and heads."""
FRAME_MS = 16.0
LEAST_TIMES = 2.0
AHEAD = {64: 5.0, 1024: 3.0}
WARM_UPS = 2


@dataclass
class Samples:
    """Seconds by what was timed; all of one round were taken one after the other."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def time(self, name: str, act: Callable[[], object]) -> None:
        self.taken[name].append(peers.seconds(act))

    def pairs(self, name: str) -> list[float]:
        """Each two after one another, mask on and mask off, as one."""
        taken = self.taken[name]
        return [first + second for first, second in zip(taken[::2], taken[1::2], strict=True)]


class Drawers:
    """The peers that draw, with the same weights, with and without the mask."""

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
            for weights in self.weights:
                drawer.weights = weights
                samples.time(name, drawer.draw)


def measure(repeats: int) -> int:
    """Measure and print every size; give the number of targets that were missed."""
    return sum(_measure(repeats, *size) for size in SIZES)


def _measure(repeats: int, tokens: int, size: int, heads: int) -> int:
    named = f"{tokens:,} tokens × {size} × {heads} heads"
    with closing(Stand.with_numbers(document(tokens, size, heads))) as stand:
        samples = _round_by_round(stand, repeats, None)
        missed = show(f"{named}, all stages, 1280 × 800", _lines(tokens, samples))
        stand.look_at_weights()
        seen = f"{stand.heads_in_view} of {heads} heads seen, board {stand.size_in_words}"
        with closing(Drawers(stand)) as drawers:
            samples = _round_by_round(stand, repeats, drawers)
        lines = [*_lines(tokens, samples), *_drawers_lines(tokens, samples)]
        return missed + show(f"{named}, weights only, {seen}", lines)


def _round_by_round(stand: Stand, repeats: int, drawers: Drawers | None) -> Samples:
    samples = Samples()
    document = stand.workspace.document
    share_cores(document.tokens(), document.spec)  # in this thread too, for the peers
    for round_ in range(WARM_UPS + repeats):
        if round_ == WARM_UPS:
            samples = Samples()  # what came before was to warm up
        for _ in range(2):
            samples.taken["toggle"].append(stand.toggle())
            least = peers.Torch(stand.trace)
            causal = stand.is_causal
            samples.time("least toggle", lambda: least.toggle(causal))  # noqa: B023 - now
        samples.taken["edit"].append(stand.edit())
        least = peers.Torch(stand.trace)
        samples.time("least edit", least.edit)
        samples.time("module", least.multi_head)
        if drawers:
            drawers.time(samples)
    return samples


def _lines(tokens: int, samples: Samples) -> list[Line]:
    taken = samples.taken
    toggle, least = samples.pairs("toggle"), samples.pairs("least toggle")
    at_most = {"at_most": LEAST_TIMES} if tokens >= 1024 else {}
    return [
        times("mask toggle → painted", taken["toggle"], FRAME_MS if tokens == 64 else 0),
        times("  least torch work for it", taken["least toggle"]),
        ratio("  painted ÷ least torch work", toggle, least, **at_most),
        times("sentence edit → painted", taken["edit"]),
        times("  least torch work for it", taken["least edit"]),
        times("  nn.MultiheadAttention with all weights", taken["module"]),
        ratio("  painted ÷ least torch work", taken["edit"], taken["least edit"]),
        ratio("  painted ÷ nn.MultiheadAttention", taken["edit"], taken["module"]),
    ]


def _drawers_lines(tokens: int, samples: Samples) -> list[Line]:
    toggle = samples.pairs("toggle")
    at_least = {"at_least": AHEAD[tokens]} if tokens in AHEAD else {}
    full, bare, graph = (samples.pairs(name) for name in ("full", "bare", "graph"))
    return [
        times("matplotlib, drawn only, bars and labels", samples.taken["full"]),
        times("matplotlib, drawn only, bare images", samples.taken["bare"]),
        times("pyqtgraph, drawn only, bare images", samples.taken["graph"]),
        ratio("matplotlib with bars and labels ÷ our toggle", full, toggle, **at_least),
        ratio("matplotlib with bare images ÷ our toggle", bare, toggle),
        ratio("pyqtgraph with bare images ÷ our toggle", graph, toggle),
    ]
