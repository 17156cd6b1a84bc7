"""Setup pane: the input text, and controls generated from the table of settings.

For captured attention, a notice replaces the settings.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QMimeData, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QTextCursor, QTextOption
from PySide6.QtWidgets import (
    QComboBox,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from visualizer.attention.settings import SETTINGS, Setting, SettingKind
from visualizer.documents.open_document import permitted_start, text_length_problem
from visualizer.features.setup.presenter import (
    SETUP_PANEL,
    AttentionKinds,
    ImageField,
    SecondTextField,
    SetupPanel,
)
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import LineSplit, find_changed_span
from visualizer.session.setting_definitions import describe_custom_values, format_mask
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.icons import icon
from visualizer.widgets.input_filters import install_input_filters
from visualizer.widgets.labels import ElidedLabel, PlainLabel, ProblemLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import CONTROL_TYPES, SettingControl, SettingRow, combo_box
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.spec import BooleanMatrix
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme


_DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


class MaskMatrixControl(SettingControl):
    """Text box for a matrix of 0s and 1s. It emits the text; the document parses it."""

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
        # Typed text may differ in spaces.
        if _bare_rows(text) != _bare_rows(self.box.toPlainText()):
            with QSignalBlocker(self.box):
                self.box.setPlainText(text)

    def _emit_text(self) -> None:
        self.emit_value(self.box.toPlainText(), True)


class CustomValuesControl(SettingControl):
    """Summary of custom values set elsewhere, with a button to use random values instead."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.words, self.draw = PlainLabel(), QPushButton("Use random values")
        self.words.setWordWrap(True)
        self.draw.clicked.connect(self._draw_random_values)
        self.row.addWidget(self.words, 1)
        self.add_control(self.draw, "QPushButton")

    def show_value(self, value: Any) -> None:
        self.words.setText(describe_custom_values(self.setting, value))

    def _draw_random_values(self) -> None:
        self.emit_value(self.setting.choices[0][0])


def _bare_rows(text: str) -> list[str]:
    lines = text.replace(",", " ").splitlines()
    return [bare for line in lines if (bare := "".join(line.split()))]


SETUP_CONTROLS: dict[SettingKind, type[SettingControl]] = {
    **CONTROL_TYPES,
    SettingKind.MATRIX: MaskMatrixControl,
    SettingKind.OWN: CustomValuesControl,
}

# Qt returns an item's StrEnum value as a plain string.
CHOICE_TYPES = {"tokenizer": TokenizerKind, "lines": LineSplit}


