"""One program start, timed from before its process was created; that time is its argument.

Imports nothing that the program itself would not import.
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
    """Open the window as the program does; say when it was painted, and when with numbers.

    Its settings are kept in the folder.
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
