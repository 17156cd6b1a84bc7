"""The attention of a language model as panels, a row a layer and a column a head.

Also the hovered and pinned cell in these panels, and the sentence about it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.heatmap.cursor import CellCursor, is_of, walked
from visualizer.heatmap.model import Axis, Board, Heatmap
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.language.tokenizers import all_visible, visible
from visualizer.language.training_settings import ModelKind
from visualizer.number_format import format_share, shorten
from visualizer.session.view_options import ColourLimits, ColourOptions

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.lab.attention_view.probe_reading import ProbeReading
    from visualizer.session.cell_address import Cell

UNIT, SCORED = "weights", "weights;  %: on the right token"
"""The text after the colour bar; the second where the right token is known."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit, so that panels keep their places while scores change."""

NO_ATTENTION = (
    "This model has no attention: it looks at the last token alone. There are no weights to show."
)
NO_TEXT = "Type a text that is to be read."
SEES_THE_FUTURE = (
    "Every token reads all tokens alike, those after it too. What comes next is among them, so "
    "the loss of this model is a cheat: where a text is to be continued, there is no future "
    "to look at."
)


@dataclass(frozen=True, slots=True, eq=False)
class LabAttentionPanel:
    """The attention view of the lab.

    Parameters
    ----------
    said : str
        The sentence about the pinned or hovered cell.
    notices : tuple of str
        Notices about the picture.
    message : str
        Text shown instead of a picture, where there is none.
    made_of : tuple
        Cache key of the board: an equal key reuses the same object.
    """

    board: Board = field(default_factory=Board)
    cursor: CellCursor = field(default_factory=CellCursor)
    said: str = ""
    notices: tuple[str, ...] = ()
    message: str = ""
    made_of: tuple[Hashable, ...] = ()


def present_attention(
    reading: ProbeReading | None,
    model: ModelKind,
    pointing: LabCellPointer,
    room: int = 256,
    colouring: ColourOptions | None = None,
    before: LabAttentionPanel | None = None,
) -> LabAttentionPanel:
    """Present the attention to a text, with the hovered or pinned cell highlighted.

    Parameters
    ----------
    reading : ProbeReading or None
        None while there is none yet.
    room : int
        How many cells fit a panel's side; more are pooled.
    colouring : ColourOptions, optional
        By default from 0 to 1, so that steps of training can be compared.
    before : LabAttentionPanel, optional
        The panel shown before, whose board may be reused.
    """
    if reading is None:
        return LabAttentionPanel(message="The attention is on its way.")
    if reading.weights is None:
        return LabAttentionPanel(notices=_notices(reading, model), message=NO_ATTENTION)
    if not reading.tokens:
        return LabAttentionPanel(message=NO_TEXT)
    colouring = colouring or ColourOptions()
    made_of = reading, model, room, colouring
    is_same = before is not None and before.made_of == made_of
    board = before.board if is_same and before else board_of(reading, model, room, colouring)
    cursor = cursor_of(reading, board, pointing)
    cell = cursor.hovered or cursor.pinned
    said = sentence(reading, board, cell) if cell else ""
    return LabAttentionPanel(board, cursor, said, _notices(reading, model), "", made_of)


def _notices(reading: ProbeReading, model: ModelKind) -> tuple[str, ...]:
    found = [SEES_THE_FUTURE] if model is ModelKind.AVERAGE else []
    if reading.cut:
        left = "token was" if reading.cut == 1 else f"{reading.cut:,} tokens were"
        found.append(f"The first {left} left out: the block is full.")
    return tuple(found)


def board_of(
    reading: ProbeReading, model: ModelKind, room: int = 256, colouring: ColourOptions | None = None
) -> Board:
    """Make the panels: a column a head, a row a layer."""
    making = LabPanelSource(reading, model, room, colouring or ColourOptions())
    return Board(
        tuple(
            tuple(making.panel(layer, head) for layer in range(reading.layers))
            for head in range(reading.heads)
        )
    )


class LabPanelSource:
    """Makes the panels of a board; holds what they share."""

    def __init__(
        self, reading: ProbeReading, model: ModelKind, room: int, colouring: ColourOptions
    ) -> None:
        self.reading = reading
        count = len(reading.tokens)
        self.block = math.ceil(count / max(1, room))
        labels = all_visible(reading.tokens)
        self.rows, self.columns = (Axis(name, labels, self.block) for name in ("query", "key"))
        self.side = math.ceil(count / self.block)
        limits = ColourLimits.ROW if colouring.limits is ColourLimits.ROW else ColourLimits.SHARED
        self.colour = ColourScale(colouring.sequential, colouring.curve, limits, 0.0, 1.0)
        self.unit = SCORED if reading.is_scored else UNIT
        self.forbidden = None if model is ModelKind.AVERAGE else _later(self.side)
        assert reading.weights is not None
        self.values = pooled(reading.weights, self.block)
        self.ends = self.values.max(axis=-1) if limits is ColourLimits.ROW else None

    def panel(self, layer: int, head: int) -> Heatmap:
        return Heatmap(
            (self.reading, layer, head), f"layer {layer + 1}", f"Head {head + 1}", "softmax",
            head, None, (layer,), f"Layer {layer + 1}", self.values[layer, head],
            self.rows, self.columns, self.colour, self.forbidden, None, None,
            self._notes(layer, head), self.unit, (self.side, self.side),
            row_ends=None if self.ends is None else self.ends[layer, head],
            layer=layer, is_marked=self._is_best(layer, head),
        )  # fmt: skip

    def _is_best(self, layer: int, head: int) -> bool:
        return self.reading.layers * self.reading.heads > 1 and self.reading.best == (layer, head)

    def _notes(self, layer: int, head: int) -> tuple[str, ...]:
        notes = []
        score = self.reading.score(layer, head)
        if score is not None:
            percent = f"{100 * score:.0f}".rjust(3, FIGURE_SPACE)
            notes.append(f"{percent} %")
        if self.block > 1:
            notes.append(f"each cell: largest of {self.block} × {self.block}")
        return tuple(notes)


