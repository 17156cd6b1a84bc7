"""One window shared by many tests, reset after each test and replaced if the reset fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QItemSelectionModel,
    QObject,
    QPoint,
    Qt,
    QTimer,
)
from PySide6.QtGui import QAction, QValidator
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemDelegate,
    QAbstractScrollArea,
    QAbstractSlider,
    QApplication,
    QBoxLayout,
    QComboBox,
    QDialog,
    QDockWidget,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QStyledItemDelegate,
    QTabBar,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from tests.support.background_work import timer_of
from tests.support.waiting import wait_until
from tests.support.window_input import PATIENCE_MS, leave
from visualizer import app
from visualizer.documents.document_file import SavedDocument
from visualizer.export.dialog.preview_widget import PreviewController
from visualizer.features.layer_overview.findings_widget import FindingsRow
from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
from visualizer.features.model_connection.controller import TOKEN_LOOKUP_DELAY_MS
from visualizer.features.model_generation.widget import HeadWeightRowsView
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.features.shapes.widget import ShapesPane
from visualizer.features.token_strip.patch_strip_widget import PatchStrip
from visualizer.generation.token_choice_widget import NextTokenBarView
from visualizer.heatmap.number_magnifier_widget import NumberMagnifier
from visualizer.session.document import Document
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.shell.document_recovery import AutosaveController
from visualizer.shell.pane_table import PANES
from visualizer.widgets.buttons import SoloToggleButton
from visualizer.widgets.popover import Popover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtCore import QByteArray
    from pytestqt.qtbot import QtBot

    from visualizer.export.export_settings import ExportSettings
    from visualizer.shell.window import MainWindow

SHARED = "shared by tests"
"""Name of the property that marks windows which may exist before and after a test."""
SIZE = (1280, 800)
AWAY = QPoint(-20_000, -20_000)
"""A position that the pointer never reaches."""
PLAIN = (bool, str, Enum, Path, type(None))
"""Types of attributes that are compared; others are visible, or are counted or measured elsewhere.
"""
ASIDE = (AutosaveController, PreviewController, NewestRequestWorker, Popover)
"""Types that are not compared as children; most keep a file, a result or an idle thread."""
BARE = {
    QAbstractItemDelegate,
    QBoxLayout,
    QGridLayout,
    QHBoxLayout,
    QItemSelectionModel,
    QStyledItemDelegate,
    QVBoxLayout,
    QValidator,
}
"""Types of Qt's own parts without traits; their subclasses may have some."""
VIEWPORT = "qt_scrollarea_viewport"
CACHES = ("_bars", "_picture", "picture", "_page", "_theme", "_image", "_hovered", "patches")
"""Attributes that cache the last image, the last hovered cell, or a widget created on demand."""
Reader = Callable[[Any], object]

READERS: tuple[tuple[type | tuple[type, ...], str, Reader], ...] = (
    (QWidget, "place", lambda widget: widget.geometry().getRect()),
    (QWidget, "enabled", QWidget.isEnabled),
    (
        QWidget,
        "named",
        lambda widget: (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription()),
    ),
    (QWidget, "style", QWidget.styleSheet),
    ((QLabel, QLineEdit, QAbstractButton, QAction), "text", lambda thing: thing.text()),
    ((QAbstractButton, QAction), "checked", lambda thing: thing.isChecked()),
    (
        QAction,
        "offered",
        lambda action: (action.isEnabled(), action.isVisible(), action.shortcut().toString()),
    ),
    (
        QPlainTextEdit,
        "written",
        lambda edit: (edit.toPlainText(), edit.document().isUndoAvailable()),
    ),
    (QComboBox, "chosen", lambda box: (box.currentIndex(), box.count(), box.currentText())),
    (QAbstractSlider, "value", lambda slider: (slider.value(), slider.minimum(), slider.maximum())),
    (QTimer, "active", QTimer.isActive),
)
"""Traits that are read from visible objects: their types, the name of the trait, and a function."""


SHOWN_ANEW = (
    FindingsRow,
    HeadWeightRowsView,
    MaskEditBar,
    NextTokenBarView,
    NumberMagnifier,
    PatchStrip,
    ShapesPane,
    SoloToggleButton,
)
"""Widgets that set all their contents when they are opened; hidden ones are not compared."""
MODES = (bool, Enum, type(None))
"""Types that are compared in hidden widgets, whose sizes and texts may be out of date."""


class Kind:
    """What is compared for a type, computed only once because a window has thousands of objects."""

    def __init__(self, kind: type) -> None:
        self.is_excluded = kind in BARE or issubclass(kind, ASIDE)
        self.is_widget = issubclass(kind, QWidget)
        self.is_tab_bar = issubclass(kind, QTabBar)
        self.is_moved_away = issubclass(kind, (QTabBar, QDockWidget))
        self.is_shown_anew = issubclass(kind, SHOWN_ANEW)
        self.is_plain, self.is_mode = issubclass(kind, PLAIN), issubclass(kind, MODES)
        self.readers = [(trait, read) for kinds, trait, read in READERS if issubclass(kind, kinds)]
        is_button = issubclass(kind, QAbstractButton)
        self.hidden_readers = [each for each in self.readers if is_button and each[0] == "checked"]


