"""Performs random actions with real input events."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import (
    QAction,
    QDragEnterEvent,
    QDragMoveEvent,
    QDropEvent,
    QGuiApplication,
    QInputMethodEvent,
    QKeySequence,
    QMouseEvent,
    QWheelEvent,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QDialog,
    QFileDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QWidget,
)
from shiboken6 import isValid

from tests.soak.faults import MODEL, SERVED_MODEL, Faults
from tests.soak.served_model import TOKEN
from visualizer.features.model_connection.dialog import ModelConnectionDialog
from visualizer.lab.commands import LAB_COMMANDS
from visualizer.lab.window import LabWindow
from visualizer.shell.commands import COMMANDS
from visualizer.shell.window import MainWindow

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from PySide6.QtGui import QWindow

    from tests.soak.served_model import ModelServer
    from visualizer.shell.window_manager import WindowManager

MOST_WINDOWS = 4
LEAST, LARGEST = (240, 200), (2200, 1400)
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE, ALT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.AltModifier
LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton
ENDING = ("window.close", "application.quit")
"""Commands that are used less often than others."""
KEYS = tuple(
    Qt.Key[f"Key_{name}"]
    for line in (
        "Up Down Left Right Home End PageUp PageDown Tab Backtab Return Space Escape Delete",
        "Backspace Plus Minus A E X 0 1 5 9 Period B F10 F2 Menu",
    )
    for name in line.split()
)
TEXTS = (
    "Your journey starts with one step", "a", "", "  ", "-", "1e400", "0", "-7", "12", "0.5",
    "nan",
    "<b>bold</b> & <img src=x>", "the the the", "%s {0} \\n", "1 0 0; 1 1 0; 1 1 1", "3.25",
    "x" * 300,
    "many words are here to be read by every head of the module until the end of the line",
)  # fmt: skip
STRANGE = (
    "日本語の文",
    "😀 👩‍👩‍👧",
    "مرحبا بالعالم",
    "e\u0301 \u202eabc",
    "\ud7a3\u200b",
    "\u0000x",
)


class Monkey:
    """Acts on the windows and dialogs that are open.

    Parameters
    ----------
    place : Path
        The folder with the files to open, and the folder into which files are saved.
    server : ModelServer
        Serves the model to connect to.
    """

    def __init__(
        self, chance: random.Random, place: Path, manager: WindowManager, server: ModelServer
    ) -> None:
        self._chance, self._place, self._manager = chance, place, manager
        self._server = server
        self.faults = Faults(place, chance, server)
        self.commands: set[str] = set()
        """Ids of the commands that have been run."""
        self.tell: Callable[[str], None] = lambda what: None
        """Called with the description of an action that is about to start and may not end."""
        self._more: deque[Callable[[], object]] = deque()
        """The remaining events of an action with several events; they are sent one by one, as by a
        user.
        """
        self._kinds: tuple[tuple[int, Callable[[QWidget], str]], ...] = (
            (30, self._command),
            (8, self._menu),
            (30, self._click),
            (8, self._wheel),
            (8, self._drag),
            (12, self._hover),
            (16, self._keys),
            (8, self._type),
            (4, self._paste),
            (4, self._drop),
            (2, self._resize),
            (1, self._lab),
            (1, self._fault),
            (1, self._connect),
        )

    @property
    def is_underway(self) -> bool:
        """Whether an action with several events has not ended yet."""
        return bool(self._more)

    def act(self, depth: int) -> str:
        """Perform one action, and return its description; it is empty if the last action continues.

        Parameters
        ----------
        depth : int
            Number of actions that have not ended; more than 1 if an action is waiting for a dialog.
        """
        if depth > 1:
            self._more.clear()
        elif self._more:
            self._more.popleft()()
            return ""
        self.faults.count_down()
        if popup := QApplication.activePopupWidget():
            return self._use_popup(popup)
        modal = QApplication.activeModalWidget()
        dialogs = [modal] if isinstance(modal, QDialog) else self._dialogs()
        if dialogs and (depth > 1 or self._chance.random() < 0.4):
            return self._answer(dialogs[-1])
        windows = self._windows()
        if not windows:
            return "nothing"
        target = self._chance.choice(windows)
        if depth > 1:
            for each in windows:  # a drag may not have ended
                self._let_go(each)
            return f"{self._key(target, Qt.Key.Key_Escape, NONE)}, while something waits"
        target.activateWindow()
        if len(self._manager.all) > MOST_WINDOWS:
            return self._key(target, Qt.Key.Key_W, CONTROL)
        kinds, weights = [kind for _, kind in self._kinds], [weight for weight, _ in self._kinds]
        (kind,) = self._chance.choices(kinds, weights)
        return f"{type(target).__name__}: {kind(self._dialog_over(target) or target)}"

    # ------------------------------------------------------------------ open windows and dialogs

    def _windows(self) -> list[QWidget]:
        kinds = (MainWindow, LabWindow)
        return [
            each
            for each in QApplication.topLevelWidgets()
            if isinstance(each, kinds) and each.isVisible()
        ]

    @staticmethod
    def _dialogs() -> list[QDialog]:
        found = QApplication.topLevelWidgets()
        return [each for each in found if isinstance(each, QDialog) and each.isVisible()]

    def _dialog_over(self, window: QWidget) -> QDialog | None:
        """Return the modal dialog that covers a window, if any."""
        over = [
            each
            for each in self._dialogs()
            if each.parent() is window and not isinstance(each, QFileDialog)
        ]
        return over[-1] if over else None

    # ------------------------------------------------------------------ dialogs

    def _answer(self, dialog: QDialog) -> str:
        if isinstance(dialog, QFileDialog):
            return self._answer_file_dialog(dialog)
        buttons = [one for one in dialog.findChildren(QAbstractButton) if _is_usable(one)]
        if buttons and (isinstance(dialog, QMessageBox) or self._chance.random() < 0.6):
            button = self._chance.choice(buttons)
            said = f"{_name(dialog)}: the button {button.text()!r}"
            self.tell(said)
            QTest.mouseClick(button, LEFT)
            return said
        if self._chance.random() < 0.5:
            return f"{_name(dialog)}: {self._key(dialog, Qt.Key.Key_Escape, NONE)}"
        return f"{_name(dialog)}: {self._click(dialog)}"

    def _answer_file_dialog(self, dialog: QFileDialog) -> str:
        name = self._some_path(dialog)
        line = dialog.findChild(QLineEdit)
        if line is None or self._chance.random() < 0.2:
            return f"{_name(dialog)}: {self._key(dialog, Qt.Key.Key_Escape, NONE)}"
        said = f"{_name(dialog)}: {name}"
        self.tell(said)
        line.setFocus()
        line.selectAll()
        line.insert(name)
        QTest.keyClick(line, Qt.Key.Key_Escape if _has_list(line) else Qt.Key.Key_End)
        if isValid(line):
            QTest.keyClick(line, Qt.Key.Key_Return)
        return said

    def _some_path(self, dialog: QFileDialog) -> str:
        if dialog.fileMode() is QFileDialog.FileMode.Directory:
            names = ("", "folder", MODEL, SERVED_MODEL)
            return str(self._place / self._chance.choice(names))
        if dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave:
            suffix = self._chance.choice(["", ".attention", ".png", ".svg", ".pdf", ".gif", ".zzz"])
            return str(self._place / f"written {self._chance.randrange(4)}{suffix}")
        return str(self._some_file())

    def _some_file(self) -> Path:
        files = sorted(self._place.iterdir())
        return self._chance.choice([*files, self._place / "missing.attention"])

    def _use_popup(self, popup: QWidget) -> str:
        if not popup.isEnabled():  # its widget was disabled; any click of a user would close it
            popup.close()
            return f"closes {_name(popup)}"
        if isinstance(popup, QMenu):
            usable = [
                one
                for one in popup.actions()
                if one.isVisible() and one.isEnabled() and not one.isSeparator()
            ]
            if usable and self._chance.random() < 0.7:
                action = self._chance.choice(usable)
                said = f"the menu entry {action.text()!r}"
                self.tell(said)
                if not (action.text().startswith(("&Quit", "&Close")) and self._is_mostly()):
                    QTest.mouseClick(popup, LEFT, NONE, popup.actionGeometry(action).center())
                return said
            return self._key(popup, Qt.Key.Key_Escape, NONE)
        key = self._chance.choice([Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Escape])
        QTest.keyClick(QApplication.focusWidget() or popup, key)
        if key == Qt.Key.Key_Escape and isValid(popup) and popup.isVisible():
            popup.close()
        return f"{key.name} in {_name(popup)}"

    def _is_mostly(self) -> bool:
        return self._chance.random() < 0.9

    # ------------------------------------------------------------------ keys

    def _command(self, target: QWidget) -> str:
        is_lab = isinstance(target.window(), LabWindow)
        row = self._chance.choice(LAB_COMMANDS) if is_lab else self._chance.choice(COMMANDS)
        is_blocked = not _handle(target) or self._is_blocked(target.window())
        if is_blocked or (row.id in ENDING and self._is_mostly()):
            return "no command"
        self.tell(f"command {row.id}")
        if row.shortcuts:
            keys = QKeySequence(self._chance.choice(row.shortcuts))
            combined = keys[0]  # type: ignore[index]
            self._key(target, combined.key(), combined.keyboardModifiers())
        elif action := target.window().findChild(QAction, row.id):
            action.trigger()
        self.commands.add(row.id)
        return f"command {row.id}"

    def _key(self, target: QWidget, key: Qt.Key, modifiers: Qt.KeyboardModifier) -> str:
        """Press a key in the focused widget.

        If the events were sent to the window, others could occur between those of the modifier and
        the key.
        """
        if not _handle(target) or self._is_blocked(target.window()):
            return f"no {key.name}"
        inner: QWidget | None = target.window().focusWidget()
        receiver = target if inner is None else inner
        said = f"{key.name} {modifiers.name} in {_name(receiver)}"
        QTest.keyClick(receiver, key, modifiers)
        return said

    def _is_blocked(self, window: QWidget) -> bool:
        """Return whether a modal dialog blocks all input to a window."""
        modal = [each for each in self._dialogs() if each.isModal() and each is not window]
        application = Qt.WindowModality.ApplicationModal
        return any(
            each.windowModality() is application or each.parent() is window for each in modal
        )

    def _trigger(self, window: QWidget, command: str) -> str:
        """Run a command of a main window."""
        if not isinstance(window, MainWindow) or self._is_blocked(window):
            return f"no {command}"
        window.actions_.by_id[command].trigger()
        return command

    def _keys(self, target: QWidget) -> str:
        key = self._chance.choice(KEYS)
        modifiers = self._chance.choice([NONE, NONE, NONE, SHIFT, CONTROL])
        press = partial(self._key, target, key, modifiers)
        self._more.extend((self._chance.choice([1, 1, 1, 3, 12]) - 1) * [press])
        return press()

    def _type(self, target: QWidget) -> str:
        focused = QApplication.focusWidget()
        if focused is None or focused.window() is not target.window():
            return "no focus"
        said = _name(focused)
        takes_input = focused.testAttribute(Qt.WidgetAttribute.WA_InputMethodEnabled)
        # Other widgets do not receive such an event.
        if takes_input and self._chance.random() < 0.2:
            event = QInputMethodEvent()
            event.setCommitString(text := self._chance.choice(STRANGE))
            QApplication.sendEvent(focused, event)
        else:
            text = self._chance.choice(TEXTS)
            for letter in text[: self._chance.choice([3, 20, 300])]:
                self._more.append(partial(_type_letter, focused, letter))
        return f"types {text[:20]!r} into {said}"

    def _paste(self, target: QWidget) -> str:
        text = self._chance.choice([*TEXTS, *STRANGE, "1\t2\n3\t4", "word " * 300, "9" * 9000])
        QApplication.clipboard().setText(text)
        if self._chance.random() < 0.5:
            self._key(target, Qt.Key.Key_A, CONTROL)
        if not isValid(target):
            return "pastes nothing"
        return f"pastes {text[:20]!r}: {self._key(target, Qt.Key.Key_V, CONTROL)}"

    # ------------------------------------------------------------------ the pointer

    def _menu(self, target: QWidget) -> str:
        window = target.window()
        if not isinstance(window, MainWindow | LabWindow):
            return "no menus"
        bar = window.menuBar()
        action = self._chance.choice(bar.actions())
        said = f"the menu {action.text()!r}"
        self.tell(said)
        _press(bar, bar.actionGeometry(action).center(), LEFT, NONE)
        return said

    def _click(self, target: QWidget) -> str:
        found = self._some_place(target)
        if found is None:
            return "no place"
        widget, at = found
        said = f"click on {_name(widget)} at {at.x()}, {at.y()}"
        self.tell(said)
        button = RIGHT if self._chance.random() < 0.08 else LEFT
        modifiers = self._chance.choice([NONE] * 8 + [SHIFT, CONTROL])
        _press(widget, at, button, modifiers)
        if self._chance.random() < 0.08 and _handle(widget):
            self._click_twice(widget, at)
        return said

    def _click_twice(self, widget: QWidget, at: QPoint) -> None:
        """Send the second press of a double click."""
        place, global_place = QPointF(at), QPointF(widget.mapToGlobal(at))
        twice = QEvent.Type.MouseButtonDblClick
        QApplication.sendEvent(widget, QMouseEvent(twice, place, global_place, LEFT, LEFT, NONE))
        self._let_go(widget)

    def _hover(self, target: QWidget) -> str:
        self._more.extend((self._chance.choice([1, 4, 12]) - 1) * [partial(self._move, target)])
        return self._move(target)

    def _move(self, target: QWidget) -> str:
        found = self._some_place(target) if isValid(target) else None
        if found and (handle := _handle(found[0])):
            place = found[0].mapTo(found[0].window(), found[1])
            if _is_within(handle, place):
                QTest.mouseMove(handle, place)
        return f"moves over {_name(found[0]) if found else 'nothing'}"

    def _drag(self, target: QWidget) -> str:
        start = self._some_place(target)
        end = self._some_place(target)
        if start is None or end is None or not (handle := _handle(target)):
            return "no place"
        window = target.window()
        first, last = start[0].mapTo(window, start[1]), end[0].mapTo(window, end[1])
        if self._chance.random() < 0.6:  # within the widget
            last = first + QPoint(self._chance.randrange(-60, 60), self._chance.randrange(-40, 40))
        said = f"drag from {_name(start[0])} to {last.x()}, {last.y()}"
        if not _is_within(handle, first):
            return "no place"
        QTest.mousePress(handle, LEFT, NONE, first)
        for part in range(1, 6):
            self._more.append(partial(_drag_to, handle, first + (last - first) * part / 5))
        self._more.append(partial(self._let_go, window))
        return said

    def _let_go(self, target: QWidget) -> None:
        """Release the mouse button, wherever a drag has ended."""
        if handle := _handle(target):
            QTest.mouseRelease(handle, LEFT, NONE, QPoint(1, 1))

    def _wheel(self, target: QWidget) -> str:
        found = self._some_place(target)
        if found is None:
            return "no place"
        widget, at = found
        said = f"wheel over {_name(widget)}"
        way = self._chance.choice([-240, -120, 120, 240, 15])
        turned = QPoint(0, way) if self._chance.random() < 0.8 else QPoint(way, 0)
        modifiers = self._chance.choice([NONE, NONE, CONTROL, SHIFT])
        turn = partial(_turn_wheel, widget, at, turned, modifiers)
        self._more.extend(self._chance.choice([1, 1, 5]) * [turn])
        return said

    def _drop(self, target: QWidget) -> str:
        data = QMimeData()
        if self._chance.random() < 0.7:
            files = [self._some_file() for _ in range(self._chance.choice([1, 1, 1, 2]))]
            data.setUrls([QUrl.fromLocalFile(str(file)) for file in files])
            said = ", ".join(file.name for file in files)
        else:
            data.setText(text := self._chance.choice([*TEXTS, *STRANGE]))
            said = repr(text[:20])
        window = target.window()
        at, copy = QPoint(window.width() // 2, window.height() // 2), Qt.DropAction.CopyAction
        entered = QDragEnterEvent(at, copy, data, LEFT, NONE)
        QApplication.sendEvent(window, entered)
        if entered.isAccepted():
            QApplication.sendEvent(window, QDragMoveEvent(at, copy, data, LEFT, NONE))
            dropped = QDropEvent(QPointF(at), copy, data, LEFT, NONE, QEvent.Type.Drop)
            QApplication.sendEvent(window, dropped)
        return f"drops {said}"

    def _some_place(self, target: QWidget) -> tuple[QWidget, QPoint] | None:
        """Return a visible widget, and a visible point in it."""
        widgets = [one for one in target.findChildren(QWidget) if _is_usable(one)]
        widgets = [one for one in widgets if one.window() is target]
        if not widgets:
            return None
        widget = self._chance.choice(widgets)
        seen = widget.visibleRegion().boundingRect()
        at = QPoint(
            self._chance.randint(seen.left(), seen.right()),
            self._chance.randint(seen.top(), seen.bottom()),
        )
        return (widget, at) if target.rect().contains(widget.mapTo(target, at)) else None

    # ------------------------------------------------------------------ other actions

    def _resize(self, target: QWidget) -> str:
        width, height = map(self._chance.randint, LEAST, LARGEST)
        target.window().resize(width, height)
        return f"{width} × {height}"

    def _lab(self, target: QWidget) -> str:
        window = target.window()
        return self._trigger(window, "lab.open") if target is window else "no lab"

    def _connect(self, target: QWidget) -> str:
        """Open the dialog for servers, and enter the running server."""
        window = target.window()
        if not isinstance(window, MainWindow) or target is not window:
            return "no connection"
        self._trigger(window, "model.connect")
        dialog = window.findChild(ModelConnectionDialog) if isValid(window) else None
        if dialog is None or not dialog.isVisible() or not dialog.connect_button.isEnabled():
            return "the dialog of servers"
        port = dialog.port.findChild(QLineEdit)
        named = [(dialog.host, "127.0.0.1"), (port, str(self._server.port)), (dialog.token, TOKEN)]
        for line, text in [*named, (dialog.ssh, "")]:
            if line and isValid(line) and line.isEnabled():
                line.setFocus()
                line.selectAll()
                QTest.keyClick(line, Qt.Key.Key_Delete)
                QTest.keyClicks(line, text)
        if isValid(dialog):
            QTest.mouseClick(dialog.connect_button, LEFT)
        return "connects to a model"

    def _fault(self, target: QWidget) -> str:
        return self.faults.make()


def _is_usable(widget: QWidget) -> bool:
    return widget.isVisible() and widget.isEnabled() and not widget.visibleRegion().isEmpty()


def _handle(widget: QWidget) -> QWindow | None:
    """Return the window to which the system sends a widget's events, or None."""
    window = widget.window() if isValid(widget) else None
    handle = window.windowHandle() if window and window.isVisible() else None
    # Python may still refer to a window that Qt has deleted.
    return handle if handle in QGuiApplication.allWindows() else None


