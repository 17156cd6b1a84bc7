"""Draws the window with a real model; started by ``python -m tests.pictures``.

The folder must contain SmolLM2-135M-Instruct, which is not a part of the project.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.pictures.windows import pause, settle
from visualizer.app import make_application, open_window
from visualizer.session.document import Document
from visualizer.widgets import app_settings

TEXT = "Tell Vorzik to wait. I saw Vor"
INDUCTION = (18, 6)
"""Indices of the layer and of the head of an induction head."""


def main(model: Path, picture: Path) -> None:
    """Draw the window with an induction head, the overview and the next tokens of a model."""
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    app_settings.clear_settings()
    window = open_window(Document(text=TEXT))
    window.resize(1280, 800)
    window.set_colour_scheme("light")
    settle(window)
    window.controllers.document_controller.open(model)
    while window.workspace.document.model is None:
        pause(50)
    settle(window)
    window.controllers.view_controller.show_head_of_layer(*INDUCTION)
    settle(window)
    window.grab().save(str(picture))
    window.controllers.document_controller.discard_unsaved_changes()
    window.close()


if __name__ == "__main__":
    folder, model, (name,) = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    main(model, folder / name)
