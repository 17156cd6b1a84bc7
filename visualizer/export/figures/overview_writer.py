"""Writes the overview of all heads of all layers as PNG."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from visualizer.export.figures.png_writer import save
from visualizer.features.layer_overview.paint import overview_picture, side_of_cells
from visualizer.features.layer_overview.presenter import overview_of
from visualizer.widgets.theme import PRINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.run import Run
    from visualizer.session.head_order import HeadOrder

SIDE = 64
"""Approximate distance between adjacent small heatmaps in pixels."""


def overview_png(
    runs: Sequence[tuple[Run, tuple[int, ...]]], order: HeadOrder, side: int = SIDE
) -> bytes:
    """Return the overview of several runs of one text as PNG; a Qt application must exist.

    Parameters
    ----------
    runs : sequence of (Run, layers)
        Each with the numbers of its layers.

    Raises
    ------
    InputError
        For ``layer``, if the layers differ in their heads.
    """
    panel = overview_of(runs, order)
    run = runs[0][0]
    tokens = run.texts[0]
    between = "" if any(token.startswith(" ") for token in tokens) else " "
    words = f"{run.source}: “{between.join(tokens).strip()}”"
    title = words if len(words) <= 80 else f"{words[:78]}…”"
    file = io.BytesIO()
    assert panel.weights is not None
    near = side_of_cells(max(panel.weights.shape[-2:]), side)
    save(overview_picture(panel, title, near, PRINT), file)
    return file.getvalue()
