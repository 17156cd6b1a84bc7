"""Colours pane: the weight transform, and how values map to colours."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QLineEdit,
    QScrollArea,
    QWidget,
)

from visualizer.attention.display_transforms import WeightTransform
from visualizer.features.view_bar.presenter import VIEW_CONTROLS_PANEL, ViewControlsPanel
from visualizer.session.view_options import (
    ColourCurve,
    ColourLimits,
    ColourMapKind,
    colour_maps_of_kind,
)
from visualizer.widgets.labels import PlainTextLabel
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.setting_controls import create_combo_box
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.features.view_bar.presenter import StageColourLimits
    from visualizer.session.screen import Screen

TRANSFORM_LABELS = {
    WeightTransform.PLAIN: "Unmodified",
    WeightTransform.WITHOUT_FIRST: "Without the first token",
    WeightTransform.TIMES_VALUE: "Weights × value norm",
}
CURVE_LABELS = {
    ColourCurve.LINEAR: "Linear",
    ColourCurve.LOG: "Log",
    ColourCurve.RANK: "Rank",
}
LIMIT_LABELS = {
    ColourLimits.AUTO: "Automatic",
    ColourLimits.UNIT: "0 to 1 (weights)",
    ColourLimits.ROW: "Per row",
    ColourLimits.PANEL: "Per panel",
    ColourLimits.SHARED: "Shared by all heads",
    ColourLimits.TYPED: "Custom",
}
LIMIT_NAMES = {"low": "lower limit", "high": "upper limit"}
SEQUENTIAL_MAPS = {each.id: each.title for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL)}


class ColoursPane(QScrollArea):
    """Colour options, and two boxes per stage for custom colour limits."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    weightTransformChosen = Signal(object)
    curveChosen = Signal(object)
    limitsChosen = Signal(object)
    mapChosen = Signal(object)
    limitsTyped = Signal(str, float, float)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setAccessibleName("Colours")
        self._panel, self._theme = ViewControlsPanel(), LIGHT
        inner = QWidget()
        self._column = column_layout(inner, (12, 8, 12, 16), spacing=6)
        self.lens = self._add_combo_box("Weights", TRANSFORM_LABELS)
        self.curve = self._add_combo_box("Colour scale", CURVE_LABELS)
        self.limits = self._add_combo_box("Range", LIMIT_LABELS)
        self.problem = PlainTextLabel()
        self.problem.setProperty("role", "warning")
        self.problem.setWordWrap(True)
        self.problem.hide()
        self._column.addWidget(self.problem)
        self.grid = QGridLayout()
        self._column.addLayout(self.grid)
        self.map = self._add_combo_box("Colour map for weights", SEQUENTIAL_MAPS)
        self._column.addStretch(1)
        self.setWidget(inner)
        self.boxes: dict[tuple[str, str], QLineEdit] = {}
        self.titles: list[PlainTextLabel] = []

    def _add_combo_box(self, words: str, choices: Mapping[Any, str]) -> QComboBox:
        label, box = PlainTextLabel(words), create_combo_box(words, choices.items())
        label.setProperty("role", "quiet")
        label.setBuddy(box)
        box.activated.connect(self._emit_choice)
        self._column.addWidget(label)
        self._column.addWidget(box)
        return box

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        panel, wanted = screen.panel(VIEW_CONTROLS_PANEL), screen.wanted
        for box, value in (
            (self.lens, wanted.lens),
            (self.curve, wanted.colouring.curve),
            (self.limits, wanted.colouring.limits),
            (self.map, wanted.colouring.sequential),
        ):
            box.setCurrentIndex(box.findData(value))
        if panel == self._panel and theme is self._theme:
            return
        are_new = (
            panel.ends != self._panel.ends
            or self._has_custom_limits(panel) != self._has_custom_limits()
        )
        self._panel, self._theme = panel, theme
        if are_new:
            self._show_limits()

    def _has_custom_limits(self, panel: ViewControlsPanel | None = None) -> bool:
        return (panel or self._panel).colouring.limits is ColourLimits.TYPED

    def _show_limits(self) -> None:
        self.problem.hide()
        wanted = self._panel.ends if self._has_custom_limits() else ()
        if [key for key, _ in self.boxes] != [each for end in wanted for each in [end.stage] * 2]:
            self._create_limit_boxes(wanted)
        for ends in wanted:
            for side, value in (("low", ends.low), ("high", ends.high)):
                box = self.boxes[ends.stage, side]
                if not box.hasFocus():
                    box.setText(f"{value:.6g}".replace("-", "−"))
                box.setEnabled(side == "high" or not ends.is_signed)

    def _create_limit_boxes(self, wanted: tuple[StageColourLimits, ...]) -> None:
        for widget in (*self.titles, *self.boxes.values()):
            widget.blockSignals(True)  # losing the focus on removal is not an edit
            widget.hide()
            widget.deleteLater()
        self.boxes, self.titles = {}, [PlainTextLabel(ends.title) for ends in wanted]
        for row, ends in enumerate(wanted):
            self.grid.addWidget(self.titles[row], row, 0)
            for column, side in enumerate(("low", "high"), 1):
                box = QLineEdit()
                box.setObjectName(f"{ends.stage} {side}")
                box.setAccessibleName(f"{ends.title}: {LIMIT_NAMES[side]}")
                box.editingFinished.connect(self._emit_limits)
                self.grid.addWidget(box, row, column)
                self.setTabOrder([self.limits, *self.boxes.values()][-1], box)
                self.boxes[ends.stage, side] = box

    # ------------------------------------------------------------------ user input

    def _emit_choice(self, index: int) -> None:
        box = self.sender()
        signals = (
            (self.lens, self.weightTransformChosen),
            (self.curve, self.curveChosen),
            (self.limits, self.limitsChosen),
            (self.map, self.mapChosen),
        )
        for own, chosen in signals:
            if own is box:
                chosen.emit(own.itemData(index))

    def _emit_limits(self) -> None:
        box = self.sender()
        if not isinstance(box, QLineEdit) or not box.isModified():
            return
        stage = box.objectName().rpartition(" ")[0]
        ends = next(ends for ends in self._panel.ends if ends.stage == stage)
        boxes = {side: self.boxes[stage, side] for side in ("low", "high")}
        # An unedited box may show fewer digits than its value has.
        exact = (repr(getattr(ends, side)) for side in boxes)
        pairs = zip(boxes.values(), exact, strict=True)
        read = _parse_limits(ends, *(box.text() if box.isModified() else own for box, own in pairs))
        self._show_problem(read if isinstance(read, str) else "")
        if not isinstance(read, str) and read != (ends.low, ends.high):
            self.limitsTyped.emit(stage, *read)

    def _show_problem(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))
        QTimer.singleShot(0, self.problem, self._scroll_to_problem)  # after the layout

    def _scroll_to_problem(self) -> None:
        """Scroll to the error message and, with higher priority, to the box that caused it."""
        typed_in = next((box for box in self.boxes.values() if box.hasFocus()), None)
        for widget in (self.problem, typed_in):
            if widget and widget.isVisible():
                self.ensureWidgetVisible(widget)


def _parse_number(text: str) -> float | None:
    try:
        number = float(text.replace("−", "-").replace(",", "."))
    except ValueError:
        return None
    return number if isfinite(number) else None


def _parse_limits(ends: StageColourLimits, *texts: str) -> tuple[float, float] | str:
    """Return the lower and the upper limit, or an error message if they are invalid."""
    for text in texts:
        if _parse_number(text) is None:
            return f"“{text}” is not a number. Enter a number such as 0.5."
    low, high = (_parse_number(text) or 0.0 for text in texts)
    if ends.is_signed:
        is_above = high > 0
        return (-high, high) if is_above else f"The upper limit must be above 0. It is {high:g}."
    if low < 0:
        return f"The lower limit must be at least 0. It is {low:g}."
    if low >= high:
        return f"The lower limit, {low:g}, must be below the upper limit, {high:g}."
    return low, high
