"""The versions that pyproject.toml allows have no known defects."""

from __future__ import annotations

import subprocess
import sys

PAINT_A_LOT = """
from PySide6.QtGui import QImage, QPainter

image = QImage(8, 8, QImage.Format.Format_RGB32)
painter = QPainter(image)
for _ in range(200_000):
    painter.translate(0.0, 0.0)
painter.end()
"""
"""With Python before 3.12, PySide6 6.12.0 loses a reference to None in each call, and finally
crashes.
"""


def test_many_calls_that_return_none_do_not_kill_the_process() -> None:
    run = subprocess.run([sys.executable, "-c", PAINT_A_LOT], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
