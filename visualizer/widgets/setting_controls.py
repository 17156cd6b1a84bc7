"""Controls for the kinds of settings, and the row that names one and shows its problem.

A control shows a value and emits what the user chose; it changes nothing itself.
"""

from __future__ import annotations

from html import escape
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

from visualizer.attention.settings import BOUNDS, Setting, SettingKind
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import PlainLabel, RichLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.plain_text_tooltips import plain_tooltip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from PySide6.QtGui import QWheelEvent

    from visualizer.session.setting_definitions import SettingState
    from visualizer.widgets.theme import Theme


def combo_box(name: str, choices: Iterable[tuple[object, str]]) -> QComboBox:
    """Make a combo box of values with their texts."""
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
    """Base class of the controls.

    `chosen` carries the setting's name, the new value and whether it is part of a drag or of
    typing; `settled` is emitted when a drag ends.
    """

    chosen = Signal(str, object, bool)
    settled = Signal()

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self.row = row_layout(self, (0, 0, 0, 0), spacing=8)

    def add(self, widget: QWidget, part: str, stretch: int = 0) -> None:
        """Add a part, whose accessible name comes from the setting.

        Parameters
        ----------
        part : str
            The end of its object name, after the setting's name.
        """
        widget.setAccessibleName(self.setting.label)
        widget.setObjectName(f"{self.setting.name} {part}")
        self.row.addWidget(widget, stretch)
        if not self.focusProxy():
            self.setFocusProxy(widget)

    def emit_chosen(self, value: object, going_on: bool = False) -> None:
        """Tell what the user chose; `going_on` is true while it is dragged or typed."""
        self.chosen.emit(self.setting.name, value, going_on)

    def show_value(self, value: Any) -> None:
        raise NotImplementedError

    def show_theme(self, theme: Theme) -> None:
        """Set the colours of a theme."""


class TypedSlider(QSlider):
    """A slider that leaves the wheel to the scrolling page."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class ChoiceControl(SettingControl):
    """A choice among a few options."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QComboBox()
        install_input_filters(self.box)
        for _, words in setting.choices:
            self.box.addItem(words)
        self.box.activated.connect(self._choose)
        self.add(self.box, "QComboBox", 1)

    def show_value(self, value: Any) -> None:
        values = [choice for choice, _ in self.setting.choices]
        self.box.setCurrentIndex(values.index(value))

    def _choose(self, index: int) -> None:
        self.emit_chosen(self.setting.choices[index][0])


class TypedControl(SettingControl):
    """Base class of the controls with a number box."""

    box: QSpinBox | QDoubleSpinBox

    def take(self, box: QSpinBox | QDoubleSpinBox, part: str, stretch: int = 0) -> None:
        """Add the number box."""
        install_input_filters(box)
        box.valueChanged.connect(self._type)
        box.editingFinished.connect(self.settled)
        self.add(box, part, stretch)

    def show_value(self, value: Any) -> None:
        show_number(self.box, value)

    def _type(self, value: float) -> None:
        self.emit_chosen(round(value, 3), True)


class CountControl(TypedControl):
    """A whole number, by slider or typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = TypedSlider(), QSpinBox()
        self.slider.setRange(1, int(setting.top))
        self.slider.actionTriggered.connect(self._slide)
        self.slider.sliderReleased.connect(self.settled)
        low, high = BOUNDS[SettingKind.COUNT]
        self.box.setRange(int(low), int(high))
        self.box.setSpecialValueText(setting.zero)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add(self.slider, "Slider", 1)
        self.take(self.box, "QSpinBox")

    def show_value(self, value: Any) -> None:
        self.slider.setValue(value)
        super().show_value(value)

    def _slide(self, action: int) -> None:
        self.emit_chosen(self.slider.sliderPosition(), self.slider.isSliderDown())


class DecimalSpinBox(QDoubleSpinBox):
    """A number box that shows up to three decimals, without trailing zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.setDecimals(3)

    def textFromValue(self, value: float) -> str:
        return f"{value:g}"


