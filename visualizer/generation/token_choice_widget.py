"""The next-token pane: bars for picking a token by mouse or keyboard, and sampling controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QBrush, QColor, QFont, QHelpEvent, QPainter, QPen
from PySide6.QtWidgets import QFormLayout, QSizePolicy, QWidget

from visualizer.attention.settings import Setting, SettingKind
from visualizer.errors import InputError
from visualizer.format import format_percentage
from visualizer.generation.token_choice_presenter import (
    MAX_TOKEN_BARS,
    NextTokenBar,
    NextTokenChoicePanel,
)
from visualizer.language.sampling import SamplingSettings, check_sampling_settings
from visualizer.widgets.accessibility import Politeness, announce, set_accessible_value
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale
from visualizer.widgets.input_filters import has_command_modifier
from visualizer.widgets.labels import PlainTextLabel, plain_tooltip, show_tooltip
from visualizer.widgets.layouts import column_layout
from visualizer.widgets.setting_controls import CONTROL_TYPES, IntegerSliderControl
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPaintEvent

RESERVED_NOTE_LINES = 4
"""Number of text lines reserved for the legend or an error message."""
MAX_SLIDER_TEMPERATURE = 2.0
"""Maximum value of the temperature slider; larger values can be entered in the field."""
SAMPLING_SETTINGS = (
    Setting("temperature", "Temperature", SettingKind.RATE,
            "Values below 1 favour likely tokens; 0 always selects the most likely one",
            top=MAX_SLIDER_TEMPERATURE),
    Setting("top_k", "Top-k", SettingKind.COUNT,
            "Sample only from this many of the most likely tokens", top=1),
    Setting("top_p", "Top-p", SettingKind.RATE,
            "Sample only from the most likely tokens whose total probability reaches this value",
            top=1.0),
)  # fmt: skip


class NextTokenChoicePane(QWidget):
    """The next-token bars, with the sampling controls below them.

    `tokenChosen` emits a token id, and `samplingChosen` a `SamplingSettings`.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.Grouping
    tokenChosen = Signal(int)
    samplingChosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._sampling, self._vocabulary = SamplingSettings(), 0
        self.heading, self.legend, self.problem = (
            PlainTextLabel(),
            PlainTextLabel(),
            PlainTextLabel(),
        )
        self.heading.setProperty("role", "pane")
        self.legend.setProperty("role", "quiet")
        self.problem.setProperty("role", "warning")
        self.problem.hide()
        self.bars = NextTokenBarView()
        self.bars.tokenChosen.connect(self.tokenChosen)
        self.controls = {
            setting.name: CONTROL_TYPES[setting.kind](setting) for setting in SAMPLING_SETTINGS
        }
        column = column_layout(self, (0, 0, 0, 8), spacing=6)
        column.addWidget(self.heading)
        column.addWidget(self.bars)
        column.addLayout(self._build_sampling_form())
        column.addWidget(self._build_legend_area())
        column.addStretch(1)

    def _build_legend_area(self) -> QWidget:
        """Build the area for the legend and errors; a minimum height keeps the layout stable."""
        area = QWidget()
        column = column_layout(area, (12, 0, 12, 0))
        for label in (self.problem, self.legend):
            label.setWordWrap(True)
            column.addWidget(label)
        column.addStretch(1)
        area.setMinimumHeight(round(RESERVED_NOTE_LINES * font_metrics(12).lineSpacing()))
        return area

    def _build_sampling_form(self) -> QFormLayout:
        form = QFormLayout()
        form.setContentsMargins(12, 0, 12, 0)
        for control in self.controls.values():
            label = PlainTextLabel(control.setting.label)
            label.setToolTip(plain_tooltip(control.setting.help))
            label.setBuddy(control)
            form.addRow(label, control)
            control.chosen.connect(self.apply_sampling_setting)
        return form

    def show_bars(self, bars: NextTokenChoicePanel, theme: Theme) -> None:
        self._sampling, self._vocabulary = bars.sampling, bars.vocabulary
        self.heading.setText(bars.heading)
        self.legend.setText(bars.legend)
        self.bars.show_bars(bars, theme)
        top_k = self.controls["top_k"]
        if isinstance(top_k, IntegerSliderControl):
            top_k.slider.setRange(1, max(1, bars.vocabulary))
        # An invalid value stays visible so that the user can correct it.
        if self.problem.isHidden():
            self._show_sampling_values()

    def discard_invalid_value(self) -> None:
        """Discard an invalid value and its error message."""
        self._show_problem("")

    def _show_problem(self, sentence: str) -> None:
        """Show an error message in place of the legend."""
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))
        self.legend.setVisible(not sentence)

    def _show_sampling_values(self) -> None:
        sampling = self._sampling
        shown = {
            "temperature": sampling.temperature,
            "top_k": self._vocabulary if sampling.top_k is None else sampling.top_k,
            "top_p": sampling.top_p,
        }
        for name, value in shown.items():
            self.controls[name].show_value(value)

    def apply_sampling_setting(self, name: str, value: float, _: bool = False) -> None:
        """Apply a sampling setting, or show an error message if it is invalid."""
        is_all = name == "top_k" and value >= self._vocabulary > 0
        changed: dict[str, Any] = {name: None if is_all else value}
        wanted = replace(self._sampling, **changed)
        try:
            check_sampling_settings(wanted)
        except InputError as error:
            self._show_problem(error.sentence)
            return
        self._show_problem("")
        self.samplingChosen.emit(wanted)


ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
PICK_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
MAX_NAME_PX = 96
MARGIN_PX = 12
SPACING_PX = 8
MIN_TWO_SHARES_WIDTH_PX = 320
"""Minimum width, in pixels at the default text size, for showing two percentages next to a bar."""
BRANCH_MARK_WIDTH_PX = 4
"""Width, in pixels, of the mark at the next token of the current branch."""
WIDEST_TWO_SHARES, WIDEST_ONE_SHARE = "< 0.1% (model < 0.1%)", "less than 0.1%"
"""Longest labels next to a bar: with two percentages and with one."""


