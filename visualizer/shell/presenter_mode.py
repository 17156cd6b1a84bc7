"""Presenter mode: full screen, large type and thick frames, with support for a remote clicker."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QByteArray, QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QColor,
    QFont,
    QGuiApplication,
    QKeySequence,
    QPainter,
    QShortcut,
)
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.widgets.focus_ring import OWN_FOCUS_PROPERTY
from visualizer.widgets.fonts import enlarged_system_font
from visualizer.widgets.shortcuts import format_shortcuts
from visualizer.widgets.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from PySide6.QtGui import QAction, QKeyEvent, QMouseEvent, QPaintEvent
    from PySide6.QtWidgets import QMainWindow

    from visualizer.session.workspace import Workspace
    from visualizer.shell.pane_docks import PaneDocks

TEXT_SCALE = 1.5
STROKE_SCALE = 1.75
"""Factor by which frames are widened so that they are visible from the back of a room."""
HINT_SEPARATOR = "  ·  "
HINTED_COMMANDS = (
    (("playback.step 1", "playback.step -1"), "step"),
    (("presenter_mode.blank",), "blank the screen"),
)
"""Commands that the status bar shows with their shortcuts, and their effect."""
BLANK_HINT = "Presenter mode  ·  press any key to show the heatmaps"
MAX_HEIGHT_PX = 2**24 - 1


class WindowArrangement(Struct, frozen=True):
    """The window's arrangement before presenter mode."""

    panes: QByteArray
    state: Qt.WindowState
    font: QFont


class BlankScreenCover(QWidget):
    """Cover of the window that directs attention to the speaker; any key or click removes it."""

    ACCESSIBLE_ROLE = QAccessible.Role.LayeredPane
    dismissed = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setProperty(OWN_FOCUS_PROPERTY, True)
        self.setAccessibleName("Blank screen. Press any key to show the heatmaps")
        self._theme = LIGHT
        self.hide()

    def show_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.update()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()  # keys do not affect the hidden content
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.dismissed.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.dismissed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.paper))
        painter.end()


def _is_typing() -> bool:
    """Return whether the focus is in a field for text or numbers."""
    fields = (QLineEdit, QPlainTextEdit, QAbstractSpinBox)
    return isinstance(QApplication.focusWidget(), fields)


