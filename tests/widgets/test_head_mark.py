"""Heads have different marks until the combinations of colours and shapes are used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QColor

from visualizer.widgets.head_mark import MARK_SHAPES, head_icon
from visualizer.widgets.theme import DARK, LIGHT, Theme, head_colour

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

SIDE = 8


def mark(head: int, theme: Theme, ratio: float = 1.0) -> bytes:
    image = head_icon(head, SIDE, ratio, theme).pixmap(SIDE, SIDE).toImage()
    return bytes(image.constBits())


def grey(head: int, theme: Theme) -> tuple[bool, ...]:
    """Return which pixels of a mark are painted, in any colour."""
    image = head_icon(head, SIDE, 2.0, theme).pixmap(2 * SIDE, 2 * SIDE).toImage()
    sides = range(image.width())
    return tuple(image.pixelColor(x, y).alphaF() > 0.5 for y in sides for x in sides)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_64_heads_have_64_marks(qapp: QApplication, theme: Theme) -> None:
    assert len({mark(head, theme) for head in range(64)}) == 64
    assert mark(64, theme) == mark(0, theme)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_heads_with_the_same_colour_differ_in_shape(qapp: QApplication, theme: Theme) -> None:
    shapes = [grey(head, theme) for head in range(0, 64, 8)]
    assert len(shapes) == len(MARK_SHAPES)
    for at, one in enumerate(shapes):
        for other in shapes[at + 1 :]:
            differing = sum(mine != its for mine, its in zip(one, other, strict=True))
            assert differing >= 0.1 * len(one)


def test_a_mark_has_the_colour_of_its_head(qapp: QApplication) -> None:
    image = head_icon(9, 32, 1.0, LIGHT).pixmap(32, 32).toImage()
    seen = {image.pixelColor(x, 16).name().upper() for x in range(32)}
    assert QColor(head_colour(9, LIGHT)).name().upper() in seen
    assert image.pixelColor(16, 16).alpha() == 0  # the mark is a ring
