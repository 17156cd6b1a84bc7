"""On random flow boards, texts are neither cut nor overlapping, and every head can be reached."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QImage, QPainter

from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention.spec import MaskKind, NormalisationKind, TransformerBlockKind
from visualizer.heatmap import flow_paint
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.session.view import View
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import FlowPlacement

SMALLEST, LARGEST = (480, 400), (2560, 1440)
WORDS = ("a", "cat", "journey", "مرحبا", "你好", "🎉", "Donaudampfschifffahrtselektrizität")
ROUNDING_PX = 1.0
"""Text is placed at fractions of pixels, and advances are rounded."""

pytestmark = pytest.mark.usefixtures("application")


class TextRecorder(QPainter):
    """Records the painted texts, each with the area of its glyphs and the available area."""

    def __init__(self, image: QImage) -> None:
        super().__init__(image)
        self.texts: list[tuple[str, QRectF, QRectF]] = []

    def drawText(self, area: QRectF, flags: Qt.AlignmentFlag, text: str) -> None:  # type: ignore[override]
        """Record a text in the coordinates of the board."""
        metrics = QFontMetricsF(self.font())
        width, height = metrics.horizontalAdvance(text), metrics.ascent()
        left = area.left()
        if flags & Qt.AlignmentFlag.AlignRight:
            left = area.right() - width
        elif flags & Qt.AlignmentFlag.AlignHCenter:
            left = area.center().x() - width / 2
        glyphs = QRectF(left, area.center().y() - height / 2, width, height)
        where = self.transform()
        self.texts.append((text, where.mapRect(glyphs), where.mapRect(area)))


@dataclass(frozen=True)
class Case:
    """A module, a text and a canvas; `large` is the index of the stage in focus."""

    fields: dict[str, Any]
    words: tuple[str, ...]
    front: int
    large: float
    size: tuple[int, int]

    def placement(self) -> FlowPlacement:
        """Place the board."""
        run = a_run(" ".join(self.words), **self.fields)
        names = run.trace.names
        stage = names[int(self.large * len(names))]
        view = View(flow=True, heads=frozenset({self.front}), large=stage)
        board = present_board(resolved(run, view), Board())
        found = place_flow_panels(board, *self.size, 1.0).flow
        assert found is not None
        return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Generate a case."""
    heads = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 64]))
    size = heads * draw(st.sampled_from([1, 2, 3, 8]))
    is_linear = draw(st.booleans())
    fields = {
        "heads": heads,
        "d_out": size,
        "d_in": size,
        "mask": draw(st.sampled_from([MaskKind.NONE, MaskKind.CAUSAL])),
        "block": draw(st.sampled_from([*TransformerBlockKind])),
        **({"normalisation": NormalisationKind.LINEAR} if is_linear else {}),
        "dropout": 0.0 if is_linear else draw(st.sampled_from([0.0, 0.5])),
    }
    return Case(
        fields,
        tuple(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=70))),
        draw(st.integers(0, heads - 1)),
        draw(st.floats(0, 0.999)),
        (
            draw(st.integers(SMALLEST[0], LARGEST[0])),
            draw(st.integers(SMALLEST[1], LARGEST[1])),
        ),
    )


def _texts(placement: FlowPlacement) -> list[tuple[str, QRectF, QRectF]]:
    image = QImage(8, 8, QImage.Format.Format_RGB32)
    painter = TextRecorder(image)
    try:
        flow_paint.paint_frame(painter, placement, LIGHT)
        flow_paint.paint_headings(painter, placement, range(len(placement.panels.columns)), LIGHT)
        flow_paint.paint_legend(painter, placement, LIGHT)
    finally:
        painter.end()
    return [found for found in painter.texts if found[0]]


def _inner(area: QRectF) -> QRectF:
    return area.adjusted(ROUNDING_PX, ROUNDING_PX, -ROUNDING_PX, -ROUNDING_PX)


@given(cases())
@examples(2, deadline=None)
def test_no_text_is_cut(case: Case) -> None:
    placement = case.placement()
    size = placement.layout.size
    canvas = QRectF(0, 0, size.width, placement.layout.bottom)
    labels = [*enumerate(placement.panels.panels[0].rows.labels, 1)]
    tokens = {text for at, label in labels for text in (label, f"{at} {label}")}
    for text, glyphs, room in _texts(placement):
        assert canvas.contains(_inner(glyphs)), text
        assert room.contains(_inner(glyphs)), text
        # Only a long token is shortened, as the token strip shows it whole.
        start = text[:-1].rstrip("\u200d")  # with which Qt joins Arabic letters before the ellipsis
        is_long = any(token.startswith(start) for token in tokens)
        assert not text.endswith("…") or is_long, text


@given(cases())
@examples(2, deadline=None)
def test_texts_cover_neither_other_texts_nor_cells(case: Case) -> None:
    placement = case.placement()
    texts = [(text, _inner(glyphs)) for text, glyphs, _ in _texts(placement)]
    for (one, area), (other, beside) in itertools.combinations(texts, 2):
        assert not area.intersects(beside), (one, other)
    slots = (*placement.slots, *placement.operands, *placement.thumbnails)
    for slot in filter(None, slots):
        for text, area in texts:
            assert not area.intersects(slot.cells), text


@given(cases())
@examples(1, deadline=None)
def test_the_head_in_front_has_a_tab_and_all_other_heads_can_be_reached(case: Case) -> None:
    placement = case.placement()
    heads = placement.panels.heads
    shown = [slot.heatmap.head for slot in placement.thumbnails if slot.heatmap.head is not None]
    reached = [*shown, *(head for head in placement.adjacent_page_heads if head is not None)]
    if heads == 0:
        assert not shown
        return
    assert placement.panels.front in shown
    assert set(shown) <= set(range(heads))
    # The tabs are a row of successive heads; turning leads to those before and after.
    assert min(reached) == max(0, min(shown) - 1)
    assert max(reached) == min(heads - 1, max(shown) + 1)
