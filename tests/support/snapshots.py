"""Snapshots created without a window, and functions that read figures drawn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from PySide6.QtGui import QColor

from visualizer import app
from visualizer.heatmap import colour_mapping
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.export.figures.figure_page import FigurePage

SENTENCE = "Your journey starts with one step"
HARD = 'Your <b>&" 中文 שלום مرحبا é naïve 😀 ]]> one'
"""Characters that markup or a font may not support."""


def shot(
    text: str = SENTENCE, stages: tuple[str, ...] = ("weights",), **settings: Any
) -> ExportSnapshot:
    """Compute a text, and show the given stages."""
    document = replace(Document(), text=text)
    for name, value in settings.items():
        document = document.with_setting(name, value)
    view = View(stages=frozenset(stages), room=512)
    return ExportSnapshot(document, view, app.compute(document, None))


def numbers(page: FigurePage) -> set[str]:
    """Return the numbers written in the cells of small panels."""
    written = set()
    for slot in page.layout.slots:
        heatmap = slot.heatmap
        hidden = np.zeros(heatmap.values.shape, bool)
        for marks in (heatmap.forbidden, heatmap.dropped):
            hidden |= marks if marks is not None else False
        written |= {f"{value:.4f}".replace("-", "−") for value in heatmap.values[~hidden].tolist()}
    return written


def cell_colours(page: FigurePage) -> Iterator[tuple[float, float, QColor]]:
    """Yield an off-centre point of each numbered cell on the page, with its colour."""
    for slot in page.layout.slots:
        indices = colour_mapping.colour_indices(slot.heatmap)
        table = colour_mapping.colour_table(slot.heatmap.colour.map, page.theme)
        for (row, column), index in np.ndenumerate(indices):
            if index <= colour_mapping.MAX_COLOUR_INDEX:
                x = slot.cells.left() + (column + 0.5) * slot.cell_width
                y = slot.cells.top() + (row + 0.2) * slot.cell_height  # above the cell's number
                place = page.at + page.panels.topLeft()
                at = ((place.x() + x) * page.scale, (place.y() + y) * page.scale)
                yield (*at, QColor.fromRgb(int(table[index])))
