"""The model dialog: the list of local models, the device, the download and the progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
)

from visualizer.attention.settings import SETTINGS
from visualizer.attention.spec import Device, ModelDtype
from visualizer.features.model_chooser.presenter import COLUMN_TITLES
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import ElidedLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import create_combo_box

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

    from visualizer.features.model_chooser.presenter import ModelChooserPanel, ModelRow

DIALOG_SIZE_PX = (760, 560)
PROGRESS_BAR_HEIGHT_PX = 4
PROGRESS_STEPS = 1000
FIRST_NUMERIC_COLUMN = 2
"""Index of the first numeric column."""
MAX_NAME_LENGTH = 200
DEVICE_CHOICES = next(setting.choices for setting in SETTINGS if setting.name == "device")


class ModelTable(QTableWidget):
    """Table of the models on this machine."""

    opened = Signal()
    """Emitted when the user asks to open the selected model."""

    def __init__(self) -> None:
        super().__init__(0, len(COLUMN_TITLES))
        self.rows: tuple[ModelRow, ...] = ()
        self.setAccessibleName("Models on this machine")
        for column, title in enumerate(COLUMN_TITLES):
            item = QTableWidgetItem(title)
            item.setTextAlignment(_column_alignment(column))
            self.setHorizontalHeaderItem(column, item)
        self.verticalHeader().hide()
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setHighlightSections(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.doubleClicked.connect(self.opened)

    def show_rows(self, rows: tuple[ModelRow, ...], selected: int) -> None:
        """Show one row per model."""
        self.rows = rows
        with QSignalBlocker(self):
            self.setRowCount(len(rows))
            for at, row in enumerate(rows):
                for column, text in enumerate(row.cells):
                    item = _create_item(text, row)
                    item.setTextAlignment(_column_alignment(column))
                    if not row.can_open:
                        item.setForeground(self.palette().placeholderText())
                    self.setItem(at, column, item)
            self.select_row(selected)

    def select_row(self, row: int) -> None:
        """Select a row, or clear the selection if `row` is negative."""
        if row < 0:
            self.clearSelection()
        elif row != self.currentRow() or not self.selectedItems():
            self.setCurrentCell(row, 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.opened.emit()
        else:
            super().keyPressEvent(event)


def _column_alignment(column: int) -> Qt.AlignmentFlag:
    is_number = column >= FIRST_NUMERIC_COLUMN
    side = Qt.AlignmentFlag.AlignRight if is_number else Qt.AlignmentFlag.AlignLeft
    return side | Qt.AlignmentFlag.AlignVCenter


def _create_item(text: str, row: ModelRow) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    item.setToolTip(plain_tooltip(row.note or text))
    item.setData(Qt.ItemDataRole.AccessibleTextRole, row.description)
    return item


class ModelChooserDialog(QDialog):
    """Dialog that lists the models that can be opened, and emits the user's choices."""

    selected = Signal(object)
    """Emitted with the path of the model selected in the list."""
    openRequested = Signal()
    streamRequested = Signal()
    """Emitted when the user asks to stream the offered model from disk."""
    folderRequested = Signal()
    deviceChosen = Signal(object)
    dtypeChosen = Signal(object)
    repositoryTyped = Signal(str)
    downloadRequested = Signal()
    cancelRequested = Signal()

    def __init__(self, window: QWidget, cache: Path) -> None:
        super().__init__(window)
        self.setWindowTitle("Open a model")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._panel: ModelChooserPanel | None = None
        self.table, self.device_label = ModelTable(), PlainTextLabel()
        labels = [PlainTextLabel() for _ in range(6)]
        self.message, self.note, self.problem, self.offer, self.status_label, self.estimate = labels
        for label in labels:
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self.note, self.problem):
            label.setProperty("role", "warning")
        self.device_label.setProperty("role", "quiet")
        column = column_layout(self, (24, 16, 24, 16), spacing=8)
        folder = ElidedLabel(elide=Qt.TextElideMode.ElideMiddle)
        folder.setIndent(0)
        folder.show_text(f"Models in {cache}")
        for part in (folder, self.message, self.table, self.note):
            column.addWidget(part, 1 if part is self.table else 0)
        policy = self.table.sizePolicy()
        policy.setRetainSizeWhenHidden(True)  # otherwise the other widgets spread out
        self.table.setSizePolicy(policy)
        self._add_device_controls(column_row := row_layout(spacing=8))
        column.addLayout(column_row)
        self._add_download_controls(column_row := row_layout(spacing=8))
        column.addSpacing(8)
        column.addLayout(column_row)
        column.addWidget(self.offer)
        column.addWidget(self.problem)
        self._add_disk_controls(column_row := row_layout(spacing=8))
        column.addLayout(column_row)
        self._add_progress_controls(column)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.open_button = self.buttons.addButton("&Open", QDialogButtonBox.ButtonRole.AcceptRole)
        self.open_button.setDefault(True)
        self.open_button.clicked.connect(self.openRequested)
        self.buttons.rejected.connect(self.reject)
        column.addWidget(self.buttons)
        self.table.opened.connect(self.openRequested)
        self.table.itemSelectionChanged.connect(self._on_selection_changed)
        self.resize(*(round(side * text_scale()) for side in DIALOG_SIZE_PX))

    def _add_device_controls(self, row: QHBoxLayout) -> None:
        self.folder_button = _create_button("Choose &folder…", "Open a model from a folder")
        self.folder_button.clicked.connect(self.folderRequested)
        self.device = create_combo_box("Device", DEVICE_CHOICES)
        self.dtype = create_combo_box("Data type", [(each, each.label) for each in ModelDtype])
        self.device.activated.connect(self._emit_device_chosen)
        self.dtype.activated.connect(self._emit_dtype_chosen)
        for part in (self.folder_button, self.device, self.dtype):
            row.addWidget(part)
        row.addWidget(self.device_label, 1)

    def _add_download_controls(self, row: QHBoxLayout) -> None:
        self.repository = QLineEdit()
        self.repository.setMaxLength(MAX_NAME_LENGTH)
        self.repository.setPlaceholderText("organization/name")
        self.repository.setAccessibleName("Repository to download from Hugging Face")
        self.repository.textEdited.connect(self.repositoryTyped)
        self.repository.returnPressed.connect(self._request_download)
        label = PlainTextLabel("From Hugging Face")
        label.setBuddy(self.repository)
        self.download_button = _create_button("Download", "Look up this repository on Hugging Face")
        self.download_button.clicked.connect(self.downloadRequested)
        row.addWidget(label)
        row.addWidget(self.repository, 1)
        row.addWidget(self.download_button)

    def _add_disk_controls(self, row: QHBoxLayout) -> None:
        self.disk_button = _create_button(
            "Stream from &disk", "Open the model and read one layer at a time from disk"
        )
        self.disk_button.clicked.connect(self.streamRequested)
        row.addWidget(self.estimate, 1)
        row.addWidget(self.disk_button)

    def _add_progress_controls(self, column: QVBoxLayout) -> None:
        self.line = QProgressBar()
        self.cancel_button = _create_button("&Cancel", "Stop; partial downloads can be resumed")
        self.line.setFixedHeight(PROGRESS_BAR_HEIGHT_PX)
        self.line.setTextVisible(False)
        self.line.setAccessibleName("Progress")
        self.cancel_button.clicked.connect(self.cancelRequested)
        row = row_layout(spacing=8)
        row.addWidget(self.status_label, 1)
        row.addWidget(self.cancel_button)
        column.addLayout(row)
        column.addWidget(self.line)

    # ------------------------------------------------------------------ showing

    def show_panel(self, panel: ModelChooserPanel) -> None:
        """Show the contents of the dialog."""
        before, self._panel = self._panel, panel
        if before is None or before.rows != panel.rows:
            self.table.show_rows(panel.rows, panel.selected)
        with QSignalBlocker(self.table):
            self.table.select_row(panel.selected)
        self._show_table(bool(panel.rows))
        for label, text in (
            (self.message, panel.message),
            (self.note, panel.note),
            (self.offer, panel.offer),
            (self.problem, panel.problem),
            (self.status_label, panel.status),
            (self.estimate, panel.estimate),
        ):
            label.setText(text)
            label.setVisible(bool(text))
        self.disk_button.setVisible(bool(panel.estimate))
        self.device_label.setText(panel.device_note)
        self.device.setCurrentIndex(self.device.findData(panel.device))
        self.dtype.setCurrentIndex(self.dtype.findData(panel.dtype))
        if self.repository.text() != panel.repository:
            self.repository.setText(panel.repository)
        self.download_button.setText(panel.download)
        self._show_progress(panel)
        self.open_button.setEnabled(panel.can_open)
        self.download_button.setEnabled(panel.can_download)
        for part in (self.folder_button, self.device, self.dtype):
            part.setEnabled(panel.can_choose)
        self.repository.setReadOnly(not panel.can_choose)  # disabling it would move the focus

    def _show_table(self, has_rows: bool) -> None:
        is_first = has_rows and self.table.isHidden()
        self.table.setVisible(has_rows)
        if is_first and not self.repository.text():  # otherwise the user is typing a name
            self.table.setFocus()

    def _show_progress(self, panel: ModelChooserPanel) -> None:
        for part in (self.line, self.cancel_button):
            part.setVisible(panel.is_working)
        self.cancel_button.setEnabled(panel.can_cancel)
        if panel.progress is None:
            self.line.setRange(0, 0)
        else:
            self.line.setRange(0, PROGRESS_STEPS)
            self.line.setValue(round(PROGRESS_STEPS * panel.progress))

    # ------------------------------------------------------------------ user input

    def _on_selection_changed(self) -> None:
        if self.table.selectedItems():
            self.selected.emit(self.table.rows[self.table.currentRow()].path)

    def _emit_device_chosen(self, at: int) -> None:
        self.deviceChosen.emit(Device(self.device.itemData(at)))

    def _emit_dtype_chosen(self, at: int) -> None:
        self.dtypeChosen.emit(ModelDtype(self.dtype.itemData(at)))

    def _request_download(self) -> None:
        if self._panel and self._panel.can_download:
            self.downloadRequested.emit()

    def reject(self) -> None:
        """Cancel the action in progress; if there is none, close the dialog."""
        if self._panel and self._panel.is_working:
            self.cancelRequested.emit()
        else:
            super().reject()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        # In the repository field, Return starts the lookup or the download instead.
        if not (is_return and self.repository.hasFocus()):
            super().keyPressEvent(event)


def _create_button(words: str, hint: str) -> QPushButton:
    button = QPushButton(words)
    button.setAutoDefault(False)
    button.setToolTip(plain_tooltip(hint))
    return button
