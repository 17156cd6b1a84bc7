"""One window shared by the tests of a module, reset after each and replaced where that fails."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QAbstractSlider,
    QApplication,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)
from shiboken6 import isValid

from tests.support.waiting import wait_until
from tests.support.window_input import PATIENCE_MS
from visualizer import app
from visualizer.documents.document_file import SavedDocument
from visualizer.export.dialog.preview_controller import PreviewController
from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
from visualizer.features.model_generation.head_rows_widget import HeadRowsView
from visualizer.features.shapes.widget import ShapesPane
from visualizer.generation.next_tokens_and_sampling_widget import NextTokenBarView
from visualizer.session.document import Document
from visualizer.session.newest_request_worker import Worker
from visualizer.shell.autosave_controller import AutosaveController
from visualizer.shell.pane_table import PANES
from visualizer.widgets.solo_toggle_button import SoloToggleButton

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QByteArray
    from pytestqt.qtbot import QtBot

    from visualizer.export.export_settings import ExportSettings
    from visualizer.session.view import View
    from visualizer.shell.window import MainWindow

SHARED = "shared by tests"
"""The property of windows that may exist before and after a test."""
SIZE = (1280, 800)
AWAY = QPoint(-20_000, -20_000)
"""Where no pointer comes."""
PLAIN = (bool, str, Enum, Path, type(None))
"""Types of attributes that are compared; others are visible, counted or measured elsewhere."""
ASIDE = (AutosaveController, PreviewController, Worker)
"""What is beside the window: after first use, a file, an answer or an idle thread is kept."""
VIEWPORT = "qt_scrollarea_viewport"
CACHES = ("_picture", "_page", "_theme", "_image")
"""Attributes that cache the last drawing, or what it was drawn in."""
SHOWN_ANEW = (HeadRowsView, MaskEditBar, NextTokenBarView, ShapesPane, SoloToggleButton)
"""Widgets that set all they hold whenever they are opened: of a hidden one, nothing stays."""
MODES = (bool, Enum, type(None))
"""Types compared in hidden widgets, whose sizes and texts date from when they were visible."""

Traits = dict[str, object]


@dataclass(frozen=True, slots=True)
class Start:
    """The state of a new window."""

    view: View
    panes: QByteArray
    scheme: str
    settings: ExportSettings
    folder: Path
    traits: Traits


class SharedWindow:
    """Lends a window to one test after the other, always in the state of a new one.

    A test's changes are not assumed to be reset: the window is compared, widget by widget, with its
    initial state, and lent again only where nothing differs.
    """

    def __init__(self) -> None:
        self._window: MainWindow | None = None
        self._start: Start | None = None
        self._place: QPoint | None = None
        """Where the window stood, while it is put away."""

    def lend(self, qtbot: QtBot) -> MainWindow:
        """Return the window with its first numbers."""
        window = self._window
        if window is None:
            window = self._window = app.open_window(Document())
            window.setProperty(SHARED, True)
            window.resize(*SIZE)
            qtbot.waitExposed(window)
            wait_until(lambda: window.workspace.run is not None, 6 * PATIENCE_MS)
            for pane in PANES:  # made when first asked for: whoever asked would be said to differ
                window.panes[pane.id]
            come_to_rest(window)
            self._start = Start(
                window.workspace.wanted,
                window.saveState(),
                window.scheme,
                window.export_controller.settings,
                window.export_controller.folder,
                traits(window),
            )
        if self._place is not None:
            window.move(self._place)
            self._place = None
            QApplication.processEvents()
        return window

    def put_away(self) -> None:
        """Move the window off the screen until it is lent again."""
        window = self._window
        if window is not None and isValid(window) and self._place is None:
            self._place = window.pos()
            window.move(AWAY)

    def take_back(self) -> None:
        """Reset the window; if anything differs, the next test gets a new one."""
        window, start = self._window, self._start
        if window is None or start is None:
            return
        if not isValid(window) or not window.isVisible() or not set_back(window, start):
            self.close()

    def close(self) -> None:
        """Close the window, if there is one."""
        window, self._window, self._place = self._window, None, None
        if window is None or not isValid(window):
            return
        let_go(window)
        window.close()
        window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def let_go(window: MainWindow) -> None:
    """Let a window close: no unsaved changes, and no pending write."""
    window.document_controller.give_up()
    window.exporter.cancel()
    while window.exporter.is_working:  # otherwise closing is postponed
        QApplication.processEvents()


def come_to_rest(window: MainWindow) -> None:
    """Wait until the numbers are computed and shown."""
    workspace = window.workspace
    workers = window.findChildren(Worker)
    wait_until(
        lambda: (
            not any(worker.is_working for worker in workers)
            and not workspace.is_working
            and workspace.computed == workspace.document
            and workspace.view == workspace.wanted
        ),
        PATIENCE_MS,
    )
    for _ in range(3):
        QApplication.processEvents()


def set_back(window: MainWindow, start: Start) -> bool:
    """Reset a window; return whether it is in its initial state."""
    while popup := QApplication.activePopupWidget():
        popup.close()
    for dialog in window.findChildren(QDialog):
        dialog.close()
        dialog.deleteLater()
    let_go(window)
    for stop in (
        window.mask_edit_controller.stop,
        window.playback_controller.stop,
        window.presenter.leave,
    ):
        stop()
    if window.scheme != start.scheme:
        window.set_scheme(start.scheme)
    _reload(window, start)
    window.token_pane.strip._anchor = None
    window.token_pane.finder.hide()
    window.setup_pane.more_button.setChecked(False)
    window.resize(*SIZE)
    try:
        come_to_rest(window)
        if window.saveState() != start.panes:  # restoring panes lays out everything
            window.restoreState(start.panes)
            come_to_rest(window)
    except TimeoutError:
        return False
    window.board.clearFocus()  # a frame drawn around it goes
    window.board.setFocus()
    for view in (window.board, window.lines.view):
        QApplication.sendEvent(view.viewport(), QEvent(QEvent.Type.Leave))
    window.statusBar().showMessage("")
    window.export_controller.settings, window.export_controller.folder = (
        start.settings,
        start.folder,
    )
    for area in window.findChildren(QAbstractScrollArea):
        for bar in (area.horizontalScrollBar(), area.verticalScrollBar()):
            bar.setValue(bar.minimum())
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
    return traits(window) == start.traits


def _reload(window: MainWindow, start: Start) -> None:
    """Take in a new document, where the window's own, its view, history or file is another."""
    workspace, document_controller = window.workspace, window.document_controller
    has_past = workspace.can_undo or workspace.can_redo or document_controller.path is not None
    if has_past or (workspace.document, workspace.wanted) != (Document(), start.view):
        document_controller.take_in(SavedDocument(Document(), start.view), None)