class SetupPane(QScrollArea):
    """All settings: the common ones at the top, the others behind a button."""

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    textTyped = Signal(str)
    textTooLong = Signal(str, str)
    secondTyped = Signal(str)
    secondTooLong = Signal(str, str)
    partChosen = Signal(str)
    imageRequested = Signal()
    chosen = Signal(str, object, bool)
    settled = Signal()
    remedyRequested = Signal(str)
    leadingStepped = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Setup")
        self._theme: Theme | None = None
        self._setup: SetupPanel | None = None
        self.rows = {setting.name: self._create_row(setting) for setting in SETTINGS}
        inner = QWidget()
        column = column_layout(inner, (16, 8, 16, 16), spacing=10)
        self._add_text_section(column)
        self.captured = CapturedNotice()
        column.addWidget(self.captured)
        for setting in SETTINGS:
            if setting.common:
                column.addWidget(self.rows[setting.name])
        self._add_more(column)
        column.addStretch(1)
        self.setWidget(inner)
        # Without a horizontal scroll bar, a narrow window would cut the controls off.
        bar = self.verticalScrollBar().sizeHint().width()
        self.setMinimumWidth(inner.minimumSizeHint().width() + bar)

    def _add_text_section(self, column: QVBoxLayout) -> None:
        self.sentence = InputTextEdit()
        self.sentence.setFixedHeight(self.sentence.fontMetrics().lineSpacing() * 4 + 12)
        self.sentence.textChanged.connect(self._emit_text)
        self.sentence.textLimitExceeded.connect(self.textTooLong)
        self.problem = ProblemLabel()
        self.problem.linkActivated.connect(self._request_text_fix)
        self.tokenizer = self._create_combo_box(
            "tokenizer",
            "Split the text into words or characters",
            ((TokenizerKind.WORDS, "Words"), (TokenizerKind.CHARACTERS, "Characters")),
        )
        self.lines = self._create_combo_box(
            "lines",
            "Treat lines as one text or as a batch of texts",
            ((LineSplit.TOGETHER, "One text"), (LineSplit.APART, "One text per line")),
        )
        choices = row_layout(spacing=8)
        choices.addWidget(self.tokenizer)
        choices.addWidget(self.lines)
        more = (self._build_second_text(), self._build_image_choice(), self._build_part_choice())
        for widget in (self.sentence, self.problem, *more):
            column.addWidget(widget)
        column.addLayout(choices)
        column.addWidget(self._build_text_chooser())
        self._sections = QVBoxLayout()
        column.addLayout(self._sections)

    def _build_second_text(self) -> QWidget:
        self.second_part = QWidget()
        column = column_layout(self.second_part, (0, 0, 0, 0), spacing=4)
        self.second_label = PlainLabel()
        self.second_label.setProperty("role", "quiet")
        self.second_label.setWordWrap(True)
        self.second = InputTextEdit()
        self.second.setObjectName("second text")
        self.second.setFixedHeight(self.second.fontMetrics().lineSpacing() * 2 + 12)
        self.second.textChanged.connect(self._emit_second_text)
        self.second.textLimitExceeded.connect(self.secondTooLong)
        self.second_label.setBuddy(self.second)
        self.second_problem = ProblemLabel()
        self.second_problem.linkActivated.connect(self._request_second_fix)
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
        self.image_problem = ProblemLabel()
        column.addLayout(row)
        column.addWidget(self.image_problem)
        self.image_part.hide()
        return self.image_part

    def _build_part_choice(self) -> QWidget:
        self.part = QComboBox()
        self.part.setAccessibleName("Kind of attention")
        self.part.setObjectName("part")
        self.part.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.part.setMinimumContentsLength(16)
        self.part.activated.connect(self._choose_part)
        self.part.hide()
        return self.part

    def _build_text_chooser(self) -> QWidget:
        self.texts = QWidget()
        row = row_layout(self.texts, (0, 0, 0, 0))
        self.text_number = PlainLabel()
        self.text_steps = {-1: QToolButton(), 1: QToolButton()}
        for step, button in self.text_steps.items():
            button.setAutoRaise(True)
            button.setArrowType(Qt.ArrowType.LeftArrow if step < 0 else Qt.ArrowType.RightArrow)
            button.setProperty("step", step)
            button.clicked.connect(self._step_leading)
        row.addWidget(self.text_steps[-1])
        row.addWidget(self.text_number)
        row.addWidget(self.text_steps[1])
        row.addStretch(1)
        return self.texts

    def _create_combo_box(
        self, name: str, help_: str, choices: tuple[tuple[object, str], ...]
    ) -> QComboBox:
        box = combo_box(help_, choices)
        box.setObjectName(name)
        box.activated.connect(self._emit_choice)
        return box

    def _add_more(self, column: QVBoxLayout) -> None:
        self.more_button = QToolButton()
        self.more_button.setText("More settings")
        self.more_button.setObjectName("more")
        self.more_button.setCheckable(True)
        self.more_button.setAutoRaise(True)
        self.more_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.more_button.toggled.connect(self._show_more)
        self.more = QWidget()
        self.more.hide()
        rest = column_layout(self.more, (0, 0, 0, 0), spacing=10)
        for setting in SETTINGS:
            if not setting.common:
                rest.addWidget(self.rows[setting.name])
        self._show_more(False)
        column.addWidget(self.more_button)
        column.addWidget(self.more)

    def _create_row(self, setting: Setting) -> SettingRow:
        row = SettingRow(SETUP_CONTROLS[setting.kind](setting))
        row.control.chosen.connect(self.chosen)
        row.control.settled.connect(self.settled)
        row.remedyRequested.connect(self.remedyRequested)
        return row

    def add_section(self, widget: QWidget) -> None:
        """Add a widget below the text, and after the controls above it in the tab order."""
        parts, part = [], widget.nextInFocusChain()
        while part is not None and part is not widget:
            if part.focusPolicy() & Qt.FocusPolicy.TabFocus:
                parts.append(part)
            part = part.nextInFocusChain()
        self._sections.addWidget(widget)
        controls = self.texts.parentWidget()
        assert controls
        siblings = controls.findChildren(QWidget, options=_DIRECT)
        # Screen readers follow the stacking order.
        widget.stackUnder(siblings[siblings.index(self.texts) + 1])
        for before, after in pairwise([self.text_steps[1], *parts]):
            self.setTabOrder(before, after)

    # ------------------------------------------------------------------ showing

    def _request_text_fix(self) -> None:
        self.remedyRequested.emit("text")

    def _request_second_fix(self) -> None:
        self.remedyRequested.emit("second")

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        setup = screen.panel(SETUP_PANEL)
        self._show_theme(theme)
        if setup != self._setup:
            self._setup = setup
            self._show_text(setup)
            self._show_second(setup.second)
            self._show_image(setup.image)
            self._show_parts(setup.parts)
            self._show_captured(setup)
            for shown in setup.settings:
                self.rows[shown.setting.name].show_setting(shown)
        self._show_place(screen.resolved)
        hidden = any(shown.problem and not shown.setting.common for shown in setup.settings)
        if hidden and not self.more_button.isChecked():
            self.more_button.setChecked(True)  # an error must be visible at its setting

    def _show_theme(self, theme: Theme) -> None:
        if theme is not self._theme:
            self._theme, self._setup = theme, None
            self._show_more(self.more_button.isChecked())
            for row in self.rows.values():
                row.problem.clear()  # links keep the colour of the theme in which they were set
                row.control.show_theme(theme)

    def _show_text(self, setup: SetupPanel) -> None:
        self.sentence.show_text(setup.text)
        self.problem.show_problem(setup.problem.sentence, setup.problem.remedy_text)
        self.tokenizer.setCurrentIndex(self.tokenizer.findData(setup.tokenizer))
        self.lines.setCurrentIndex(self.lines.findData(setup.lines))

    def _show_second(self, field: SecondTextField | None) -> None:
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

    def _show_parts(self, parts: AttentionKinds) -> None:
        """Show the kinds of attention if there are several."""
        self.part.setVisible(bool(parts.choices))
        if parts.choices != tuple(
            (self.part.itemData(at), self.part.itemText(at)) for at in range(self.part.count())
        ):
            self.part.clear()
            for name, words in parts.choices:
                self.part.addItem(words, name)
        self.part.setCurrentIndex(self.part.findData(parts.shown))

    def _show_captured(self, setup: SetupPanel) -> None:
        """Show the notice and hide the settings if there is no module."""
        self.captured.show_notice(setup.captured)
        has_module = not setup.captured
        for row in self.rows.values():
            if row.setting.common:
                row.setVisible(has_module)
        for widget in (self.more_button, self.lines):
            widget.setVisible(has_module)
        self.tokenizer.setVisible(has_module or setup.has_labels)
        self.more.setVisible(has_module and self.more_button.isChecked())
        self.sentence.setPlaceholderText(
            LABELS_PLACEHOLDER if setup.has_labels else TEXT_PLACEHOLDER
        )

    def _show_place(self, resolved: ResolvedView | None) -> None:
        """Show which text of a batch, or which layer, is current."""
        axes = resolved.run.trace.axes if resolved else ()
        self.texts.setVisible(bool(axes))
        if not resolved or not axes:
            return
        self.text_number.setText(resolved.leading_description.capitalize())
        for step, button in self.text_steps.items():
            button.setAccessibleName(f"{'Previous' if step < 0 else 'Next'} {axes[-1]}")

    def edit_sentence(self) -> None:
        """Focus the text box and select its text."""
        self.sentence.setFocus()
        self.sentence.selectAll()

    def edit_second(self) -> None:
        """Focus the second text and select it."""
        self.second.setFocus()
        self.second.selectAll()

    def open_more(self) -> None:
        """Show all settings, and focus the first enabled one that is not a common setting."""
        self.more_button.setChecked(True)
        rows = [row for row in self.rows.values() if not row.setting.common]
        first = next(row for row in rows if row.control.isEnabled())
        first.control.setFocus(Qt.FocusReason.ShortcutFocusReason)
        QTimer.singleShot(0, first, lambda: self.ensureWidgetVisible(first))  # after the layout

    def _show_more(self, is_open: bool) -> None:
        self.more.setVisible(is_open and not (self._setup and self._setup.captured))
        name = "chevron-down" if is_open else "chevron-right"
        self.more_button.setIcon(icon(name, (self._theme or LIGHT).ink))

    # ------------------------------------------------------------------ user input

    def _emit_text(self) -> None:
        self.textTyped.emit(self.sentence.toPlainText())

    def _emit_second_text(self) -> None:
        self.secondTyped.emit(self.second.toPlainText())

    def _choose_part(self, index: int) -> None:
        self.partChosen.emit(self.part.itemData(index))

    def _step_leading(self) -> None:
        self.leadingStepped.emit(self.sender().property("step"))

    def _emit_choice(self, index: int) -> None:
        box = self.sender()
        if isinstance(box, QComboBox):
            name = box.objectName()
            self.chosen.emit(name, CHOICE_TYPES[name](box.itemData(index)), False)


