"""The settings pane, which is built from the table of settings, and its input controls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QFontDatabase
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from visualizer.attention.settings import Setting, SettingKind
from visualizer.lab.settings.definitions import INPUT_RANGES, LAB_SETTINGS
from visualizer.widgets.dialogs import ask_open_path
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.setting_controls import (
    CONTROL_TYPES,
    SettingControl,
    SettingRow,
    SpinBoxControl,
)

if TYPE_CHECKING:
    from visualizer.lab.settings.presenter import LabSettingsPanel
    from visualizer.widgets.theme import Theme

SETTING_ROWS = (
    ("preset",), ("kind",), ("path",), ("tokenizer",), ("size",), ("model",),
    ("block", "width"), ("heads", "layers"), ("dropout", "batch"), ("rate", "decay"),
    ("warmup", "steps"), ("seed", "device"),
)  # fmt: skip
"""The settings in each row, which are shown side by side."""
CONDITIONAL_SETTINGS = frozenset({"path", "tokenizer", "size"})
"""Settings that are hidden if they have no effect."""
VISIBLE_SAMPLE_LINES = 7


class SettingsPane(QScrollArea):
    """Shows all settings with their problems; they are locked while a run is open."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    chosen = Signal(str, object)
    remedyRequested = Signal(str)
    newRunRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Training settings")
        self.rows = {
            one.name: self._create_setting_row(LAB_CONTROLS[one.kind](one)) for one in LAB_SETTINGS
        }
        self._shown: LabSettingsPanel | None = None
        self._theme: Theme | None = None
        self.locked_label, self.preset_label = PlainTextLabel(), PlainTextLabel()
        self.new_run_button = QPushButton("New run with these settings…")
        for label in (self.locked_label, self.preset_label):
            label.setWordWrap(True)
            label.setProperty("role", "quiet")
        self.new_run_button.clicked.connect(self.newRunRequested)
        self._content = inner = QWidget()
        column = column_layout(inner, (16, 8, 16, 16), spacing=8)
        for widget in (self.locked_label, self.new_run_button):
            column.addWidget(widget)
        for names in SETTING_ROWS:
            column.addLayout(self._create_setting_line(names))
            if names == ("preset",):
                column.addWidget(self.preset_label)
        self._add_sample(column)
        self.setWidget(inner)

    def minimumSizeHint(self) -> QSize:
        """Return a size as wide as the widest control, because the pane only scrolls vertically."""
        bar = self.verticalScrollBar().sizeHint().width()
        least = super().minimumSizeHint()
        return QSize(self._content.minimumSizeHint().width() + bar, least.height())

    def _create_setting_line(self, names: tuple[str, ...]) -> QVBoxLayout:
        """Arrange settings side by side; their error messages span the full width below them."""
        whole, line = QVBoxLayout(), QHBoxLayout()
        whole.setSpacing(2)
        line.setSpacing(12)
        whole.addLayout(line)
        for name in names:
            line.addWidget(self.rows[name], 1, Qt.AlignmentFlag.AlignTop)
        for name in names if len(names) > 1 else ():
            whole.addWidget(self.rows[name].problem)
        return whole

    def _create_setting_row(self, control: SettingControl) -> SettingRow:
        row = SettingRow(control)
        control.chosen.connect(self.chosen)
        row.remedyRequested.connect(self.remedyRequested)
        return row

    def _add_sample(self, column: QVBoxLayout) -> None:
        title = PlainTextLabel("Text preview")
        title.setProperty("role", "quiet")
        self.sample = QPlainTextEdit()
        self.sample.setReadOnly(True)
        self.sample.setTabChangesFocus(True)
        self.sample.setAccessibleName("Text preview")
        self.sample.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.sample.setFixedHeight(
            self.sample.fontMetrics().lineSpacing() * VISIBLE_SAMPLE_LINES + 12
        )
        self.notes = PlainTextLabel()
        self.notes.setWordWrap(True)
        self.notes.setProperty("role", "quiet")
        for widget in (title, self.sample, self.notes):
            column.addWidget(widget)
        column.addStretch(1)

    def focus_setting(self, name: str) -> None:
        """Scroll to the control of a setting, and focus it."""
        control = self.rows[name].control
        self.ensureWidgetVisible(control)
        control.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def show_settings(self, setup: LabSettingsPanel, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme, self._shown = theme, None
            for row in self.rows.values():
                row.problem.clear()  # the colour of a link is set together with the text
                row.control.show_theme(theme)
        if setup == self._shown:
            return
        self._shown = setup
        by_name = {shown.setting.name: shown for shown in setup.settings}
        for name, row in self.rows.items():
            if name in by_name:
                row.show_setting(by_name[name])
                row.setVisible(name not in CONDITIONAL_SETTINGS or by_name[name].has_effect)
            else:
                row.hide()
                row.problem.clear()
        self.locked_label.setText(setup.locked_message)
        self.locked_label.setVisible(bool(setup.locked_message))
        self.new_run_button.setVisible(bool(setup.locked_message) and bool(setup.settings))
        for box in self.findChildren(QSpinBox):
            # In an open run, the first digits that are entered could be a smaller number of steps,
            # which would end the run.
            box.setKeyboardTracking(not setup.locked_message)
        self.preset_label.setText(setup.preset_description)
        self.preset_label.setVisible(bool(setup.preset_description))
        self.notes.setText("\n".join(setup.notes))
        if self.sample.toPlainText() != setup.sample:
            self.sample.setPlainText(setup.sample)


TEXT_FILE_FILTER = "Text files (*.txt *.md *.csv *.json *.py);;All files (*)"
NUMBER_WIDTH_PX = 72
"""Width for a typical number, in pixels; Qt would reserve space for the longest number."""
ADAPTIVE_STEP = QAbstractSpinBox.StepType.AdaptiveDecimalStepType


class WholeNumberControl(SpinBoxControl):
    """Input control for an integer."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QSpinBox()
        least, most = INPUT_RANGES[setting.name]
        self.box.setRange(int(least), int(min(most, 2**31 - 1)))
        self.box.setStepType(ADAPTIVE_STEP)
        self.box.setMinimumWidth(NUMBER_WIDTH_PX)
        self.add_spin_box(self.box, "QSpinBox", 1)


class SmallNumberSpinBox(QDoubleSpinBox):
    """Spin box for small numbers; it shows as many decimal places as necessary."""

    def __init__(self) -> None:
        super().__init__()
        self.setDecimals(8)
        self.setStepType(ADAPTIVE_STEP)

    def textFromValue(self, value: float) -> str:
        return f"{value:.8f}".rstrip("0").rstrip(".")


class SmallNumberControl(SpinBoxControl):
    """Input control for a small number."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = SmallNumberSpinBox()
        self.box.setRange(*INPUT_RANGES[setting.name])
        self.box.setMinimumWidth(NUMBER_WIDTH_PX)
        self.add_spin_box(self.box, "Tiny", 1)

    def _emit_typed_value(self, value: float) -> None:
        self.emit_value(value, True)


class FileControl(SettingControl):
    """Input control for a file, with a field for the path and a file dialog."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box, self.choose_button = QLineEdit(), QPushButton("Choose…")
        self.box.editingFinished.connect(self._emit_typed_path)
        self.choose_button.clicked.connect(self._ask_for_file)
        self.add_control(self.box, "QLineEdit", 1)
        self.add_control(self.choose_button, "QPushButton")
        self.choose_button.setAccessibleName("Choose a text file")
        self._shown = ""

    def show_value(self, value: Any) -> None:
        self._shown = value
        if value != self.box.text():
            with QSignalBlocker(self.box):
                self.box.setText(value)

    def _ask_for_file(self) -> None:
        ask_open_path(self, Path(self.box.text()).parent, TEXT_FILE_FILTER, self.emit_value)

    def _emit_typed_path(self) -> None:
        if self.box.text() != self._shown:
            self.emit_value(self.box.text())


LAB_CONTROLS: dict[SettingKind, type[SettingControl]] = {
    **CONTROL_TYPES,
    SettingKind.WHOLE: WholeNumberControl,
    SettingKind.SMALL: SmallNumberControl,
    SettingKind.FILE: FileControl,
}
