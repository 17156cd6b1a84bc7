"""Time from hovering, zooming and panning to a painted frame, compared with other tools."""

from __future__ import annotations

import random
from functools import partial
from time import perf_counter

import numpy as np
from PySide6.QtCore import QCoreApplication, QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent

from tests.benchmarks import children
from tests.benchmarks.stand import Stand, application, document
from tests.benchmarks.table import ratio, show, times

LARGE = (1024, 768, 12)
HOVER_MS = 9.0
MOVE_MS = 14.0
NOTCH = 120
STEP = 24
"""Number of tokens by which a step of a drag moves the view."""


def measure(repeats: int) -> int:
    """Measure in a separate process and print; return the number of missed targets."""
    told = children.run(_read, 10 * repeats)
    missed = 0
    for name, title in (("stages", "stages × heads"), ("weights", "weights of all heads")):
        mine = told[name]
        missed += show(
            f"12 heads × 1,024 × 1,024, {title}: {mine['seen']} panels seen in {mine['size']}",
            [
                times("hover → readout and cross painted", mine["hover"], HOVER_MS),
                times("wheel → closer or further, painted", mine["zoom"], MOVE_MS),
                times("drag → moved, painted", mine["pan"], MOVE_MS),
            ],
        )
    peers, own = told["peers"], told["weights"]["pan"]
    lines = [times("ours: a drag of all heads", own)]
    for name, target in (("pyqtgraph", {}), ("matplotlib", {"at_least": 1.0})):
        seconds = peers[name]
        lines.append(times(f"{name}: 12 images moved", seconds))
        count = min(len(seconds), len(own))
        lines.append(ratio(f"  {name} ÷ ours", seconds[:count], own[:count], **target))
    return missed + show("The same movement by others, without labels, bars or numbers", lines)


class Reader(Stand):
    """A window in which a user hovers, zooms and pans."""

    def read(self, repeats: int) -> dict[str, object]:
        """Hover, zoom and pan; return the times in seconds until each change was painted."""
        chance = random.Random(3)
        told: dict[str, list[float]] = {"hover": [], "zoom": [], "pan": []}
        self.window.controllers.view_controller.reset_zoom()
        self.settle()
        for number in range(-10, repeats):  # the first rounds are a warm-up
            seconds = self.hover(self.board, *self._place(chance))
            if number >= 0 and seconds:
                told["hover"].append(seconds)
        for number in range(-10, repeats):
            closer = number % 12 < 6
            seconds = self.next_branch_button(chance, 1 if closer else -1)
            if number >= 0 and seconds:
                told["zoom"].append(seconds)
        self.window.controllers.view_controller.reset_zoom()
        self.window.controllers.view_controller.zoom(4, (512, 512))
        self.settle()
        for number in range(repeats):
            way = STEP if number % 20 < 10 else -STEP
            told["pan"].append(self.pull(way))
        self.window.controllers.view_controller.reset_zoom()
        self.settle()
        size, seen = self.size_text, self._panels_seen()
        return {**told, "size": size, "seen": seen}

    def _panels_seen(self) -> int:
        size, layout = self.board.viewport().size(), self.board.board_layout
        return sum(
            slot.cells.left() < size.width() and slot.cells.top() < size.height()
            for slot in layout.slots
        )

    def _place(self, chance: random.Random) -> tuple[float, float]:
        size, slots = self.board.viewport().size(), self.board.board_layout.slots
        seen = [slot for slot in slots if slot.cells.bottom() < size.height()]
        cells = chance.choice(seen or slots[:1]).cells
        x = cells.left() + cells.width() * chance.random()
        y = cells.top() + min(cells.height(), size.height() - cells.top()) * chance.random()
        return x / size.width(), y / size.height()

    def next_branch_button(self, chance: random.Random, notches: int) -> float:
        """Turn the wheel over a panel; return the time in seconds until the new zoom is painted."""
        size = self.board.viewport().size()
        x, y = self._place(chance)
        at = QPointF(x * size.width(), y * size.height())
        where, angle = self.board.viewport().mapToGlobal(at), QPoint(0, NOTCH * notches)
        event = QWheelEvent(
            at, QPointF(where), QPoint(), angle,
            Qt.MouseButton.NoButton, Qt.KeyboardModifier.ControlModifier,
            Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        before = self.workspace.requested_view.zoom

        def turn() -> bool:
            QCoreApplication.sendEvent(self.board.viewport(), event)
            return self.workspace.requested_view.zoom != before

        QCoreApplication.processEvents()
        start = perf_counter()
        painted = self.until_painted(self._shows_zoom, act=turn)
        return painted - start if painted else 0.0

    def pull(self, by: int) -> float:
        """Pan by some tokens; return the time in seconds until the change is painted."""
        QCoreApplication.processEvents()
        start = perf_counter()
        act = self.window.controllers.view_controller.pan_by
        return self.until_painted(self._shows_zoom, act=lambda: act(by, by) is None) - start

    def _shows_zoom(self) -> bool:
        return self.board.board.zoom == self.workspace.requested_view.zoom


@application()
def _read(repeats: int) -> dict[str, object]:
    reader = Reader.with_numbers(document(*LARGE))
    told: dict[str, object] = {"stages": reader.read(repeats)}
    reader.look_at_weights()
    told["weights"] = reader.read(repeats)
    size = reader.board.viewport().size()
    weights = np.ascontiguousarray(reader.trace.read("weights"))
    reader.close()
    told["peers"] = _peers(weights, size.width(), size.height(), repeats)
    return told


def _peers(weights: np.ndarray, width: int, height: int, repeats: int) -> dict[str, list[float]]:
    from tests.benchmarks import peers as benchmarks_peers

    graph = benchmarks_peers.PyQtGraph(weights, width, height)
    plot = benchmarks_peers.Matplotlib(weights, width, height, is_labelled=False)
    told: dict[str, list[float]] = {"pyqtgraph": [], "matplotlib": []}
    for number in range(repeats):
        start = 384 + STEP * (number % 20 if number % 40 < 20 else 20 - number % 20)
        told["pyqtgraph"].append(benchmarks_peers.seconds(partial(graph.look, start, 256)))
        if number % 10 == 0:
            told["matplotlib"].append(benchmarks_peers.seconds(partial(plot.look, start, 256)))
    graph.close()
    return told
