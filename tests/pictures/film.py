"""Creates the README's animation of the window; started by ``python -m tests.pictures``.

The window is operated by key and mouse events. A pointer is drawn, because the picture of a window
does not include it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from PySide6.QtCore import QElapsedTimer, QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent, QPainter, QPen, QPolygonF, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.pictures.windows import pause, settle
from visualizer.app import make_application, open_window
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.widgets import app_settings

if TYPE_CHECKING:
    from collections.abc import Collection

    from visualizer.shell.window import MainWindow

TYPED_FIRST, TYPED = "The cat", " sat on the mat"
SETTINGS = {"d_in": 4, "d_out": 4, "heads": 2}
HOVERED, PINNED = Cell("masked", (0, 3, 1)), Cell("weights", (0, 5, 3))
FRAME_MS = 100
POINTER = ((0, 0), (0, 17), (4, 13), (7, 20), (10, 19), (7, 12), (12, 12))
"""Outline of the pointer, in pixels."""
QUALITY = 70
"""Quality of the lossy WebP, from 0 to 100."""


class Film:
    """A window, the drawn pointer and the frames so far."""

    def __init__(self, window: MainWindow) -> None:
        self.window = window
        self.frames: list[tuple[Image.Image, int]] = []
        self.pointer = QPointF(window.width() * 0.42, window.height() * 0.75)

    def shoot(self, length_ms: int) -> None:
        """Add a frame that is shown for the given time."""
        picture = self.window.grab().toImage()
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor("white"), 1.5))
        painter.setBrush(QColor("black"))
        painter.drawPolygon(QPolygonF([self.pointer + QPointF(x, y) for x, y in POINTER]))
        painter.end()
        pixels = picture.convertToFormat(QImage.Format.Format_RGBA8888)
        size = (pixels.width(), pixels.height())
        frame = Image.frombytes("RGBA", size, bytes(pixels.constBits())).convert("RGB")
        self.frames.append((frame, length_ms))

    def type_text(self, text: str) -> None:
        for character in text:
            QTest.keyClicks(self.window.settings_bar.sentence, character)
            settle(self.window)
            self.shoot(FRAME_MS)

    def move_to(self, cell: Cell, frames: int = 8) -> None:
        """Move the pointer to a cell; the window shows what is under the pointer."""
        board = self.window.board.viewport()
        area = self.window.board.area_of_cell(cell)
        assert area
        start, end = self.pointer, QPointF(board.mapTo(self.window, area.center()))
        for number in range(1, frames + 1):
            share = number / frames
            self.pointer = start + (end - start) * share * share * (3 - 2 * share)
            at = QPointF(board.mapFrom(self.window, self.pointer.toPoint()))
            event = QMouseEvent(
                QEvent.Type.MouseMove,
                at,
                QPointF(board.mapToGlobal(at)),
                Qt.MouseButton.NoButton,
                Qt.MouseButton.NoButton,
                Qt.KeyboardModifier.NoModifier,
            )
            QApplication.sendEvent(board, event)
            pause(50)
            self.shoot(FRAME_MS)

    def click(self, cell: Cell) -> None:
        area = self.window.board.area_of_cell(cell)
        assert area
        QTest.mouseClick(self.window.board.viewport(), Qt.MouseButton.LeftButton, pos=area.center())
        settle(self.window)

    def record(self, length_ms: int) -> None:
        """Add frames while the window plays."""
        timer = QElapsedTimer()
        timer.start()
        shown_at = 0
        while shown_at < length_ms:
            pause(FRAME_MS // 2)
            now = timer.elapsed()
            self.shoot(now - shown_at)
            shown_at = now

    def save(self, path: Path, start: int) -> None:
        """Write the frames as an endless animation; equal frames are joined.

        Viewers that do not play animations show the frame at index ``start``.
        """
        images: list[Image.Image] = []
        lengths: list[int] = []
        for image, length in (*self.frames[start:], *self.frames[:start]):
            if images and image.tobytes() == images[-1].tobytes():
                lengths[-1] += length
            else:
                images.append(image)
                lengths.append(length)
        images[0].save(
            path, save_all=True, append_images=images[1:], duration=lengths, loop=0,
            quality=QUALITY, method=4,
        )  # fmt: skip


def main(folder: Path, names: Collection[str]) -> None:
    """Record how a sentence is typed, a score and a weight are explained, and a stage is played."""
    (name,) = names
    application = make_application()
    application.setApplicationName("Attention Visualizer pictures")
    app_settings.clear_settings()
    window = open_window(Document(text=TYPED_FIRST))
    window.resize(1280, 760)
    window.set_colour_scheme("light")
    for setting, value in SETTINGS.items():
        window.workspace.change_setting(setting, value)
    window.settings_bar.focus_text()
    window.settings_bar.sentence.moveCursor(QTextCursor.MoveOperation.End)
    settle(window)
    film = Film(window)
    film.shoot(900)
    film.type_text(TYPED)
    film.shoot(700)
    film.move_to(HOVERED)
    film.shoot(2000)
    film.move_to(PINNED)
    film.click(PINNED)
    start = len(film.frames)
    film.shoot(2600)
    playback = window.controllers.playback_controller
    playback.seek_stage("weights")
    playback.toggle_playback()
    film.record(7000)
    playback.go_to_end()
    settle(window)
    film.shoot(1500)
    film.save(folder / name, start)
    window.controllers.document_controller.discard_unsaved_changes()
    window.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
