"""The Attribution pane: logit attribution next to the effect of ablating each head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QComboBox, QCompleter, QLineEdit, QProgressBar, QPushButton, QWidget

from visualizer.features.logit_attribution.presenter import (
    ATTRIBUTION_PANEL,
    METHOD_NOTE,
    TOP_TOKEN_LABEL,
    LogitAttributionPanel,
)
from visualizer.heatmap.coloured_table_widget import ColouredTableView, TableColourBar
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import DescriptionLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.status_bar import ProgressLine

if TYPE_CHECKING:
    from visualizer.heatmap.coloured_table import ColouredTable
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

PANE_WIDTH_PX = 252
MAX_TOKEN_LENGTH = 100
"""Maximum length of a token, in characters."""
KEYBOARD_HELP = (
    "Press the arrow keys to move between heads, Enter to show a head in the heatmaps, and Ctrl+C "
    "to copy the table."
)


class LayerHeadHeatmap(QWidget):
    """Table of heads, with a title above it and a colour bar below."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping

    def __init__(self, title: str) -> None:
        super().__init__()
        self.setAccessibleName(title)
        self.title = PlainTextLabel(title)
        self.table = ColouredTableView(title, KEYBOARD_HELP)
        self.bar = TableColourBar(f"{title}: colour scale")
        column = column_layout(self, (0, 0, 0, 0), spacing=3)
        column.addWidget(self.title)
        column.addWidget(self.table, 1)
        column.addWidget(self.bar)

    def show_cells(self, cells: ColouredTable | None, theme: Theme) -> None:
        """Show the cells, or clear the table if `cells` is None."""
        self.table.show_table(cells, theme)
        self.bar.show_table_scale(cells, theme)