TEXT_PLACEHOLDER = "Type or paste text"
LABELS_PLACEHOLDER = "Type or paste tokens"
"""Placeholders of the text box; captured attention has token labels instead of a text."""
MAX_UNBROKEN_WORD_LENGTH = 4_000
"""Length in characters up to which words stay unbroken; longer ones wrap anywhere."""

# Qt replaces these characters when it returns the text.
DISPLAY_REPLACEMENTS = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\u00a0": " "})


def has_longer_word(text: str, length: int) -> bool:
    """Whether a word is longer than `length`; fast for texts with short words only."""
    half = max(1, length // 2)
    # A longer word fills at least one whole part of half the length.
    parts = (text[start : start + half] for start in range(0, len(text), half))
    may_have = any(part.split(None, 1)[:1] == [part] for part in parts if len(part) == half)
    return may_have and max(map(len, text.split()), default=0) > length


def _position_after(text: str) -> int:
    """Return the cursor position after a text. Qt counts characters beyond U+FFFF as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _count_characters(place: int, text: str) -> int:
    """Return the number of characters before a cursor position."""
    before = text.encode("utf-16-le", "surrogatepass")[: 2 * place]
    return len(before.decode("utf-16-le", "surrogatepass"))


class InputTextEdit(QPlainTextEdit):
    """Text box for the input text. Undo and redo belong to the document, not to the box.

    `textLimitExceeded` is emitted for a rejected text with an error message and the first part of
    the text.
    """

    textLimitExceeded = Signal(str, str)

    def __init__(self) -> None:
        super().__init__()
        self.setUndoRedoEnabled(False)
        install_input_filters(self)
        self.setTabChangesFocus(True)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.setPlaceholderText(TEXT_PLACEHOLDER)
        self.setAccessibleName("Sentence")
        self.setObjectName("sentence")

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return not source.hasUrls() and super().canInsertFromMimeData(source)  # files are opened

    def insertFromMimeData(self, source: QMimeData) -> None:
        text, cursor = self.toPlainText(), self.textCursor()
        start, end = (
            _count_characters(place, text)
            for place in (cursor.selectionStart(), cursor.selectionEnd())
        )
        whole = text[:start] + source.text() + text[end:]
        if sentence := text_length_problem(whole):
            self.textLimitExceeded.emit(sentence, permitted_start(whole))
        else:
            with self._adapt_wrap_mode(whole):
                if (start, end) == (0, len(text)):
                    self.setPlainText(whole)  # twice as fast
                    self.moveCursor(QTextCursor.MoveOperation.End)
                else:
                    super().insertFromMimeData(source)

    @contextmanager
    def _adapt_wrap_mode(self, text: str) -> Iterator[None]:
        """Wrap at words, unless a word is so long that Qt would search for its end for seconds.

        The wrap mode is changed before or after the text, so such a word is never searched.
        """
        is_endless = has_longer_word(text, MAX_UNBROKEN_WORD_LENGTH)
        if is_endless:
            self._set_wrap(QTextOption.WrapMode.WrapAnywhere)
        yield
        if not is_endless:
            self._set_wrap(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)

    def _set_wrap(self, mode: QTextOption.WrapMode) -> None:
        if mode is not self.wordWrapMode():
            self.setWordWrapMode(mode)

    def show_text(self, text: str) -> None:
        """Show the text of the document, with the cursor at the end of the changed part."""
        before, shown = (
            self.toPlainText(),
            text.translate(DISPLAY_REPLACEMENTS).replace("\r\n", "\n"),
        )
        if shown == before:
            return
        place = _position_after(shown[: find_changed_span(before, shown)[1]])
        # Signals are blocked, as characters that Qt replaces would otherwise count as an edit.
        with self._adapt_wrap_mode(text), QSignalBlocker(self):
            self.setPlainText(text)
        cursor = self.textCursor()
        end = self.document().characterCount() - 1
        cursor.setPosition(min(place, end), QTextCursor.MoveMode.MoveAnchor)
        self.setTextCursor(cursor)


class CapturedNotice(QWidget):
    """Notice about captured attention and what it lacks; `left` requests a return to a module."""

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.notice = PlainLabel()
        self.notice.setWordWrap(True)
        self.notice.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.back = QPushButton("Return to module")
        self.back.setObjectName("back to a module")
        self.back.setToolTip("Compute attention for text again, with the previous settings")
        self.back.clicked.connect(self.left)
        install_input_filters(self.back)
        column = column_layout(self, (0, 4, 0, 0), spacing=8)
        column.addWidget(self.notice)
        column.addWidget(self.back, 0, Qt.AlignmentFlag.AlignLeft)
        self.hide()

    def show_notice(self, says: str) -> None:
        """Show a notice; hide the widget if it is empty."""
        if self.notice.text() != says:
            self.notice.setText(says)
            self.setAccessibleName(says)
        self.setVisible(bool(says))
