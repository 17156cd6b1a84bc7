"""The connection dialog: host, port and token of a model server, or an SSH command."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
)

from visualizer.models.model_protocol.server_address import HAS_UNIX_SOCKETS
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.features.model_connection.presenter import ModelConnectionPanel

DIALOG_WIDTH_PX = 620
MAX_HOST_LENGTH, MAX_TOKEN_LENGTH, MAX_COMMAND_LENGTH = 253, 500, 2000
INSTRUCTIONS = (
    "If a model is too large for this computer, run it on another one:\n"
    "attention-visualizer serve FOLDER"
)
HOST_LABEL = "Host or socket" if HAS_UNIX_SOCKETS else "Host"
COMMAND_EXAMPLE = "ssh user@machine attention-visualizer serve FOLDER"


class ModelConnectionDialog(QDialog):
    """Dialog for entering the address of a model server; it emits the user's input."""

    changed = Signal(str, object)
    """Emitted with the name of a field and its new value."""
    connectRequested = Signal()
    cancelRequested = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setWindowTitle("Connect to a model")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._panel: ModelConnectionPanel | None = None
        self.host, self.token, self.ssh = QLineEdit(), QLineEdit(), QLineEdit()
        self.port, self.keep = QSpinBox(), QCheckBox("Save the &token on this computer")
        self.tunnel, self.hint, self.problem, self.status_label = (
            PlainTextLabel() for _ in range(4)
        )
        self._lines = {"host": self.host, "token": self.token, "ssh": self.ssh}
        self._set_up_fields()
        column = column_layout(self, (24, 16, 24, 16), spacing=8)
        column.addWidget(self._enable_word_wrap(PlainTextLabel(INSTRUCTIONS)))
        column.addSpacing(4)
        column.addLayout(self._build_grid())
        column.addWidget(self.problem)
        row = row_layout(spacing=8)
        row.addWidget(self.status_label, 1)
        self.cancel_button = QPushButton("&Stop")
        self.cancel_button.setAutoDefault(False)
        self.cancel_button.clicked.connect(self.cancelRequested)
        row.addWidget(self.cancel_button)
        column.addLayout(row)
        column.addStretch(1)  # leaves room for labels that appear later
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.connect_button = buttons.addButton("&Connect", QDialogButtonBox.ButtonRole.AcceptRole)
        self.connect_button.setDefault(True)
        self.connect_button.clicked.connect(self.connectRequested)
        buttons.rejected.connect(self.reject)
        column.addWidget(buttons)
        self.setMinimumWidth(round(DIALOG_WIDTH_PX * text_scale()))

    def _set_up_fields(self) -> None:
        self.port.setRange(1, 65535)
        self.port.setGroupSeparatorShown(False)
        self.port.setAccessibleName("Port")
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setPlaceholderText("printed by “attention-visualizer serve”")
        self.ssh.setPlaceholderText(COMMAND_EXAMPLE)
        for name, longest, spoken in (
            ("host", MAX_HOST_LENGTH, HOST_LABEL),
            ("token", MAX_TOKEN_LENGTH, "Token"),
            ("ssh", MAX_COMMAND_LENGTH, "SSH command that starts the server"),
        ):
            line = self._lines[name]
            line.setMaxLength(longest)
            line.setAccessibleName(spoken)
            line.textEdited.connect(partial(self.changed.emit, name))
        self.port.valueChanged.connect(partial(self.changed.emit, "port"))
        self.keep.toggled.connect(partial(self.changed.emit, "is_kept"))
        self.problem.setProperty("role", "warning")
        for label in (self.tunnel, self.hint):
            label.setProperty("role", "quiet")
        for label in (self.tunnel, self.hint, self.problem, self.status_label):
            self._enable_word_wrap(label)

    @staticmethod
    def _enable_word_wrap(label: PlainTextLabel) -> PlainTextLabel:
        label.setWordWrap(True)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _build_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        grid.addWidget(self.host, 0, 1)
        grid.addWidget(self.port, 0, 3)
        for row, part in enumerate((self.token, self.keep, self.hint, self.tunnel, self.ssh), 1):
            grid.addWidget(part, row, 1, 1, 3)
        for name, part, row, column in (
            (HOST_LABEL, self.host, 0, 0),
            ("Port", self.port, 0, 2),
            ("Token", self.token, 1, 0),
            ("Or start the server over SSH", self.ssh, 5, 0),
        ):
            label = PlainTextLabel(name)
            label.setBuddy(part)
            grid.addWidget(label, row, column)
        return grid

    def show_panel(self, panel: ModelConnectionPanel) -> None:
        """Show the contents of the dialog."""
        before, self._panel = self._panel, panel
        for name, line in self._lines.items():
            if line.text() != getattr(panel, name):
                line.setText(getattr(panel, name))
            line.setReadOnly(not panel.is_input_enabled)  # disabling it would move the focus
        with QSignalBlocker(self.port), QSignalBlocker(self.keep):
            self.port.setValue(panel.port)
            self.keep.setChecked(panel.is_kept)
        for part in (self.host, self.token):
            part.setEnabled(panel.has_server)
        self.port.setEnabled(panel.has_port)
        self.port.setReadOnly(not panel.is_input_enabled)
        self.keep.setEnabled(panel.can_save_token)
        self.keep.setToolTip(plain_tooltip("Store the token in the system keyring"))
        self.tunnel.setText(panel.tunnel)
        self.tunnel.setVisible(panel.has_server)
        for label, text in (
            (self.hint, panel.save_token_hint), (self.problem, panel.problem),
            (self.status_label, panel.status),
        ):  # fmt: skip
            label.setText(text)
            label.setVisible(bool(text))
        self.cancel_button.setVisible(bool(panel.status))
        self.cancel_button.setEnabled(panel.can_cancel)
        self.connect_button.setEnabled(panel.can_connect)
        is_new = panel.problem and (before is None or before.problem != panel.problem)
        if is_new and (at := self._lines.get(panel.problem_field)):
            at.setFocus()
        elif before is None:
            self.token.setFocus()

    def reject(self) -> None:
        """Cancel the connection attempt; if there is none, close the dialog."""
        if self._panel and self._panel.status:
            self.cancelRequested.emit()
        else:
            super().reject()