class LogitAttributionPane(QWidget):
    """Pane with the token, the two maps, and a description of the cell under the pointer."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tokenChosen = Signal(str)
    """Emitted with the token to attribute; empty for the most likely token."""
    headChosen = Signal(int, int)
    """Emitted with the number of a layer in the model, and a head to show in the heatmaps."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Attribution")
        self.setMinimumWidth(round(PANE_WIDTH_PX * text_scale()))
        self.message, self.sum = PlainTextLabel(), PlainTextLabel()
        self.description = DescriptionLabel(METHOD_NOTE, lines=5)
        self.working, self.problem = ProgressLine(), PlainTextLabel()
        self.parts, self.changes = (
            LayerHeadHeatmap("Direct contribution"),
            LayerHeadHeatmap("Effect of ablation"),
        )
        self.token = QComboBox()
        self.progress = QProgressBar()
        self.ablate, self.cancel = QPushButton("Ablate each head"), QPushButton("Stop")
        self._panel: LogitAttributionPanel | None = None
        self._maps = QWidget()
        self._set_up_widgets()
        column = column_layout(self, (12, 4, 8, 8), spacing=6)
        for part in (self.working, self._build_token_row(), self.message, self.sum):
            column.addWidget(part)
        row = row_layout(self._maps, (0, 0, 0, 0), spacing=10)
        row.addWidget(self.parts, 11)
        row.addWidget(self.changes, 10)
        column.addWidget(self._maps, 1)
        self._ablations = QWidget()
        row = row_layout(self._ablations, (0, 0, 0, 0), spacing=6)
        row.addWidget(self.ablate)
        row.addWidget(self.progress, 1)
        row.addWidget(self.cancel)
        column.addWidget(self._ablations)
        column.addWidget(self.problem)
        column.addWidget(self.description)
        self._space = QWidget()
        column.addWidget(self._space, 1)

    def _set_up_widgets(self) -> None:
        for label in (self.message, self.sum, self.problem):
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.problem.setProperty("role", "warning")
        self.ablate.setToolTip(
            plain_tooltip("Run the model once per head, without this head, and measure the effect")
        )
        self.cancel.setToolTip(plain_tooltip("Stop ablating; results so far are kept"))
        self.progress.setAccessibleName("Progress of ablation")
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(round(6 * text_scale()))
        for each in (self.parts.table, self.changes.table):
            each.chosen.connect(self._emit_head_chosen)
            each.pointed.connect(self.description.show_description)

    def _build_token_row(self) -> QWidget:
        """Return a row with the box in which the token is chosen or entered."""
        self.token.setEditable(True)
        # The default completer would replace what the user types with another token.
        self.token.setCompleter(QCompleter([""], self.token))
        self.token.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.token.setAccessibleName("Next token")
        self.token.setToolTip(plain_tooltip("Token to explain, including any leading space"))
        edit = self.token.lineEdit()
        assert isinstance(edit, QLineEdit)
        edit.setMaxLength(MAX_TOKEN_LENGTH)
        edit.setPlaceholderText(TOP_TOKEN_LABEL)
        edit.setAccessibleName("Next token")
        self.token.activated.connect(self._emit_token_chosen)
        edit.editingFinished.connect(self._emit_typed_token)
        install_input_filters(self.token)
        whole = QWidget()
        row = row_layout(whole, (0, 0, 0, 0), spacing=6)
        row.addWidget(PlainTextLabel("Next token"))
        row.addWidget(self.token, 1)
        return whole

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel = screen.panel(ATTRIBUTION_PANEL)
        before, self._panel = self._panel, panel
        self.working.set_progress(panel.is_computing_parts, theme)
        is_waiting = panel.parts is None and panel.is_computing_parts
        if not (is_waiting and self.parts.table.cells):  # keep the old parts
            self.parts.show_cells(panel.parts, theme)
            self.sum.setText(panel.sum)
            self.message.setText(panel.message)
        self.changes.show_cells(panel.changes, theme)
        self.message.setVisible(bool(self.message.text()))
        self.sum.setVisible(bool(self.sum.text()))
        for each in (self.parts, self.changes):
            each.setVisible(each.table.cells is not None)
        is_empty = self.parts.table.cells is None and panel.changes is None
        for part in (self._maps, self.description):
            part.setVisible(not is_empty)
        self._space.setVisible(is_empty)
        self.problem.setText(panel.changes_message)
        self.problem.setVisible(bool(panel.changes_message))
        self._show_ablation(panel)
        names = panel.top_token_names
        if before is None or (before.top_token_names, before.token) != (names, panel.token):
            self._show_token(panel)

    def _show_ablation(self, panel: LogitAttributionPanel) -> None:
        can_ablate = panel.can_ablate and not panel.is_complete
        self._ablations.setVisible(can_ablate)
        self.ablate.setVisible(can_ablate and not panel.is_ablating)
        self.ablate.setText("Ablate each head" if not panel.done else "Resume ablation")
        for part in (self.progress, self.cancel):
            part.setVisible(panel.is_ablating)
        self.progress.setRange(0, max(1, panel.count))
        self.progress.setValue(panel.done)

    def _show_token(self, panel: LogitAttributionPanel) -> None:
        edit = self.token.lineEdit()
        if edit is not None and edit.hasFocus() and edit.isModified():
            return  # the user is typing
        self.token.blockSignals(True)
        self.token.clear()
        self.token.addItems(["", *panel.top_token_names])
        self.token.setEditText(panel.token)
        self.token.blockSignals(False)

    def _emit_token_chosen(self, index: int) -> None:
        self.tokenChosen.emit(self.token.itemText(index))

    def _emit_typed_token(self) -> None:
        edit = self.token.lineEdit()
        if edit is not None and edit.isModified():
            edit.setModified(False)
            self.tokenChosen.emit(edit.text())

    def _emit_head_chosen(self, row: int, column: int) -> None:
        panel = self._panel
        if panel and row < len(panel.layers):
            self.headChosen.emit(panel.layers[row], column if column < panel.heads else -1)
