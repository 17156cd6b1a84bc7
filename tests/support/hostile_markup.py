"""Names and tokens that look like HTML, and checks for every place where Qt would interpret them.

Each hostile text contains a marker. In rich text, the marker must be visible after the literal
character that would have been markup; this shows that the text was escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, QEvent, QModelIndex, QPoint
from PySide6.QtGui import QHelpEvent, Qt, QTextDocumentFragment
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLabel,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QToolTip,
    QWidget,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARKS = {
    "zqbold": "<b>zqbold</b>",
    "zqfile": '<img zqfile src="file:///x.png">',
    "zqlink": "<a zqlink href='x'>x</a>",
    "zqend": "</script>zqend",
    "zqsign": "&lt;zqsign",
}
HOSTILE = tuple(MARKS.values())
SIGNS = {mark: text[: text.index(mark)] for mark, text in MARKS.items()}
Role = Qt.ItemDataRole
ACROSS, DOWN = Qt.Orientation.Horizontal, Qt.Orientation.Vertical


def is_hostile(text: str) -> bool:
    """Return whether a text contains a hostile text."""
    return any(mark in text for mark in MARKS)


def is_escaped(html: str) -> bool:
    """Return whether hostile texts in HTML are escaped and fully visible."""
    # Lines may be wrapped.
    seen = " ".join(QTextDocumentFragment.fromHtml(html).toPlainText().split())
    return all(
        html.count(mark) == seen.count(mark) == seen.count(f"{SIGNS[mark]}{mark}") for mark in MARKS
    )


def rich(*windows: QWidget) -> list[tuple[str, str]]:
    """Return every hostile text that Qt interprets as HTML, with its place."""
    return [
        (place, text)
        for place, text, is_rich in _texts(windows)
        if is_rich and is_hostile(text) and not is_escaped(text)
    ]


def hostile_places(*windows: QWidget) -> set[str]:
    """Return the kinds of places that contain hostile text, whether it is escaped or not."""
    return {place for place, text, _ in _texts(windows) if is_hostile(text)}


def tip_at(widget: QWidget, place: QPoint) -> str:
    """Hover over a position, and return the tooltip that is shown there."""
    event = QHelpEvent(QEvent.Type.ToolTip, place, widget.mapToGlobal(place))
    QApplication.sendEvent(widget, event)
    said = QToolTip.text()
    QToolTip.hideText()
    return said


def _texts(windows: Iterable[QWidget]) -> Iterator[tuple[str, str, bool]]:
    for window in windows:
        for widget in (window, *window.findChildren(QWidget)):
            yield from _of(widget)


def _of(widget: QWidget) -> Iterator[tuple[str, str, bool]]:
    kind = type(widget).__name__
    for name, text in (("tip", widget.toolTip()), ("whatsThis", widget.whatsThis())):
        yield f"{kind} {name}", text, Qt.mightBeRichText(text)
    for name, text in (
        ("title", widget.windowTitle()),
        ("name", widget.accessibleName()),
        ("description", widget.accessibleDescription()),
    ):
        yield f"{kind} {name}", text, False
    if isinstance(widget, QLabel):
        yield f"{kind} text", widget.text(), _is_rich(widget)
    if isinstance(widget, QPlainTextEdit):
        yield f"{kind} text", widget.toPlainText(), False
    if isinstance(widget, QTextEdit):
        yield f"{kind} text", widget.toHtml(), True
    if isinstance(widget, QMenu):
        for action in widget.actions():
            yield f"{kind} action", action.text(), False
            yield f"{kind} tip", action.toolTip(), widget.toolTipsVisible()
    if isinstance(widget, QAbstractItemView) and widget.model() is not None:
        yield from _of_model(kind, widget.model())


def _is_rich(label: QLabel) -> bool:
    if label.textFormat() is Qt.TextFormat.AutoText:
        return Qt.mightBeRichText(label.text())
    return label.textFormat() is not Qt.TextFormat.PlainText


def _of_model(kind: str, model: QAbstractItemModel) -> Iterator[tuple[str, str, bool]]:
    rows, columns = model.rowCount(), model.columnCount()
    for role in (Role.DisplayRole, Role.ToolTipRole, Role.WhatsThisRole):
        cells = [model.index(row, column) for row in range(rows) for column in range(columns)]
        given = [model.data(cell, role) for cell in cells if cell != QModelIndex()]
        given += [model.headerData(at, ACROSS, role) for at in range(columns)]
        given += [model.headerData(at, DOWN, role) for at in range(rows)]
        for text in filter(None, given):
            is_rich = role != Role.DisplayRole and Qt.mightBeRichText(str(text))
            yield f"{kind} {role.name}", str(text), is_rich
