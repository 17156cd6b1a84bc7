"""The list of stored runs, with which runs are opened, overlaid, renamed and deleted."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QHBoxLayout, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from visualizer.format import format_date, format_date_and_time, format_time
from visualizer.lab.training.bar_widget import create_text_button
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from PySide6.QtGui import QAction

    from visualizer.lab.runs.store import StoredRun


BUTTON_TEXTS = {"open_chosen": "Open", "rename": "Rename", "delete": "Delete…"}
EMPTY_MESSAGE = "Training runs appear here once they have been started."
OVERLAY_TOOLTIP = (
    "Select the checkbox to add the run’s losses to the plot; press Enter to open the run."
)
TRAINING_TOOLTIP = "Training in the background. Open the run to see its progress."


class RunRow(Struct, frozen=True):
    """A row of the list; if any row changes, the list is rebuilt."""

    name: str
    last_trained: str
    tooltip: str
    is_overlaid: bool
    is_in_plot: bool


class RunsPane(QWidget):
    """Shows the stored runs, with the newest first. The signals carry the names of runs."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    opened = Signal(str)
    overlayToggled = Signal(str, bool)
    renamed = Signal(str, str)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self._rows: tuple[RunRow, ...] = ()
        self._shown_rows: object = None
        self._actions = tuple(actions.values())
        self.hint, self.list = PlainTextLabel(EMPTY_MESSAGE), QTreeWidget()
        self.hint.setWordWrap(True)
        self.hint.setProperty("role", "quiet")
        self.list.setAccessibleName("Runs")
        self.list.setHeaderLabels(["Run", "Last trained"])
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # names usually differ at the end
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.list.setEditTriggers(QTreeWidget.EditTrigger.EditKeyPressed)
        self.list.itemActivated.connect(self._emit_opened)
        self.list.itemChanged.connect(self._on_item_changed)
        # The connection is queued because the list is still being edited when the signal is
        # emitted.
        self.list.itemDelegate().closeEditor.connect(
            self._show_rows, Qt.ConnectionType.QueuedConnection
        )
        self.list.currentItemChanged.connect(self._update_actions)
        row = QHBoxLayout()
        for name, words in BUTTON_TEXTS.items():
            row.addWidget(create_text_button(actions[name], words))
        row.addStretch(1)
        column = column_layout(self, (16, 8, 16, 16))
        column.addWidget(self.hint)
        column.addWidget(self.list, 1)
        column.addLayout(row)
        self._update_actions()

    @property
    def selected_run(self) -> str:
        """The name of the selected run; empty if no run is selected."""
        item = self.list.currentItem()
        return str(item.data(0, Qt.ItemDataRole.UserRole)) if item else ""

    def select_run(self, name: str) -> bool:
        """Select a run by its name; return whether it exists."""
        for at in range(self.list.topLevelItemCount()):
            item = self.list.topLevelItem(at)
            if item and item.data(0, Qt.ItemDataRole.UserRole) == name:
                self.list.setCurrentItem(item)
                return True
        return False

    def edit_selected_run_name(self) -> None:
        item = self.list.currentItem()
        # Qt prints a warning if the name is already being edited.
        if item and self.list.state() is not QTreeWidget.State.EditingState:
            self.list.editItem(item, 0)

    def show_runs(
        self,
        runs: Iterable[StoredRun],
        overlaid: frozenset[str],
        training: frozenset[str],
        open_run: str,
    ) -> None:
        """Show the list; the open run is bold, and it is always in the plot.

        Runs that are training in the background show "training" instead of the time when they were
        last trained. They come first and are sorted by name; sorted by time, they would change
        places with every step.
        """
        ordered = sorted(runs, key=lambda run: (0, run.name) if run.name in training else (1, ""))
        self._rows = tuple(
            _create_row(run, run.name in overlaid, run.name in training, run.name == open_run)
            for run in ordered
        )
        self._show_rows()

    def _show_rows(self) -> None:
        """Show the rows, unless a name is being edited, because the edit would be lost."""
        if self._rows == self._shown_rows or self.list.state() is QTreeWidget.State.EditingState:
            return
        self._shown_rows, chosen = self._rows, self.selected_run
        scroll_bar = self.list.verticalScrollBar()
        place = scroll_bar.value()
        with QSignalBlocker(self.list):
            self.list.clear()
            self.list.addTopLevelItems([_create_item(row) for row in self._rows])
            self.select_run(chosen)  # this scrolls to the run
        scroll_bar.setValue(place)
        self.hint.setText(OVERLAY_TOOLTIP if self._rows else EMPTY_MESSAGE)
        self._update_actions()

    def _update_actions(self) -> None:
        """Enable the actions if a run is selected."""
        for action in self._actions:
            action.setEnabled(bool(self.selected_run))

    def _emit_opened(self, item: QTreeWidgetItem) -> None:
        self.opened.emit(item.data(0, Qt.ItemDataRole.UserRole))

    def _on_item_changed(self, item: QTreeWidgetItem) -> None:
        name = str(item.data(0, Qt.ItemDataRole.UserRole))
        if item.text(0) != name:
            self._shown_rows = None  # the list is rebuilt, because the new name may be rejected
            self.renamed.emit(name, item.text(0))
        else:
            self.overlayToggled.emit(name, item.checkState(0) is Qt.CheckState.Checked)


def _create_row(run: StoredRun, is_overlaid: bool, is_training: bool, is_open: bool) -> RunRow:
    if is_training:
        return RunRow(run.name, "training", TRAINING_TOOLTIP, is_overlaid, is_open)
    when = datetime.fromtimestamp(run.changed)
    is_today = when.date() == datetime.now().date()
    last_trained = format_time(when) if is_today else format_date(when)
    return RunRow(run.name, last_trained, format_date_and_time(when), is_overlaid, is_open)


def _create_item(row: RunRow) -> QTreeWidgetItem:
    item = QTreeWidgetItem([row.name, row.last_trained])
    item.setToolTip(0, plain_tooltip(row.name))
    item.setToolTip(1, plain_tooltip(row.tooltip))
    item.setData(0, Qt.ItemDataRole.UserRole, row.name)
    flags = item.flags() | Qt.ItemFlag.ItemIsEditable
    if row.is_in_plot:
        bold = item.font(0)
        bold.setBold(True)
        item.setFont(0, bold)
    else:
        flags |= Qt.ItemFlag.ItemIsUserCheckable
        item.setCheckState(0, Qt.CheckState.Checked if row.is_overlaid else Qt.CheckState.Unchecked)
    item.setFlags(flags)
    return item
