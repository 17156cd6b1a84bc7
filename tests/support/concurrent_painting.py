"""Paints film frames on one thread while connections end on another, in a separate process."""

from __future__ import annotations

import sys

from PySide6.QtCore import QRectF, QTimer
from PySide6.QtGui import QImage, QPainter

from tests.benchmarks.stand import application, linger
from visualizer.export.films.animation_frames import paint_caption_line
from visualizer.session.newest_request_worker import NewestRequestWorker, join_abandoned_workers
from visualizer.widgets.theme import LIGHT

AT_ONCE = 50


class Listener:
    """Not a QObject, so that its connection is ended by a call from Python."""

    def listen(self) -> None:
        """Do nothing."""


def paint(lines: int) -> int:
    """Paint this many lines of text."""
    image = QImage(640, 40, QImage.Format.Format_RGB32)
    for number in range(lines):
        painter = QPainter(image)
        paint_caption_line(painter, QRectF(0, 0, 640, 40), f"The score of <b>{number}</b>", LIGHT)
        painter.end()
    return lines


def main(lines: int) -> None:
    """Paint this many lines, and end connections until all lines have been painted."""
    with application():
        worker, done = NewestRequestWorker(), list[object]()
        worker.answered.connect(done.append)
        worker.failed.connect(done.append)
        worker.submit(lambda: paint(lines))
        ended = 0
        while not done:
            for _ in range(AT_ONCE):
                timer = QTimer()  # on each object, only the first ended connection takes the lock
                timer.timeout.connect(Listener().listen)
                ended += 1
            linger(0)
        worker.abandon()
        join_abandoned_workers()
        print(done == [lines], ended > 0)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(int(sys.argv[1]))
