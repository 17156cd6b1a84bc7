"""Where every panel of a board goes: pure geometry, the same for the window and for pictures.

Columns are stages and rows are heads. Cells are square and as large as fits; they stay whole
pixels of the screen. A single stage wraps its heads into a grid. What does not fit can be
scrolled to.

The places of panels, and what is where in them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF

from visualizer.heatmap.cell_number_format import (
    CellNumberFormat,
    cell_number_format,
    smallest_cell_with_numbers,
)
from visualizer.heatmap.panel_margins import (
    HEAD,
    LONGEST_LABEL,
    NARROWEST,
    NOTE,
    column_label_height,
    foot_height,
    label_overhang,
    narrowest,
    notes_height,
    sums_width,
    widest_label,
)
from visualizer.widgets.fonts import system_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from PySide6.QtCore import QPointF

    from visualizer.heatmap.panel_and_board_types import Board, Heatmap

LARGEST_CELL = 88
SMALLEST_SIDE = 130
SMALLEST_GRID = 110
COMFORTABLE = 160
GAP = 20
MARGIN = 16
BELOW = 4
HEAD_LINE = 20
"""Over a row of panels without labels, for the line that says whose they are."""
POOLED_FEATURES = 200
"""The width of a panel whose columns are no tokens, with what it says of its pooling."""
MOST_PLACES = 8
"""So many layouts are kept: those that were used last."""
_PLACES: OrderedDict[Hashable, tuple[tuple[int, PanelPlace], ...]] = OrderedDict()
"""Places, each with the number of its panel, by what they are for."""


def room(board: Board, width: float, height: float, pixel_ratio: float) -> int:
    """Say how many cells a panel's side has room for, in device pixels, in a window of this size.

    It depends on which panels there are, and not on how they were pooled.
    """
    gutter = LONGEST_LABEL * text_scale()
    if wraps(board):
        side = max(SMALLEST_SIDE, _grid(board, width, height, gutter, gutter)[1])
    else:
        side = max(COMFORTABLE, _side(board, width - gutter - 2 * MARGIN, height))
    return int(side * pixel_ratio) // 8 * 8  # in steps, so that a drag of the edge pools seldom


def _side(board: Board, width: float, height: float) -> float:
    """Share a width among the stages; panels are not higher than what is seen at once."""
    scale = text_scale()
    narrow = sum(not column[0].columns.is_token for column in board.columns)
    wide = max(1, len(board.columns) - narrow)
    share = (width - narrow * (POOLED_FEATURES * scale + GAP)) / wide - GAP
    return min(share, height - (HEAD + LONGEST_LABEL + 24) * scale)


def wraps(board: Board) -> bool:
    """Whether the heads of a single stage stand in a grid."""
    return len(board.columns) == 1 and len(board.columns[0]) > 1


def _grid(
    board: Board, width: float, height: float, gutter: float, label: float
) -> tuple[int, float]:
    """Choose how many heads stand side by side, so that all are seen, as large as can be.

    Where they would be too small to read, they are as many as are comfortable, and are scrolled.
    """
    scale, heads = text_scale(), len(board.columns[0])
    first = board.columns[0][0]
    tokens, ratio = len(first.rows.labels), 1.0  # of a panel's height to its width
    if first.columns.is_token:
        ratio = first.side[0] / first.side[1]
    # The keys are named once, over the first row; the others have a line for their heads.
    once = head_height(board) + label + 8 * scale - HEAD_LINE * scale + MARGIN
    around = (HEAD_LINE + BELOW) * scale + max(map(_foot, board.columns[0]))
    widths = {k: (width - 2 * MARGIN) / k - gutter - GAP for k in range(1, heads + 1)}
    heights = {k: (height - once) / -(-heads // k) - around for k in widths}
    sides = {k: min(widths[k] * ratio, heights[k]) for k in widths}
    # Of a text that is not pooled, cells are whole pixels.
    used = {k: side if tokens >= side else side // tokens * tokens for k, side in sides.items()}
    across = max(used, key=lambda k: used[k])
    if used[across] / min(1, ratio) >= SMALLEST_GRID:
        return across, sides[across]
    across = max((k for k, side in widths.items() if side >= COMFORTABLE), default=1)
    return across, widths[across] * ratio


def shared_notes(column: tuple[Heatmap, ...]) -> tuple[str, ...]:
    """Give the notes that all panels of a column have; none where they differ, or of layers."""
    first = column[0]
    is_alike = all(one.notes == first.notes for one in column)
    return first.notes if is_alike and first.layer is None else ()


def head_height(board: Board) -> float:
    """Give the height of the heads of a board's columns, with the notes in them."""
    return (HEAD + NOTE * _note_lines(board)) * text_scale()


