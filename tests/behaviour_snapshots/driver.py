"""Drives a window through its visible interface: menu texts, control labels and cells.

Of the program's internals it knows only that `NewestRequestWorker`s run the slow work.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QEventLoop,
    QPoint,
    QPointF,
    Qt,
    QTimer,
    qInstallMessageHandler,
)
from PySide6.QtGui import QAccessible, QAction, QCursor, QFont, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QWidget,
)

from visualizer.app import make_application
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.widgets import app_settings
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QAccessibleInterface
    from PySide6.QtWidgets import QMainWindow

    Step = Callable[[Any], object] | str
    """What a driver does, or words of an action of its menus."""

PATIENCE_S = 120
LOOK_MS = 30
"""How long between two looks at a window that is to come to rest."""
FONT = ("DejaVu Sans", 9)
AWAY = QPoint(-100, -100)
"""Where no window is."""
STATES = ("disabled", "checked", "focused", "selected", "expanded", "readOnly")

SomeWidget = TypeVar("SomeWidget", bound=QWidget)


def start() -> QApplication:
    """Make the program's application, in which nothing blinks and no pointer is over a window."""
    qInstallMessageHandler(_tell)
    application = make_application()
    application.setFont(QFont(*FONT))
    application.setCursorFlashTime(0)
    QCursor.setPos(AWAY)
    return application