@lru_cache(maxsize=8)
def _later(side: int) -> np.ndarray:
    """Mark the drawn cells that hold only keys after their queries."""
    return ~np.tri(side, dtype=bool)


def pooled(weights: np.ndarray, block: int) -> np.ndarray:
    """Return the maximum of each block of queries and keys [layer, head, row, column]."""
    if block == 1:
        return weights
    starts = np.arange(0, weights.shape[-1], block)
    rows = np.maximum.reduceat(weights, starts, axis=-2)
    return np.asarray(np.maximum.reduceat(rows, starts, axis=-1))


@dataclass(frozen=True, slots=True)
class LabCellPointer:
    """The hovered cell and the pinned one."""

    hovered: Cell | None = None
    pinned: Cell | None = None

    def hover(self, cell: Cell | None) -> LabCellPointer:
        return replace(self, hovered=cell)

    def pin(self, cell: Cell | None) -> LabCellPointer:
        """Pin a cell, or unpin it if it is pinned."""
        return replace(self, pinned=None if cell == self.pinned else cell)

    def walk(self, board: Board, down: int, right: int) -> LabCellPointer:
        """Move the pinned cell, across edges into the next layer or head, or pin the first."""
        return LabCellPointer(pinned=walked(board, self.pinned, down, right))


def cursor_of(reading: ProbeReading, board: Board, pointing: LabCellPointer) -> CellCursor:
    """Return the cursor in all panels; a cell that this text does not have is left out."""
    hovered, pinned = (
        strongest(reading, board, cell) if cell and _panel_of(board, cell) else None
        for cell in (pointing.hovered, pointing.pinned)
    )
    cell = hovered or pinned
    return CellCursor(hovered, pinned, cell.place[-2], cell.place[-1]) if cell else CellCursor()


def _panel_of(board: Board, cell: Cell) -> Heatmap | None:
    """Find the panel of a cell, if it has that cell."""
    row, column = cell.place[-2:]
    return next(
        (
            panel
            for panel in board.heatmaps
            if is_of(panel, cell) and row in panel.rows.seen and column in panel.columns.seen
        ),
        None,
    )


def place_of(board: Board, cell: Cell) -> tuple[int, int] | None:
    """Return a cell's layer and head, counted from 0."""
    panel = _panel_of(board, cell)
    if panel is None or panel.layer is None or panel.head is None:
        return None
    return panel.layer, panel.head


def strongest(reading: ProbeReading, board: Board, cell: Cell) -> Cell:
    """Return the cell whose weight a drawn one shows: if pooled, the maximum of its block."""
    panel, weights = _panel_of(board, cell), reading.weights
    if panel is None or weights is None or not panel.is_pooled:
        return cell
    row, column = cell.place[-2:]
    rows, columns = (axis.block for axis in (panel.rows, panel.columns))
    top, left = row // rows * rows, column // columns * columns
    block = weights[panel.layer, panel.head, top : top + rows, left : left + columns]
    down, right = divmod(int(np.argmax(block)), block.shape[1])
    return replace(cell, place=(*cell.place[:-2], top + down, left + right))


def sentence(reading: ProbeReading, board: Board, cell: Cell) -> str:
    """Describe how much a query attends to a key; empty where there is no such cell."""
    panel = _panel_of(board, cell)
    if panel is None or reading.weights is None:
        return ""
    query, key = cell.place[-2:]
    one, other = (f"“{_word(reading, at)}” ({at + 1})" for at in (query, key))
    where = f"layer {(panel.layer or 0) + 1} head {(panel.head or 0) + 1}"
    drawn = panel.rows.cell(query), panel.columns.cell(key)
    if panel.forbidden is not None and panel.forbidden[drawn]:
        return f"query {one} may not read {other}: it comes later, {where}"
    weight = float(reading.weights[panel.layer or 0, panel.head or 0, query, key])
    if not math.isfinite(weight):
        return f"query {one} has no weights: they are no numbers any more, {where}"
    return f"query {one} reads {format_share(weight)} from {other}, {where}"


def _word(reading: ProbeReading, at: int) -> str:
    return shorten(visible(reading.tokens[at]))
