"""Operates the main window by input events, and reads what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QAction, QInputMethodEvent, QMouseEvent, QTextDocumentFragment
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QMenu,
    QMessageBox,
    QSlider,
    QStyle,
    QStyleOptionSlider,
    QToolButton,
    QWidget,
)

from tests.support.waiting import wait_until
from visualizer.attention.spec_validation import spec_problems
from visualizer.documents.document_file import SavedDocument
from visualizer.widgets.command_palette import CommandPalette

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytestqt.qtbot import QtBot

    from visualizer.heatmap.board import Board, Heatmap
    from visualizer.heatmap.cell_scroll_widget import CellScrollArea
    from visualizer.session.cell_address import Cell
    from visualizer.session.document import Document
    from visualizer.shell.window import MainWindow

SomeWidget = TypeVar("SomeWidget", bound=QWidget)
CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
LEFT = Qt.MouseButton.LeftButton
PATIENCE_MS = 10_000


def leave(area: CellScrollArea, *, at_once: bool = False) -> None:
    """Move the pointer away from cells; unless ``at_once``, wait until this has had an effect."""
    QApplication.sendEvent(area.viewport(), QEvent(QEvent.Type.Leave))
    if at_once:
        area.leave_timer.stop()
        area.clear_hovered_cell()
    wait_until(lambda: not area.leave_timer.isActive(), PATIENCE_MS)


class Hand:
    """Operates a window by input events only, and reads what its widgets show."""

    def __init__(self, qtbot: QtBot, window: MainWindow) -> None:
        self.qtbot = qtbot
        self.window = window
        self.board = window.board
        self.sentence = window.settings_bar.sentence
        self.activate()

    def show_document(self, document: Document) -> None:
        """Open a document in the window."""
        saved = SavedDocument(document, self.window.workspace.requested_view)
        self.window.controllers.document_controller.show_opened_document(saved, None)
        self.settle()

    # ------------------------------------------------------------------ menus

    def read_menu(
        self, button: QToolButton, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, bool]:
        """Open a button's menu with the mouse; return its texts and which entries are checked."""
        read: dict[str, bool] = {}

        def look() -> None:
            read.update({_text(one): one.isChecked() for one in button.menu().actions()})
            meanwhile()

        self._in_menu(button, look)
        return read

    def choose_in_menu(self, button: QToolButton, *texts: str) -> None:
        """Open a button's menu with the mouse, and choose an entry through its submenus."""
        self._in_menu(button, lambda: _click_in_menu(button.menu(), texts))
        self.settle()

    def toggle_stage(self, stage: str) -> None:
        """Show or hide a stage in the menu of stages."""
        assert self.window.workspace.run
        title = self.window.workspace.run.trace.stage(stage).title
        button = self.window.view_bar.stages_button
        self._in_menu(button, lambda: _click_in_menu(button.menu(), (title,)))

    def _in_menu(self, button: QToolButton, act: Callable[[], object]) -> None:
        """Do something while a button's menu is open; opening it returns only when it is closed."""
        menu = button.menu()

        def begin() -> None:
            try:
                act()
            finally:
                menu.close()

        def begin_soon() -> None:
            QTimer.singleShot(0, menu, begin)

        menu.aboutToShow.connect(begin_soon)
        self.click(button)
        menu.aboutToShow.disconnect(begin_soon)
        self.activate()

    # ------------------------------------------------------------------ waiting

    def activate(self) -> None:
        """Activate the window; on the offscreen platform, a closed pop-up leaves none active."""
        self.until(lambda: QApplication.activePopupWidget() is None)
        QApplication.processEvents()
        self.window.activateWindow()
        self.until(self.window.isActiveWindow)

    def until(self, is_so: Callable[[], bool], patience_ms: int = PATIENCE_MS) -> None:
        wait_until(is_so, patience_ms)

    def settle(self) -> None:
        """Wait until the document's numbers are shown and all wheel events have been handled."""
        workspace, is_turned = self.window.workspace, self.board.zoom_timer.isActive
        assert spec_problems(workspace.document.spec) == ()
        self.until(
            lambda: (
                not workspace.is_working
                and not is_turned()
                and self.window.pending_screen is None
                and workspace.computed == workspace.document
                and workspace.view == workspace.requested_view
            )
        )
        # A longer text makes its input field taller and the heatmaps shorter.
        QApplication.processEvents()

    # ------------------------------------------------------------------ acting

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
        """Press a key in the focused widget."""
        target = QApplication.focusWidget() or self.window
        QTest.keyClick(target, key, modifiers)

    def trigger(self, command: str) -> None:
        """Run a command as its menu entry does, which has no effect if it is disabled."""
        self.window.actions_.by_id[command].trigger()

    def run_in_palette(self, letters: str) -> None:
        """Find a command in the palette, and run it, with keys only."""
        self.activate()
        self.press(Qt.Key.Key_P, CONTROL | SHIFT)
        palette = self.window.findChild(CommandPalette)
        assert palette
        self.until(palette.field.hasFocus)  # until then, Enter would be pressed in the window
        QTest.keyClicks(palette.field, letters)
        QTest.keyClick(palette.field, Qt.Key.Key_Return)
        self.until(lambda: self.window.findChild(CommandPalette) is None)
        self.settle()

    def key(self, key: Qt.Key) -> None:
        self.press(key, Qt.KeyboardModifier.NoModifier)

    def type_sentence(self, text: str) -> None:
        """Click into the sentence, select all of it, and type another one."""
        self.click(self.sentence.viewport())
        self.press(Qt.Key.Key_A)
        self.key(Qt.Key.Key_Delete)
        QTest.keyClicks(self.sentence, text)

    def compose(self, text: str) -> None:
        """Enter a text as an input method does: Chinese, emoji, accents."""
        event = QInputMethodEvent()
        event.setCommitString(text)
        QApplication.sendEvent(self.sentence, event)

    def paste_sentence(self, text: str) -> None:
        """Paste a text from the clipboard in place of the sentence."""
        QApplication.clipboard().setText(text)
        self.click(self.sentence.viewport())
        self.press(Qt.Key.Key_A)
        self.press(Qt.Key.Key_V)

    def narrow(self, width: int, height: int = 600) -> None:
        """Make the window so narrow that its panes are folded, and then narrower."""
        for each in (800, width):
            self.window.resize(each, height)
            QApplication.processEvents()

    def click(self, widget: QWidget, at: QPoint | None = None) -> None:
        QTest.mouseClick(widget, LEFT, pos=at or widget.rect().center())

    def find(self, kind: type[SomeWidget], name: str) -> SomeWidget:
        roots = (*self.window.settings_bar.popovers, self.window)  # generation has a temperature
        found = next((found for root in roots if (found := root.findChild(kind, name))), None)
        assert found is not None, name
        self.window.settings_bar.reveal_control(found)
        return found

    def type_number(self, setting: str, text: str) -> None:
        """Tab into a setting's field, which selects its number, and type another number."""
        control = self.window.settings_bar.rows[setting].control
        self.window.settings_bar.reveal_control(control)
        box = getattr(control, "box")  # noqa: B009 - each kind of control has its own box
        box.setFocus(Qt.FocusReason.TabFocusReason)
        box.selectAll()
        QTest.keyClicks(box, text)

    def choose(self, name: str, words: str) -> None:
        """Open a list, and choose an entry with the keyboard."""
        box = self.find(QComboBox, name)
        self.click(box)
        view = box.view()
        QTest.keyClick(view, Qt.Key.Key_Home)
        for _ in range(box.findText(words)):
            QTest.keyClick(view, Qt.Key.Key_Down)
        QTest.keyClick(view, Qt.Key.Key_Return)
        assert box.currentText() == words
        self.activate()

    def drag(self, slider: QSlider, *values: int) -> None:
        """Press a slider's handle, drag it to several values, and release it."""
        QTest.mousePress(slider, LEFT, pos=self._handle(slider, slider.value()))
        for value in values:
            _move(slider, self._handle(slider, value), LEFT)
        QTest.mouseRelease(slider, LEFT, pos=self._handle(slider, values[-1]))

    @staticmethod
    def _handle(slider: QSlider, value: int) -> QPoint:
        option, style = QStyleOptionSlider(), slider.style()
        slider.initStyleOption(option)
        kind = QStyle.ComplexControl.CC_Slider
        groove, handle = (
            style.subControlRect(kind, option, part, slider)
            for part in (QStyle.SubControl.SC_SliderGroove, QStyle.SubControl.SC_SliderHandle)
        )
        span = groove.width() - handle.width()
        left = QStyle.sliderPositionFromValue(slider.minimum(), slider.maximum(), value, span)
        return QPoint(groove.left() + left + handle.width() // 2, handle.center().y())

    def point(self, cell: Cell) -> QPoint:
        """Return the position of a cell in the heatmaps."""
        area = self.board.area_of_cell(cell)
        assert area is not None, cell
        return area.center()

    def hover(self, cell: Cell) -> None:
        _move(self.board.viewport(), self.point(cell))

    def move_to(self, point: QPoint) -> None:
        """Move the pointer over the heatmaps to a position."""
        _move(self.board.viewport(), point)

    def leave(self) -> None:
        leave(self.board)

    def click_cell(self, cell: Cell) -> None:
        self.hover(cell)
        self.click(self.board.viewport(), self.point(cell))

    # ------------------------------------------------------------------ reading

    @property
    def shown(self) -> Board:
        """The board from which the heatmaps are painted."""
        return self.board.board

    def panel(self, stage: str, head: int | None = 0) -> Heatmap:
        return next(
            heatmap
            for heatmap in self.shown.heatmaps
            if heatmap.stage == stage and heatmap.head == head
        )

    @property
    def stages(self) -> list[str]:
        """The stages that have a column, from left to right."""
        return [column[0].stage for column in self.shown.columns]

    @property
    def chips(self) -> tuple[str, ...]:
        """The accessible texts of the token strip."""
        name = self.window.panes["Tokens"].strip.accessibleName()
        return tuple(name.partition(", ")[2].split(" "))

    def problem(self, setting: str) -> str:
        """Return the error message shown at a setting; empty if there is none."""
        label = self.window.settings_bar.rows[setting].problem
        self.window.settings_bar.reveal_control(label)
        return words(label) if label.isVisibleTo(self.window) else ""

    @property
    def text_problem(self) -> str:
        label = self.window.settings_bar.problem
        return words(label) if label.isVisibleTo(self.window) else ""

    @property
    def status(self) -> str:
        return words(self.window.facts)

    @property
    def caption(self) -> str:
        """The sentence in the playback bar."""
        return self.window.playback_bar.caption.full_text

    @property
    def said(self) -> str:
        """The sentence in the Explain pane."""
        return words(self.window.panes["Explain"].sentence)

    def boxes(self) -> list[QMessageBox]:
        return [box for box in self.window.findChildren(QMessageBox) if box.isVisible()]

    def details_of_bug(self) -> str:
        """Wait for the dialog that reports a bug, close it, and return its details."""
        self.until(lambda: bool(self.boxes()))
        (box,) = self.boxes()
        details = box.detailedText()
        box.close()
        return details


def words(label: QLabel) -> str:
    """Return the text of a label without markup."""
    if label.textFormat() is Qt.TextFormat.RichText:
        return QTextDocumentFragment.fromHtml(label.text()).toPlainText()
    return label.text()


def name_file(dialog: QFileDialog, path: Path) -> None:
    """Type a file name into a dialog that asks for one, and press Enter.

    `QFileDialog.selectFile` alone does not change a name that is being typed.
    """
    line = dialog.findChild(QLineEdit)
    assert line
    dialog.setDirectory(str(path.parent))
    dialog.selectFile(path.name)  # so that no other file is selected
    line.setText(path.name)
    QTest.keyClick(line, Qt.Key.Key_Return)


def link_in(label: QLabel) -> QPoint:
    """Return a point on a label's link, found by the pointer's shape."""
    for y in range(label.height() - 4, 0, -4):
        for x in range(4, label.width(), 4):
            _move(label, QPoint(x, y))
            if label.cursor().shape() is Qt.CursorShape.PointingHandCursor:
                return QPoint(x, y)
    raise AssertionError(f"no link in {words(label)!r}")


def _move(widget: QWidget, at: QPoint, button: Qt.MouseButton = Qt.MouseButton.NoButton) -> None:
    where = QPointF(at)
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        where,
        QPointF(widget.mapToGlobal(at)),
        Qt.MouseButton.NoButton,
        button,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(widget, event)


def _text(action: QAction) -> str:
    return action.text().replace("&", "")


def _click_in_menu(menu: QMenu, texts: tuple[str, ...]) -> None:
    for text in texts:
        action = next(one for one in menu.actions() if _text(one) == text)
        at = menu.actionGeometry(action).center()
        QTest.mouseMove(menu, at)
        QTest.mouseClick(menu, LEFT, pos=at)
        if text != texts[-1]:
            menu = QMenu.menuInAction(action)
            assert menu.isVisible()
