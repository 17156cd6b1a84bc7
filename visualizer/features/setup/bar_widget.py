"""Settings bar above the heatmaps, with the input text and buttons that open the settings.

The editors are generated from the table of settings. For captured attention, a button with a
notice replaces them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QRect, QRectF, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QFont, QFontMetricsF, QPainter
from PySide6.QtWidgets import (
    QComboBox,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.attention.settings import SETTINGS, Setting, SettingKind
from visualizer.features.setup.presenter import (
    CHIPS,
    SETUP_PANEL,
    AttentionKinds,
    ImageField,
    SecondTextField,
    SettingChip,
    SetupPanel,
)
from visualizer.features.setup.text_edit_widget import (
    LABELS_PLACEHOLDER,
    TEXT_PLACEHOLDER,
    InputTextEdit,
)
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import LineGrouping
from visualizer.session.setting_state import SettingState, describe_custom_values, format_mask
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.fonts import scaled_font, text_scale
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ElidedLabel, ErrorLabel, PlainTextLabel, plain_tooltip
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.overflow_row import OverflowRow, OverflowRowItem
from visualizer.widgets.popover import Popover
from visualizer.widgets.setting_controls import (
    CONTROL_TYPES,
    SettingControl,
    SettingRow,
    create_combo_box,
)
from visualizer.widgets.theme import LIGHT, mix_with_background

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QPaintEvent, QResizeEvent

    from visualizer.attention.spec import BooleanMatrix
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme


class MaskMatrixControl(SettingControl):
    """Text box for a matrix of 0s and 1s; it emits the text, which the document parses."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QPlainTextEdit()
        self.box.setPlaceholderText(format_mask(None)[1])
        self.box.setTabChangesFocus(True)
        self.box.setFixedHeight(self.box.fontMetrics().lineSpacing() * 6 + 12)
        self.box.textChanged.connect(self._emit_text)
        self.box.setUndoRedoEnabled(False)
        install_input_filters(self.box)
        self.box.setProperty(OWN_FOCUS_PROPERTY, True)
        self._shown: BooleanMatrix | None = None
        self.add_control(self.box, "QPlainTextEdit", 1)

    def show_value(self, value: Any) -> None:
        if value == self._shown:
            return
        self._shown = value
        text, hint = format_mask(value)
        self.box.setPlaceholderText(hint)
        # The text in the box may differ in spaces.
        if _rows_without_separators(text) != _rows_without_separators(self.box.toPlainText()):
            with QSignalBlocker(self.box):
                self.box.setPlainText(text)

    def _emit_text(self) -> None:
        self.emit_value(self.box.toPlainText(), True)


class CustomValuesControl(SettingControl):
    """Summary of custom values that are set elsewhere, with a button to discard them."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.words, self.draw = PlainTextLabel(), QPushButton("Use random values")
        self.words.setWordWrap(True)
        self.draw.clicked.connect(self._draw_random_values)
        self.row.addWidget(self.words, 1)
        self.add_control(self.draw, "QPushButton")

    def show_value(self, value: Any) -> None:
        self.words.setText(describe_custom_values(self.setting, value))

    def _draw_random_values(self) -> None:
        self.emit_value(self.setting.choices[0][0])


def _rows_without_separators(text: str) -> list[str]:
    lines = text.replace(",", " ").splitlines()
    return [bare for line in lines if (bare := "".join(line.split()))]


SETTING_CONTROLS: dict[SettingKind, type[SettingControl]] = {
    **CONTROL_TYPES,
    SettingKind.MATRIX: MaskMatrixControl,
    SettingKind.OWN: CustomValuesControl,
}

# Qt returns an item's StrEnum value as a plain string.
CHOICE_TYPES = {"tokenizer": TokenizerKind, "lines": LineGrouping}
CHIP_HEIGHT_PX = 30
CHIP_PADDING_PX = 8
CHIP_TEXT_PX = 13
ARROW_GAP_PX, ARROW_PX = 3, 12
SENTENCE_WIDTH_PX = 220
MAX_TEXT_SHARE = 0.45
"""Maximum fraction of the bar's width that the text takes if the buttons need the rest."""
OVERVIEW_LABEL = "‹ All layers"
MODEL_CHIP_LETTERS = 24


