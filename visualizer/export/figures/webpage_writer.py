"""Writes boards as one self-contained, interactive HTML page.

This module packs the data of the page: the colours, marks and values of each panel, as in the
window. The script and the style sheet that draw them are in ``resources/webpage``. Tokens never
become markup: they are data, and the page's Content-Security-Policy allows only the program's own
script and blocks all network access.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from visualizer.documents.embedded_document import encode_html_script
from visualizer.errors import InputError
from visualizer.export.figures.self_contained_page import (
    compress_to_base64,
    data_element,
    encode_colour_table,
    encode_page_json,
    fill_template,
    read_page_resource,
)
from visualizer.export.figures.webpage_flow_board import WebpageFlowBoard
from visualizer.format import format_number
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board import POOLING_PREFIX
from visualizer.heatmap.panel_colour_scale import out_of_range_masks
from visualizer.heatmap.panel_margins import format_colour_bar_texts
from visualizer.progress import Progress, ProgressCounter, ignore_progress
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.zoom_ranges import row_token_role
from visualizer.widgets.theme import DARK, LIGHT, PRINT, Theme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.heatmap.board import Board, Heatmap, HeatmapAxis

MAX_EXACT_DIFFERENCE = 0.05
"""Differences up to this size keep all decimal places; rounding could turn them all into 0."""
MAX_CELL_BYTES = 18 * 2**20
"""Maximum size, in bytes, of the uncompressed cell data; such a page has about 9 to 17 MB."""
BYTES_PER_CELL = 6
SCRIPT_FILES = ("common.js", "text.js", "layout.js", "drawing.js", "flow.js", "page.js")
FORBIDDEN, DROPPED, HIDDEN, UNEVEN, BELOW, ABOVE = (1 << bit for bit in range(6))


class PageBoard(Struct, frozen=True, eq=False):
    """A board on a page, and its flow board, if it is one."""

    board: Board
    flow: WebpageFlowBoard | None

    @property
    def panels(self) -> Sequence[Heatmap]:
        """The panels in the order of their data."""
        return self.flow.panels if self.flow else self.board.heatmaps


def write_webpage(
    boards: Sequence[Board],
    title: str,
    caption: str,
    theme: Theme | None,
    file: BinaryIO,
    document: bytes = b"",
    progress: Progress = ignore_progress,
) -> None:
    """Write boards as an HTML page.

    Parameters
    ----------
    boards : sequence of Board
        The board, or the flow boards of several heads, one for the reader to select.
    title, caption : str
        The text above the panels and on the browser tab, and the text below the panels.
    theme : Theme or None
        The colours; None follows the reader's system. The reader can switch between light and dark.
        Printed pages always have the colours of exported images.
    document : bytes
        The attached document, which the program can open again.
    progress : callable
        Called before each panel with the number of the panel and the total number of panels.

    Raises
    ------
    InputError
        If there are more cells than a browser can handle; see `max_cells_per_side`.
    """
    pages = [PageBoard(board, WebpageFlowBoard(board) if board.flow else None) for board in boards]
    panels = [panel for page in pages for panel in page.panels]
    _check_size(panels)
    style = read_page_resource("webpage", "page.css")
    script = "\n".join(read_page_resource("webpage", name) for name in SCRIPT_FILES)
    before, after = (
        fill_template(part, title, style, script, images="blob:")
        for part in read_page_resource("webpage", "page.html").split("$cells")
    )
    description = _pages_to_json(pages, title, caption, theme)
    for piece in (before, data_element("application/json", description, "id", "page")):
        file.write(piece.encode("utf-8", "replace"))
    counter = ProgressCounter(progress, len(panels))
    for heatmap in panels:
        counter()
        file.write(
            data_element(
                "application/octet-stream", _pack_cells(heatmap), "class", "cells"
            ).encode()
        )
    for page in pages:
        for name, scheme in _themes(theme).items() if page.flow else ():
            assert page.flow is not None
            decorations = compress_to_base64(page.flow.draw_decorations(scheme))
            element = data_element("application/octet-stream", decorations, "class", f"flow-{name}")
            file.write(element.encode())
    if document:
        file.write(encode_html_script(document).encode())
    file.write(after.encode())


def max_cells_per_side(panels: int) -> int:
    """Return the maximum `View.room`, in cells per panel side, for the given number of panels."""
    side = math.isqrt(MAX_CELL_BYTES // (BYTES_PER_CELL * max(panels, 1)))
    return side if side < 8 else side // 8 * 8


def _check_size(panels: Sequence[Heatmap]) -> None:
    size = sum(heatmap.values.nbytes + 2 * heatmap.values.size for heatmap in panels)
    if size > MAX_CELL_BYTES:
        cells = sum(heatmap.values.size for heatmap in panels)
        sentence = f"A web page with {cells:,} cells is too large for a browser. Show fewer stages."
        raise InputError("export", sentence)


# ------------------------------------------------------------------------------------ the page


def _themes(theme: Theme | None) -> dict[str, Theme]:
    return {scheme.name: scheme for scheme in (LIGHT, DARK, PRINT, *([theme] if theme else []))}


def _pages_to_json(
    pages: Sequence[PageBoard], title: str, caption: str, theme: Theme | None
) -> str:
    """Describe everything except the cells as JSON without characters that HTML interprets."""
    labels: dict[tuple[str, ...], int] = {}
    themes = _themes(theme)
    maps = {panel.colour.map for page in pages for panel in page.panels}
    description = {
        "title": title,
        "caption": caption,
        "theme": theme.name if theme else "",
        "themes": {name: asdict(scheme) for name, scheme in themes.items()},
        "tables": {name: {map_: encode_colour_table(map_, scheme) for map_ in sorted(maps)}
                   for name, scheme in themes.items()},
        "boards": [_describe_board(page, labels) for page in pages],
        "labels": list(labels),
    }  # fmt: skip
    return encode_page_json(description)


def _describe_board(page: PageBoard, labels: dict[tuple[str, ...], int]) -> dict[str, object]:
    board, flow = page.board, page.flow
    return {
        "said": board.comparison_description,
        "head": board.flow.front if board.flow else None,
        "columns": [[_describe_panel(one, labels) | {"isLabelled": False}] for one in page.panels]
                   if flow else _describe_columns(board, labels),
        "flow": flow.describe_layout() if flow else None,
    }  # fmt: skip


def _describe_columns(
    board: Board, labels: dict[tuple[str, ...], int]
) -> list[list[dict[str, object]]]:
    labelled = _stages_with_labels(board)
    firsts = [column for column in board.columns if column]
    return [
        [
            _describe_panel(heatmap, labels)
            | {
                "isLabelled": index in labelled
                or all(len(earlier) <= row for earlier in firsts[:index])
            }
            for row, heatmap in enumerate(column)
        ]
        for index, column in enumerate(board.columns)
    ]


def _stages_with_labels(board: Board) -> set[int]:
    """Return the indices of the stages with their own row labels, as in the window's layout."""
    firsts = [column[0] for column in board.columns]
    heads = next((index for index, first in enumerate(firsts) if first.label), 0)
    others = (
        index
        for index in range(1, len(firsts))
        if firsts[index].rows.labels != firsts[index - 1].rows.labels
    )
    return {0, heads, *others}


