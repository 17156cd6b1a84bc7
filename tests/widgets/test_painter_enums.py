"""Two threads paint figures at the same time, before the process has painted anything else."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAINT_ON_TWO_THREADS = """
import os, sys, threading

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, QPen
from visualizer.export.figures.figure_page import preload_painter_enums

preload_painter_enums()
sys.setswitchinterval(1e-6)
application = QGuiApplication(["test", "-platform", "offscreen"])
images = [QImage(60, 20, QImage.Format.Format_RGB32) for _ in range(2)]
both = threading.Barrier(2)

def paint(image):
    painter, area = QPainter(image), QRectF(0, 0, 60, 20)
    both.wait()
    painter.fillRect(area, QColor("#123456"))
    painter.setPen(QPen(QColor("#FFFFFF"), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.drawText(area, Qt.AlignmentFlag.AlignCenter, "x")
    painter.end()

other = threading.Thread(target=paint, args=(images[1],))
other.start()
paint(images[0])
other.join()
print("alike" if images[0] == images[1] else "different", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_two_threads_may_paint_first_at_the_same_time() -> None:
    """PySide crashes if two threads create the enums of an overloaded call at the same time."""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PAINT_ON_TWO_THREADS], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "alike", "")
