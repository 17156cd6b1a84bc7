"""Draws the interactive view of a model in a browser; started by ``python -m tests.pictures``.

The folder must contain SmolLM2-135M-Instruct, which is not a part of the project. Chromium is
required.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import visualizer
from tests.pictures.model import INDUCTION, TEXT
from tests.support.headless_browser import FOUND, OPTIONS, driven

SIZE = (1100, 700)


def main(model: Path, picture: Path) -> None:
    """Draw the view with an induction head and its largest weight in the last row."""
    assert FOUND, "Chromium is not installed"
    seen = visualizer.open_model(model).attend(TEXT)
    layer, head = INDUCTION
    row = len(seen.tokens) - 1
    column = int(seen["weights", layer, head, row].argmax())
    script = f"selectHead({layer}, {head}); pin({{row: {row}, column: {column}}});"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_bytes(driven(seen.interactive().html.encode(), script))
        subprocess.run(
            [
                *(FOUND, *OPTIONS, "--force-device-scale-factor=1.5"),
                *(f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={picture}"),
                *(f"--user-data-dir={folder}/profile", page.as_uri()),
            ],
            check=True,
            capture_output=True,
        )


if __name__ == "__main__":
    folder, model, (name,) = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    main(model, folder / name)