class PresenterModeController(QObject):
    """Controller that enters presenter mode and, on leaving, restores the previous arrangement."""

    styleChanged = Signal()
    """Emitted when the text size and the frame width have changed."""
    arrangementChanged = Signal()
    """Emitted when panes and sizes have changed; intermediate states were not painted."""
    paintingLeft = Signal()
    cellLeft = Signal()
    playbackLeft = Signal()
    predictionLeft = Signal()
    allHeadsLeft = Signal()
    messageReported = Signal(str)
    """Emitted with a description of the available keys."""

    def __init__(
        self,
        workspace: Workspace,
        window: QMainWindow,
        docks: PaneDocks,
        board: QWidget,
        settings_bar: QWidget,
        actions: Mapping[str, QAction],
    ) -> None:
        super().__init__(window)
        self._settings_bar, self._actions = settings_bar, actions
        self._workspace, self._window = workspace, window
        self._docks, self._board = docks, board
        self._before: WindowArrangement | None = None
        self.blank_screen_widget = BlankScreenCover(window)
        self.blank_screen_widget.dismissed.connect(self.uncover_screen)
        self._escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), window)
        self._escape.setEnabled(False)
        self._escape.activated.connect(self.leave_innermost_mode)

    @property
    def is_on(self) -> bool:
        return self._before is not None

    @property
    def frame_width_scale(self) -> float:
        """Factor by which the normal width of frames is multiplied."""
        return STROKE_SCALE if self.is_on else 1.0

    def toggle(self) -> None:
        """Enter or leave presenter mode."""
        if self.is_on:
            self.leave_mode()
        else:
            self._enter_mode()

    def _enter_mode(self) -> None:
        window = self._window
        font = QFont(QGuiApplication.font())
        self._before = WindowArrangement(window.saveState(), window.windowState(), font)
        with self._deferred_painting():
            with self._docks.batch_changes():
                for dock in self._docks.docks.values():
                    dock.hide()
            # If the menu bar were hidden, its shortcuts would not work.
            window.menuBar().setFixedHeight(0)
            window.setWindowState(window.windowState() | Qt.WindowState.WindowFullScreen)
            self._apply_mode(enlarged_system_font(TEXT_SCALE))
        self._board.setFocus()

    def leave_mode(self) -> None:
        window, before = self._window, self._before
        if before is None:
            return
        self.uncover_screen()
        self._before = None
        with self._deferred_painting():
            window.menuBar().setMinimumHeight(0)
            window.menuBar().setMaximumHeight(MAX_HEIGHT_PX)
            window.setWindowState(before.state)
            self._apply_mode(before.font)
            self._restore_panes(before.panes)  # last, because they depend on the text size
        again = partial(self._restore_panes, before.panes)
        QTimer.singleShot(0, self, again)  # again, when the window has its old size

    @contextmanager
    def _deferred_painting(self) -> Iterator[None]:
        """Context manager that suppresses the painting and layout of intermediate states."""
        self._window.setUpdatesEnabled(False)
        try:
            yield
        finally:
            self._window.setUpdatesEnabled(True)
            self.arrangementChanged.emit()

    def _restore_panes(self, panes: QByteArray) -> None:
        if not self.is_on:
            with self._docks.batch_changes():
                self._window.restoreState(panes)
                self._docks.restore_content_panes()

    def _apply_mode(self, font: QFont) -> None:
        QApplication.setFont(font)  # all other font sizes are derived from this one
        self._settings_bar.setVisible(not self.is_on)
        self._escape.setEnabled(self.is_on)
        self.styleChanged.emit()

    def leave_innermost_mode(self) -> None:
        """Leave the innermost mode: mask editing, playback, a pinned cell and so on."""
        if self._workspace.screen.panel(MASK_EDIT_PANEL):
            self.paintingLeft.emit()
        elif self._workspace.requested_view.playhead.is_playing:
            self.playbackLeft.emit()
        elif self._workspace.screen.panel(BOARD_CONTENTS).cursor.is_pinned:
            self.cellLeft.emit()
        elif self._workspace.requested_view.guess:
            self.predictionLeft.emit()
        elif self.is_on:
            self.leave_mode()
        elif self._workspace.requested_view.pinned:  # a cell that playback has not reached
            self.cellLeft.emit()
        elif _is_typing():
            return
        elif self._are_heads_side_by_side():
            self.allHeadsLeft.emit()
        else:
            self._docks.show_centre_pane()

    def _are_heads_side_by_side(self) -> bool:
        """Return whether heads are shown side by side, instead of the flow board."""
        resolved = self._workspace.screen.resolved
        is_single = resolved is not None and not (resolved.is_spread or resolved.comparison)
        return resolved is not None and is_single and resolved.flow is None

    def blank_screen(self) -> None:
        """Cover everything except the status bar."""
        window = self._window
        self.blank_screen_widget.setGeometry(
            window.rect().adjusted(0, 0, 0, -window.statusBar().height())
        )
        self.blank_screen_widget.show()
        self.blank_screen_widget.raise_()
        self.blank_screen_widget.setFocus()
        self._show_key_hints()

    def uncover_screen(self) -> None:
        if self.blank_screen_widget.isVisible():
            self.blank_screen_widget.hide()
            self._board.setFocus()
            self._show_key_hints()

    def _show_key_hints(self) -> None:
        is_blank = self.blank_screen_widget.isVisible()
        self.messageReported.emit(BLANK_HINT if is_blank else self._list_keys())

    def _list_keys(self) -> str:
        hints = [
            f"{keys}: {effect}"
            for ids, effect in HINTED_COMMANDS
            if (keys := self._format_shortcuts(*ids))
        ]
        leave = " or ".join(filter(None, (self._format_shortcuts("presenter_mode.toggle"), "Esc")))
        heads = "1 to 9: head, 0: all heads"
        return HINT_SEPARATOR.join(("Presenter mode", *hints, heads, f"{leave}: exit"))

    def _format_shortcuts(self, *ids: str) -> str:
        return format_shortcuts(
            keys.toString() for id_ in ids for keys in self._actions[id_].shortcuts()
        )

    def show_theme(self, theme: Theme) -> None:
        """Apply another theme, and show the available keys again."""
        self.blank_screen_widget.show_theme(theme)
        if self.is_on:
            self._show_key_hints()
