"""The minimap: visible while zoomed, accurate, and draggable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor

from tests.support.accessible_text import heard
from tests.support.window_input import CONTROL
from tests.support.zoom_gestures import press, pull, seen, turn
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.colour_mapping import colour_indices, colour_table
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from PySide6.QtCore import QRectF
    from PySide6.QtGui import QImage

    from tests.support.playback_viewer import Viewer
    from tests.support.window_input import Hand
    from visualizer.heatmap.minimap_widget import MinimapWidget
    from visualizer.session.zoom_ranges import ZoomRange

FORTY = " ".join(f"w{number}" for number in range(40))
THOUSAND = " ".join(f"w{number}" for number in range(1000))


def minimap(hand: Hand) -> MinimapWidget:
    return hand.board.minimap


def look_closer(hand: Hand, text: str = FORTY, notches: int = 6) -> ZoomRange:
    """Enter a text, and zoom to the middle of its weights."""
    hand.paste_sentence(text)
    hand.settle()
    hand.board.setFocus()
    middle = len(text.split()) // 2
    turn(hand, hand.point(Cell("weights", (0, middle, middle))), notches)
    zoom = seen(hand)
    assert zoom
    return zoom


def area(hand: Hand) -> QRectF:
    return minimap(hand).map_area()


def place(hand: Hand, tokens: int, query: float, key: float) -> QPoint:
    """Return the position of a query and a key on the map."""
    inside = area(hand)
    at = QPointF(key / tokens * inside.width(), query / tokens * inside.height())
    return (inside.topLeft() + at).toPoint()


def test_the_minimap_is_visible_only_while_zoomed(hand: Hand) -> None:
    assert not minimap(hand).isVisible()
    look_closer(hand)
    assert minimap(hand).isVisible()
    press(hand, Qt.Key.Key_0)
    assert not minimap(hand).isVisible()
    press(hand, Qt.Key.Key_Plus)
    assert minimap(hand).isVisible()
    hand.paste_sentence("one")
    hand.settle()
    assert not minimap(hand).isVisible()


def test_the_minimap_is_in_a_corner_in_any_window(hand: Hand) -> None:
    look_closer(hand)
    for size in ((1280, 800), (900, 600)):
        hand.window.resize(*size)
        hand.settle()
        corner = minimap(hand).geometry().bottomRight()
        assert hand.board.viewport().rect().bottomRight() - corner == QPoint(12, 12)


@pytest.mark.parametrize("text", [FORTY, THOUSAND], ids=["40", "1000"])
def test_a_click_pans_at_the_same_zoom(hand: Hand, text: str) -> None:
    before, tokens = look_closer(hand, text), len(text.split())
    pixel = tokens / area(hand).width()
    for query, key in ((0.25, 0.75), (0.6, 0.4)):
        at = place(hand, tokens, query * tokens, key * tokens)
        pull(hand, minimap(hand), at, at)
        zoom = seen(hand)
        assert zoom
        assert (len(zoom.queries), len(zoom.keys)) == (len(before.queries), len(before.keys))
        for span, wanted in ((zoom.queries, query), (zoom.keys, key)):
            middle = (span.start + span.stop) / 2
            assert middle == pytest.approx(wanted * tokens, abs=1 + pixel)


def test_a_drag_pans_and_stops_at_the_edges(hand: Hand) -> None:
    before = look_closer(hand)
    points = [place(hand, 40, query, key) for query, key in ((20, 20), (24, 16), (30, 10))]
    pull(hand, minimap(hand), *points)
    zoom = seen(hand)
    assert zoom
    assert zoom.queries.start > before.queries.start
    assert zoom.keys.start < before.keys.start
    pull(hand, minimap(hand), points[0], QPoint(-500, 900))
    zoom = seen(hand)
    assert zoom
    assert (zoom.queries.stop, zoom.keys.start) == (40, 0)
    assert hand.window.workspace.view.pinned is None  # nothing under it was clicked


def test_moving_the_pointer_over_the_minimap_does_not_pan(hand: Hand) -> None:
    before = look_closer(hand)
    hand.leave()
    assert seen(hand) == before


def picture(hand: Hand) -> QImage:
    return minimap(hand).grab().toImage()


def test_the_frame_surrounds_the_visible_part(hand: Hand) -> None:
    zoom = look_closer(hand)
    image, accent = picture(hand), QColor(hand.window.theme.accent)
    ratio = image.devicePixelRatio()
    found = [
        (x / ratio, y / ratio)
        for y in range(image.height())
        for x in range(image.width())
        if image.pixelColor(x, y) == accent
    ]
    assert found
    inside, side = area(hand), area(hand).width() / 40
    for numbers, span, first in (
        ([x for x, _ in found], zoom.keys, inside.left()),
        ([y for _, y in found], zoom.queries, inside.top()),
    ):
        assert min(numbers) == pytest.approx(first + span.start * side, abs=2.5)
        assert max(numbers) == pytest.approx(first + span.stop * side, abs=2.5)


def test_the_minimap_has_the_colours_of_the_whole_panel(hand: Hand) -> None:
    zoom = look_closer(hand)
    overview = hand.shown.overview
    assert overview
    assert (overview.stage, overview.head) == ("weights", 0)
    image, chosen = picture(hand), colour_indices(overview)
    words = colour_table(overview.colour.map, hand.window.theme)
    ratio = image.devicePixelRatio()
    for row, column in ((3, 1), (39, 38), (38, 2), (2, 38)):
        assert row not in zoom.queries or column not in zoom.keys
        at = QPointF(place(hand, 40, row + 0.5, column + 0.5)) * ratio
        shown = image.pixel(int(at.x()), int(at.y()))
        near = chosen[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
        assert shown in words[near].ravel().tolist()


def test_the_minimap_shows_the_pinned_panel_in_its_theme(hand: Hand) -> None:
    look_closer(hand)
    before = picture(hand)
    hand.window.controllers.cell_selection_controller.follow_link(Cell("scores", (1, 20, 20)))
    hand.settle()
    overview = hand.shown.overview
    assert overview
    assert (overview.stage, overview.head) == ("scores", 1)
    assert picture(hand) != before
    hand.window.set_colour_scheme("dark")
    assert picture(hand).pixelColor(2, 2) == QColor(hand.window.theme.paper)


def test_the_visible_part_is_described_for_screen_readers(hand: Hand) -> None:
    zoom = look_closer(hand)
    said = f"queries {zoom.queries.start + 1} to {zoom.queries.stop}"
    assert said in heard(minimap(hand)).name
    press(hand, Qt.Key.Key_Minus, CONTROL)
    assert said not in heard(minimap(hand)).name


def test_the_wheel_zooms_over_the_minimap(hand: Hand) -> None:
    before = look_closer(hand)
    at = minimap(hand).geometry().center()
    turn(hand, at, -1)
    zoom = seen(hand)
    assert zoom is None or len(zoom.queries) >= len(before.queries)


def shades(hand: Hand) -> set[str]:
    """Return the colours between the frame and the edge of the map."""
    image, inside = picture(hand), area(hand).toRect()
    along = range(2, inside.width() - 2)
    return {image.pixelColor(inside.left() + x, inside.bottom() - 4).name() for x in along}


def test_the_minimap_does_not_reveal_a_prediction(viewer: Viewer) -> None:
    hand = viewer.hand
    look_closer(hand)
    assert len(shades(hand)) > 5
    viewer.click("playback.predict")
    assert hand.shown.overview
    assert hand.shown.overview.stage == "weights"
    assert minimap(hand).isVisible()
    assert len(shades(hand)) == 1
    viewer.click("playback.reveal")
    assert len(shades(hand)) > 5


def test_the_minimap_is_empty_before_its_panel_is_computed(viewer: Viewer) -> None:
    hand = viewer.hand
    look_closer(hand)
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End):
        viewer.key(key)
        overview = hand.shown.overview
        assert overview
        reaches = hand.window.workspace.screen.panel(BOARD_CONTENTS).highlights.computed_extents
        rows = {reach.stage: reach.rows for reach in reaches}.get(overview.stage, 40)
        assert (len(shades(hand)) > 5) == (rows == 40)
