"""Drags panes, and does other things meanwhile, in a process of its own as well."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QTabBar

from tests.benchmarks.children import hand_over
from tests.benchmarks.stand import application, linger
from visualizer.app import window_services
from visualizer.session.document import Document
from visualizer.shell.window_manager import WindowManager

if TYPE_CHECKING:
    from visualizer.shell.window import MainWindow

LEFT, PLAIN = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
STEPS = 5
EDGE_MOVES = 40
LINGER_MS = 10
TABS = 0.4
"""The share of drags that are of a tab."""
EDGES = 0.3
"""The share of drags after which an edge between panes is moved at once."""
MOST_ROUNDS = 8
"""So many rounds are tried for each drag that is wanted."""
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


def begin_drag(window: MainWindow, id_: str, end: QPoint) -> None:
    """Press on the title of a pane, move it to a point of the window, and do not let go."""
    title = window.docks.by_id[id_].titleBarWidget()
    _begin(window, title.mapTo(window, title.rect().center()), end)


def tab_bars(window: MainWindow) -> list[QTabBar]:
    """Return the bars of several panes that share a place, as far as they are seen."""
    bars = [bar for bar in window.findChildren(QTabBar, options=DIRECT) if bar.count() > 1]
    return [bar for bar in bars if not bar.visibleRegion().isEmpty()]


def begin_tab_drag(window: MainWindow, chance: random.Random) -> bool:
    """Press on a tab, if there are some, move it along its bar, and do not let go."""
    seen = tab_bars(window)
    if not seen:
        return False
    bar = chance.choice(seen)
    tabs = [bar.tabRect(at).center() for at in chance.sample(range(bar.count()), 2)]
    start, end = (bar.mapTo(window, tab) for tab in tabs)
    _begin(window, start, end)
    return True


def end_drag(window: MainWindow, end: QPoint, *by: QPoint) -> None:
    """Move by some points, and let go at another."""
    for at in (*by, end):
        QTest.mouseMove(window.windowHandle(), at)
    QTest.mouseRelease(window.windowHandle(), LEFT, PLAIN, end)


def move_edge(window: MainWindow, id_: str) -> None:
    """Drag the edge between a pane and what is at its left."""
    edge = press_edge(window, id_)
    end_drag(window, edge - QPoint(EDGE_MOVES, 0))


def press_edge(window: MainWindow, id_: str) -> QPoint:
    """Press on the edge at a pane's left, move it, and do not let go; return where it was."""
    pane = window.docks.by_id[id_].geometry()
    edge = QPoint(pane.left() - 2, pane.center().y())
    _begin(window, edge, edge - QPoint(EDGE_MOVES, 0))
    return edge


def out_of_layout(window: MainWindow) -> list[str]:
    """Return the ids of the panes that have no place in the window."""
    nowhere = Qt.DockWidgetArea.NoDockWidgetArea
    docks = window.docks.by_id.items()
    return [id_ for id_, dock in docks if window.dockWidgetArea(dock) is nowhere]


def _begin(window: MainWindow, start: QPoint, end: QPoint) -> None:
    if isinstance(window.childAt(start), QAbstractButton):
        return  # the panes have moved since, and its menu would wait for whoever closes it
    # The native window is asked for each time: Qt makes another when one becomes full-screen,
    # which may have waited for the pane that was dropped before.
    QTest.mousePress(window.windowHandle(), LEFT, PLAIN, start)
    for step in range(1, STEPS + 1):
        QTest.mouseMove(window.windowHandle(), start + (end - start) * step / STEPS)
        linger(LINGER_MS)


def main(wanted: int) -> int:
    """Drag panes while the panes are arranged anew or the window is closed; return how many.

    Some presses begin no drag, the more of them the busier the machine is.
    """
    chance, drags = random.Random(wanted), 0
    with application():
        manager = WindowManager(window_services())
        for _ in range(MOST_ROUNDS * wanted):
            if drags == wanted:
                break
            window = manager.all[-1] if manager.all else manager.open(Document())
            linger(LINGER_MS)
            shown = [id_ for id_, dock in window.docks.by_id.items() if not dock.isHidden()]
            window.docks.open(pane := chance.choice([*shown, *window.docks.by_id]))
            linger(LINGER_MS)
            end = QPoint(chance.randrange(window.width()), chance.randrange(window.height()))
            if not (chance.random() < TABS and begin_tab_drag(window, chance)):
                begin_drag(window, pane, end)
            drags += window.docks.by_id[pane].isFloating()
            meanwhile = chance.randrange(4)
            if meanwhile < 2:
                window.controllers.presenter.toggle()
            elif meanwhile == 2:
                window.controllers.reset_layout()
            if meanwhile < 3:
                end_drag(window, end, end / 2)
                if chance.random() < EDGES and "Code" in window.docks.visible_pane_ids:
                    move_edge(window, "Code")
            else:
                window.close()
            linger(LINGER_MS)
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        for window in manager.all.copy():
            window.close()
        linger(LINGER_MS)
    return drags


if __name__ == "__main__":
    hand_over(main(int(sys.argv[1])))
