"""The real window under test, driven by input events and timed until a frame is painted.

Only this module accesses the window's internals.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Self

# This must precede the import of Qt, which reads the platform only once.
if asked := os.environ.get("ATTENTION_VISUALIZER_TEST_PLATFORM"):
    os.environ["QT_QPA_PLATFORM"] = asked
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import (
    QCoreApplication,
    QEvent,
    QEventLoop,
    QPointF,
    Qt,
    QTimer,
    qInstallMessageHandler,
)
from PySide6.QtGui import QMouseEvent, QTextCursor
from PySide6.QtWidgets import QSlider

from visualizer.app import make_application, open_window
from visualizer.attention.spec import AttentionSpec
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.document import Document
from visualizer.session.newest_request_worker import join_abandoned_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QImage
    from PySide6.QtWidgets import QApplication, QWidget

    from visualizer.attention.trace import Trace
    from visualizer.features.line_view.widget import AttentionLinesView
    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.widget import BoardView
    from visualizer.session.cell_address import Cell
    from visualizer.shell.window import MainWindow

TIMEOUT_S = 120
WINDOW_SIZES = ((1280, 800), (1920, 1080), (2560, 1600))
"""Window sizes, in pixels, that are tried in order until all heads are visible."""
SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo")


def text(tokens: int) -> str:
    """Return the given number of different words."""
    base = len(SYLLABLES)
    return " ".join(
        SYLLABLES[word // base**2 % base] + SYLLABLES[word // base % base] + SYLLABLES[word % base]
        for word in range(tokens)
    )


def document(tokens: int, size: int, heads: int) -> Document:
    """Return a document of the given size; for an embedding size of 3, the default document."""
    words = text(tokens) if size > 3 else Document().text
    width = size - size % heads
    return Document(text=words, spec=AttentionSpec(d_in=size, d_out=width, heads=heads))


@contextmanager
def application() -> Iterator[QApplication]:
    """Create the application; the user's settings and recovery files are not accessed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["XDG_DATA_HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
        qInstallMessageHandler(_tell)
        yield make_application()


