"""Painted cells have the colour of their number, mask lines and dropout crosses."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QApplication

from tests.support.hand_made_panels import LOG, ROW_SCALE, SIGNED, UNIT, a_heatmap, axis
from visualizer.heatmap import panel_margins, panel_margins_paint, panel_paint
from visualizer.heatmap.board import Board, Heatmap
from visualizer.heatmap.board_layout import ColumnHeader, TitlePlacement, with_number_formats
from visualizer.heatmap.colour_mapping import MAX_COLOUR_INDEX, colour_indices, colour_table
from visualizer.heatmap.panel_placement import lay_out_board
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.widgets.fonts import apply_interface_font, font_metrics, scaled_font, text_scale
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot

    from tests.support.window_input import Hand
    from visualizer.heatmap.panel_colour_scale import ColourScale
    from visualizer.shell.window import MainWindow

pytestmark = pytest.mark.usefixtures("application")

TINY, SMALL, LARGE = 8, 20, 56
RANDOM = np.random.default_rng(7)


class Painted:
    """One panel, painted on an image."""

    def __init__(
        self, heatmap: Heatmap, cell: float, theme: Theme = LIGHT, ratio: float = 1, **fields: Any
    ) -> None:
        self.theme, self.ratio, self.heatmap = theme, ratio, heatmap
        rows, columns = heatmap.values.shape
        placed = lay_out_board(Board(((heatmap,),)), 800, 800, ratio).slots[0]
        cells = QRectF(104, 80, columns * cell, rows * cell)
        sized = replace(
            placed, cells=cells, cell_width=cell, cell_height=cell, numbers=None, **fields
        )
        (self.slot,) = with_number_formats([sized])
        whole = self.slot.whole_area.adjusted(0, 0, 60, 30)
        size = (round(whole.right() * ratio), round(whole.bottom() * ratio))
        self.image = QImage(*size, QImage.Format.Format_RGB32)
        self.image.setDevicePixelRatio(ratio)
        self.image.fill(QColor(theme.paper))
        painter = QPainter(self.image)
        panel_paint.paint_panel(painter, self.slot, theme)
        painter.end()

    def at(self, point: QPointF) -> str:
        pixel = point * self.ratio
        return self.image.pixelColor(int(pixel.x()), int(pixel.y())).name()

    def inside(self, row: int, column: int) -> set[str]:
        """Return all colours within a cell, without its edges."""
        return self.trim_to(self.slot.cell_area(row, column).adjusted(2, 2, -2, -2))

    def trim_to(self, area: QRectF) -> set[str]:
        xs = range(int(area.left() * self.ratio), int(area.right() * self.ratio))
        ys = range(int(area.top() * self.ratio), int(area.bottom() * self.ratio))
        return {self.image.pixelColor(x, y).name() for x in xs for y in ys}


def scale(heatmap: Heatmap, theme: Theme = LIGHT) -> list[str]:
    words = colour_table(heatmap.colour.map, theme)[: MAX_COLOUR_INDEX + 1]
    return [f"#{int(word) & 0xFFFFFF:06x}" for word in words]


def lower(*colours: str) -> set[str]:
    return {colour.lower() for colour in colours}


# ------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("fields", [{}, {"colour": SIGNED}, {"colour": LOG}], ids=str)
def test_the_centre_of_a_cell_has_the_colour_of_its_number(
    fields: dict[str, Any], ratio: float
) -> None:
    heatmap = a_heatmap(RANDOM.random((12, 12)), **fields)
    painted = Painted(heatmap, SMALL, ratio=ratio)
    colours, chosen = scale(heatmap), colour_indices(heatmap)
    for row, column in np.ndindex(12, 12):
        centre = painted.slot.cell_area(row, column).center()
        assert painted.at(centre) == colours[chosen[row, column]], (row, column)


@pytest.mark.parametrize("ratio", [1.0, 1.25, 2.0])
def test_a_small_cell_has_its_colour_from_edge_to_edge(ratio: float) -> None:
    heatmap = a_heatmap(RANDOM.random((30, 30)))
    painted = Painted(heatmap, TINY, ratio=ratio)
    colours, chosen = scale(heatmap), colour_indices(heatmap)
    for row, column in np.ndindex(30, 30):
        cell = painted.slot.cell_area(row, column)
        if 0 < row < 29 and 0 < column < 29:
            inner = cell.adjusted(0.1, 0.1, -0.1, -0.1)
            corners = {painted.at(inner.topLeft()), painted.at(inner.bottomRight())}
            assert corners == {colours[chosen[row, column]]}, (row, column)


def test_rows_go_down_and_columns_go_right() -> None:
    values = np.zeros((5, 5))
    values[1, 3] = 1
    painted = Painted(a_heatmap(values), SMALL)
    highest, lowest = scale(painted.heatmap)[-1], scale(painted.heatmap)[0]
    cells = painted.slot.cells
    point = cells.topLeft() + QPointF(3.5 * cells.width() / 5, 1.5 * cells.height() / 5)
    assert painted.at(point) == highest
    mirrored = cells.topLeft() + QPointF(1.5 * cells.width() / 5, 3.5 * cells.height() / 5)
    assert painted.at(mirrored) == lowest


@pytest.mark.parametrize("width", [80, 148, 400])
@pytest.mark.parametrize("colour", [UNIT, SIGNED])
def test_the_scale_of_a_column_goes_from_the_lowest_to_the_highest_colour(
    colour: ColourScale, width: int
) -> None:
    heatmap = a_heatmap([[0.5]], colour=colour, unit="weights")
    image = QImage(460, 60, QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.paper))
    painter = QPainter(image)
    head = ColumnHeader(heatmap, 20.0, width, ("each cell: largest of 4 × 4",))
    panel_margins_paint.paint_column_headers(painter, (head,), LIGHT)
    painter.end()
    colours = scale(heatmap)
    lines = ([image.pixelColor(x, y).name() for x in range(20, 460)] for y in range(20, 40))
    runs = (
        [colours.index(one) for one in run]
        for line in lines
        for is_scale, run in itertools.groupby(line, colours.__contains__)
        if is_scale
    )
    along = max(runs, key=len)
    assert along[0] <= 12
    assert along[-1] >= MAX_COLOUR_INDEX - 12
    assert along == sorted(along)
    edge = 20 + width + 1
    beyond = [image.pixelColor(x, y).name() for x in range(edge, 460) for y in range(36)]
    assert set(beyond) == lower(LIGHT.paper)  # no text reaches the next column


def test_the_shared_scale_of_layers_has_small_texts_next_to_its_ramp() -> None:
    heatmap = a_heatmap([[0.0, 1.0]], title="Head 1", layer=0, label="Layer 1")
    image = QImage(480, 60, QImage.Format.Format_RGB32)
    image.fill(QColor(LIGHT.paper))
    painter = QPainter(image)
    head = ColumnHeader(heatmap, 20.0, 400.0, ())
    panel_margins_paint.paint_column_headers(painter, (head,), LIGHT)
    assert painter.font() == scaled_font(12)
    painter.end()
    words = "query ↓  key →"
    ramp = 20 + round(font_metrics(12).horizontalAdvance(words))
    between = [image.pixelColor(x, y).name() for x in range(ramp, ramp + 16) for y in range(18, 33)]
    assert set(between) == lower(LIGHT.paper)  # space between the text and the scale


def test_missing_values_have_the_warning_colour() -> None:
    painted = Painted(a_heatmap([[0.5] * 9 + [np.nan]] * 10), SMALL)
    assert painted.at(painted.slot.cell_area(0, 9).center()) == LIGHT.warning.lower()


# --------------------------------------------------------------------------------------- marks


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("cell", [TINY, SMALL, LARGE])
def test_masked_cells_are_tinted_and_struck_through(cell: int, theme: Theme) -> None:
    forbidden = np.triu(np.ones((6, 6), dtype=bool), 1)
    zeros = a_heatmap(np.zeros((6, 6)), colour=SIGNED, forbidden=forbidden)
    painted = Painted(zeros, cell, theme)
    tint = QColor(theme.mask).lightness()
    upper = painted.slot.cell_area(0, 2).united(painted.slot.cell_area(1, 5))
    shades = painted.trim_to(upper)
    assert lower(theme.mask) < shades
    assert any(abs(QColor(one).lightness() - tint) > 12 for one in shades)
    for row, column in np.ndindex(forbidden.shape):
        is_tinted = theme.mask.lower() in painted.inside(row, column)
        assert is_tinted == forbidden[row, column]
        if cell >= SMALL and forbidden[row, column]:
            assert len(painted.inside(row, column)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("cell", [TINY, LARGE])
def test_a_cell_that_one_side_forbids_is_hatched_over_its_colour(cell: int, theme: Theme) -> None:
    uneven = np.triu(np.ones((6, 6), dtype=bool), 1)
    fields: dict[str, Any] = {"colour": SIGNED, "part": ComparisonSide.CHANGE}
    painted = Painted(a_heatmap(np.full((6, 6), 1.0), uneven_cells=uneven, **fields), cell, theme)
    mark = theme.border.lower()
    for row, column in np.ndindex(6, 6):
        area = painted.slot.cell_area(row, column)
        foot = area.adjusted(1, area.height() * 0.75, -1, -1)
        assert (mark in painted.trim_to(foot)) == uneven[row, column]
        assert painted.inside(row, column) & set(scale(painted.heatmap, theme))
    if cell == LARGE:  # its number is not covered
        assert mark not in painted.trim_to(area.adjusted(1, 1, -1, -area.height() / 4 - 1))


def test_numbers_are_shortened_if_there_is_little_room() -> None:
    heatmap = a_heatmap(np.full((3, 3), -0.25), colour=SIGNED)
    short, long = (
        font_metrics(12).horizontalAdvance(text) * 9 / 12 for text in ("−.25", "−0.2500")
    )
    cell = math.ceil(short) + 5  # in the smallest font size
    assert cell < long
    assert len(Painted(heatmap, cell).inside(1, 1)) > 1
    assert len(Painted(heatmap, cell - 6).inside(1, 1)) == 1


def test_dropped_cells_are_crossed_out() -> None:
    dropped = np.eye(4, dtype=bool)
    heatmap = a_heatmap(np.where(dropped, 0, 0.5), stage="dropped", dropped=dropped)
    painted = Painted(heatmap, LARGE)
    for row, column in np.ndindex(4, 4):
        cell = painted.slot.cell_area(row, column)
        inset = painted.slot.cell_width * 0.3
        inner = cell.adjusted(inset, inset, -inset, -inset)
        if dropped[row, column]:
            assert painted.at(cell.topLeft() + QPointF(4, 20)) == LIGHT.paper.lower()
            for corner in (inner.topLeft(), inner.topRight(), inner.bottomLeft(), cell.center()):
                spot = QRectF(corner - QPointF(1.5, 1.5), corner + QPointF(2.5, 2.5))
                assert painted.trim_to(spot) != lower(LIGHT.paper)
            assert not painted.inside(row, column) & set(scale(heatmap))
        else:
            assert LIGHT.paper.lower() not in painted.inside(row, column)


# -------------------------------------------------------------------------------- numbers, words


def test_numbers_are_written_in_cells_with_room() -> None:
    heatmap = a_heatmap(np.full((4, 4), 0.25))
    ground = scale(heatmap)[MAX_COLOUR_INDEX // 4]
    large, small, tiny = (Painted(heatmap, cell) for cell in (LARGE, SMALL, TINY))
    assert "#ffffff" in large.inside(0, 0)
    assert len(large.inside(0, 0)) > 2
    assert small.inside(0, 0) == tiny.inside(0, 0) == {ground}


def test_numbers_are_dark_on_light_colours_and_light_on_dark_ones() -> None:
    painted = Painted(a_heatmap([[0.0, 1.0]] * 2), LARGE)
    assert "#ffffff" in painted.inside(0, 0)
    assert "#000000" in painted.inside(0, 1)
    assert "#ffffff" not in painted.inside(0, 1)


def test_forbidden_cells_contain_no_number_except_minus_infinity() -> None:
    forbidden = np.array([[False, True], [False, False]])
    zero = a_heatmap([[1, 0], [0.5, 0.5]], forbidden=forbidden)
    infinite = a_heatmap([[1, -np.inf], [0.5, 0.5]], colour=SIGNED, forbidden=forbidden)
    line, text = (
        min(QColor(shade).lightness() for shade in Painted(one, LARGE).inside(0, 1))
        for one in (zero, infinite)
    )
    assert text < line - 20


def test_pooled_cells_have_no_numbers() -> None:
    side = {"rows": axis("query", 4, 2), "columns": axis("key", 4, 2)}
    painted = Painted(a_heatmap(np.full((4, 4), 0.25), **side), LARGE)
    assert painted.inside(0, 0) == {scale(painted.heatmap)[MAX_COLOUR_INDEX // 4]}


def test_row_sums_are_next_to_the_rows() -> None:
    plain = Painted(a_heatmap(np.full((4, 4), 0.25)), LARGE)
    summed = Painted(a_heatmap(np.full((4, 4), 0.5), sums=np.full(4, 2.0)), LARGE)
    for painted, is_there in ((plain, False), (summed, True)):
        cells = painted.slot.cells
        beside = QRectF(cells.right() + 4, cells.top(), 50, painted.slot.cell_height)
        assert (painted.trim_to(beside) != lower(LIGHT.paper)) is is_there


@pytest.fixture(params=[100, 150, 200])
def percent(request: pytest.FixtureRequest, application: QApplication) -> Iterator[int]:
    before = QGuiApplication.font()
    apply_interface_font(request.param)
    yield request.param
    QApplication.setFont(before)


@pytest.mark.usefixtures("percent")
def test_the_end_of_a_scale_is_not_cut_next_to_the_title_of_a_small_panel() -> None:
    heatmap = a_heatmap(
        np.full((20, 20), 0.5),
        colour=ROW_SCALE[2],
        rows=axis("query", 20, 2),
        columns=axis("key", 20, 2),
    )
    painted = Painted(heatmap, LARGE, title=TitlePlacement.LINE, has_column_labels=False)
    scale, cells = text_scale(), painted.slot.cells
    end = font_metrics(12).horizontalAdvance(f"{panel_margins.format_scale_end(heatmap)}, pooled")
    title = QFontMetricsF(scaled_font(12, QFont.Weight.DemiBold)).horizontalAdvance("Weights")
    right = cells.left() + title + 4 + 8 * scale + end
    last = QRectF(right - 6 * scale, cells.top() - 20 * scale, 6 * scale, 17 * scale)
    assert painted.trim_to(last) != lower(LIGHT.paper)
    assert painted.trim_to(last.translated(8 * scale, 0)) == lower(LIGHT.paper)


def test_rows_and_columns_have_labels() -> None:
    painted = Painted(a_heatmap(np.full((4, 4), 0.25)), LARGE)
    for at in range(4):
        assert painted.trim_to(panel_margins_paint.row_label_box(painted.slot, at)) != lower(
            LIGHT.paper
        )
        above = painted.slot.cell_area(0, at).translated(0, -18)
        above.setHeight(16)
        assert painted.trim_to(above) != lower(LIGHT.paper)


@pytest.mark.parametrize(
    ("count", "block", "cell", "shown"),
    [
        (3, 1, 40, [0, 1, 2]),
        (6, 1, 14, [0, 1, 2, 3, 4, 5]),
        (6, 1, 11, [0, 1, 2, 3, 4, 5]),  # in a smaller font size
        (6, 1, 9, [0, 1, 2, 3, 4, 5]),
        (6, 1, 8, [0, 2, 4]),
        (4, 2, 40, [0, 2, 4, 6]),
        (4, 2, 8, [0, 4]),
    ],
)
def test_omitted_labels_are_evenly_spaced(
    count: int, block: int, cell: float, shown: list[int]
) -> None:
    found = [at for at, _ in panel_margins_paint.visible_labels(axis("query", count, block), cell)]
    assert found[0] == 0
    assert len({b - a for a, b in itertools.pairwise(found)}) <= 1
    assert found == shown


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (None, ["1", "128", "256", "384", "512", "640", "768", "896"]),
        (range(100, 500), ["128", "256", "384"]),
        (range(127, 256), ["128", "256"]),
    ],
)
def test_very_many_tokens_are_labelled_by_position(part: range | None, shown: list[str]) -> None:
    tokens = replace(axis("query", 200, 5), part=part)
    assert panel_margins_paint.shows_positions(tokens, 1.0)
    found = panel_margins_paint.visible_labels(tokens, 1.0)
    assert [text for _, text in found] == shown
    assert [at + 1 for at, _ in found] == [int(text) for text in shown]
    few = axis("query", 64)
    assert not panel_margins_paint.shows_positions(few, 3.0)  # about one in six
    assert all(text == few.labels[at] for at, text in panel_margins_paint.visible_labels(few, 3.0))


def test_numbered_columns_have_round_numbers_as_labels() -> None:
    columns = axis("d_head", 40)
    found = [
        at + 1 for at, _ in panel_margins_paint.visible_labels(columns, 4, upright=False, needed=24)
    ]
    assert found == [10, 20, 30, 40]


# -------------------------------------------------------------------------------- in the window


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_window_paints_the_same(hand: Hand, scheme: str) -> None:
    hand.window.set_colour_scheme(scheme)
    picture = hand.board.viewport().grab()
    image, ratio = picture.toImage(), picture.devicePixelRatio()
    for head in (0, 1):
        for stage in ("scores", "weights"):
            heatmap = hand.panel(stage, head)
            colours, chosen = scale(heatmap, hand.window.theme), colour_indices(heatmap)
            for row, column in np.ndindex(6, 6):
                area = hand.board.area_of_cell(Cell(stage, (head, row, column)))
                assert area
                if chosen[row, column] <= MAX_COLOUR_INDEX:
                    corner = area.topLeft() * ratio
                    seen = image.pixelColor(int(corner.x()) + 4, int(corner.y()) + 4).name()
                    assert seen == colours[chosen[row, column]]


def test_cells_at_the_edges_are_drawn_in_a_long_text(window: MainWindow, qtbot: QtBot) -> None:
    window.resize(1280, 800)
    first = window.workspace.run
    words = " ".join(f"word{number}" for number in range(64))
    window.settings_bar.sentence.setPlainText(words)
    qtbot.waitUntil(lambda: window.workspace.run is not first, timeout=20_000)
    board = window.board
    with qtbot.waitSignal(board.painted, timeout=20_000):
        board.viewport().update()
    picture = board.viewport().grab().toImage()
    slot = next(slot for slot in board.board_layout.slots if slot.heatmap.stage == "scores")
    indices = colour_indices(slot.heatmap)
    table = colour_table(slot.heatmap.colour.map, window.theme)
    last = len(indices) - 1
    for row, column in ((0, 0), (0, last), (last, 0), (last, last), (last // 2, last), (0, 7)):
        centre = slot.cell_area(row, column).center()
        painted = picture.pixel(QPointF(centre).toPoint())
        corner = picture.pixel(slot.cell_area(row, column).topLeft().toPoint())
        assert np.uint32(painted) == table[indices[row, column]], (row, column)
        assert np.uint32(corner) == table[indices[row, column]], (row, column)