def _note_lines(board: Board) -> int:
    """Count the lines of notes in the heads; one at least where panels are pooled as a whole.

    The note on it goes where one looks close enough: what is under the pointer must not move.
    """
    is_long = any(
        drawn < len(axis.labels)
        for one in board.heatmaps
        for drawn, axis in zip(one.side, (one.rows, one.columns), strict=True)
    )
    return max(is_long, *(len(shared_notes(column)) for column in board.columns))


def lay_out(
    board: Board,
    width: float,
    height: float,
    pixel_ratio: float = 1.0,
    largest_cell: float = math.inf,
) -> BoardLayout:
    """Place a board's panels in a window of this size, of so many device pixels a pixel.

    Panels that differ from some that were placed before in numbers, in colours and in the part
    that is seen alone have their places.
    """
    if not board.columns:
        return BoardLayout((), 0, 0, 0)
    key = (_shape(board), width, height, pixel_ratio, largest_cell, text_scale(), system_font())
    panels = board.heatmaps
    if key not in _PLACES:
        placed = BoardPlacement(board, width, height, pixel_ratio, largest_cell).places()
        numbers = {heatmap: at for at, heatmap in enumerate(panels)}
        _PLACES[key] = tuple((numbers[heatmap], place) for heatmap, place in placed)
        if len(_PLACES) > MOST_PLACES:
            _PLACES.popitem(last=False)
    _PLACES.move_to_end(key)
    slots = with_cell_numbers([place.slot(panels[at]) for at, place in _PLACES[key]])
    wholes = [slot.whole for slot in slots]
    right = max(whole.right() for whole in wholes) + MARGIN
    bottom = max(whole.bottom() for whole in wholes) + BELOW * text_scale()
    return BoardLayout(slots, right, bottom, head_height(board), _PLACES[key])


def with_cell_numbers(slots: Sequence[PanelSlot]) -> tuple[PanelSlot, ...]:
    """Choose how numbers are written in panels, alike in all of a stage."""
    stages: dict[Hashable, list[PanelSlot]] = {}
    for slot in slots:
        stages.setdefault(slot.heatmap.column, []).append(slot)
    formats = {
        stage: cell_number_format(
            [slot.heatmap for slot in own],
            min(slot.cell_width for slot in own),
            min(slot.cell_height for slot in own),
        )
        for stage, own in stages.items()
    }
    return tuple(
        slot if found is None else replace(slot, numbers=found)
        for slot in slots
        for found in (formats[slot.heatmap.column],)
    )


def _shape(board: Board) -> Hashable:
    """Name all of a board's panels that decides their places: no number, colour or zoom.

    Labels that panels share are named once: to hash thousands for every panel takes long.
    """
    labels = [axis.labels for one in board.heatmaps for axis in (one.rows, one.columns)]
    distinct = {id(one): one for one in labels}
    numbers = {key: number for number, key in enumerate(distinct)}
    panels = tuple(
        (
            tuple(_shape_of(heatmap, numbers) for heatmap in column),
            bool(shared_notes(column)),
        )
        for column in board.columns
    )
    return tuple(distinct.values()), panels, _note_lines(board)


def _shape_of(heatmap: Heatmap, numbers: dict[int, int]) -> Hashable:
    return (
        numbers[id(heatmap.rows.labels)],
        numbers[id(heatmap.columns.labels)],
        heatmap.columns.is_token,
        heatmap.side,
        bool(heatmap.label),
        narrowest(heatmap),
        len(heatmap.notes),
        foot_height(heatmap),
        sums_width(heatmap),
    )


def _foot(heatmap: Heatmap) -> float:
    """Give the most that may stand under a panel: its notes, unless others share them."""
    return foot_height(heatmap, len(heatmap.notes))


