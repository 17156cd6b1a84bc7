"""Makes the pictures of the README from the real window: ``python -m tests.pictures``."""

from __future__ import annotations

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_SCALE_FACTOR", "1.5")

from typing import TYPE_CHECKING

from PySide6.QtCore import QEventLoop, QSettings

from visualizer.app import make_application, open_window
from visualizer.assets import resource
from visualizer.state.document import Document
from visualizer.state.view import Cell

if TYPE_CHECKING:
    from pathlib import Path


def main(folder: Path) -> None:
    """Draw the window in light and in dark."""
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    QSettings().clear()
    window = open_window(Document())
    window.resize(1280, 800)
    loop = QEventLoop()
    window.workspace.changed.connect(loop.quit)
    while window.workspace.run is None:
        loop.exec()
    window.workspace.pin(Cell("weights", (0, 3, 1)))
    for scheme in ("light", "dark"):
        window.set_scheme(scheme)
        application.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 200)
        window.grab().save(str(folder / f"{scheme}.png"))
    window.close()


if __name__ == "__main__":
    main(resource("pictures"))
