"""Panels of any size, for tests of painting and layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from visualizer.heatmap.board import Board, Heatmap, HeatmapAxis
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.session.view_options import ColourCurve, ColourLimits

UNIT = ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.SHARED, 0.0, 1.0)
LOG = ColourScale("viridis", ColourCurve.LOG, ColourLimits.SHARED, 0.0, 1.0)
SIGNED = ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.SHARED, -2.0, 2.0)


def axis(name: str, count: int, block: int = 1, word: str = "w") -> HeatmapAxis:
    labels = tuple(f"{word}{number}" for number in range(count * block))
    return HeatmapAxis(name, labels, block)


def a_heatmap(values: Any, **fields: Any) -> Heatmap:
    """Return a panel of numbers, token × token by default."""
    numbers = np.asarray(values, dtype=np.float32)
    rows, columns = numbers.shape
    given: dict[str, Any] = {
        "key": object(),
        "stage": "weights",
        "title": "Weights",
        "symbol": "softmax",
        "head": 0,
        "fold": None,
        "leading": (),
        "label": "Head 1",
        "values": numbers,
        "rows": axis("query", rows),
        "columns": axis("key", columns),
        "colour": UNIT,
        "forbidden": None,
        "dropped": None,
        "sums": None,
        "notes": (),
        "unit": "weight",
        "side": (rows, columns),
    }
    given |= fields
    if given["colour"].limits is ColourLimits.ROW:
        given["ends"] = np.abs(np.where(np.isfinite(numbers), numbers, 0)).max(
            axis=1, keepdims=True
        )
    return Heatmap(**given)


def a_board(
    stages: int, heads: int, tokens: int, columns: int | None = None, **fields: Any
) -> Board:
    """Return a board; with `columns`, the last stage has that width and no token columns."""
    made = []
    for stage in range(stages):
        is_narrow = columns is not None and stage == stages - 1
        shape = (tokens, columns if is_narrow and columns else tokens)
        side = axis("d_head", shape[1]) if is_narrow else axis("key", tokens)
        made.append(
            tuple(
                a_heatmap(
                    np.full(shape, 0.5),
                    stage=f"stage{stage}",
                    head=head,
                    rows=axis("query", tokens),
                    columns=side,
                    **fields,
                )
                for head in range(heads)
            )
        )
    return Board(tuple(made))


ROW_SCALE = (
    UNIT,
    SIGNED,
    ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.ROW, 0.0, 1.0),
    ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.ROW, -1.0, 1.0),
)