def _least(column: tuple[Heatmap, ...]) -> tuple[float, float]:
    """Give the widths that what stands under and beside a column's panels needs."""
    return max(map(narrowest, column)), max(map(sums_width, column))


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """Where a panel stands, whichever part of it is seen.

    Parameters
    ----------
    left, upper : float
        The corner of its cells.
    width, height : float
        Size of a cell without zoom.
    """

    left: float
    upper: float
    width: float
    height: float
    top: float
    gutter: float
    has_row_labels: bool
    has_column_labels: bool
    has_own_notes: bool

    def slot(self, heatmap: Heatmap) -> PanelSlot:
        """Put a panel here."""
        (rows, columns), width = heatmap.side, self.width
        cells = QRectF(self.left, self.upper, columns * width, rows * self.height)
        drawn = heatmap.values.shape  # of a part, fewer and larger ones in the same place
        size = (width * (columns / drawn[1]), self.height * (rows / drawn[0]))
        return PanelSlot(
            heatmap, cells, *size, self.top, self.gutter, self.has_row_labels,
            self.has_column_labels, own_notes=heatmap.notes if self.has_own_notes else (),
        )  # fmt: skip


def _bottom(placed: tuple[Heatmap, PanelPlace]) -> float:
    heatmap, place = placed
    return place.slot(heatmap).whole.bottom()


