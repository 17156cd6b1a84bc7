"""The playback bar: playback buttons, caption and equation in one row.

The headings of the flow board are the timeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QColor, QKeyEvent, QPainter, QPalette
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from visualizer.features.playback.presenter import (
    PLAYBACK_PANEL,
    PlaybackBarContents,
    equation_to_html,
    format_step_count,
)
from visualizer.session.timeline import PLAYBACK_SPEEDS, StepSize
from visualizer.session.user_prediction import PredictionQuestion
from visualizer.widgets.accessibility import set_accessible_value
from visualizer.widgets.fonts import text_scale
from visualizer.widgets.icons import DISABLED_OPACITY, icon
from visualizer.widgets.labels import ElidedHtmlLabel, PlainTextLabel
from visualizer.widgets.layouts import column_layout, row_layout
from visualizer.widgets.setting_controls import create_combo_box
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtCore import QObject
    from PySide6.QtGui import QAction, QPaintEvent

    from visualizer.explanations.explain import Equation
    from visualizer.session.screen import Screen
    from visualizer.widgets.theme import Theme

LEFT_COMMANDS = (
    "playback.go_to_start",
    "playback.step -1",
    "playback.toggle",
    "playback.step 1",
    "playback.go_to_end",
)
PLAY_COMMAND = "playback.toggle"
RIGHT_COMMANDS = ("playback.toggle_loop", "playback.predict")
ROW_HEIGHT_PX, PLAY_BUTTON_PX, ICON_PX, PLAY_ICON_PX = 94, 38, 20, 18
SENTENCE_PX, EQUATION_PX = (17, 15, 13), (13,)
SENTENCE_LINES = 2
HINT = "Point at a number to see how it is computed, or play the computation."
"""Text that is shown if there is nothing to describe."""
OVERVIEW_HINT = "Point at a head to see its attention pattern. Click a head to open it."
"""Text that is shown with the heads of all layers."""
ALL_COMPUTED = "all steps computed"
GRAIN_LABELS = {
    StepSize.TOUR: "Tour",
    StepSize.STAGE: "By stage",
    StepSize.ROW: "By row",
    StepSize.CELL: "By cell",
}
QUESTION_LABELS = {
    PredictionQuestion.LARGEST: "Which is largest?",
    PredictionQuestion.ZERO: "Which are zero?",
}


class PlaybackBar(QWidget):
    """Playback buttons, and the caption and equation of the cell or the step.

    The height is fixed, so that texts do not move the heatmaps.
    """

    ACCESSIBLE_ROLE = QAccessible.Role.ToolBar
    grainChosen = Signal(object)
    speedChosen = Signal(float)
    questionChosen = Signal(object)

    def __init__(self, actions: Mapping[str, QAction]) -> None:
        super().__init__()
        self.setObjectName("transport")
        self.setAccessibleName("Playback")
        self.shown: tuple[PlaybackBarContents, Theme] | None = None
        self._hint = HINT
        self._cell: tuple[str, Equation | None] | None = None
        """Caption and equation of the hovered or pinned cell, or None without such a cell."""
        self.caption = ElidedHtmlLabel("Step description", SENTENCE_PX, SENTENCE_LINES)
        self.equation = ElidedHtmlLabel("Step equation", EQUATION_PX)
        self.where = PlainTextLabel()
        self.grain = create_combo_box("Steps", GRAIN_LABELS.items())
        self.speed = create_combo_box(
            "Speed", [(speed, f"{speed:g}×") for speed in PLAYBACK_SPEEDS]
        )
        self.question = create_combo_box("Prediction question", QUESTION_LABELS.items())
        self.grain.activated.connect(self._emit_step_size)
        self.speed.activated.connect(self._emit_speed_chosen)
        for box in (self.grain, self.speed, self.question):
            box.installEventFilter(self)
        self.question.activated.connect(self._emit_question_chosen)
        self.reveal = QToolButton()
        self.reveal.setDefaultAction(actions["playback.reveal"])
        self.reveal.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.play = PlayPauseButton(actions[PLAY_COMMAND])
        self._row = QWidget()
        self._row.setLayout(self._build_row(actions))
        column = column_layout(self, (12, 0, 12, 0), spacing=0)
        column.addWidget(self._row)
        self._reserve_height()

    def _build_row(self, actions: Mapping[str, QAction]) -> QHBoxLayout:
        row = row_layout(spacing=4)
        for key in LEFT_COMMANDS:
            row.addWidget(self.play if key == PLAY_COMMAND else _create_button(actions[key]))
        row.addSpacing(8)
        choices = column_layout(margins=(0, 8, 0, 8), spacing=4)
        for box in (self.grain, self.speed):
            choices.addWidget(box)
        row.addLayout(choices)
        line = QWidget(autoFillBackground=True)
        line.setBackgroundRole(QPalette.ColorRole.Mid)
        line.setFixedWidth(1)
        row.addSpacing(8)
        row.addWidget(line)
        row.addSpacing(12)
        words = column_layout(spacing=4)
        words.addStretch()
        for label in (self.caption, self.equation):
            words.addWidget(label)
        words.addStretch()
        row.addLayout(words, 1)
        row.addSpacing(12)
        for widget in (self.question, self.reveal):
            row.addWidget(widget)
        row.addLayout(self._build_right_column(actions))
        return row

    def _build_right_column(self, actions: Mapping[str, QAction]) -> QVBoxLayout:
        """Build the step number, with the commands for looping and predicting below it."""
        column = column_layout(margins=(0, 8, 0, 8), spacing=4)
        self.where.setProperty("role", "quiet")
        column.addWidget(self.where, 0, Qt.AlignmentFlag.AlignRight)
        buttons = row_layout(spacing=4)
        buttons.addStretch()
        for key in RIGHT_COMMANDS:
            buttons.addWidget(_create_button(actions[key]))
        column.addLayout(buttons)
        return column

    def _reserve_height(self) -> None:
        self._row.setFixedHeight(round(ROW_HEIGHT_PX * text_scale()))

    @property
    def text_widgets(self) -> tuple[QWidget, ...]:
        """Focusable widgets that do not handle the playback keys."""
        return self.caption, self.equation

    # ------------------------------------------------------------------ showing

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        wanted = screen.wanted
        self.grain.setCurrentIndex(self.grain.findData(wanted.playhead.grain))
        self.speed.setCurrentIndex(self.speed.findData(wanted.playhead.speed))
        if wanted.guess:
            self.question.setCurrentIndex(self.question.findData(wanted.guess.question))
        self._show_playback(screen.panel(PLAYBACK_PANEL), theme)

    def _show_playback(self, bar: PlaybackBarContents, theme: Theme) -> None:
        if self.shown == (bar, theme):
            return
        bar = replace(bar, made_of=None, described_stage=None)  # they would keep the run alive
        self.shown = (bar, theme)
        self.play.show_playback(bar.playhead.is_playing, theme)
        state = "Playing" if bar.playhead.is_playing else "Paused"
        set_accessible_value(self, f"{state}: {bar.where or ALL_COMPUTED}")
        self.where.setText(format_step_count(bar))
        self._show_texts()
        self.question.setVisible(bar.question is not None)
        self.reveal.setVisible(bar.question is not None and not bar.is_revealed)

    def show_cell(self, caption: str = "", equation: Equation | None = None) -> None:
        """Describe the hovered or pinned cell, except during predictions and playback.

        Parameters
        ----------
        caption : str
            The sentence about the cell (HTML); empty if no cell is hovered or pinned.
        """
        self._cell = (caption, equation) if caption else None
        self._show_texts()

    def set_hint(self, hint: str) -> None:
        """Set the text that is shown if there is nothing to describe."""
        if hint != self._hint:
            self._hint = hint
            self._show_texts()

    def _show_texts(self) -> None:
        """Show the texts of the step.

        While nothing is played or predicted, the texts of the current cell take precedence.
        """
        if self.shown is None:
            return
        bar, theme = self.shown
        texts = bar.caption, bar.equation
        if self._cell and bar.question is None and not bar.playhead.is_playing:
            texts = self._cell
        is_quiet = not texts[0] and bar.count > 0
        idle_text = (bar.range_notice if self._hint == HINT else "") or self._hint
        hint = f"<span style='color:{theme.quiet}'>{idle_text}</span>" * is_quiet
        self.caption.show_html((texts[0] or hint,))
        self.equation.show_html(*equation_to_html(texts[1], theme))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            for button in self.findChildren(QToolButton):
                button.setIconSize(_icon_size())
            self._reserve_height()
            self.play.reserve_size()

    # ------------------------------------------------------------------ user input

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Play or pause on Space if a list has the focus; open lists receive their own keys."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Space
            and not event.modifiers()
        ):
            self.play.defaultAction().trigger()
            return True
        return super().eventFilter(watched, event)

    def _emit_step_size(self, index: int) -> None:
        self.grainChosen.emit(StepSize(self.grain.itemData(index)))

    def _emit_speed_chosen(self, index: int) -> None:
        self.speedChosen.emit(self.speed.itemData(index))

    def _emit_question_chosen(self, index: int) -> None:
        self.questionChosen.emit(PredictionQuestion(self.question.itemData(index)))


class PlayPauseButton(QToolButton):
    """Round button that plays or pauses, in the text colour."""

    def __init__(self, action: QAction) -> None:
        super().__init__()
        self.setDefaultAction(action)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a menu has the same command
        self._is_playing, self._theme = False, LIGHT
        self.reserve_size()

    def reserve_size(self) -> None:
        side = round(PLAY_BUTTON_PX * text_scale())
        self.setFixedSize(side, side)

    def show_playback(self, is_playing: bool, theme: Theme) -> None:
        self._is_playing, self._theme = is_playing, theme
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if not self.isEnabled():
            painter.setOpacity(DISABLED_OPACITY)
        is_lit = self.underMouse() or self.isDown()
        painter.setBrush(QColor(self._theme.quiet if is_lit else self._theme.ink))
        painter.drawEllipse(QRectF(self.rect()).adjusted(1, 1, -1, -1))
        side = round(PLAY_ICON_PX * text_scale())
        place = QRect(0, 0, side, side)
        place.moveCenter(self.rect().center())
        name = "pause" if self._is_playing else "play"
        icon(name, self._theme.paper).paint(painter, place)
        painter.end()


def _create_button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setAutoRaise(True)
    button.setIconSize(_icon_size())
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # a menu has the same command
    return button


def _icon_size() -> QSize:
    return QSize(ICON_PX, ICON_PX) * text_scale()
