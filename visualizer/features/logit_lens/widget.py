"""The Lens pane: a table of layers and tokens, and a description of the cell under the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QPushButton, QWidget

from visualizer.features.logit_lens.presenter import LENS_PANEL, METHOD_NOTE, LogitLensPanel
from visualizer.heatmap.coloured_table_widget import ColouredTableView, TableColourBar
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import DescriptionLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.status_bar import ProgressLine

if TYPE_CHECKING:
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

PANE_WIDTH_PX = 252
KEYBOARD_HELP = (
    "Press the arrow keys to move between cells, Enter to show the layer in the heatmaps, and "
    "Ctrl+C to copy the table."
)


class LogitLensPane(QWidget):
    """Pane with the table, its colour bar and a description."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    placeChosen = Signal(int, int)
    """Emitted with the number of a layer in the model, and a token to show in the heatmaps."""
    costlyAnswerRequested = Signal(object)
    """Emitted with an expensive request that the user has confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Lens")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.message, self.description = PlainTextLabel(), DescriptionLabel(METHOD_NOTE, lines=5)
        self.working = ProgressLine()
        self.table = ColouredTableView("Predictions by layer", KEYBOARD_HELP)
        self.compute_button = QPushButton("Compute")
        self.compute_button.setToolTip(
            plain_tooltip("Compute the logit lens; this may take a while")
        )
        self.bar = TableColourBar("Colour scale of probabilities")
        self._panel: LogitLensPanel | None = None
        self.compute_button.clicked.connect(self._request_costly_answer)
        self.table.chosen.connect(self._emit_layer_and_token)
        self.table.pointed.connect(self.description.show_description)
        self.message.setWordWrap(True)
        self.message.setAlignment(Qt.AlignmentFlag.AlignTop)
        column = column_layout(self, (12, 4, 8, 8), spacing=6)
        self._space = QWidget()
        for part in (self.working, self.message, self.compute_button):
            column.addWidget(part)
        column.addWidget(self.table, 1)
        column.addWidget(self.bar)
        column.addWidget(self.description)
        column.addWidget(self._space, 1)

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(LENS_PANEL)
        self._panel = panel
        is_working = bool(panel.questions)
        self.working.set_progress(is_working, theme)
        is_empty = panel.cells is None and not (is_working and self.table.cells)
        if panel.cells or is_empty:  # keep the previous table until the new one is ready
            self.table.show_table(panel.cells, theme)
            self.bar.show_table_scale(panel.cells, theme)
        self.message.setText(panel.message)
        self.message.setVisible(is_empty)
        self.compute_button.setVisible(panel.costly is not None)
        self._space.setVisible(is_empty)
        self.table.setVisible(not is_empty)
        self.description.setVisible(not is_empty)

    def _request_costly_answer(self) -> None:
        if self._panel and self._panel.costly:
            self.costlyAnswerRequested.emit(self._panel.costly)

    def _emit_layer_and_token(self, row: int, column: int) -> None:
        if self._panel and self._panel.cells is not None:
            self.placeChosen.emit(self._panel.layers[row], column)
