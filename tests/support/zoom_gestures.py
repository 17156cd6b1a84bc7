"""Zoom and pan gestures with wheel, fingers and mouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QNativeGestureEvent, QPointingDevice, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.support.window_input import CONTROL, LEFT

if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractScrollArea, QWidget

    from tests.support.window_input import Hand
    from visualizer.session.cell_address import Cell
    from visualizer.session.zoom_ranges import ZoomRange

NOTCH = 120


def turn(hand: Hand, at: QPoint, notches: float, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
    """Turn the wheel over the heatmaps."""
    roll(hand.board, QPoint(0, round(notches * NOTCH)), at, modifiers)
    hand.settle()


def roll(
    area: QAbstractScrollArea,
    turned: QPoint,
    at: QPoint | None = None,
    modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:
    """Turn the wheel over a widget, sideways or down."""
    viewport = area.viewport()
    point = at or viewport.rect().center()
    event = QWheelEvent(
        QPointF(point),
        QPointF(viewport.mapToGlobal(point)),
        QPoint(),
        turned,
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(viewport, event)


def pinch(hand: Hand, at: QPoint, wider: float) -> None:
    """Move two fingers apart or together by a proportion of their distance."""
    viewport = hand.board.viewport()
    event = QNativeGestureEvent(
        Qt.NativeGestureType.ZoomNativeGesture,
        QPointingDevice.primaryPointingDevice(),
        2,
        QPointF(at),
        QPointF(at),
        QPointF(viewport.mapToGlobal(at)),
        wider,
        QPointF(),
    )
    QApplication.sendEvent(viewport, event)
    hand.settle()


def pull(hand: Hand, widget: QWidget, *points: QPoint) -> None:
    """Drag from the first point over the other points."""
    QTest.mousePress(widget, LEFT, pos=points[0])
    for point in points[1:]:
        event = QMouseEvent(
            QEvent.Type.MouseMove,
            QPointF(point),
            QPointF(widget.mapToGlobal(point)),
            Qt.MouseButton.NoButton,
            LEFT,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(widget, event)
    QTest.mouseRelease(widget, LEFT, pos=points[-1])
    hand.settle()


def under(hand: Hand, point: QPoint) -> Cell | None:
    """Return the cell that is drawn at a point, or the first cell of a pooled block."""
    return hand.board.cell_at(QPointF(point))


def seen(hand: Hand) -> ZoomRange | None:
    """Return the visible part of every panel."""
    return hand.shown.zoom


def run(hand: Hand, command: str) -> None:
    """Run a command, and wait until the effect is shown."""
    hand.trigger(command)
    hand.settle()


def press(hand: Hand, key: Qt.Key, modifiers: Qt.KeyboardModifier = CONTROL) -> None:
    """Press a key in the focused widget, and wait until the effect is shown."""
    hand.press(key, modifiers)
    hand.settle()
