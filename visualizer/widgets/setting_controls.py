"""Controls for each kind of setting, and the row that adds a label and an error message.

A control shows a value and emits the user's choice; it does not change the setting itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QSlider,
    QSpinBox,
    QToolButton,
    QWidget,
)

from visualizer.attention.settings import CONTROL_RANGES, Setting, SettingKind
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ErrorLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtGui import QWheelEvent

    from visualizer.session.setting_state import SettingState
    from visualizer.widgets.theme import Theme


def create_combo_box(name: str, choices: Iterable[tuple[object, str]]) -> QComboBox:
    """Create a combo box from values and their texts."""
    box = QComboBox()
    for value, words in choices:
        box.addItem(words, value)
    box.setAccessibleName(name)
    box.setToolTip(plain_tooltip(name))
    box.setObjectName(name)
    install_input_filters(box)
    return box


STEPS_PER_UNIT = 100


class SettingControl(QWidget):
    """Base class of the controls for settings."""

    chosen = Signal(str, object, bool, bool)
    """Emitted when the user chooses a value, with the name of the setting, the value, whether the
    user is still dragging or typing, and whether the screen may wait for the result because the
    control shows the value.
    """
    settled = Signal()
    """Emitted when the user stops dragging or typing."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self.row = row_layout(self, (0, 0, 0, 0), spacing=8)

    def add_control(self, widget: QWidget, part: str, stretch: int = 0) -> None:
        """Add a widget and take its accessible name from the setting.

        Parameters
        ----------
        part : str
            Suffix of the object name, which follows the setting's name.
        """
        widget.setAccessibleName(self.setting.label)
        widget.setObjectName(f"{self.setting.name} {part}")
        self.row.addWidget(widget, stretch)
        if not self.focusProxy():
            self.setFocusProxy(widget)

    def emit_value(
        self, value: object, is_continued_edit: bool = False, is_seen: bool = False
    ) -> None:
        """Emit the user's choice; the flags are those of `chosen`."""
        self.chosen.emit(self.setting.name, value, is_continued_edit, is_seen or is_continued_edit)

    def show_value(self, value: Any) -> None:
        raise NotImplementedError

    def show_theme(self, theme: Theme) -> None:
        """Apply a theme."""


class WheelIgnoringSlider(QSlider):
    """Slider that ignores the wheel, so that the page scrolls."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class ComboBoxControl(SettingControl):
    """Combo box for a choice from several values."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QComboBox()
        install_input_filters(self.box)
        for _, words in setting.choices:
            self.box.addItem(words)
        self.box.activated.connect(self._emit_choice)
        self.add_control(self.box, "QComboBox", 1)

    def show_value(self, value: Any) -> None:
        values = [choice for choice, _ in self.setting.choices]
        self.box.setCurrentIndex(values.index(value))

    def _emit_choice(self, index: int) -> None:
        self.emit_value(self.setting.choices[index][0])


class SpinBoxControl(SettingControl):
    """Base class of controls with a spin box."""

    box: QSpinBox | QDoubleSpinBox

    def add_spin_box(self, box: QSpinBox | QDoubleSpinBox, part: str, stretch: int = 0) -> None:
        """Add the spin box."""
        install_input_filters(box)
        box.valueChanged.connect(self._emit_typed_value)
        box.editingFinished.connect(self.settled)
        self.add_control(box, part, stretch)

    def show_value(self, value: Any) -> None:
        set_number(self.box, value)

    def _emit_typed_value(self, value: float) -> None:
        self.emit_value(round(value, 3), True)


class IntegerSliderControl(SpinBoxControl):
    """Slider and spin box for an integer."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = WheelIgnoringSlider(), QSpinBox()
        self.slider.setRange(1, int(setting.top))
        self.slider.actionTriggered.connect(self._emit_slider_value)
        self.slider.sliderReleased.connect(self.settled)
        low, high = CONTROL_RANGES[SettingKind.COUNT]
        self.box.setRange(int(low), int(high))
        self.box.setSpecialValueText(setting.zero_label)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add_control(self.slider, "Slider", 1)
        self.add_spin_box(self.box, "QSpinBox")

    def show_value(self, value: Any) -> None:
        self.slider.setValue(value)
        super().show_value(value)

    def _emit_slider_value(self, action: int) -> None:
        self.emit_value(self.slider.sliderPosition(), self.slider.isSliderDown())


class TrimmedDoubleSpinBox(QDoubleSpinBox):
    """Spin box that shows up to three decimal places, without trailing zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.setDecimals(3)

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


