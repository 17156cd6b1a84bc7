"""A painted message stays within its area: it has several lines, and is smaller if necessary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage, QPainter

from visualizer.lab.attention_view.presenter import ATTENTION_MISSING
from visualizer.widgets.fonts import apply_interface_font
from visualizer.widgets.painted_message import MARGIN_PX, paint_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PySide6.QtWidgets import QApplication

ROOMS = [(560, 300), (400, 200), (310, 330), (1200, 60)]
"""Widths and heights, including those in windows with a width of 1280, 800 and fewer pixels."""


@pytest.fixture(params=[100, 200])
def text_size(application: QApplication, request: pytest.FixtureRequest) -> Iterator[int]:
    apply_interface_font(request.param)
    yield request.param
    apply_interface_font(100)


def ink(message: str, size: tuple[int, int], *, is_on_top: bool = False) -> np.ndarray:
    """Return whether each pixel [row, column] of a painted message differs from the background."""
    image = QImage(*size, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    painter = QPainter(image)
    painter.setPen(QColor("black"))
    paint_message(painter, image.rect(), message, is_on_top=is_on_top)
    painter.end()
    words = np.frombuffer(image.constBits(), np.uint32).reshape(size[1], size[0])
    return (words & 0xFF) < 0x80


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("is_on_top", [False, True])
def test_messages_are_not_cut_off(text_size: int, room: tuple[int, int], is_on_top: bool) -> None:
    found = ink(ATTENTION_MISSING, room, is_on_top=is_on_top)
    columns, rows = np.flatnonzero(found.any(axis=0)), np.flatnonzero(found.any(axis=1))
    edge = min(MARGIN_PX, room[0] // 8, room[1] // 8) - 2
    assert edge <= columns[0] < columns[-1] < room[0] - edge
    assert edge <= rows[0] < rows[-1] < room[1] - edge


def test_a_message_that_fits_has_the_largest_size(application: QApplication) -> None:
    wide, narrow = (ink("Nothing here.", (width, 200)).sum() for width in (600, 300))
    assert wide == narrow
    assert ink("Nothing here. " * 40, (300, 120)).any()


def test_the_beginning_of_a_long_message_is_visible(application: QApplication) -> None:
    long, short = (ink(f"First words. {'More. ' * count}", (200, 60)) for count in (500, 8))
    rows = [np.flatnonzero(each.any(axis=1))[0] for each in (long, short)]
    assert min(rows) >= 5
    assert rows[0] < 20