def _is_within(handle: QWindow, at: QPoint) -> bool:
    """Return whether a point is within a window; its widget may have another size for a moment."""
    return 0 <= at.x() < handle.width() and 0 <= at.y() < handle.height()


def _type_letter(widget: QWidget, letter: str) -> None:
    if isValid(widget):
        QTest.keyClicks(widget, letter)


def _drag_to(handle: QWindow, at: QPoint) -> None:
    if handle in QGuiApplication.allWindows() and _is_within(handle, at):
        QTest.mouseMove(handle, at)


def _turn_wheel(
    widget: QWidget, at: QPoint, turned: QPoint, modifiers: Qt.KeyboardModifier
) -> None:
    if isValid(widget):
        event = QWheelEvent(
            QPointF(at), QPointF(widget.mapToGlobal(at)), QPoint(), turned,
            Qt.MouseButton.NoButton, modifiers, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(widget, event)


def _press(
    widget: QWidget, at: QPoint, button: Qt.MouseButton, modifiers: Qt.KeyboardModifier
) -> None:
    handle, place = _handle(widget), widget.mapTo(widget.window(), at)
    if handle and _is_within(handle, place):
        QTest.mousePress(handle, button, modifiers, place)
        if _handle(widget) == handle:  # the window may have been closed and deleted in the meantime
            QTest.mouseRelease(handle, button, modifiers, place)


def _has_list(line: QLineEdit) -> bool:
    """Return whether a completion list is open for a line edit."""
    return QApplication.activePopupWidget() is not None


def _name(widget: QWidget) -> str:
    if not isValid(widget):
        return "a widget that is gone"
    said = widget.objectName() or widget.accessibleName() or ""
    return f"{type(widget).__name__} {said[:30]!r}" if said else type(widget).__name__
