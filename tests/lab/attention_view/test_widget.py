"""The heatmaps of all layers and heads: hovering, opening and tooltips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from tests.support.probe_results import a_reading
from visualizer.heatmap import panel_paint
from visualizer.lab.attention_view import widget as attention_view_widget
from visualizer.lab.attention_view.presenter import (
    ATTENTION_MISSING,
    LabAttentionPanel,
    LabCellSelection,
    present_attention,
)
from visualizer.lab.attention_view.widget import LabAttentionView
from visualizer.language.training_settings import ModelKind
from visualizer.session.cell_address import Cell
from visualizer.widgets.accessibility import VALUE_PROPERTY
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from PySide6.QtGui import QPainter

    from tests.conftest import Show
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.widgets.theme import Theme

LEFT = Qt.MouseButton.LeftButton


class ViewWithOwner:
    """A view, with an owner that stores the hovered and pinned cells in the same way as the lab."""

    def __init__(
        self, reading: ProbeResult, show: Show, size: tuple[int, int] = (1000, 700)
    ) -> None:
        self.view, self.result, self.pointing = LabAttentionView(), reading, LabCellSelection()
        self.panel: LabAttentionPanel | None = None
        self.opened: list[tuple[int, int]] = []
        self.view.cellHovered.connect(lambda cell: self.show(self.pointing.with_hovered_cell(cell)))
        self.view.cellClicked.connect(lambda cell: self.show(self.pointing.with_toggled_pin(cell)))
        self.view.moved.connect(self.move_pin)
        self.view.layerRequested.connect(lambda *place: self.opened.append(place))
        show(self.view, size)
        self.show(self.pointing)

    def move_pin(self, *by: int) -> None:
        assert self.panel
        self.show(self.pointing.with_moved_pin(self.panel.board, *by))

    def show(self, pointing: LabCellSelection) -> None:
        self.pointing = pointing
        self.panel = present_attention(
            self.result, ModelKind.TRANSFORMER, pointing, before=self.panel
        )
        self.view.show_attention(self.panel, LIGHT)

    def at(self, cell: Cell) -> QPoint:
        area = self.view.board.area_of_cell(cell)
        assert area
        return area.center()

    def press(self, key: Qt.Key) -> None:
        QTest.keyClick(self.view.board, key)


@pytest.fixture
def owner(show: Show) -> ViewWithOwner:
    return ViewWithOwner(a_reading(2, 2, 6), show)


def test_the_hovered_cell_is_highlighted_in_all_panels(owner: ViewWithOwner) -> None:
    cell = Cell("layer 2", (1, 4, 2))
    QTest.mouseMove(owner.view.board.viewport(), owner.at(cell))
    assert owner.pointing.hovered == cell
    assert owner.panel
    assert (owner.panel.cursor.query, owner.panel.cursor.key) == (4, 2)
    assert owner.view.description_label.text().endswith("layer 2, head 2")


def test_a_click_pins_and_keys_move_into_the_next_head(owner: ViewWithOwner) -> None:
    board = owner.view.board.viewport()
    QTest.mouseClick(board, LEFT, pos=owner.at(Cell("layer 1", (0, 5, 5))))
    assert owner.pointing.pinned == Cell("layer 1", (0, 5, 5))
    owner.press(Qt.Key.Key_Right)
    assert owner.pointing.pinned == Cell("layer 1", (1, 5, 0))
    owner.press(Qt.Key.Key_Down)
    assert owner.pointing.pinned == Cell("layer 2", (1, 0, 0))


def test_a_double_click_opens_a_layer_and_a_head(owner: ViewWithOwner) -> None:
    place = owner.at(Cell("layer 2", (0, 3, 1)))
    QTest.mouseDClick(owner.view.board.viewport(), LEFT, pos=place)
    assert owner.opened == [(1, 0)]
    QTest.mouseDClick(owner.view.board.viewport(), LEFT, pos=QPoint(2, 690))
    assert owner.opened == [(1, 0)]


def test_enter_opens_the_pinned_cell(owner: ViewWithOwner) -> None:
    owner.press(Qt.Key.Key_Return)
    assert owner.opened == []
    owner.show(LabCellSelection(pinned=Cell("layer 1", (1, 2, 0))))
    owner.press(Qt.Key.Key_Return)
    owner.press(Qt.Key.Key_Enter)
    assert owner.opened == [(0, 1), (0, 1)]


def test_keyboard_moves_are_announced(
    owner: ViewWithOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(attention_view_widget, "announce", lambda _, words, __: said.append(words))
    board = owner.view.board
    board.setFocus(Qt.FocusReason.TabFocusReason)
    owner.press(Qt.Key.Key_Down)
    owner.press(Qt.Key.Key_Down)
    owner.result = a_reading(2, 2, 6, seed=9)
    owner.show(owner.pointing)  # changes that the user did not cause are not announced
    assert [words.split(" ")[-5:] for words in said] == [
        ["(1),", "layer", "1,", "head", "1"],
        ["(1),", "layer", "1,", "head", "1"],
    ]
    assert board.property(VALUE_PROPERTY).startswith("weight ")


def test_panels_keep_their_positions_when_scores_change(show: Show) -> None:
    low, high = (a_reading(attending=np.full((2, 2), score)) for score in (0.004, 1.0))
    owner = ViewWithOwner(low, show)
    cell = Cell("layer 2", (1, 4, 2))
    before, owner.result = owner.at(cell), high
    owner.show(LabCellSelection())
    assert owner.at(cell) == before


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_image_equals_that_of_a_new_view(show: Show, theme: Theme) -> None:
    """A view that has shown other results before paints exactly the same pixels."""
    live, fresh = LabAttentionView(), LabAttentionView()
    for view in (live, fresh):
        show(view, (1100, 700))
    found = LabAttentionPanel()
    for seed in range(3):
        known = np.random.default_rng(seed).random((2, 3))
        reading = a_reading(2, 3, 12, seed=seed, attending=known)
        found = present_attention(reading, ModelKind.TRANSFORMER, LabCellSelection(), before=found)
        live.show_attention(found, theme)
        live.grab()
    fresh.show_attention(found, theme)
    assert live.grab().toImage() == fresh.grab().toImage()


def test_labels_are_painted_once_while_values_change(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Panels that differ only in their values share the surrounding labels.

    Key labels are above the first layer, and query labels are next to the first head.
    """
    written = []

    def count(painter: QPainter, slot: PanelSlot, theme: Theme) -> None:
        written.append((slot.heatmap.layer, slot.heatmap.head))

    monkeypatch.setattr(panel_paint, "paint_frame", count)
    view = LabAttentionView()
    show(view, (1400, 900))
    for seed in range(3):
        reading = a_reading(2, 3, 12, seed=seed, attending=np.full((2, 3), seed / 10))
        panel = present_attention(reading, ModelKind.TRANSFORMER, LabCellSelection())
        view.show_attention(panel, LIGHT)
        view.grab()
    assert sorted(written) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("size", [(600, 500), (420, 260)])
def test_a_message_is_not_cut_at_the_edges(size: tuple[int, int], show: Show) -> None:
    view = LabAttentionView()
    show(view, size)
    view.show_attention(LabAttentionPanel(message=ATTENTION_MISSING), LIGHT)
    picture = view.board.viewport().grab().toImage()
    paper = picture.pixel(0, 0)
    columns = [
        column
        for column in range(picture.width())
        if any(picture.pixel(column, row) != paper for row in range(picture.height()))
    ]
    assert 5 < columns[0] < columns[-1] < picture.width() - 5