class NextTokenBarView(QWidget):
    """One row per token with its name, bar and percentage. `tokenChosen` emits the token id."""

    ACCESSIBLE_ROLE = QAccessible.Role.List
    tokenChosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Next-token probabilities")
        self.setAccessibleDescription(
            "Press Up and Down to move between tokens, and Enter to pick one."
        )
        self.panel, self._theme = NextTokenChoicePanel(), LIGHT
        self._at: int | None = None
        self._pointed: int | None = None

    def sizeHint(self) -> QSize:
        rows = min(self.panel.vocabulary or MAX_TOKEN_BARS + 1, MAX_TOKEN_BARS + 1)
        return QSize(280, round((rows + 1) * self._row_height))

    def minimumSizeHint(self) -> QSize:
        return QSize(180, self.sizeHint().height())

    @property
    def _row_height(self) -> float:
        return font_metrics(12).height() + 6 * text_scale()

    def show_bars(self, bars: NextTokenChoicePanel, theme: Theme) -> None:
        if bars == self.panel and theme is self._theme:
            return
        if bars.vocabulary != self.panel.vocabulary:
            self.updateGeometry()
        self.panel, self._theme = bars, theme
        if self._at is not None and self._at >= len(bars.bars):
            self._at = None
        set_accessible_value(self, bars.description)
        self.update()

    # ------------------------------------------------------------------ geometry

    def row_rectangle(self, at: int) -> QRectF:
        return QRectF(0, at * self._row_height, self.width(), self._row_height)

    @property
    def _is_narrow(self) -> bool:
        """Whether only one percentage fits next to the bars; the tooltip shows both."""
        return self.width() < MIN_TWO_SHARES_WIDTH_PX * text_scale()

    def _format_shares(self, bar: NextTokenBar) -> str:
        if not self.panel.legend:
            return format_percentage(bar.model_probability)
        return (
            format_percentage(bar.sampling_probability)
            if self._is_narrow
            else bar.probabilities_text
        )

    def column_edges(self) -> tuple[float, float, float]:
        """Return the x coordinates at which the bars start and end and the percentages start."""
        measures = font_metrics(12)
        names = (measures.horizontalAdvance(bar.label) for bar in self.panel.bars)
        name = min(max(names, default=0.0), MAX_NAME_PX * text_scale())
        has_both = self.panel.legend and not self._is_narrow
        shares = measures.horizontalAdvance(WIDEST_TWO_SHARES if has_both else WIDEST_ONE_SHARE)
        right = self.width() - MARGIN_PX - shares
        left = MARGIN_PX + name + SPACING_PX
        return left, max(left + 1, right - SPACING_PX), right

    # ------------------------------------------------------------------ drawing

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        columns = self.column_edges()
        for at, bar in enumerate(self.panel.bars):
            self._paint_row(painter, at, bar, columns)
        if self.panel.bars:
            self._paint_axis(painter, columns)
        painter.end()

    def _paint_row(
        self, painter: QPainter, at: int, bar: NextTokenBar, columns: tuple[float, float, float]
    ) -> None:
        theme, row = self._theme, self.row_rectangle(at)
        left, right, shares = columns
        is_lit = bar.token is not None and at == self._pointed
        if is_lit:
            painter.fillRect(row, QColor(theme.raised))
        is_taken = self.panel.is_on_branch(bar)
        is_bold = is_lit or is_taken
        painter.setFont(scaled_font(12, QFont.Weight.DemiBold if is_bold else QFont.Weight.Normal))
        painter.setPen(QColor(theme.quiet if bar.is_excluded or bar.token is None else theme.ink))
        if is_taken:
            edge = QRectF(0, row.top() + 2, BRANCH_MARK_WIDTH_PX * text_scale(), row.height() - 4)
            painter.fillRect(edge, QColor(theme.accent))
        name = QRectF(MARGIN_PX, row.top(), left - SPACING_PX - MARGIN_PX, row.height())
        words = font_metrics(12).elidedText(
            bar.label, Qt.TextElideMode.ElideRight, name.width() + 1
        )
        painter.drawText(name, ALIGN_RIGHT, words)
        self._paint_bar(painter, row, bar, left, right)
        painter.setFont(scaled_font(12))
        place = QRectF(shares, row.top(), self.width() - MARGIN_PX - shares, row.height())
        painter.drawText(place, ALIGN_LEFT, self._format_shares(bar))
        if at == self._at and self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), 1))
            painter.drawRect(row.adjusted(0.5, 0.5, -1.5, -0.5))

    def _paint_bar(
        self, painter: QPainter, row: QRectF, bar: NextTokenBar, left: float, right: float
    ) -> None:
        """Fill a bar up to the sampling probability, and outline or hatch it up to the model's."""
        theme, width = self._theme, (right - left) / self.panel.end
        inner = row.adjusted(0, 3 * text_scale(), 0, -3 * text_scale())
        filled = QRectF(left, inner.top(), width * bar.sampling_probability, inner.height())
        painter.fillRect(filled, QColor(theme.quiet if bar.token is not None else theme.border))
        outline = QRectF(left, inner.top(), width * bar.model_probability, inner.height())
        painter.setPen(QPen(QColor(theme.ink), 1))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if bar.is_excluded:
            painter.setPen(QPen(QColor(theme.border), 1))
            painter.setBrush(QBrush(QColor(theme.hatch), Qt.BrushStyle.BDiagPattern))
        if self.panel.legend:
            painter.drawRect(outline.adjusted(0.5, 0.5, -0.5, -0.5))
        painter.setPen(QColor(theme.quiet if bar.is_excluded else theme.ink))

    def _paint_axis(self, painter: QPainter, columns: tuple[float, float, float]) -> None:
        left, right, _ = columns
        top = self.row_rectangle(len(self.panel.bars)).top()
        painter.setPen(QColor(self._theme.hairline))
        painter.drawLine(QPointF(left, top), QPointF(right, top))
        painter.setFont(scaled_font(12))
        painter.setPen(QColor(self._theme.quiet))
        line = QRectF(left, top, right - left, self._row_height)
        painter.drawText(line, ALIGN_LEFT, "0")
        painter.drawText(line, ALIGN_RIGHT, format_percentage(self.panel.end))

    # ------------------------------------------------------------------ mouse and keyboard

    def _bar_at(self, point: QPointF) -> int | None:
        at = int(point.y() / self._row_height)
        return at if point.y() >= 0 and at < len(self.panel.bars) else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._highlight_bar(self._bar_at(event.position()))

    def leaveEvent(self, event: QEvent) -> None:
        self._highlight_bar(None)

    def _highlight_bar(self, at: int | None) -> None:
        if at != self._pointed:
            self._pointed = at
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._at = self._bar_at(event.position())
            self._emit_token_chosen()

    def _emit_token_chosen(self) -> None:
        bar = None if self._at is None else self.panel.bars[self._at]
        if bar and bar.token is not None:
            self.tokenChosen.emit(bar.token)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        key, last = Qt.Key(event.key()), len(self.panel.bars) - 1
        if has_command_modifier(event) or last < 0:
            super().keyPressEvent(event)
        elif key in steps:
            at = -1 if self._at is None else self._at
            self._at = min(max(at + steps[key], 0), last)
            words = self.panel.describe_bar(self.panel.bars[self._at])
            announce(self, words, Politeness.Assertive)
            self.update()
        elif key in PICK_KEYS:
            self._emit_token_chosen()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._at is None and self.panel.bars:
            self._at = 0
        self.update()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            at = self._bar_at(QPointF(event.pos()))
            words = "" if at is None else self.panel.describe_bar(self.panel.bars[at])
            show_tooltip(event.globalPos(), words, self)
            return True
        return super().event(event)