class FractionSliderControl(SpinBoxControl):
    """Slider and spin box for a fraction; entering an invalid value causes an error message."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = WheelIgnoringSlider(), TrimmedDoubleSpinBox()
        self.slider.setRange(0, round(setting.top * STEPS_PER_UNIT))
        self.slider.setPageStep(STEPS_PER_UNIT // 10)
        self.slider.actionTriggered.connect(self._emit_slider_value)
        self.slider.sliderReleased.connect(self.settled)
        self.box.setRange(*CONTROL_RANGES[SettingKind.RATE])
        self.box.setSingleStep(0.05)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add_control(self.slider, "Slider", 1)
        self.add_spin_box(self.box, "Decimal")

    def show_value(self, value: Any) -> None:
        self.slider.setValue(round(value * STEPS_PER_UNIT))
        super().show_value(value)

    def _emit_slider_value(self, action: int) -> None:
        self.emit_value(self.slider.sliderPosition() / STEPS_PER_UNIT, self.slider.isSliderDown())


class RealNumberControl(SpinBoxControl):
    """Spin box for a real number."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = TrimmedDoubleSpinBox()
        self.box.setRange(*CONTROL_RANGES[SettingKind.NUMBER])
        self.box.setSingleStep(0.1)
        self.add_spin_box(self.box, "Decimal", 1)


class CheckBoxControl(SettingControl):
    """Checkbox for a setting that is on or off."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QCheckBox(setting.label)
        self.box.clicked.connect(self._emit_checked)
        self.add_control(self.box, "QCheckBox", 1)

    def show_value(self, value: Any) -> None:
        self.box.setChecked(value)

    def _emit_checked(self, is_on: bool) -> None:
        self.emit_value(is_on, is_seen=True)


class SeedControl(SpinBoxControl):
    """Spin box for a seed, with a button for the next seed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box, self.next = QSpinBox(), QToolButton()
        low, high = CONTROL_RANGES[SettingKind.SEED]
        self.box.setRange(int(low), int(high))
        self.add_spin_box(self.box, "QSpinBox", 1)
        self.add_control(self.next, "QToolButton")
        self.next.setToolTip("Use the next seed")
        self.next.setAccessibleName(f"Next {setting.label.lower()}")
        self.next.clicked.connect(self._emit_next_seed)

    def show_theme(self, theme: Theme) -> None:
        self.next.setIcon(icon("resample", theme.ink))

    def _emit_next_seed(self) -> None:
        self.emit_value((self.box.value() + 1) % 2**31)


def set_number(box: QSpinBox | QDoubleSpinBox, value: Any) -> None:
    """Show a number unless it is already the value of the spin box."""
    if value != box.value():  # do not reformat while typing: “1” would become “1.00” before “.5”
        with QSignalBlocker(box):
            box.setValue(value)


CONTROL_TYPES: dict[SettingKind, type[SettingControl]] = {
    SettingKind.CHOICE: ComboBoxControl,
    SettingKind.COUNT: IntegerSliderControl,
    SettingKind.RATE: FractionSliderControl,
    SettingKind.NUMBER: RealNumberControl,
    SettingKind.SWITCH: CheckBoxControl,
    SettingKind.SEED: SeedControl,
}

_DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


class SettingRow(QWidget):
    """A setting's label, control and error message, with a link that fixes the error."""

    remedyRequested = Signal(str)

    def __init__(self, control: SettingControl) -> None:
        super().__init__()
        self.control = control
        self.setting = setting = control.setting
        column = column_layout(self, (0, 0, 0, 0), spacing=2)
        if setting.kind is not SettingKind.SWITCH:
            label = PlainTextLabel(setting.label)
            label.setProperty("role", "quiet")
            column.addWidget(label)
        control.setToolTip(plain_tooltip(setting.help))
        column.addWidget(control)
        self.problem = ErrorLabel()
        self.problem.linkActivated.connect(self._emit_remedy_request)
        column.addWidget(self.problem)

    def show_setting(self, shown: SettingState) -> None:
        self.control.show_value(shown.value)
        self.control.setEnabled(shown.is_enabled)
        problem = shown.problem
        self.problem.show_problem(problem.sentence if problem else "", shown.remedy_text)
        description = problem.sentence if problem else self.setting.help
        for part in self.control.findChildren(QWidget, options=_DIRECT):
            part.setAccessibleDescription(description)

    def _emit_remedy_request(self) -> None:
        self.remedyRequested.emit(self.setting.name)
