"""Drives a window through its visible interface: menu texts, control labels and cells.

The only internal class that it uses is `NewestRequestWorker`, which runs slow work.
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
from PySide6.QtGui import QAccessible, QAction, QCursor, QMouseEvent
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
    """A function that is called with the driver, or the text of a menu action."""

PATIENCE_S = 120
LOOK_MS = 30
"""Time, in ms, between two checks of whether a window is idle."""
AWAY = QPoint(-100, -100)
"""A screen position outside all windows."""
STATES = ("disabled", "checked", "focused", "selected", "expanded", "readOnly")

SomeWidget = TypeVar("SomeWidget", bound=QWidget)


def start() -> QApplication:
    """Create the application with a steady cursor and with the pointer outside all windows."""
    qInstallMessageHandler(_tell)
    application = make_application()
    application.setCursorFlashTime(0)
    QCursor.setPos(AWAY)
    return application


def _tell(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if not message.startswith("This plugin does not support "):  # the offscreen platform
        print(message, file=sys.stderr)


def forget_settings() -> None:
    """Reset the settings to those of a first start, but with reduced motion."""
    app_settings.clear_settings()
    app_settings.save_scheme(ColourScheme.LIGHT)
    app_settings.set_motion_reduced(True)


class Driver:
    """Controls a window and takes screenshots of it."""

    def __init__(self, window: QMainWindow) -> None:
        self.window = window

    # ------------------------------------------------------------------ waiting

    def is_idle(self) -> bool:
        """Return whether there are no pending requests."""
        return not any(
            worker.is_working for worker in self.window.findChildren(NewestRequestWorker)
        )

    def settle(self, same: int = 1) -> None:
        """Wait until the window is idle and has not changed in `same` further checks."""
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
        """Return the window and, if it is open, the dialog or menu in front of it."""
        others = [one for one in self.window.findChildren(QWidget) if one.isWindow()]
        shown = [one for one in others if one.isVisible() and isinstance(one, QDialog | QMenu)]
        return [self.window, *shown]

    # ------------------------------------------------------------------ acting

    def act(self, steps: Sequence[Step]) -> None:
        """Perform the steps in order; a text is a menu action."""
        for step in steps:
            if isinstance(step, str):
                self.run(step)
            else:
                step(self)

    @property
    def actions(self) -> dict[str, QAction]:
        """All menu actions by their paths, such as ``File>Open recent>…``."""
        return dict(_actions(self.window.menuBar().actions(), ""))

    def listed_actions(self) -> list[str]:
        """Return a line for each action with its path and shortcuts, and its state."""
        lines = []
        for words, action in self.actions.items():
            keys = ", ".join(one.toString() for one in action.shortcuts())
            states = "disabled " * (not action.isEnabled()) + "checked" * action.isChecked()
            lines.append(f"{words}  [{keys}] {states}".rstrip())
        return lines

    def run(self, words: str) -> None:
        """Trigger the menu action whose path ends with the given text."""
        found = {at: one for at, one in self.actions.items() if f">{at}".endswith(f">{words}")}
        if len(found) != 1:
            raise LookupError(f"{len(found)} actions are called {words!r}: {[*found]}")
        (action,) = found.values()
        if not action.isEnabled():
            raise LookupError(f"{words!r} cannot be chosen now")
        action.trigger()
        self.settle()

    def find(self, kind: type[SomeWidget], label: str) -> SomeWidget:
        """Find the control with the given accessible name or button text."""
        for top in reversed(self._tops()):
            for widget in top.findChildren(kind):
                said = widget.text() if isinstance(widget, QAbstractButton) else ""
                if label in {widget.accessibleName(), said.replace("&", "")}:
                    return widget
        raise LookupError(f"there is no {kind.__name__} called {label!r}")

    def choose(self, label: str, words: str) -> None:
        """Choose the list entry that begins with the given text."""
        box = self.find(QComboBox, label)
        index = box.findText(words, Qt.MatchFlag.MatchStartsWith)
        if index < 0:
            raise LookupError(f"{label!r} does not offer {words!r}")
        box.setCurrentIndex(index)
        box.activated.emit(index)
        self.settle()

    def number(self, label: str, value: float) -> None:
        """Enter a number in a spin box."""
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
        """Click a button or a check box."""
        self.find(QAbstractButton, label).click()
        self.settle()

    def write(self, label: str, text: str) -> None:
        """Replace the text in a text field."""
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
            line.insert(text)  # in one step: results for partial texts vary
        self.settle()

    def key(self, label: str, key: Qt.Key) -> None:
        """Press a key in the widget with the given label."""
        named = [one for one in self.window.findChildren(QWidget) if one.accessibleName() == label]
        taking = [one for one in named if one.focusPolicy() is not Qt.FocusPolicy.NoFocus]
        if not taking:
            raise LookupError(f"nothing that takes keys is called {label!r}")
        taking[0].setFocus()
        QTest.keyClick(taking[0], key)
        self.settle()

    # ------------------------------------------------------------------ taking down

    def take(self, path: Path) -> None:
        """Write a screenshot of the front window and its accessibility tree."""
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
    """Return the accessibility tree of the visible widgets: roles, names and values."""
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
    """Process events for the given time."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def bury(window: QWidget) -> None:
    """Delete a window that has been closed."""
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