class BoardPlacement:
    """One layout on its way."""

    def __init__(
        self, board: Board, width: float, height: float, pixel_ratio: float, largest_cell: float
    ) -> None:
        self.columns, self.pixel_ratio = board.columns, pixel_ratio
        self.width, self.height = width, height
        self.scale = text_scale()
        self.largest_cell = min(LARGEST_CELL * self.scale, largest_cell)
        least = [(column, _least(column)) for column in board.columns]
        self.least = {one: widths for column, widths in least for one in column}
        self.gutter = self._gutter()
        self.head = head_height(board)
        self.noted = frozenset(
            at for at, column in enumerate(board.columns) if not shared_notes(column)
        )
        self.wraps = wraps(board)
        self.labelled = self._labelled()
        self.across, self.side = 1, math.inf
        if self.wraps:
            label = min(widest_label(board.columns[0][0].columns.labels), LONGEST_LABEL)
            self.across, self.side = _grid(board, width, height, self.gutter, label)
        self.cell = self._cell()
        self.top = self._top()

    def _labelled(self) -> frozenset[int]:
        """Find the columns with labels of their own: the first, and that of the first heads.

        And those whose rows are other tokens than those of the column before.
        """
        firsts = [column[0] for column in self.columns]
        heads = [bool(first.label) for first in firsts]
        others = (
            at
            for at in range(1, len(firsts))
            if firsts[at].rows.labels != firsts[at - 1].rows.labels
        )
        return frozenset({0, heads.index(True) if True in heads else 0, *others})

    def places(self) -> list[tuple[Heatmap, PanelPlace]]:
        return self._wrapped(self.head) if self.wraps else self._aligned(self.head)

    def _gutter(self) -> float:
        widest = max(widest_label(one.rows.labels) for one in self.columns[0])
        return max(64 * self.scale, min(widest, LONGEST_LABEL * self.scale) + 14)

    def _cell(self) -> float:
        """Find the largest cell, in whole device pixels, with which all stages fit side by side."""
        rows = max(column[0].side[0] for column in self.columns)
        largest = min(self.largest_cell, self.side / rows) * self.pixel_ratio
        least: float = max(1, min(largest, SMALLEST_SIDE * self.pixel_ratio / rows))
        smallest = max(1, min(math.ceil(least), int(largest)))
        for pixels in range(int(largest), smallest, -1):
            if self._width(pixels / self.pixel_ratio) <= self.width:
                cell = pixels / self.pixel_ratio
                return cell if self.wraps else self._seen_whole(cell)
        return smallest / self.pixel_ratio

    def _seen_whole(self, cell: float) -> float:
        """Make cells a little smaller where all heads are seen at once, or else one is."""
        rows = max(len(column) for column in self.columns)
        side = self.columns[0][0].side[0]
        below = max(map(_foot, (one for column in self.columns for one in column)))
        smallest = min(cell, smallest_cell_with_numbers())
        for heads in (rows, 1):
            for pixels in range(
                round(cell * self.pixel_ratio), int(smallest * self.pixel_ratio), -1
            ):
                self.cell = pixels / self.pixel_ratio
                self.top = self._top()
                above = sum(self._above(number) for number in range(heads))
                panel = side * self.cell + below + BELOW * self.scale
                if self.head + above + heads * panel <= self.height:
                    return self.cell
        return cell

    def _names_keys(self, number: int) -> bool:
        """Whether the keys are named over a row of panels: the first, and where they are others."""
        if number == 0:
            return True
        if self.wraps:  # a row of the grid, of several heads
            return len({one.columns.labels for one in self.columns[0]}) > 1
        return any(
            column[number].columns.labels != column[number - 1].columns.labels
            for column in self.columns
            if number < len(column)
        )

    def _above(self, number: int) -> float:
        """Give the height over the cells of a row of panels."""
        line = HEAD_LINE * self.scale + label_overhang(self.cell)
        return self.top if self._names_keys(number) else line

    def _width(self, cell: float) -> float:
        if self.wraps:
            panel = self.gutter + self._outer(self.columns[0][0], cell) + GAP
            return 2 * MARGIN + self.across * panel - GAP
        widths = sum(self._outer(column[0], cell) + GAP for column in self.columns)
        gutters = self.gutter * len(self.labelled)
        return MARGIN + gutters + widths - GAP + MARGIN

    def _outer(self, heatmap: Heatmap, cell: float) -> float:
        inner = heatmap.side[1] * self._cell_width(heatmap, cell)
        narrow, sums = self.least[heatmap]
        return max(inner + 8, narrow) + sums

    def _cell_width(self, heatmap: Heatmap, cell: float) -> float:
        """Columns that are no tokens are as wide as cells, unless there are too many of them.

        A few of them are wider, so that the panel is no sliver.
        """
        rows, columns = heatmap.side
        if heatmap.columns.is_token:
            return cell
        widest = max(rows * cell, SMALLEST_SIDE, 4 * cell)
        fitting = max(1, math.floor(widest / columns * self.pixel_ratio))
        least = math.floor(NARROWEST * self.scale / columns * self.pixel_ratio)
        return max(min(cell, fitting / self.pixel_ratio), least / self.pixel_ratio)

    def _top(self) -> float:
        """Find the height that the column labels need: turned upright where they do not fit."""
        needed = 0.0
        for column in self.columns:
            heatmap = column[0]
            cell = self._cell_width(heatmap, self.cell)
            needed = max(needed, column_label_height(heatmap, cell))
        return needed + 8 * self.scale  # lit labels are bold, and longer

    def _aligned(self, top: float) -> list[tuple[Heatmap, PanelPlace]]:
        places: list[tuple[Heatmap, PanelPlace]] = []
        for number in range(max(len(column) for column in self.columns)):
            row = [column[number] for column in self.columns if number < len(column)]
            places += self._row(row, top, number)
            top = max(map(_bottom, places[-len(row) :])) + BELOW * self.scale
        return places

    def _row(self, row: list[Heatmap], top: float, number: int) -> list[tuple[Heatmap, PanelPlace]]:
        places: list[tuple[Heatmap, PanelPlace]] = []
        left = MARGIN + self.gutter
        for at, column in enumerate(self.columns):
            is_first = at in self.labelled
            left += self.gutter * (is_first and at > 0)
            if number < len(column):
                heatmap = column[number]
                is_first |= heatmap is row[0]
                places.append((heatmap, self._place(heatmap, (left, top), at, number, is_first)))
            left += self._outer(column[0], self.cell) + GAP
        return places

    def _wrapped(self, top: float) -> list[tuple[Heatmap, PanelPlace]]:
        places: list[tuple[Heatmap, PanelPlace]] = []
        for position, heatmap in enumerate(self.columns[0]):
            column = position % self.across
            if places and column == 0:
                top = _bottom(places[-1]) + BELOW * self.scale
            step = self._outer(heatmap, self.cell) + GAP + self.gutter
            left = MARGIN + self.gutter + column * step
            row = position // self.across
            places.append((heatmap, self._place(heatmap, (left, top), 0, row, True)))
        return places

    def _place(
        self, heatmap: Heatmap, at: tuple[float, float], column: int, row: int, is_first: bool
    ) -> PanelPlace:
        """Place a panel.

        Parameters
        ----------
        at : tuple of float
            The left edge of its cells, and the upper one of its row.
        column, row : int
            Which of the board's columns it is in, and how far down.
        is_first : bool
            Whether it names the tokens of its rows.
        """
        above, (left, top) = self._above(row), at
        return PanelPlace(
            self._whole(left), self._whole(top + above), self._cell_width(heatmap, self.cell),
            self.cell, above, self.gutter, is_first, self._names_keys(row),
            column in self.noted,
        )  # fmt: skip

    def _whole(self, length: float) -> float:
        return round(length * self.pixel_ratio) / self.pixel_ratio