def _tell(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if not message.startswith("This plugin does not support "):  # the offscreen platform
        print(message, file=sys.stderr)


class Stand:
    """A window, controlled by a benchmark."""

    def __init__(self, window: MainWindow) -> None:
        self.window, self.workspace, self.board = window, window.workspace, window.board
        self.panes_after = 0.0
        """Seconds from the board's last timed frame until all other panes were painted."""
        self._bugs: list[str] = []
        self.workspace.failed.connect(self._bugs.append)

    @classmethod
    def with_numbers(cls, document: Document) -> Self:
        """Open a window with a document and wait until the first results are painted."""
        stand = cls(open_window(document))
        stand.window.resize(1280, 800)
        stand.until_painted(stand.has_numbers)
        stand.settle()
        return stand

    def close(self) -> None:
        """Close the window without saving, and end its threads.

        Raises
        ------
        RuntimeError
            If the window does not close, or has reported an error during the measurement.
        """
        self.window.controllers.export_controller.exporter.cancel()
        # The window does not close during an export.
        while self.window.controllers.export_controller.exporter.is_working:
            QCoreApplication.processEvents()
        # Otherwise, the window would ask to save.
        self.window.controllers.document_controller.discard_unsaved_changes()
        if not self.window.close():  # its threads would continue
            raise RuntimeError("the window did not close")
        join_abandoned_workers()
        self.window.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        QCoreApplication.processEvents()
        self._check_for_bugs()

    def _check_for_bugs(self) -> None:
        if self._bugs:
            raise RuntimeError(f"the window reported an error:\n{self._bugs[0]}")

    # ------------------------------------------------------------------ what a hand does

    def toggle(self) -> float:
        """Toggle the mask; return the seconds until a frame with the new mask is painted."""
        old, causal = self.workspace.run, not self.workspace.document.get_setting("causal")

        def is_shown() -> bool:
            return self.workspace.run is not old and self.has_numbers() and self._masks(causal)

        return self._timed(
            self.window.actions_.by_id["module.toggle_causal_mask"].trigger, is_shown
        )

    def edit(self) -> float:
        """Replace the last word of the sentence; return the seconds until its label is painted."""
        old = self.workspace.run
        word = "halt" if self.workspace.document.text.endswith("step") else "step"
        cursor = self.window.settings_bar.sentence.textCursor()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.movePosition(QTextCursor.MoveOperation.StartOfWord, QTextCursor.MoveMode.KeepAnchor)

        def is_shown() -> bool:
            run = self.workspace.run
            return run is not old and self.has_numbers() and self._shown().rows.labels[-1] == word

        return self._timed(lambda: cursor.insertText(word), is_shown)

    def drag(self, heads: int) -> None:
        """Drag the slider for the number of heads."""
        slider = self.window.settings_bar.rows["heads"].control.findChildren(QSlider)[0]
        slider.setSliderDown(True)
        slider.setSliderPosition(heads)
        slider.setSliderDown(False)

    def look_at_weights(self) -> None:
        """Show only the weights of all heads, in a window that is large enough."""
        others = self.workspace.view.stages - {"weights"}
        for width, height in WINDOW_SIZES:
            self._show_or_hide(others - self.workspace.view.stages)
            self.window.resize(width, height)
            self.settle()
            self._show_or_hide(others)
            if self.heads_in_view == self.workspace.document.spec.heads:
                return

    def show_flow(self) -> None:
        self.window.controllers.view_controller.show_flow()
        self.settle()

    def show_grid(self) -> None:
        """Show the panels of all stages and heads."""
        self.window.controllers.view_controller.show_all_panels()
        self.settle()

    def _show_or_hide(self, stages: frozenset[str]) -> None:
        for stage in sorted(stages):
            self.workspace.toggle_stage(stage)
        self.settle()

    @property
    def heads_in_view(self) -> int:
        """The number of weight panels that are visible without scrolling."""
        size = self.board.viewport().size()
        whole = [
            slot.whole_area
            for slot in self.board.board_layout.slots
            if slot.heatmap.stage == "weights"
        ]
        return sum(one.right() <= size.width() and one.bottom() <= size.height() for one in whole)

    @property
    def size_text(self) -> str:
        """The size of the board's viewport in pixels."""
        size = self.board.viewport().size()
        return f"{size.width()} × {size.height()}"

    @property
    def trace(self) -> Trace:
        """The trace of the last computation."""
        if self.workspace.run is None:
            raise AssertionError("nothing was computed yet")
        return self.workspace.run.trace

    @property
    def is_causal(self) -> bool:
        """Whether the mask is on."""
        return bool(self.workspace.document.get_setting("causal"))

    # ------------------------------------------------------------------ the lines

    def open_lines(self) -> None:
        """Open the Lines pane and wait until the lines are drawn."""
        self.window.docks.open_pane("Lines")
        view = self.window.panes["Lines"].view
        self.until_painted(lambda: self.drawn_lines > 0, view)
        self.settle()

    @property
    def drawn_lines(self) -> int:
        """The number of drawn lines."""
        shown = self.workspace.screen.panel(LINES_PANEL)
        return len(shown.lines) if shown else 0

    def hover(self, view: BoardView | AttentionLinesView, across: float, down: float) -> float:
        """Move the pointer in a view; return the seconds until the hovered part is highlighted.

        Pending updates of other panes are painted first.

        The result is 0 if there is nothing at this position.
        """
        before = self.workspace.view.hovered
        size = view.viewport().size()
        at = QPointF(size.width() * across, size.height() * down)
        QCoreApplication.processEvents()
        start = perf_counter()
        painted = self.until_painted(lambda: True, view, lambda: self._point(view, at, before))
        return painted - start if painted else 0.0

    def leave(self, view: BoardView) -> None:
        """Move the pointer out of the view, and process the events until no cell is hovered."""
        QCoreApplication.sendEvent(view.viewport(), QEvent(QEvent.Type.Leave))
        while view.leave_timer.isActive():
            QCoreApplication.processEvents()
        self.settle()

    def _point(
        self, view: BoardView | AttentionLinesView, at: QPointF, before: Cell | None
    ) -> bool:
        move(view.viewport(), at)
        return self.workspace.view.hovered != before

    def limit_lines(self, threshold: float) -> float:
        """Set the minimum weight of lines; return the time at which the lines are painted."""
        lines = self.window.panes["Lines"]
        act = lines.threshold.setValue
        return self.until_painted(lambda: True, lines.view, lambda: act(threshold) is None)

    def scroll_lines(self, share: float) -> float:
        """Scroll to a fraction of the range; return the time at which the view is painted."""
        bar = self.window.panes["Lines"].view.verticalScrollBar()
        there = round(bar.maximum() * share)
        bar.setValue(there if there != bar.value() else bar.maximum() - there)
        return self.until_painted(lambda: True, self.window.panes["Lines"].view)

    # ------------------------------------------------------------------ waiting

    def _timed(self, act: Callable[[], object], is_shown: Callable[[], bool]) -> float:
        before = self._picture()
        start = perf_counter()
        QTimer.singleShot(0, act)  # as an event of the window's event loop
        painted = self.until_painted(is_shown)
        QCoreApplication.processEvents()  # the other panes are also laid out and painted
        self.panes_after = perf_counter() - painted
        self.settle()
        if self._picture() == before:
            raise AssertionError("the timed frame is equal to the frame before it")
        return painted - start

    def until_painted(
        self,
        is_shown: Callable[[], bool],
        view: BoardView | AttentionLinesView | None = None,
        act: Callable[[], bool] | None = None,
    ) -> float:
        """Process events until the expected frame is painted; return the time of this moment.

        Parameters
        ----------
        act : callable, optional
            Called first, because it may paint immediately; if it returns False, nothing has changed
            and the result is 0.
        """
        view = view or self.board
        moments: list[float] = []
        loop, late = QEventLoop(), QTimer()

        def look() -> None:
            if not moments and is_shown():
                moments.append(perf_counter())
                loop.quit()

        late.setSingleShot(True)
        late.timeout.connect(loop.quit)
        late.start(TIMEOUT_S * 1000)
        view.painted.connect(look)
        has_changed = act() if act else True
        if has_changed and not moments:
            loop.exec()
        view.painted.disconnect(look)
        self._check_for_bugs()
        if not has_changed:
            return 0.0
        if not moments:
            raise TimeoutError("the expected frame was not painted in time")
        return moments[0]

    def settle(self, quiet_ms: int = 50) -> None:
        """Wait until the window is idle; results may cause further requests."""
        quiet = 0
        while quiet < 4:
            linger(quiet_ms)
            quiet = 0 if self.workspace.is_working else quiet + 1

    # ------------------------------------------------------------------ what is really shown

    def has_numbers(self) -> bool:
        """Return whether the board has drawn the heatmaps of the current run."""
        run, board = self.workspace.run, self.workspace.screen.panel(BOARD_CONTENTS).board
        if run is None or self.workspace.computed != self.workspace.document:
            return False
        return self.board.board is board and self._is_drawn(self._shown())

    def _shown(self) -> Heatmap:
        """Return the first panel of weights."""
        return next(
            one
            for one in self.workspace.screen.panel(BOARD_CONTENTS).board.heatmaps
            if one.stage == "weights"
        )

    def _is_drawn(self, heatmap: Heatmap) -> bool:
        kept = self.board._pictures.get(id(heatmap))
        return kept is not None and kept.heatmap is heatmap

    def _masks(self, causal: bool) -> bool:
        forbidden = self._shown().forbidden
        return forbidden is not None and bool(forbidden[0, -1]) if causal else forbidden is None

    def _picture(self) -> QImage:
        return self.board._pictures[id(self._shown())].pixmap.toImage()


def move(widget: QWidget, to: QPointF) -> None:
    """Move the pointer over a widget."""
    none, plain = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    where = QPointF(widget.mapToGlobal(to))
    event = QMouseEvent(QEvent.Type.MouseMove, to, where, none, none, plain)
    QCoreApplication.sendEvent(widget, event)


def linger(milliseconds: int) -> None:
    """Process events for the given time."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()