class SettingChipButton(QToolButton):
    """A button with a subdued name, a bold value and an arrow; it can also indicate a problem."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._value, self._problem = name, "", ""
        self._theme = LIGHT
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.show_value(name, "")

    def show_value(self, name: str, value: str, problem: str = "") -> None:
        """Show the name, the value and the problem of its settings."""
        if (name, value, problem) == (self._name, self._value, self._problem) and self.text():
            return
        self._name, self._value, self._problem = name, value, problem
        self.setText(f"{name} {value}".strip())
        self.setAccessibleName(self.text())
        self.setAccessibleDescription(problem)
        self.setToolTip(plain_tooltip(problem))
        self.updateGeometry()
        self.update()

    def show_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def _name_and_value_fonts(self) -> tuple[QFont, QFont]:
        weight = QFont.Weight.DemiBold if self._name else QFont.Weight.Normal
        return scaled_font(CHIP_TEXT_PX), scaled_font(CHIP_TEXT_PX, weight)

    def _name_and_value_widths(self) -> tuple[float, float]:
        """Return the widths of the name, including the space after it, and of the value."""
        name = f"{self._name} " if self._name and self._value else self._name
        plain, bold = map(QFontMetricsF, self._name_and_value_fonts())
        return plain.horizontalAdvance(name), bold.horizontalAdvance(self._value)

    def sizeHint(self) -> QSize:
        scale = text_scale()
        wide = (
            sum(self._name_and_value_widths())
            + (2 * CHIP_PADDING_PX + ARROW_GAP_PX + ARROW_PX) * scale
        )
        return QSize(round(wide) + 1, round(CHIP_HEIGHT_PX * scale))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        theme, scale = self._theme, text_scale()
        is_raised = self.isChecked() or self.isDown() or self.underMouse()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(theme.warning) if self._problem else Qt.PenStyle.NoPen)
        painter.setBrush(
            QColor(
                theme.hairline if is_raised else mix_with_background(theme.hairline, theme.paper)
            )
        )
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        name, value = self._name_and_value_widths()
        rest = QRectF(self.rect()).adjusted(CHIP_PADDING_PX * scale, 0, 0, 0)
        plain, bold = self._name_and_value_fonts()
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        quiet = theme.quiet if self._value else theme.ink
        ink = theme.border if not self.isEnabled() else theme.ink
        painter.setFont(plain)
        painter.setPen(QColor(quiet if self.isEnabled() else theme.border))
        painter.drawText(rest, middle, self._name)
        painter.setFont(bold)
        painter.setPen(QColor(theme.warning if self._problem else ink))
        painter.drawText(rest.adjusted(name, 0, 0, 0), middle, self._value)
        side = round(ARROW_PX * scale)
        left = round(rest.left() + name + value + ARROW_GAP_PX * scale)
        arrow = QRect(left, (self.height() - side) // 2, side, side)
        icon("chevron-down", theme.quiet).paint(painter, arrow)
        painter.end()


class CapturedAttentionNotice(QWidget):
    """Notice about captured attention and missing data, with a button to return to a module."""

    returnRequested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.notice = PlainTextLabel()
        self.notice.setWordWrap(True)
        self.notice.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.back = QPushButton("Return to module")
        self.back.setObjectName("back to a module")
        self.back.setToolTip("Compute attention for text again, with the previous settings")
        self.back.clicked.connect(self.returnRequested)
        install_input_filters(self.back)
        column = column_layout(self, (14, 12, 14, 14), spacing=10)
        column.addWidget(self.notice)
        column.addWidget(self.back, 0, Qt.AlignmentFlag.AlignLeft)

    def show_notice(self, says: str) -> None:
        if self.notice.text() != says:
            self.notice.setText(says)
            self.setAccessibleName(says)


class SettingsBar(QWidget):
    """The input text, and one button for each group of settings.

    `settingChosen` is emitted with the name of a setting and the other arguments of
    `SettingControl.chosen`.
    `textTyped` is emitted with a text, and `textTooLong` with an error message and the first part
    of the rejected text; the last argument of both is the text's setting ("text" or "second").
    """

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    textTyped = Signal(str, str)
    leaveRequested = Signal()
    overviewRequested = Signal()
    """Requests the page with the heads of all layers."""
    textTooLong = Signal(str, str, str)
    partChosen = Signal(str)
    imageRequested = Signal()
    settingChosen = Signal(str, object, bool, bool)
    settled = Signal()
    remedyRequested = Signal(str)
    leadingStepped = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Settings")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._theme: Theme | None = None
        self._setup: SetupPanel | None = None
        self.rows = {one.name: self._create_setting_row(one) for one in SETTINGS if one.has_control}
        self.chips: dict[str, SettingChipButton] = {}
        self.popovers: list[Popover] = []
        self._columns: dict[str, QVBoxLayout] = {}
        """The layouts of the settings, by the first setting of each button."""
        row = row_layout(self, (12, 8, 8, 8), spacing=8)
        row.addLayout(self._build_text_fields(), 1)
        self.captured = CapturedAttentionNotice()
        self.source_chip = self._create_chip("", self.captured)
        self.source_chip.setObjectName("source")
        items = [
            OverflowRowItem(self._build_attention_kind_choice(), is_wanted=False),
            OverflowRowItem(self._build_text_chooser(), is_wanted=False),
            OverflowRowItem(self.source_chip, is_wanted=False),
        ]
        self.panes_chip = SettingChipButton("Explain")
        self.panes_chip.setToolTip(plain_tooltip("Show or hide the panes on the right"))
        for chip in CHIPS:
            button = self._create_chip(chip.name or chip.shown[0], self._create_chip_editor(chip))
            button.toggled.connect(self._fit_chips)
            self.chips[chip.settings[0]] = button
            items.append(OverflowRowItem(button, is_optional=bool(chip.shown), rank=chip.rank))
        items.append(OverflowRowItem(self.panes_chip, is_wanted=False))
        self.choices = OverflowRow(CHIP_HEIGHT_PX, "Other settings", (0, 0, 0, 0), spacing=4)
        self.choices.set_items(items)
        self.choices.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.choices.overflowChanged.connect(self._move_overflowed_settings)
        row.addWidget(self.choices, 0, Qt.AlignmentFlag.AlignTop)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._distribute_width()

    def _distribute_width(self) -> None:
        """Give the text the width of its first line, up to a maximum, and the buttons the rest.

        The settings of buttons that do not fit move to the editor of the last button.
        """
        layout = self.layout()
        assert layout
        sides = layout.contentsMargins()
        room = self.width() - sides.left() - sides.right() - layout.spacing()
        text = min(self.sentence.natural_width(), round(MAX_TEXT_SHARE * room))
        text = max(text, self.sentence.minimumWidth())
        self.choices.setMaximumWidth(max(self.choices.minimumSizeHint().width(), room - text))

    def _fit_chips(self, is_open: bool) -> None:
        """After an editor is closed, let its button leave the row if it does not fit."""
        if not is_open:
            self.choices.fit_items()

    # ------------------------------------------------------------------ building

    def _build_text_fields(self) -> Any:
        self.sentence, self.problem = self._create_text_edit("text")
        self.sentence.setMinimumWidth(SENTENCE_WIDTH_PX)
        column = column_layout(spacing=4)
        parts = (self._build_second_text(), self._build_image_choice())
        for widget in (self.sentence, self.problem, *parts):
            column.addWidget(widget)
        return column

    def _create_text_edit(self, name: str) -> tuple[InputTextEdit, ErrorLabel]:
        """Create the text box for a text setting, and the label for its problems."""
        edit, problem = InputTextEdit(), ErrorLabel()
        edit.textChanged.connect(lambda: self.textTyped.emit(edit.toPlainText(), name))
        edit.textLimitExceeded.connect(lambda *report: self.textTooLong.emit(*report, name))
        edit.leaveRequested.connect(self.leaveRequested)
        problem.linkActivated.connect(lambda _link: self.remedyRequested.emit(name))
        return edit, problem

    def _build_second_text(self) -> QWidget:
        self.second_part = QWidget()
        column = column_layout(self.second_part, (0, 0, 0, 0), spacing=4)
        self.second_label = PlainTextLabel()
        self.second_label.setProperty("role", "quiet")
        self.second, self.second_problem = self._create_text_edit("second")
        self.second.setObjectName("second text")
        self.second_label.setBuddy(self.second)
        for widget in (self.second_label, self.second, self.second_problem):
            column.addWidget(widget)
        self.second_part.hide()
        return self.second_part

    def _build_image_choice(self) -> QWidget:
        self.image_part = QWidget()
        column = column_layout(self.image_part, (0, 0, 0, 0), spacing=4)
        row = row_layout(spacing=8)
        self.choose_image, self.image_name = QPushButton("Choose an image…"), ElidedLabel()
        self.choose_image.setObjectName("choose an image")
        self.choose_image.clicked.connect(self.imageRequested)
        install_input_filters(self.choose_image)
        row.addWidget(self.choose_image)
        row.addWidget(self.image_name, 1)
        self.image_problem = ErrorLabel()
        column.addLayout(row)
        column.addWidget(self.image_problem)
        self.image_part.hide()
        return self.image_part

    def _build_attention_kind_choice(self) -> QWidget:
        self.part = QComboBox()
        self.part.setAccessibleName("Kind of attention")
        self.part.setObjectName("part")
        self.part.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.part.setMinimumContentsLength(16)
        self.part.activated.connect(self._emit_attention_kind)
        return self.part

    def _build_text_chooser(self) -> QWidget:
        self.texts = QWidget()
        row = row_layout(self.texts, (0, 0, 0, 0), spacing=2)
        self.overview_button = QToolButton()
        self.overview_button.setText(OVERVIEW_LABEL)
        self.overview_button.setAutoRaise(True)
        self.overview_button.setToolTip("Show the heads of all layers (Esc)")
        self.overview_button.clicked.connect(self.overviewRequested)
        row.addWidget(self.overview_button)
        self.text_number = PlainTextLabel()
        self.text_steps = {-1: QToolButton(), 1: QToolButton()}
        for step, button in self.text_steps.items():
            button.setAutoRaise(True)
            button.setArrowType(Qt.ArrowType.LeftArrow if step < 0 else Qt.ArrowType.RightArrow)
            button.clicked.connect(partial(self.leadingStepped.emit, step))
        row.addWidget(self.text_steps[-1])
        row.addWidget(self.text_number)
        row.addWidget(self.text_steps[1])
        return self.texts

    def _create_chip(self, name: str, editor: QWidget) -> SettingChipButton:
        button = SettingChipButton(name)
        self.popovers.append(Popover(button, editor))
        return button

    def _create_chip_editor(self, chip: SettingChip) -> QWidget:
        """Create a column with the settings of a chip; the last chip also has the text settings."""
        editor = QWidget()
        column = column_layout(editor, (14, 12, 14, 14), spacing=10)
        if not chip.shown:
            self._overflow_part = QWidget()  # the first child, so that its tab stops come first
            self._overflow_column = column_layout(self._overflow_part, (0, 0, 0, 0), spacing=10)
            column.addWidget(self._overflow_part)
            column.addLayout(self._build_text_choices())
        for name in chip.settings:
            column.addWidget(self.rows[name])
        self._columns[chip.settings[0]] = column
        return editor

    def _move_overflowed_settings(self) -> None:
        """Show the settings of each button in its editor, or in the last one if it does not fit."""
        overflowed = self.choices.overflowed_widgets()
        self._overflow_part.setVisible(bool(overflowed))
        for chip in CHIPS[:-1]:
            first = chip.settings[0]
            is_moved = self.chips[first] in overflowed
            column = self._overflow_column if is_moved else self._columns[first]
            for row in (self.rows[name] for name in chip.settings):
                is_hidden = row.isHidden()
                column.addWidget(row)
                row.setVisible(not is_hidden)
        if self._setup:
            self._show_chips(self._setup)

    def _build_text_choices(self) -> Any:
        self.tokenizer = self._create_combo_box(
            "tokenizer",
            "Split the text into words or characters",
            ((TokenizerKind.WORDS, "Words"), (TokenizerKind.CHARACTERS, "Characters")),
        )
        self.lines = self._create_combo_box(
            "lines",
            "Treat lines as one text or as a batch of texts",
            ((LineGrouping.TOGETHER, "One text"), (LineGrouping.APART, "One text per line")),
        )
        choices = row_layout(spacing=8)
        choices.addWidget(self.tokenizer)
        choices.addWidget(self.lines)
        return choices

    def _create_combo_box(
        self, name: str, help_: str, choices: tuple[tuple[object, str], ...]
    ) -> QComboBox:
        box = create_combo_box(help_, choices)
        box.setObjectName(name)
        box.activated.connect(partial(self._emit_choice, box))
        return box

    def _create_setting_row(self, setting: Setting) -> SettingRow:
        row = SettingRow(SETTING_CONTROLS[setting.kind](setting))
        row.control.chosen.connect(self.settingChosen)
        row.control.settled.connect(self.settled)
        row.remedyRequested.connect(self.remedyRequested)
        return row

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        setup = screen.panel(SETUP_PANEL)
        self._show_theme(theme)
        if setup != self._setup:
            self._setup = setup
            self._show_text(setup)
            self._show_second_text(setup.second)
            self._show_image(setup.image)
            by_name = setup.settings_by_name()
            for name, row in self.rows.items():
                row.show_setting(by_name[name])
            self._show_chips(setup)
        self._show_current_text_or_layer(screen.resolved)

    def _show_theme(self, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme, self._setup = theme, None
            for button in (self.source_chip, self.panes_chip, *self.chips.values()):
                button.show_theme(theme)
            for row in self.rows.values():
                row.problem.clear()  # links keep the colour of an earlier theme
                row.control.show_theme(theme)

    def _show_text(self, setup: SetupPanel) -> None:
        self.sentence.show_text(setup.text)
        self.sentence.setPlaceholderText(
            LABELS_PLACEHOLDER if setup.has_labels else TEXT_PLACEHOLDER
        )
        self.problem.show_problem(setup.problem.sentence, setup.problem.remedy_text)
        self.tokenizer.setCurrentIndex(self.tokenizer.findData(setup.tokenizer))
        self.lines.setCurrentIndex(self.lines.findData(setup.lines))

    def _show_second_text(self, field: SecondTextField | None) -> None:
        """Show the second text if the model takes one."""
        self.second_part.setVisible(field is not None)
        self.second.show_text(field.text if field else "")
        if field:
            self.second_label.setText(field.label)
            self.second.setAccessibleName(field.label)
            self.second_problem.show_problem(field.problem.sentence, field.problem.remedy_text)

    def _show_image(self, field: ImageField | None) -> None:
        """Show the image file instead of the text if the model takes an image."""
        self.image_part.setVisible(field is not None)
        self.sentence.setVisible(field is None)
        if field:
            self.image_name.show_text(field.name, field.path)
            self.image_problem.show_problem(field.problem.sentence, field.problem.remedy_text)

    def _show_chips(self, setup: SetupPanel) -> None:
        """Show the values of a module's settings, or the source of captured attention."""
        values, has_module = setup.settings_by_name(), not setup.captured
        for chip in CHIPS:
            self.chips[chip.settings[0]].show_value(
                chip.name, chip.describe_values(values), self._find_problem(chip, values)
            )
            for name in chip.settings:
                state, is_own = values[name], values[name].setting.kind is SettingKind.OWN
                is_idle = not (state.is_enabled or state.problem)
                is_folded = is_idle and (is_own or chip.hides_idle)
                self.rows[name].setVisible(has_module and not is_folded)
        self.lines.setVisible(has_module)
        self.captured.show_notice(setup.captured)
        name = setup.source
        is_long = len(name) > MODEL_CHIP_LETTERS
        self.source_chip.show_value(f"{name[: MODEL_CHIP_LETTERS - 1]}…" if is_long else name, "")
        self._show_attention_kinds(setup.parts)
        wanted: dict[QWidget, bool] = {
            button: has_module or (setup.has_labels and not chip.shown)
            for chip, button in zip(CHIPS, self.chips.values(), strict=True)
        }
        wanted |= {self.source_chip: not has_module, self.part: bool(setup.parts.choices)}
        for button in (self.source_chip, *self.chips.values()):
            if not wanted[button]:
                button.setChecked(False)
        self.choices.set_all_available(wanted)
        self._distribute_width()

    def _find_problem(self, chip: SettingChip, values: Mapping[str, SettingState]) -> str:
        """Return the first problem of the settings in a button's editor, or an empty string."""
        overflowed = self.choices.overflowed_widgets() if chip is CHIPS[-1] else []
        moved = [one for one in CHIPS if self.chips[one.settings[0]] in overflowed]
        problems = (one.find_problem(values) for one in (chip, *moved))
        return next(filter(None, problems), "")

    def _show_attention_kinds(self, parts: AttentionKinds) -> None:
        """Show the kinds of attention if there is more than one."""
        if parts.choices != tuple(
            (self.part.itemData(at), self.part.itemText(at)) for at in range(self.part.count())
        ):
            self.part.clear()
            for name, words in parts.choices:
                self.part.addItem(words, name)
        self.part.setCurrentIndex(self.part.findData(parts.shown))

    def show_panes_chip(self, is_shown: bool) -> None:
        """Show the button that folds and unfolds the panes of a narrow window."""
        self.choices.set_available(self.panes_chip, is_shown)
        self._distribute_width()

    def _show_current_text_or_layer(self, resolved: ResolvedView | None) -> None:
        """Show which text of a batch or which layer is current."""
        axes = resolved.run.trace.axes if resolved else ()
        if resolved and axes:
            self.text_number.setText(resolved.leading_description.capitalize())
            self.overview_button.setVisible(resolved.run.trace.axis_size("layer") > 1)
            for step, button in self.text_steps.items():
                button.setAccessibleName(f"{'Previous' if step < 0 else 'Next'} {axes[-1]}")
        if bool(axes) != self.texts.isVisibleTo(self):
            self.choices.set_available(self.texts, bool(axes))
            self._distribute_width()

    # ------------------------------------------------------------------ user input

    def reveal_control(self, widget: QWidget) -> None:
        """Open the editor that contains a control, if there is one, and scroll to the control."""
        for popover in self.popovers:
            if popover.isAncestorOf(widget):
                popover.reveal(widget)

    def focus_setting(self, name: str) -> None:
        """Show and focus the control of a setting."""
        control = self.rows[name].control
        self.reveal_control(control)
        control.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def focus_text(self) -> None:
        """Focus the text box and select its text."""
        self.sentence.setFocus()
        self.sentence.selectAll()

    def focus_second_text(self) -> None:
        """Focus the second text and select it."""
        self.second.setFocus()
        self.second.selectAll()

    def open_other_settings(self) -> None:
        """Open the editor with the settings that do not have their own button."""
        self.chips[CHIPS[-1].settings[0]].setChecked(True)

    def _emit_attention_kind(self, index: int) -> None:
        self.partChosen.emit(self.part.itemData(index))

    def _emit_choice(self, box: QComboBox, index: int) -> None:
        name = box.objectName()
        self.settingChosen.emit(name, CHOICE_TYPES[name](box.itemData(index)), False, False)
