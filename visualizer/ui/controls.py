"""One control a kind of setting. A control shows a value and says what the user chose; no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QPlainTextEdit,
    QSlider,
    QSpinBox,
    QToolButton,
    QWidget,
)

from visualizer.state.setup import Kind, Setting
from visualizer.ui.icons import icon

if TYPE_CHECKING:
    from PySide6.QtGui import QWheelEvent

    from visualizer.attention.spec import BooleanMatrix
    from visualizer.ui.theme import Theme

STEPS_PER_UNIT = 100


class Control(QWidget):
    """What every control has.

    `chosen` carries the new value and whether it is part of a drag or of typing; `settled` says
    that the drag is over.
    """

    chosen = Signal(object, bool)
    settled = Signal()

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self.row = row

    def add(self, widget: QWidget, stretch: int = 0) -> None:
        """Add a part, which takes its name for readers of the screen from the setting."""
        widget.setAccessibleName(self.setting.label)
        widget.setObjectName(f"{self.setting.name} {type(widget).__name__}")
        self.row.addWidget(widget, stretch)
        if not self.focusProxy():
            self.setFocusProxy(widget)

    def show_value(self, value: Any) -> None:
        """Show the document's value."""
        raise NotImplementedError

    def show_theme(self, theme: Theme) -> None:
        """Take the colours of a theme."""


class Slider(QSlider):
    """A slider that leaves the wheel to the page that scrolls."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class Choice(Control):
    """One of a few."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QComboBox()
        self.box.installEventFilter(_unfocused_wheel(self))
        for value, words in setting.choices:
            self.box.addItem(words, value)
        self.box.setMinimumContentsLength(8)
        self.box.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.box.activated.connect(self._choose)
        self.add(self.box, 1)

    def show_value(self, value: Any) -> None:
        values = [choice for choice, _ in self.setting.choices]
        self.box.setCurrentIndex(values.index(value))

    def _choose(self, index: int) -> None:
        self.chosen.emit(self.setting.choices[index][0], False)


class Count(Control):
    """A whole number, by slider or typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = Slider(), QSpinBox()
        self.slider.setRange(1, int(setting.top))
        self.slider.actionTriggered.connect(self._slide)
        self.slider.sliderReleased.connect(self.settled)
        self.box.setRange(0, 1_000_000)
        self.box.installEventFilter(_unfocused_wheel(self))
        self.box.valueChanged.connect(self._type)
        self.box.editingFinished.connect(self.settled)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add(self.slider, 1)
        self.add(self.box)

    def show_value(self, value: Any) -> None:
        self.slider.setValue(value)
        self.box.setValue(value)

    def _slide(self, action: int) -> None:
        self.chosen.emit(self.slider.sliderPosition(), True)

    def _type(self, value: int) -> None:
        self.chosen.emit(value, True)


class Rate(Control):
    """A share, by slider or typed; what is no share can be typed, and is explained."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.slider, self.box = Slider(), QDoubleSpinBox()
        self.slider.setRange(0, round(setting.top * STEPS_PER_UNIT))
        self.slider.setPageStep(STEPS_PER_UNIT // 10)
        self.slider.actionTriggered.connect(self._slide)
        self.slider.sliderReleased.connect(self.settled)
        self.box.setRange(-9.99, 9.99)
        self.box.setSingleStep(0.05)
        self.box.installEventFilter(_unfocused_wheel(self))
        self.box.valueChanged.connect(self._type)
        self.box.editingFinished.connect(self.settled)
        self.box.setFixedWidth(self.box.fontMetrics().horizontalAdvance("00000") + 44)
        self.add(self.slider, 1)
        self.add(self.box)

    def show_value(self, value: Any) -> None:
        self.slider.setValue(round(value * STEPS_PER_UNIT))
        self.box.setValue(value)

    def _slide(self, action: int) -> None:
        self.chosen.emit(self.slider.sliderPosition() / STEPS_PER_UNIT, True)

    def _type(self, value: float) -> None:
        self.chosen.emit(round(value, 2), True)


class Number(Control):
    """A number, typed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QDoubleSpinBox()
        self.box.setRange(-1000, 1000)
        self.box.setSingleStep(0.1)
        self.box.installEventFilter(_unfocused_wheel(self))
        self.box.valueChanged.connect(self._type)
        self.box.editingFinished.connect(self.settled)
        self.add(self.box, 1)

    def show_value(self, value: Any) -> None:
        self.box.setValue(value)

    def _type(self, value: float) -> None:
        self.chosen.emit(round(value, 2), True)


class Switch(Control):
    """Yes or no."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QCheckBox(setting.label)
        self.box.clicked.connect(self._click)
        self.add(self.box, 1)

    def show_value(self, value: Any) -> None:
        self.box.setChecked(value)

    def _click(self, is_on: bool) -> None:
        self.chosen.emit(is_on, False)


class Seed(Control):
    """A seed, typed, or the next one."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box, self.next = QSpinBox(), QToolButton()
        self.box.setRange(0, 2**31 - 1)
        self.box.installEventFilter(_unfocused_wheel(self))
        self.box.valueChanged.connect(self._type)
        self.box.editingFinished.connect(self.settled)
        self.add(self.box, 1)
        self.add(self.next)
        self.next.setToolTip("Take the next seed")
        self.next.setAccessibleName(f"Next {setting.label.lower()}")
        self.next.clicked.connect(self._resample)

    def show_value(self, value: Any) -> None:
        self.box.setValue(value)

    def show_theme(self, theme: Theme) -> None:
        self.next.setIcon(icon("resample", theme.ink))

    def _type(self, value: int) -> None:
        self.chosen.emit(value, True)

    def _resample(self) -> None:
        self.chosen.emit(self.box.value() + 1, False)


class Matrix(Control):
    """A matrix of 0 and 1, typed or pasted; what is chosen is the text, to be read elsewhere."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QPlainTextEdit()
        self.box.setPlaceholderText("1 0 0\n1 1 0\n1 1 1")
        self.box.setTabChangesFocus(True)
        self.box.setFixedHeight(self.box.fontMetrics().lineSpacing() * 6 + 12)
        self.box.textChanged.connect(self._type)
        self._shown: BooleanMatrix | None = None
        self.add(self.box, 1)

    def show_value(self, value: Any) -> None:
        if value == self._shown:
            return
        self._shown = value
        rows = value.array().astype(int) if value else []
        text = "\n".join(" ".join(map(str, row)) for row in rows)
        if not self.box.hasFocus():
            self.box.setPlainText(text)

    def _type(self) -> None:
        self.chosen.emit(self.box.toPlainText(), True)


class _UnfocusedWheel(QObject):
    """Lets the wheel scroll the page unless the control has been clicked into."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        is_wheel = event.type() == QEvent.Type.Wheel
        if is_wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def _unfocused_wheel(parent: QObject) -> QObject:
    return _UnfocusedWheel(parent)


CONTROLS: dict[Kind, type[Control]] = {
    Kind.CHOICE: Choice,
    Kind.COUNT: Count,
    Kind.RATE: Rate,
    Kind.NUMBER: Number,
    Kind.SWITCH: Switch,
    Kind.SEED: Seed,
    Kind.MATRIX: Matrix,
}