class RateControl(TypedControl):
    """A share, by slider or typed; an invalid one can be typed and is explained."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = TypedSlider(), DecimalSpinBox()
        self.slider.setRange(0, round(setting.top * STEPS_PER_UNIT))
        self.slider.setPageStep(STEPS_PER_UNIT // 10)
        self.slider.actionTriggered.connect(self._slide)
        self.slider.sliderReleased.connect(self.settled)
        self.box.setRange(*BOUNDS[SettingKind.RATE])
        self.box.setSingleStep(0.05)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add(self.slider, "Slider", 1)
        self.take(self.box, "Decimal")

    def show_value(self, value: Any) -> None:
        self.slider.setValue(round(value * STEPS_PER_UNIT))
        super().show_value(value)

    def _slide(self, action: int) -> None:
        self.emit_chosen(self.slider.sliderPosition() / STEPS_PER_UNIT, self.slider.isSliderDown())


class NumberControl(TypedControl):
    """A number, typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = DecimalSpinBox()
        self.box.setRange(*BOUNDS[SettingKind.NUMBER])
        self.box.setSingleStep(0.1)
        self.take(self.box, "Decimal", 1)


class SwitchControl(SettingControl):
    """A check box."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QCheckBox(setting.label)
        self.box.clicked.connect(self._click)
        self.add(self.box, "QCheckBox", 1)

    def show_value(self, value: Any) -> None:
        self.box.setChecked(value)

    def _click(self, is_on: bool) -> None:
        self.emit_chosen(is_on)


class SeedControl(TypedControl):
    """A seed, typed or advanced by a button."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box, self.next = QSpinBox(), QToolButton()
        low, high = BOUNDS[SettingKind.SEED]
        self.box.setRange(int(low), int(high))
        self.take(self.box, "QSpinBox", 1)
        self.add(self.next, "QToolButton")
        self.next.setToolTip("Take the next seed")
        self.next.setAccessibleName(f"Next {setting.label.lower()}")
        self.next.clicked.connect(self._resample)

    def show_theme(self, theme: Theme) -> None:
        self.next.setIcon(icon("resample", theme.ink))

    def _resample(self) -> None:
        self.emit_chosen((self.box.value() + 1) % 2**31)


def show_number(box: QSpinBox | QDoubleSpinBox, value: Any) -> None:
    """Show a number that was not typed into this box."""
    if value != box.value():  # do not rewrite what is being typed: 1 to 1.00 before the .5
        with QSignalBlocker(box):
            box.setValue(value)


CONTROLS: dict[SettingKind, type[SettingControl]] = {
    SettingKind.CHOICE: ChoiceControl,
    SettingKind.COUNT: CountControl,
    SettingKind.RATE: RateControl,
    SettingKind.NUMBER: NumberControl,
    SettingKind.SWITCH: SwitchControl,
    SettingKind.SEED: SeedControl,
}

_DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


class SettingRow(QWidget):
    """A setting's name, control and problem, with a button for the remedy."""

    remedied = Signal(str)

    def __init__(self, control: SettingControl) -> None:
        super().__init__()
        self.control = control
        self.setting = setting = control.setting
        column = column_layout(self, (0, 0, 0, 0), spacing=2)
        if setting.kind is not SettingKind.SWITCH:
            label = PlainLabel(setting.label)
            label.setProperty("role", "quiet")
            column.addWidget(label)
        control.setToolTip(plain_tooltip(setting.help))
        column.addWidget(control)
        self.problem = RichLabel()
        self.problem.setWordWrap(True)
        self.problem.setProperty("role", "warning")
        self.problem.setTextInteractionFlags(
            Qt.TextInteractionFlag.LinksAccessibleByMouse
            | Qt.TextInteractionFlag.LinksAccessibleByKeyboard
        )
        self.problem.linkActivated.connect(self._remedy)
        self.problem.hide()
        column.addWidget(self.problem)

    def show_setting(self, shown: SettingState) -> None:
        self.control.show_value(shown.value)
        self.control.setEnabled(shown.counts)
        problem = shown.problem
        words = escape(problem.sentence) if problem else ""
        if shown.mends:
            words += f" <a href='mend'>{escape(shown.mends)}</a>"
        if self.problem.text() != words:
            self.problem.setText(words)
        self.problem.setVisible(problem is not None)
        told = problem.sentence if problem else self.setting.help
        for part in self.control.findChildren(QWidget, options=_DIRECT):
            part.setAccessibleDescription(told)

    def _remedy(self) -> None:
        self.remedied.emit(self.setting.name)
