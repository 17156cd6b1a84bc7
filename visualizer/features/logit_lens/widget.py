"""The Lens pane: a table of layers and tokens, and a description of the cell under the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QPushButton, QWidget

from visualizer.features.logit_lens.presenter import HOW, LENS, LensPanel
from visualizer.heatmap.labelled_cells_widget import CellColourBar, LabelledCellsView
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip
from visualizer.widgets.status_bar import ProgressLine

if TYPE_CHECKING:
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

WIDTH = 252
KEYS = (
    "Press the arrow keys to move between cells, Enter to show the layer in the heatmaps, and "
    "Ctrl+C to copy the table."
)
LINES = 5
"""Number of lines reserved for the description of a cell."""


class LensPane(QWidget):
    """The table with its colour bar and a description."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    placeChosen = Signal(int, int)
    """A layer number in the model and a token to show on the heatmaps."""
    costlyWanted = Signal(object)
    """An expensive question that the user has confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Lens")
        self.setMinimumWidth(round(WIDTH * text_scale()))
        self.message, self.said = PlainLabel(), PlainLabel()
        self.working, self.table = ProgressLine(), LabelledCellsView("Predictions by layer", KEYS)
        self.anyway = QPushButton("Compute")
        self.anyway.setToolTip(plain_tooltip("Compute the logit lens; this may take a while"))
        self.bar = CellColourBar("Colour scale of probabilities")
        self._panel: LensPanel | None = None
        self.anyway.clicked.connect(self._request_costly)
        self.table.chosen.connect(self._choose_place)
        self.table.pointed.connect(self._show_description)
        for label in (self.message, self.said):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.said.setProperty("role", "quiet")
        column = column_layout(self, (12, 4, 8, 8), spacing=6)
        for part in (self.working, self.message, self.anyway):
            column.addWidget(part)
        column.addWidget(self.table, 1)
        column.addWidget(self.bar)
        column.addWidget(self.said)
        self._space = QWidget()
        column.addWidget(self._space, 1)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(LENS)
        self._panel = panel
        self.working.show_working(panel.is_working, theme)
        is_empty = panel.cells is None and not (panel.is_working and self.table.cells)
        if (
            panel.cells is not None or is_empty
        ):  # keep the previous table until the new one is ready
            self.table.show_cells(panel.cells, theme)
            self.bar.show_cells(panel.cells, theme)
        self.message.setText(panel.message)
        self.message.setVisible(is_empty)
        self.anyway.setVisible(panel.costly is not None)
        self._space.setVisible(is_empty)
        self.table.setVisible(not is_empty)
        self.said.setVisible(not is_empty)
        self.said.setFixedHeight(LINES * self.said.fontMetrics().lineSpacing())

    def _request_costly(self) -> None:
        if self._panel and self._panel.costly:
            self.costlyWanted.emit(self._panel.costly)

    def _choose_place(self, row: int, column: int) -> None:
        if self._panel and self._panel.cells is not None:
            self.placeChosen.emit(self._panel.layers[row], column)

    def _show_description(self, words: str) -> None:
        self.said.setText(words or HOW)