class Kinds(dict[type, Kind]):
    """The `Kind` of each type, created when it is first needed."""

    def __missing__(self, kind: type) -> Kind:
        made = self[kind] = Kind(kind)
        return made


KINDS = Kinds()
Traits = dict[str, object]


@dataclass(frozen=True, slots=True)
class Start:
    """The state of a new window."""

    view: View
    panes: QByteArray
    alike: set[bytes]
    """Known states that are equivalent to `panes`; Qt may store other sizes for closed panes."""
    scheme: str
    settings: ExportSettings
    folder: Path
    traits: Traits


class SharedWindow:
    """Lends a window to one test after another, always in the state of a new window.

    A test's changes are not assumed to be reset: the window is compared with its initial state,
    widget by widget, and is lent again only if there is no difference.
    """

    def __init__(self) -> None:
        self._window: MainWindow | None = None
        self._start: Start | None = None
        self._place: QPoint | None = None
        """Position of the window before it was put away."""

    def lend(self, qtbot: QtBot) -> MainWindow:
        """Return the window with its first numbers."""
        window = self._window
        if window is None:
            window = self._window = app.open_window(Document(), View())
            window.setProperty(SHARED, True)
            window.resize(*SIZE)
            qtbot.waitExposed(window)
            wait_until(lambda: window.workspace.run is not None, 6 * PATIENCE_MS)
            # Panes are created when they are first accessed, which would count as a change.
            for pane in PANES:
                window.panes[pane.id]
            come_to_rest(window)
            self._start = Start(
                window.workspace.requested_view,
                panes := window.saveState(),
                {bytes(panes.data())},
                window.scheme,
                window.controllers.export_controller.settings,
                window.controllers.export_controller.folder,
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
        """Reset the window; if there is a difference, the next test gets a new window."""
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
    """Prepare a window for closing: no unsaved changes, and no pending write."""
    window.controllers.document_controller.discard_unsaved_changes()
    window.controllers.export_controller.exporter.cancel()
    # Otherwise, closing is postponed.
    while window.controllers.export_controller.exporter.is_working:
        QApplication.processEvents()


def come_to_rest(window: MainWindow) -> None:
    """Wait until the numbers are computed and shown, and the images of a long text are exact."""
    requests = window.workspace.requests
    _wait_for_numbers(window)
    # This delay follows user actions, and would add up for hundreds of tests.
    if requests.is_refinement_delayed:
        requests.refinement_timer.stop()
        requests.resume_refinement()
        _wait_for_numbers(window)
    for _ in range(3):
        QApplication.processEvents()


def _wait_for_numbers(window: MainWindow) -> None:
    workspace = window.workspace
    workers = window.findChildren(NewestRequestWorker)
    wait_until(
        lambda: (
            not any(worker.is_working for worker in workers)
            and not workspace.is_working
            and workspace.computed == workspace.document
            and workspace.view == workspace.requested_view
        ),
        PATIENCE_MS,
    )


def set_back(window: MainWindow, start: Start) -> bool:
    """Reset a window, and return whether it is in its initial state."""
    _close_what_is_in_front(window)
    let_go(window)
    for stop in (
        window.controllers.mask_edit_controller.stop_editing,
        window.controllers.playback_controller.stop,
        window.controllers.presenter_mode.leave_mode,
        window.docks.show_heatmaps,
    ):
        stop()
    if window.scheme != start.scheme:
        window.set_colour_scheme(start.scheme)
    window.resize(*SIZE)
    _restore_panes(window, start)  # first, so that the screen is created only for these panes
    _reload(window, start)
    _reset_controls(window)
    if not _settle(window, start):
        return False
    if window.workspace.screen.panel(PLAYBACK_PANEL).range_notice:
        _show_another_step(window, start)
    window.board.clearFocus()  # removes the focus frame
    window.board.setFocus()
    for view in (window.board, window.panes["Lines"].view):
        leave(view, at_once=True)  # a delay would add up for hundreds of tests
    window.statusBar().showMessage("")
    window.controllers.export_controller.settings, window.controllers.export_controller.folder = (
        start.settings,
        start.folder,
    )
    for area in window.findChildren(QAbstractScrollArea):
        for bar in (area.horizontalScrollBar(), area.verticalScrollBar()):
            bar.setValue(bar.minimum())
    window.view_bar.range.updateGeometry()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
    is_as_new = traits(window) == start.traits
    if not is_as_new:  # for example, if a pane is still to be laid out
        come_to_rest(window)
        is_as_new = traits(window) == start.traits
    if is_as_new:
        start.alike.add(bytes(window.saveState().data()))
    return is_as_new


def _settle(window: MainWindow, start: Start) -> bool:
    """Wait until panes and heatmaps have their initial sizes; return False if that takes long."""
    try:
        come_to_rest(window)
        if _restore_panes(window, start):
            come_to_rest(window)
        _close_what_is_in_front(window)  # such as an error message for a file
    except TimeoutError:
        return False
    return True


def _reset_controls(window: MainWindow) -> None:
    """Reset what a document does not determine: the head in front, chips, sorting and timers."""
    window.controllers.view_controller.front_head = 0
    window.panes["Tokens"].strip.anchor = None
    window.panes["Heads"].view.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    timer_of(window.controllers.model_connection_controller, TOKEN_LOOKUP_DELAY_MS).stop()
    window.panes["Tokens"].search_edit.hide()
    for chip in (window.settings_bar.source_chip, *window.settings_bar.chips.values()):
        chip.setChecked(False)
    window.panes["Explain"].code_section.show_all.setChecked(False)


def _show_another_step(window: MainWindow, start: Start) -> None:
    """Remove the notice of a changed colour range, which the reset itself may have caused."""
    for view in (replace(start.view, zoom=ZoomRange(range(1), range(1))), start.view):
        window.workspace.request_view(view)
        come_to_rest(window)


def _close_what_is_in_front(window: MainWindow) -> None:
    while popup := QApplication.activePopupWidget():
        popup.close()
    for dialog in window.findChildren(QDialog):
        dialog.close()
        dialog.deleteLater()


def _restore_panes(window: MainWindow, start: Start) -> bool:
    """Restore the initial panes in one change, and return whether there was a difference."""
    is_other = bytes(window.saveState().data()) not in start.alike
    if is_other:  # restoring the panes lays out all of them
        with window.docks.batch_changes():
            window.restoreState(start.panes)
    return is_other


def _reload(window: MainWindow, start: Start) -> None:
    """Open a new document if the document, its history or its file has changed."""
    workspace, document_controller = window.workspace, window.controllers.document_controller
    has_past = (
        workspace.history.can_undo
        or workspace.history.can_redo
        or document_controller.path is not None
    )
    if has_past or workspace.document != Document():
        document_controller.show_opened_document(SavedDocument(Document(), start.view), None)
    else:
        workspace.request_view(start.view)  # nothing is recomputed


def traits(window: MainWindow) -> Traits:
    """Return the visible state of a window and the plain attributes of its children, by path."""
    workspace = window.workspace
    found: Traits = {
        "document": workspace.document,
        "view": workspace.requested_view,
        "undone": (workspace.history.can_undo, workspace.history.can_redo),
        "title": (window.windowTitle(), window.isWindowModified()),
        "style": (window.styleSheet(), QApplication.font().toString()),
    }
    waiting: list[tuple[str, QObject, bool]] = [("window", window, False)]
    # An open one is a child of the window, and a closed one of its button until it is first opened.
    waiting += (
        (f"popover {at}", each, False) for at, each in enumerate(window.settings_bar.popovers)
    )
    while waiting:
        name, thing, is_within_hidden = waiting.pop()
        kind = KINDS[type(thing)]
        is_hidden = kind.is_widget and (is_within_hidden or _is_out_of_sight(thing, kind, window))
        if is_hidden and (kind.is_shown_anew or kind.is_tab_bar):
            continue
        if look := _look(thing, kind, is_hidden):
            found[name] = look
        waiting += ((*part, is_hidden) for part in _parts(thing, name))
    return found


def _is_out_of_sight(widget: QObject, kind: Kind, window: MainWindow) -> bool:
    """Whether a widget is hidden, or a dock behind another one or its tab bar.

    Qt moves the latter out of the window, and gives them their sizes when they are next shown.
    """
    widget = cast("QWidget", widget)
    if not widget.isVisibleTo(window):
        return True
    return kind.is_moved_away and not window.rect().intersects(widget.geometry())


def _parts(thing: QObject, name: str) -> Iterator[tuple[str, QObject]]:
    """Yield the children of an object that are compared, with their paths."""
    counts: dict[str, int] = {}
    for part in thing.children():
        kind = type(part)
        if KINDS[kind].is_excluded:
            continue
        own_name = part.objectName()
        # Qt creates its own parts on demand
        if own_name == VIEWPORT or not own_name.startswith("qt_"):
            described = f"{kind.__name__} {own_name}"
            counts[described] = counts.get(described, 0) + 1
            yield f"{name} > {described} {counts[described]}", part


def _look(thing: QObject, kind: Kind, is_hidden: bool) -> dict[str, object]:
    """Return the traits of an object itself."""
    if is_hidden:
        look = {trait: read(thing) for trait, read in kind.hidden_readers}
        plain = {at: kept for at, kept in vars(thing).items() if KINDS[type(kept)].is_mode}
    else:
        look = {trait: read(thing) for trait, read in kind.readers}
        plain = {at: kept for at, kept in vars(thing).items() if KINDS[type(kept)].is_plain}
    return look | {at: kept for at, kept in plain.items() if at not in CACHES}
