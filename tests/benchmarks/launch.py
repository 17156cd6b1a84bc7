"""Times one start of the program; the argument is the time before its process was created.

This module imports only modules that the program itself imports.
"""

from __future__ import annotations

import os
import sys
import time

from visualizer.lazy_numpy import import_numpy_on_first_use

if asked := os.environ.get("ATTENTION_VISUALIZER_TEST_PLATFORM"):
    os.environ["QT_QPA_PLATFORM"] = asked
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def main(started: float, folder: str) -> None:
    """Open the window like the program; print when it was painted, and when results were painted.

    The folder contains the settings.
    """
    os.environ["XDG_CONFIG_HOME"] = folder
    import_numpy_on_first_use()
    from visualizer.app import make_application, open_window

    application = make_application()
    from visualizer.heatmap.board_presenter import BOARD_CONTENTS
    from visualizer.session.document import Document

    window = open_window(Document())
    moments: dict[str, float | bool] = {}

    def look() -> None:
        now = time.time() - started
        if "window_s" not in moments:
            moments.update(window_s=now, has_torch="torch" in sys.modules)
        if window.workspace.run and window.workspace.screen.panel(BOARD_CONTENTS).board.columns:
            moments["numbers_s"] = now
            application.quit()

    window.board.painted.connect(look)
    application.exec()
    window.close()
    print(__import__("json").dumps(moments))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