@dataclass(frozen=True)
class PanelSlot:
    """One panel's place.

    Parameters
    ----------
    cells : QRectF
        Where its cells are.
    cell_width, cell_height : float
        Size of one cell.
    has_row_labels : bool
        Whether it stands first in its row, or first of a head's; the others share its labels.
    has_column_labels : bool
        Whether the keys are named over it, and not over a panel above it.
    numbers : CellNumberFormat or None
        How its numbers are written; None where there is no room for them.
    own_notes : tuple of str
        The notes under it, which the others of its column do not share.
    """

    heatmap: Heatmap
    cells: QRectF
    cell_width: float
    cell_height: float
    top: float
    gutter: float
    has_row_labels: bool
    has_column_labels: bool = True
    numbers: CellNumberFormat | None = None
    own_notes: tuple[str, ...] = ()

    @cached_property
    def whole(self) -> QRectF:
        """The panel with its labels and its bar; read anew for every frame, so it is kept."""
        left = self.cells.left() - (self.gutter if self.has_row_labels else 4)
        width = max(self.cells.width() + 8, narrowest(self.heatmap)) + sums_width(self.heatmap)
        top = self.cells.top() - self.top
        height = self.top + self.cells.height() + foot_height(self.heatmap, len(self.own_notes))
        return QRectF(left, top, self.cells.left() - left + width, height)

    @property
    def labels_height(self) -> float:
        """The height over its cells in which the labels of its columns are."""
        is_layer = self.heatmap.layer is not None
        return self.top - notes_height(self.heatmap) if is_layer else self.top

    def cell(self, row: int, column: int) -> QRectF:
        """Where a cell of the stage is drawn, or the pooled cell that holds it."""
        row, column = self.heatmap.rows.cell(row), self.heatmap.columns.cell(column)
        return QRectF(
            self.cells.left() + column * self.cell_width,
            self.cells.top() + row * self.cell_height,
            self.cell_width,
            self.cell_height,
        )

    def between(self, point: QPointF) -> tuple[float, float]:
        """Give the row and column of the stage at a point, with their fractions."""
        rows, columns = self.heatmap.rows, self.heatmap.columns
        down = (point.y() - self.cells.top()) / self.cell_height
        right = (point.x() - self.cells.left()) / self.cell_width
        return rows.seen.start + down * rows.block, columns.seen.start + right * columns.block

    def at(self, point: QPointF) -> tuple[int, int] | None:
        """Give the cell of the stage under a point: of a block, the first."""
        if not self.cells.contains(point):
            return None
        rows, columns = self.heatmap.values.shape
        row = int((point.y() - self.cells.top()) / self.cell_height)
        column = int((point.x() - self.cells.left()) / self.cell_width)
        row, column = min(row, rows - 1), min(column, columns - 1)
        return self.heatmap.rows.first(row), self.heatmap.columns.first(column)


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """What stands over a column of panels.

    Parameters
    ----------
    heatmap : Heatmap
        Its first panel, for its title, axes and scale.
    left, width : float
        The left edge of its cells, and the room to the right.
    notes : tuple of str
        The notes that its panels share.
    """

    heatmap: Heatmap
    left: float
    width: float
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BoardLayout:
    """All places, and the size of the whole."""

    slots: tuple[PanelSlot, ...]
    width: float
    height: float
    head: float
    places: tuple[tuple[int, PanelPlace], ...] | None = None

    def is_placed_as(self, other: BoardLayout) -> bool:
        """Whether panels stand where those of another layout do; False where it is not known."""
        is_same = self.places is not None and self.places is other.places
        return is_same and (self.width, self.height) == (other.width, other.height)

    @cached_property
    def column_heads(self) -> tuple[ColumnHead, ...]:
        """The head of each stage's column, and of each of what is compared of it."""
        columns: dict[tuple[str | None, str], list[PanelSlot]] = {}
        for slot in self.slots:
            columns.setdefault(slot.heatmap.column, []).append(slot)
        return tuple(
            ColumnHead(
                own[0].heatmap,
                own[0].cells.left(),
                max(own[0].cells.width(), narrowest(own[0].heatmap)),
                () if own[0].own_notes else shared_notes(tuple(slot.heatmap for slot in own)),
            )
            for own in columns.values()
        )

    def slot_at(self, point: QPointF) -> PanelSlot | None:
        """Give the panel whose cells are under a point."""
        return next((slot for slot in self.slots if slot.cells.contains(point)), None)
