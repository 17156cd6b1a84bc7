"""Draws the main window and its export dialog; started by ``python -m tests.pictures``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QTimer

from visualizer.app import make_application, open_window
from visualizer.session.cell_address import Cell
from visualizer.session.document import BOOK_SENTENCE, Document
from visualizer.widgets import app_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from PySide6.QtGui import QPixmap

    from visualizer.shell.window import MainWindow

SENTENCE = "The cat sat on the mat because it was tired"


def main(folder: Path, names: Collection[str]) -> None:
    """Show the content of all images in a window, and save the requested images."""
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    app_settings.clear_settings()
    window = open_window(Document())
    window.resize(1280, 800)
    settle(window)
    taken = {
        "lesson.png": _take(window, "dark", _read),
        "playing.png": _take(window, "light", _play),
        "light.png": _take(window, "light", _pin),
        "export.png": _take_dialog(window),
        "compare.png": _take(window, "light", _compare),
        "lines.png": _take(window, "dark", _lines),
        "flow.png": _take(window, "light", _flow),
    }
    for name in names:
        taken[name].save(str(folder / name))
    window.controllers.document_controller.discard_unsaved_changes()
    window.close()


def _read(window: MainWindow) -> None:
    window.controllers.lesson_controller.open_lesson(3)
    window.controllers.lesson_controller.turn_pages(2)


def _play(window: MainWindow) -> None:
    window.controllers.lesson_controller.close_lesson()
    settle(window)
    window.workspace.change_setting("heads", 1)
    window.controllers.playback_controller.seek_stage("weights")
    window.controllers.playback_controller.step_by(3)


def _pin(window: MainWindow) -> None:
    window.controllers.playback_controller.go_to_end()
    window.workspace.undo()
    window.controllers.cell_selection_controller.pin_cell(Cell("weights", (0, 3, 1)))


def _compare(window: MainWindow) -> None:
    window.controllers.comparison_controller.keep_as_side_a()
    window.workspace.change_setting("causal", value=False)


def _lines(window: MainWindow) -> None:
    window.controllers.comparison_controller.end_comparison()
    window.controllers.cell_selection_controller.unpin_cell()
    for name, value in (("causal", True), ("d_in", 16), ("d_out", 16), ("heads", 4)):
        window.workspace.change_setting(name, value)
    window.workspace.set_text(SENTENCE)
    settle(window)
    window.docks.open_pane("Lines")
    window.controllers.view_controller.show_one_stage()
    window.controllers.cell_selection_controller.pin_cell(Cell("weights", (1, 8, 6)))


def _flow(window: MainWindow) -> None:
    window.docks.open_pane("Explain")
    window.resize(1600, 900)
    for name, value in (("d_in", 6), ("d_out", 6), ("heads", 2)):
        window.workspace.change_setting(name, value)
    window.workspace.set_text(BOOK_SENTENCE)
    settle(window)
    window.controllers.view_controller.show_flow()
    window.controllers.cell_selection_controller.pin_cell(Cell("weights", (0, 3, 1)))


def _take(window: MainWindow, scheme: str, prepare: Callable[[MainWindow], None]) -> QPixmap:
    window.set_colour_scheme(scheme)
    prepare(window)
    settle(window)
    return window.grab()


def _take_dialog(window: MainWindow) -> QPixmap:
    window.controllers.export_controller.open_export_dialog()
    while window.controllers.export_controller.dialog is None:
        pause(10)  # the dialog's modules are loaded on a thread
    dialog = window.controllers.export_controller.dialog
    settle(window)
    pause(1000)  # the dialog's preview is rendered on a thread
    taken = dialog.grab()
    dialog.reject()
    return taken


def pause(length_ms: int) -> None:
    """Process events for the given time in ms."""
    loop = QEventLoop()
    QTimer.singleShot(length_ms, loop.quit)
    loop.exec()


def settle(window: MainWindow) -> None:
    """Wait until a window shows all results."""
    workspace, quiet = window.workspace, 0
    while quiet < 4:
        pause(50)
        quiet = 0 if workspace.is_working else quiet + 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
