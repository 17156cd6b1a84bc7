"""Figure options of the export dialog, and the number field that validates its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.export.export_settings import (
    CUSTOM_PRESET,
    PAPER_LABELS,
    LengthUnit,
    apply_preset,
    matching_preset,
)
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    MAX_DPI,
    MAX_POINTS,
    MAX_SIDE_MM,
    MIN_DPI,
    MIN_POINTS,
    MIN_SIDE_MM,
    FigureExtent,
    FigureTheme,
)
from visualizer.format import format_size
from visualizer.widgets.labels import PlainTextLabel

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.export.export_settings import ExportSettings
    from visualizer.export.figures.printed_text_size import SmallTextWarning


class NumberField(QWidget):
    """Input for a number within a range; an empty optional input stands for None."""

    typed = Signal(object)
    """Emitted with the number that the user entered, or with None."""
    validated = Signal()
    """Emitted when the input becomes valid or invalid."""

    def __init__(self, name: str, empty_text: str = "", *, is_whole: bool = False) -> None:
        super().__init__()
        self._is_whole, self._empty_text = is_whole, empty_text
        self._low, self._high = 0.0, 0.0
        self._format: Callable[[float], str] = str
        self.box, self.problem = QLineEdit(), PlainTextLabel()
        self.box.setAccessibleName(name)
        self.box.setPlaceholderText(empty_text)
        self.problem.setProperty("role", "warning")
        self.problem.setWordWrap(True)
        self.problem.hide()
        self.note, self.offer = PlainTextLabel(), QPushButton()
        self.note.setProperty("role", "warning")
        self.note.setWordWrap(True)
        self.offer.setAutoDefault(False)
        self.show_note("", "")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.box)
        column.addWidget(self.problem)
        column.addWidget(self.note)
        column.addWidget(self.offer)
        self.setFocusProxy(self.box)
        self.box.textEdited.connect(self._apply_input)

    @property
    def is_invalid(self) -> bool:
        """Whether the input is invalid."""
        return bool(self.problem.text())

    def show_number(
        self, number: float | None, low: float, high: float, format_number: Callable[[float], str]
    ) -> None:
        """Show a number and its range, unless the user is typing in the field."""
        self._low, self._high, self._format = low, high, format_number
        is_valid, typed = self._parse_input()
        if (
            self.box.hasFocus()
            and is_valid
            and self._format_number(typed) == self._format_number(number)
        ):
            self._show_problem("")
            return
        with QSignalBlocker(self.box):
            self.box.setText(self._format_number(number))
        self._show_problem("")

    def show_note(self, note: str, offer: str) -> None:
        """Show a note about the number, and a button with a suggested fix."""
        self.note.setText(note)
        self.note.setVisible(bool(note))
        self.offer.setText(offer)
        self.offer.setVisible(bool(offer))
        self._update_description()

    def _update_description(self) -> None:
        parts = (self.problem.text(), self.note.text())
        self.box.setAccessibleDescription(" ".join(filter(None, parts)))

    def _format_number(self, number: float | None) -> str:
        return "" if number is None else self._format(number)

    def _parse_input(self) -> tuple[bool, float | None]:
        """Return whether the input is valid, and its number.

        The limits are displayed rounded. If the user enters a rounded limit, return the exact
        limit.
        """
        text = self.box.text().strip().replace(",", ".").replace("−", "-")
        if not text:
            return bool(self._empty_text), None
        try:
            number = float(text)
        except ValueError:
            return False, None
        is_limit = self._format(number) in {self._format(self._low), self._format(self._high)}
        is_valid = is_limit or self._low <= number <= self._high
        is_valid = is_valid and (not self._is_whole or number.is_integer())
        return is_valid, min(max(number, self._low), self._high)

    def _apply_input(self) -> None:
        is_valid, number = self._parse_input()
        range_text = f"from {self._format(self._low)} to {self._format(self._high)}"
        or_empty = ", or empty" if self._empty_text else ""
        kind = "a whole number " if self._is_whole else ""
        self._show_problem("" if is_valid else f"Must be {kind}{range_text}{or_empty}.")
        if is_valid:
            self.typed.emit(number)

    def _show_problem(self, problem: str) -> None:
        was_invalid = self.is_invalid
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self._update_description()
        if was_invalid != self.is_invalid:
            self.validated.emit()


SWITCH_LABELS = {
    "has_caption": "Add a c&aption that describes the computation",
    "has_letters": "Add letters to the sta&ges: a, b, …",
    "has_marks": "Mark the pinned cell and the selected to&kens",
    "is_trimmed": "Crop &empty margins",
    "carries_document": "Embed the &document, so that the file can be reopened",
    "has_all_layers": "Embed all la&yers",
}


class FigureOptionsWidget(QWidget):
    """Figure options."""

    chosen = Signal(object)
    """Emitted with the changed figure settings."""
    unitChosen = Signal(object)
    """Emitted with the new `LengthUnit`."""
    validated = Signal()
    """Emitted when `is_invalid` may have changed."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: ExportSettings | None = None
        self._small_text: SmallTextWarning | None = None
        self._all_layers_bytes = 0
        self.extent, self.preset, self.paper, self.unit = (QComboBox() for _ in range(4))
        self.width_, self.height_ = NumberField("Width"), NumberField("Height", "automatic")
        self.dpi = NumberField("Resolution (dpi)", is_whole=True)
        self.points, self.title = NumberField("Text size in points"), QLineEdit()
        self.switches = {name: QCheckBox(words) for name, words in SWITCH_LABELS.items()}
        self.form = QFormLayout(self)
        self.form.setContentsMargins(0, 0, 0, 0)
        self.form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self._build_rows()
        self._connect_signals()

    def _build_rows(self) -> None:
        for box, choices in (
            (
                self.preset,
                [*((name, name) for name in FIGURE_PRESETS), (CUSTOM_PRESET, CUSTOM_PRESET)],
            ),
            (self.paper, PAPER_LABELS.items()),
            (self.unit, [(unit, unit.value) for unit in LengthUnit]),
        ):
            for value, words in choices:
                box.addItem(words, value)
        for words, widget in (
            ("Co&ntent", self.extent),
            ("Si&ze preset", self.preset),
            ("&Length unit", self.unit),
            ("W&idth", self.width_),
            ("&Height", self.height_),
            ("Resol&ution (dpi)", self.dpi),
            ("Text size (&pt)", self.points),
            ("Colou&rs", self.paper),
            ("&Title", self.title),
        ):
            label = PlainTextLabel(words)
            label.setBuddy(widget.focusProxy() or widget)
            (widget.focusProxy() or widget).setAccessibleName(words.replace("&", ""))
            self.form.addRow(label, widget)
        for switch in self.switches.values():
            switch.setAccessibleName(switch.text().replace("&", ""))
            self.form.addRow(switch)

    def _connect_signals(self) -> None:
        self.extent.activated.connect(self._choose_extent)
        self.preset.activated.connect(self._choose_preset)
        self.paper.activated.connect(self._choose_paper)
        self.unit.activated.connect(self._choose_unit)
        self.width_.typed.connect(self._apply_width)
        self.height_.typed.connect(self._apply_height)
        self.dpi.typed.connect(self._apply_dpi)
        self.points.typed.connect(self._apply_text_size)
        self.title.textEdited.connect(self._apply_title)
        self.width_.offer.clicked.connect(self._apply_suggested_fix)
        for switch in self.switches.values():
            switch.clicked.connect(self._apply_checkboxes)
        for field in self.number_fields:
            field.validated.connect(self.validated)

    @property
    def number_fields(self) -> tuple[NumberField, ...]:
        """All number fields."""
        return self.width_, self.height_, self.dpi, self.points

    @property
    def is_invalid(self) -> bool:
        """Whether any visible field is invalid or the text is too small to print."""
        is_small = self._small_text is not None and self._small_text.is_too_small
        return is_small or any(
            field.is_invalid and not field.isHidden() for field in self.number_fields
        )

    def show_small_text_warning(self, small_text: SmallTextWarning | None) -> None:
        """Show a note about small text next to the width, with a button that enlarges the text."""
        self._small_text = small_text
        if small_text is None or self._settings is None:
            self.width_.show_note("", "")
        else:
            offer = _describe_text_size_fix(small_text, self._settings)
            hint = "" if offer else " Show fewer panels."
            self.width_.show_note(f"{small_text.size_message}{hint}", offer)
        self.validated.emit()

    def show_size_of_all_layers(self, size: int) -> None:
        """Show the maximum size of all layers, in bytes; 0 hides the option to embed them."""
        self._all_layers_bytes = size
        switch = self.switches["has_all_layers"]
        switch.setText(f"{SWITCH_LABELS['has_all_layers']} (up to {format_size(size)})")
        switch.setAccessibleName(switch.text().replace("&", ""))

    def show_settings(self, settings: ExportSettings) -> None:
        self._settings, figure_settings = settings, settings.look
        self._update_extent_choices(settings)
        for box, value in (
            (self.extent, settings.figure_settings.extent),
            (self.preset, matching_preset(figure_settings)),
            (self.paper, figure_settings.paper),
            (self.unit, settings.unit),
        ):
            box.setCurrentIndex(box.findData(value))
        self._show_size(settings)
        self.dpi.show_number(figure_settings.dpi, MIN_DPI, MAX_DPI, "{:.0f}".format)
        self.points.show_number(figure_settings.points, MIN_POINTS, MAX_POINTS, "{:g}".format)
        if self.title.text() != figure_settings.title:
            with QSignalBlocker(self.title):
                self.title.setText(figure_settings.title)
        for name, switch in self.switches.items():
            switch.setChecked(getattr(figure_settings, name))
        for name, widget in self._setting_rows:
            is_possible = name != "has_all_layers" or self._all_layers_bytes > 0
            self.form.setRowVisible(widget, name in settings.used_field_names and is_possible)

    def _update_extent_choices(self, settings: ExportSettings) -> None:
        offered = {self.extent.itemData(at) for at in range(self.extent.count())}
        if offered != set(settings.extent_labels):
            self.extent.clear()
            for value, words in settings.extent_labels.items():
                self.extent.addItem(words, value)

    @property
    def _setting_rows(self) -> tuple[tuple[str, QWidget], ...]:
        """Pairs of a field of `FigureSettings` and the widget that sets it."""
        rows: tuple[tuple[str, QWidget], ...] = (
            ("extent", self.extent),
            ("width_mm", self.preset),
            ("width_mm", self.unit),
            ("width_mm", self.width_),
            ("height_mm", self.height_),
            ("dpi", self.dpi),
            ("points", self.points),
            ("paper", self.paper),
            ("title", self.title),
        )
        return (*rows, *self.switches.items())

    def _show_size(self, settings: ExportSettings) -> None:
        unit, dpi = settings.unit, settings.look.dpi
        low, high = (unit.from_mm(mm, dpi) for mm in (MIN_SIDE_MM, MAX_SIDE_MM))
        for field, mm in (
            (self.width_, settings.look.width_mm),
            (self.height_, settings.look.height_mm),
        ):
            length = None if mm is None else unit.from_mm(mm, dpi)
            field.show_number(
                length, low, high, lambda one: unit.format_mm(unit.to_mm(one, dpi), dpi)
            )

    # ------------------------------------------------------------------ choosing

    def _emit_changed_settings(self, **changes: Any) -> None:
        if self._settings:
            self.chosen.emit(replace(self._settings.look, **changes))

    def _choose_extent(self) -> None:
        # Qt returns a str.
        self._emit_changed_settings(extent=FigureExtent(self.extent.currentData()))

    def _choose_preset(self) -> None:
        if self._settings:
            self.chosen.emit(apply_preset(self._settings.look, self.preset.currentData()))

    def _choose_paper(self) -> None:
        self._emit_changed_settings(paper=FigureTheme(self.paper.currentData()))

    def _choose_unit(self) -> None:
        self.unitChosen.emit(LengthUnit(self.unit.currentData()))

    def _apply_suggested_fix(self) -> None:
        if self._small_text:
            self._emit_changed_settings(**self._small_text.changes)

    def _apply_width(self, length: float) -> None:
        if self._settings:
            self._emit_changed_settings(width_mm=_clamp_to_mm(length, self._settings))

    def _apply_height(self, length: float | None) -> None:
        if self._settings:
            height = None if length is None else _clamp_to_mm(length, self._settings)
            self._emit_changed_settings(height_mm=height)

    def _apply_dpi(self, dpi: float) -> None:
        self._emit_changed_settings(dpi=int(dpi))

    def _apply_text_size(self, points: float) -> None:
        self._emit_changed_settings(points=points)

    def _apply_title(self, title: str) -> None:
        self._emit_changed_settings(title=title)

    def _apply_checkboxes(self) -> None:
        self._emit_changed_settings(
            **{name: switch.isChecked() for name, switch in self.switches.items()}
        )


def _clamp_to_mm(length: float, settings: ExportSettings) -> float:
    """Convert a length to mm and clamp it, because a rounded length can exceed the limits."""
    mm = settings.unit.to_mm(length, settings.look.dpi)
    return min(max(mm, MIN_SIDE_MM), MAX_SIDE_MM)


def _describe_text_size_fix(small_text: SmallTextWarning, settings: ExportSettings) -> str:
    """Describe the change that makes small text readable; return "" if there is none."""
    width, points = small_text.changes.get("width_mm"), small_text.changes.get("points")
    if width is not None:
        length = f"{settings.unit.format_mm(width, settings.look.dpi)} {settings.unit.value}"
        is_open = "height_mm" in small_text.changes
        return f"Use {length} with automatic height" if is_open else f"Use {length}"
    return "" if points is None else f"Use {points:g} pt"