def traits(window: MainWindow) -> Traits:
    """Return the visible state of a window and the plain attributes of its children."""
    workspace = window.workspace
    found: Traits = {
        "document": workspace.document,
        "view": workspace.wanted,
        "undone": (workspace.can_undo, workspace.can_redo),
        "title": (window.windowTitle(), window.isWindowModified()),
        "style": (window.styleSheet(), QApplication.font().toString()),
    }
    return found | dict(_parts(window, "window", window))


def _parts(thing: QObject, name: str, window: MainWindow) -> Iterator[tuple[str, object]]:
    """Yield the traits of an object and its children, by their path."""
    is_hidden = isinstance(thing, QWidget) and not thing.isVisibleTo(window)
    if is_hidden and isinstance(thing, SHOWN_ANEW):
        return
    if isinstance(thing, QTabBar) and not window.rect().intersects(thing.geometry()):
        return  # Qt keeps those of panes that are not tabbed now out of sight
    look = {} if is_hidden else dict(_look(thing))
    plain = MODES if is_hidden else PLAIN
    if isinstance(thing, QAbstractButton):
        look["checked"] = thing.isChecked()
    look |= {
        at: kept for at, kept in vars(thing).items() if isinstance(kept, plain) and at not in CACHES
    }
    if look:
        yield name, look
    counts: dict[str, int] = {}
    for part in thing.children():
        own_name = part.objectName()
        is_qts = own_name.startswith("qt_")  # Qt's own, made on demand
        if own_name == VIEWPORT or not (is_qts or isinstance(part, ASIDE)):
            kind = f"{type(part).__name__} {own_name}"
            counts[kind] = counts.get(kind, 0) + 1
            yield from _parts(part, f"{name} > {kind} {counts[kind]}", window)


def _look(thing: QObject) -> Iterator[tuple[str, object]]:
    if isinstance(thing, QWidget):
        yield "place", thing.geometry().getRect()
        yield "enabled", thing.isEnabled()
        yield "named", (thing.toolTip(), thing.accessibleName(), thing.accessibleDescription())
        yield "style", thing.styleSheet()
    if isinstance(thing, QLabel | QLineEdit | QAbstractButton | QAction):
        yield "text", thing.text()
    if isinstance(thing, QAction):
        yield "checked", thing.isChecked()
        yield "offered", (thing.isEnabled(), thing.isVisible(), thing.shortcut().toString())
    if isinstance(thing, QPlainTextEdit):
        yield "written", (thing.toPlainText(), thing.document().isUndoAvailable())
    if isinstance(thing, QComboBox):
        yield "chosen", (thing.currentIndex(), thing.count(), thing.currentText())
    if isinstance(thing, QAbstractSlider):
        yield "value", (thing.value(), thing.minimum(), thing.maximum())
    if isinstance(thing, QTimer):
        yield "active", thing.isActive()
