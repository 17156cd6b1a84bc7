"""Makes the pictures of the README from the real window: ``python -m tests.pictures``."""

from __future__ import annotations

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_SCALE_FACTOR", "1.5")

from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QSettings, QTimer

from visualizer.app import make_application, open_window
from visualizer.assets import resource
from visualizer.state.document import Document
from visualizer.state.view import Cell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.ui.window import Window


def main(folder: Path) -> None:
    """Draw the window: as it opens, at a step of playback, on a page of a lesson."""
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    QSettings().clear()
    window = open_window(Document())
    window.resize(1280, 800)
    _settle(window)
    _take(window, "dark", folder / "lesson.png", _read)
    _take(window, "light", folder / "playing.png", _play)
    _take(window, "light", folder / "light.png", _pin)
    window.close()


def _read(window: Window) -> None:
    window.reader.open(3)
    window.reader.step(2)


def _play(window: Window) -> None:
    window.reader.close()
    _settle(window)
    window.workspace.set("heads", 1)
    window.player.seek_stage("weights")
    window.player.step(3)


def _pin(window: Window) -> None:
    window.player.to_end()
    window.workspace.undo()
    window.pointer.pin(Cell("weights", (0, 3, 1)))


def _take(window: Window, scheme: str, path: Path, prepare: Callable[[Window], None]) -> None:
    window.set_scheme(scheme)
    prepare(window)
    _settle(window)
    window.grab().save(str(path))


def _settle(window: Window) -> None:
    workspace, quiet = window.workspace, 0
    while quiet < 4:
        loop = QEventLoop()
        QTimer.singleShot(50, loop.quit)
        loop.exec()
        quiet = 0 if workspace.is_working else quiet + 1


if __name__ == "__main__":
    main(resource("pictures"))