def _tell(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if not message.startswith("This plugin does not support "):  # the platform without a screen
        print(message, file=sys.stderr)


def forget_settings() -> None:
    """Have the next window be as on a first start, but that nothing moves in it."""
    app_settings.clear_settings()
    app_settings.save_scheme(ColourScheme.LIGHT)
    app_settings.set_motion_reduced(True)


class Driver:
    """Acts on a window and takes pictures of it."""

    def __init__(self, window: QMainWindow) -> None:
        self.window = window

    # ------------------------------------------------------------------ waiting

    def is_idle(self) -> bool:
        """Return whether all that was asked for has been answered."""
        return not any(
            worker.is_working for worker in self.window.findChildren(NewestRequestWorker)
        )

    def settle(self, same: int = 1) -> None:
        """Wait until the window is idle and so many more looks at it see the same."""
        last, quiet, looks = None, 0, 0
        while quiet < same:
            linger(LOOK_MS)
            looks += 1
            if looks * LOOK_MS > PATIENCE_S * 1000:
                raise TimeoutError(f"the window does not come to rest: {self.window.windowTitle()}")
            if not self.is_idle():
                last, quiet = None, 0
                continue
            seen = [widget.grab().toImage() for widget in self._tops()]
            quiet = quiet + 1 if seen == last else 0
            last = seen

    def _tops(self) -> list[QWidget]:
        """The window, and in front of it a dialog or a menu, where one is open."""
        others = [one for one in self.window.findChildren(QWidget) if one.isWindow()]
        shown = [one for one in others if one.isVisible() and isinstance(one, QDialog | QMenu)]
        return [self.window, *shown]

    # ------------------------------------------------------------------ acting

    def act(self, steps: Sequence[Step]) -> None:
        """Take one step after the other; words are an action of the menus."""
        for step in steps:
            if isinstance(step, str):
                self.run(step)
            else:
                step(self)

    @property
    def actions(self) -> dict[str, QAction]:
        """Every action of the menus, by the words that lead to it: ``File>Open recent>…``."""
        return dict(_actions(self.window.menuBar().actions(), ""))

    def listed_actions(self) -> list[str]:
        """Give a line for every action: its words, its keys, whether it is possible and on."""
        lines = []
        for words, action in self.actions.items():
            keys = ", ".join(one.toString() for one in action.shortcuts())
            states = "disabled " * (not action.isEnabled()) + "checked" * action.isChecked()
            lines.append(f"{words}  [{keys}] {states}".rstrip())
        return lines

    def run(self, words: str) -> None:
        """Choose from the menus what ends in these words."""
        found = {at: one for at, one in self.actions.items() if f">{at}".endswith(f">{words}")}
        if len(found) != 1:
            raise LookupError(f"{len(found)} actions are called {words!r}: {[*found]}")
        (action,) = found.values()
        if not action.isEnabled():
            raise LookupError(f"{words!r} cannot be chosen now")
        action.trigger()
        self.settle()

    def find(self, kind: type[SomeWidget], label: str) -> SomeWidget:
        """Find the control that a reader of the screen calls so, or whose button says so."""
        for top in reversed(self._tops()):
            for widget in top.findChildren(kind):
                said = widget.text() if isinstance(widget, QAbstractButton) else ""
                if label in {widget.accessibleName(), said.replace("&", "")}:
                    return widget
        raise LookupError(f"there is no {kind.__name__} called {label!r}")

    def choose(self, label: str, words: str) -> None:
        """Choose from a list what begins with these words."""
        box = self.find(QComboBox, label)
        index = box.findText(words, Qt.MatchFlag.MatchStartsWith)
        if index < 0:
            raise LookupError(f"{label!r} does not offer {words!r}")
        box.setCurrentIndex(index)
        box.activated.emit(index)
        self.settle()

    def number(self, label: str, value: float) -> None:
        """Type a number into a box."""
        boxes = [
            box
            for box in self.window.findChildren(QAbstractSpinBox)
            if box.accessibleName() == label
        ]
        if not boxes:
            raise LookupError(f"there is no box for a number called {label!r}")
        box = boxes[0]
        box.selectAll()
        QTest.keyClicks(box, f"{value:g}")
        QTest.keyClick(box, Qt.Key.Key_Return)
        self.settle()

    def press(self, label: str) -> None:
        """Click a button or a switch."""
        self.find(QAbstractButton, label).click()
        self.settle()

    def write(self, label: str, text: str) -> None:
        """Replace what stands in a box for text."""
        boxes = [
            box for box in self.window.findChildren(QPlainTextEdit) if box.accessibleName() == label
        ]
        if boxes:
            boxes[0].setFocus()
            boxes[0].setPlainText(text)
        else:
            line = self.find(QLineEdit, label)
            line.setFocus()
            line.selectAll()
            line.insert(text)  # at once: what is made of half a text depends on the moment
        self.settle()

    def key(self, label: str, key: Qt.Key) -> None:
        """Press a key in a part of the window that takes keys."""
        named = [one for one in self.window.findChildren(QWidget) if one.accessibleName() == label]
        taking = [one for one in named if one.focusPolicy() is not Qt.FocusPolicy.NoFocus]
        if not taking:
            raise LookupError(f"nothing that takes keys is called {label!r}")
        taking[0].setFocus()
        QTest.keyClick(taking[0], key)
        self.settle()

    # ------------------------------------------------------------------ taking down

    def take(self, path: Path) -> None:
        """Write a picture of what is in front, and a text of what a reader of the screen gets."""
        self.settle(same=4)
        front = self._tops()[-1]
        picture = front.grab()
        if not picture.save(f"{path}.png"):
            raise OSError(f"{path}.png could not be written")
        lines = tree(QAccessible.queryAccessibleInterface(front))
        path.with_name(f"{path.name}.txt").write_text("\n".join(lines) + "\n")


# ------------------------------------------------------------------- steps


def choose(label: str, words: str) -> Step:
    return lambda on: on.choose(label, words)


def number(label: str, value: float) -> Step:
    return lambda on: on.number(label, value)


def press(label: str) -> Step:
    return lambda on: on.press(label)


def write(label: str, text: str) -> Step:
    return lambda on: on.write(label, text)


def key(label: str, key: Qt.Key) -> Step:
    return lambda on: on.key(label, key)


# ------------------------------------------------------------------- what all of it is made of


def _actions(actions: list[QAction], above: str) -> Iterator[tuple[str, QAction]]:
    for action in actions:
        words = action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")
        menu = action.menu()
        if isinstance(menu, QMenu):
            menu.aboutToShow.emit()
            yield from _actions(menu.actions(), f"{above}{words}>")
        elif not action.isSeparator():
            yield f"{above}{words}", action


def tree(told: QAccessibleInterface, depth: int = 0) -> list[str]:
    """Give what a reader of the screen gets to know of what can be seen: role, name, value."""
    state = told.state()
    if not told.isValid() or state.invisible:
        return []
    kinds = (QAccessible.Text.Name, QAccessible.Text.Value, QAccessible.Text.Description)
    texts = [repr(text) for kind in kinds if (text := told.text(kind))]
    states = [name for name in STATES if getattr(state, name)]
    lines = ["  " * depth + " ".join([told.role().name, *texts, *states])]
    for index in range(told.childCount()):
        lines += tree(told.child(index), depth + 1)
    return lines


def point_at(widget: QWidget, at: QPoint) -> None:
    """Move the pointer over a widget."""
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    where = QPointF(widget.mapToGlobal(at))
    event = QMouseEvent(QEvent.Type.MouseMove, QPointF(at), where, none, none, plain)
    QCoreApplication.sendEvent(widget, event)


def linger(milliseconds: int) -> None:
    """Let events happen for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def bury(window: QWidget) -> None:
    """Delete a window that has been closed."""
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