# ----------------------------------------------------------------------------------- one panel


def _describe_panel(heatmap: Heatmap, labels: dict[tuple[str, ...], int]) -> dict[str, object]:
    sums = None if heatmap.sums is None else [format_number(float(one), 2) for one in heatmap.sums]
    pooling_notes = [
        note.removeprefix(POOLING_PREFIX) for note in heatmap.notes if POOLING_PREFIX in note
    ]
    return {
        "stage": heatmap.stage,
        "title": heatmap.title,
        "label": heatmap.label,
        "head": heatmap.head,
        "leading": " ".join(map(str, heatmap.leading)),
        "unit": heatmap.unit,
        "role": row_token_role(heatmap.stage),
        "rows": _describe_axis(heatmap.rows, labels),
        "columns": _describe_axis(heatmap.columns, labels),
        "shape": heatmap.values.shape,
        "bytes": _panel_values(heatmap).itemsize,
        "map": heatmap.colour.map,
        "isSigned": heatmap.colour.is_signed,
        "ends": format_colour_bar_texts(heatmap),
        "notes": heatmap.notes,
        "pooled": pooling_notes[0] if pooling_notes else "",
        "sums": sums,
        "isChange": heatmap.part is ComparisonSide.CHANGE,
        "isCoarse": heatmap.colour.high >= MAX_EXACT_DIFFERENCE,
        "isAlone": heatmap.is_unlinked,
    }


def _describe_axis(axis: HeatmapAxis, labels: dict[tuple[str, ...], int]) -> dict[str, object]:
    return {
        "name": axis.name,
        "labels": labels.setdefault(axis.labels, len(labels)),
        "block": axis.block,
        "start": axis.visible_range.start,
        "stop": axis.visible_range.stop,
        "count": len(axis.labels),
        "isToken": axis.is_token,
    }


def _pack_cells(heatmap: Heatmap) -> str:
    """Compress the colours, marks and values of a panel; the values are stored as byte planes."""
    values = np.ascontiguousarray(_panel_values(heatmap))
    planes = values.view(np.uint8).reshape(-1, values.itemsize).T
    content = (
        colour_mapping.colour_indices(heatmap).tobytes()
        + _mark_flags(heatmap).tobytes()
        + planes.tobytes()
    )
    return compress_to_base64(content)


def _panel_values(heatmap: Heatmap) -> np.ndarray:
    return heatmap.values.astype("<f8" if heatmap.values.dtype == np.float64 else "<f4")


def _mark_flags(heatmap: Heatmap) -> np.ndarray:
    """Return the marks of each cell as bit flags, uint8 [row, column]."""
    below, above = out_of_range_masks(heatmap.values, heatmap.cell_masks, heatmap.colour) or (
        None,
        None,
    )
    marks = np.zeros(heatmap.values.shape, dtype=np.uint8)
    for bit, cells in (
        (FORBIDDEN, heatmap.forbidden),
        (DROPPED, heatmap.dropped),
        (HIDDEN, heatmap.hidden),
        (UNEVEN, heatmap.uneven_cells),
        (BELOW, below),
        (ABOVE, above),
    ):
        if cells is not None:
            marks[cells] |= bit
    return marks
