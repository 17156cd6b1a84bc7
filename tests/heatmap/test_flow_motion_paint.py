"""On the flow board, operands move to the result, and the numbers shown are those of the run."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from tests.support.image_pixels import rgb_of
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention.spec import MaskKind, NormalisationKind, TransformerBlockKind
from visualizer.format import format_number
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.heatmap.flow_motion_paint import FlowMotion, create_flow_motion
from visualizer.heatmap.flow_placement import place_flow_panels
from visualizer.heatmap.highlights import Highlights, present_highlights
from visualizer.heatmap.motion_card_paint import ProductsCard, SoftmaxCard
from visualizer.heatmap.step_motion_paint import target_areas
from visualizer.heatmap.step_motion_phases import (
    PHASES_MS,
    MotionKind,
    MotionPhase,
    unpaused_motion_ms,
)
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.view import View
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.heatmap.board_layout import PanelSlot

pytestmark = pytest.mark.usefixtures("application")

SIZE = (1580, 932)
KINDS = {
    "queries": MotionKind.MOVE,
    "keys": MotionKind.MOVE,
    "values": MotionKind.MOVE,
    "scores": MotionKind.SCORE,
    "scaled": MotionKind.MOVE,
    "masked": MotionKind.MOVE,
    "weights": MotionKind.SOFTMAX,
    "context": MotionKind.CONTEXT,
    "concat": MotionKind.MOVE,
    "output": MotionKind.MOVE,
}


def copied(area: QRectF, *, is_earlier: bool = False) -> QImage:
    image = QImage(area.size().toSize(), QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    return image


class Played:
    """One step on the flow board."""

    def __init__(
        self, run: Run, stage: str, row: int = 3, column: int = 0,
        grain: StepSize = StepSize.ROW, **fields: Any,
    ) -> None:  # fmt: skip
        playhead = PlaybackState(PlaybackPosition(stage, row, column), grain)
        seen = resolved(run, View(flow=True, playhead=playhead, **fields))
        layout = place_flow_panels(present_board(seen, Board()), *SIZE, 1)
        assert layout.flow
        self.run, self.placement = run, layout.flow
        self.highlights: Highlights = present_highlights(seen)
        made = create_flow_motion(layout.flow, self.highlights, LIGHT, QRectF(0, 0, *SIZE), copied)
        assert made
        self.motion: FlowMotion = made
        step = self.highlights.step
        assert step
        (self.target,) = target_areas(layout.slots, step)

    def slot(self, stage: str) -> PanelSlot:
        slots = (slot for slot in self.placement.slots if slot)
        return next(slot for slot in slots if slot.heatmap.stage == stage)

    def operand(self, stage: str) -> PanelSlot:
        pairs = zip(self.placement.panels.columns, self.placement.operands, strict=True)
        return next(slot for column, slot in pairs if slot and column.operand == stage)

    def painted(self, share: float) -> np.ndarray:
        image = QImage(*SIZE, QImage.Format.Format_RGB32)
        image.fill(QColor(LIGHT.paper))
        painter = QPainter(image)
        self.motion.paint(painter, share, (self.target,))
        painter.end()
        return rgb_of(image)


def before_landing(kind: MotionKind) -> float:
    return 1 - PHASES_MS[kind][MotionPhase.LAND] / unpaused_motion_ms(kind)


@pytest.mark.parametrize("stage", KINDS)
def test_each_operation_has_its_motion(stage: str) -> None:
    assert Played(a_run(), stage).motion.kind is KINDS[stage]


@pytest.mark.parametrize("stage", [stage for stage in KINDS if stage != "context"])
def test_operands_move_straight_from_their_cells_to_the_result(stage: str) -> None:
    played = Played(a_run(), stage)
    starts, ends = (played.motion.operand_areas(share) for share in (0, 1))
    assert starts == tuple(one.start for one in played.motion.operands)
    shown = [slot.cells for slot in (*played.placement.slots, *played.placement.operands) if slot]
    assert all(any(cells.contains(start) for cells in shown) for start in starts)
    for end in ends:
        assert played.target.left() <= end.center().x() <= played.target.right()
        assert end.center().y() == pytest.approx(played.target.center().y())
    path = [played.motion.operand_areas(share) for share in np.linspace(0, 1, 25)]
    for areas in zip(*path, strict=True):
        left = np.diff([area.left() for area in areas])
        top = np.diff([area.top() for area in areas])
        for steps in (left, top):
            assert (steps >= -1e-9).all() or (steps <= 1e-9).all()


@pytest.mark.parametrize("stage", ["queries", "keys", "values", "output"])
def test_a_projected_row_moves_with_its_numbers(stage: str) -> None:
    row = Played(a_run(), stage).motion.operands[0]
    assert row.picture.size() == row.start.size().toSize()  # a copy of the board, not only colours
    assert row.area_at(1).size() == row.area_at(0).size()


@pytest.mark.parametrize("stage", ["queries", "scores", "weights", "context"])
def test_operands_stay_bright_where_they_came_from(stage: str) -> None:
    played = Played(a_run(), stage)
    painted = played.painted(before_landing(played.motion.kind))
    for one in played.motion.operands:
        at = one.start.center().toPoint()
        assert painted[at.y(), at.x()] == 0xFF0000  # as copied


def test_a_query_comes_from_the_left_and_a_key_from_above() -> None:
    played = Played(a_run(), "scores", 3, 1, StepSize.CELL)
    query, key = played.motion.operand_areas(0)
    queries, keys = played.slot("queries"), played.operand("keys")
    assert query == queries.cell_area(3, 0).united(
        queries.cell_area(3, queries.heatmap.values.shape[1] - 1)
    )
    assert (key.top(), key.bottom()) == (keys.cells.top(), keys.cells.bottom())
    assert key.center().x() == pytest.approx(played.target.center().x())
    assert query.right() <= played.target.left()
    assert key.bottom() <= played.target.top()


@pytest.mark.parametrize("stage", KINDS)
def test_the_result_is_not_painted_before_the_last_phase(stage: str) -> None:
    played = Played(a_run(), stage)
    result = int("ff0000", 16)
    red = played.painted(1) == result
    inside = played.target.adjusted(2, 2, -2, -2).toAlignedRect()
    part = slice(inside.top(), inside.bottom()), slice(inside.left(), inside.right())
    assert red[part].all()
    played.motion = alone = replace(played.motion, operands=(), strips=(), card=None)
    for share in np.linspace(0, before_landing(alone.kind), 9):
        seen = played.painted(share)[part]
        assert (seen == int(LIGHT.paper[1:], 16)).all()


def test_the_sum_of_a_score_counts_up_to_its_number() -> None:
    run = a_run(d_out=8)
    played = Played(run, "scores", 3, 1, StepSize.CELL)
    card = played.motion.card
    assert isinstance(card, ProductsCard)
    products = run.trace.read("queries", (0, 3)) * run.trace.read("keys", (0, 1))
    np.testing.assert_allclose(card.terms.terms, products, rtol=1e-6)
    np.testing.assert_allclose(card.terms.factors[0], run.trace.read("queries", (0, 3)))
    np.testing.assert_allclose(card.terms.factors[1], run.trace.read("keys", (0, 1)))
    shown = list(dict.fromkeys(card.sum_at(share) for share in np.linspace(0, 1, 101)))
    np.testing.assert_allclose(shown[:-1], [0, *np.cumsum(products)], rtol=1e-5)
    assert shown[-1] == run.trace.read("scores", (0, 3, 1))


def test_the_sum_of_a_context_vector_counts_up_to_its_number() -> None:
    run = a_run(d_in=4, d_out=4)
    played = Played(run, "context", 3)
    card, leading = played.motion.card, played.highlights.leading
    assert isinstance(card, ProductsCard)
    assert leading
    column = leading.place[-1]
    weights = run.trace.read("weights", (0, 3))[:4]  # later keys are masked
    values = run.trace.read("values", (0,))[:4, column]
    assert card.shown.order == (0, 1, 2, 3)
    np.testing.assert_allclose(card.terms.factors[0][:4], weights)
    np.testing.assert_allclose(card.terms.factors[1][:4], values)
    shown = list(dict.fromkeys(card.sum_at(share) for share in np.linspace(0, 1, 101)))
    np.testing.assert_allclose(shown[:-1], [0, *np.cumsum(weights * values)], rtol=1e-5)
    assert shown[-1] == run.trace.read("context", (0, 3, column))
    assert card.target == played.slot("context").cell_area(3, column)


def test_the_bars_of_a_row_become_weights() -> None:
    run = a_run()
    card = Played(run, "weights").motion.card
    assert isinstance(card, SoftmaxCard)
    scores = run.trace.read("masked", (0, 3))[:4].astype(np.float64)
    exponentials = np.exp(scores)
    np.testing.assert_allclose(card.terms.terms[:4], exponentials, rtol=1e-6)
    assert card.shown.order == (0, 1, 2, 3)  # later keys are masked
    assert card.exponential_sum == pytest.approx(exponentials.sum())
    weights = run.trace.read("weights", (0, 3))[:4]
    for term, exponential, weight in zip(card.terms.terms, exponentials, weights, strict=False):
        assert card.bar_length(term, 1, 0) == pytest.approx(exponential / exponentials.max())
        assert card.bar_length(term, 1, 1) == pytest.approx(weight, rel=1e-5)


def test_the_sum_and_the_bars_of_a_row_are_synchronized() -> None:
    card = Played(a_run(), "weights").motion.card
    assert isinstance(card, SoftmaxCard)
    terms = card.terms.terms[:4]
    for grown in np.linspace(0, 1, 21):
        full = [term for row, term in enumerate(terms) if card.bar_growth(row, grown) == 1]
        assert card.sum_at(grown, 0) == pytest.approx(sum(full))
    for divided in np.linspace(0, 1, 11):
        numbers = [term / card.divisor(divided) for term in terms]
        assert card.sum_at(1, divided) == pytest.approx(sum(numbers))
    assert card.divisor(0) == card.sum_at(1, 1) == 1
    assert card.divisor(1) == card.sum_at(1, 0) == card.exponential_sum


def test_the_shares_of_a_context_vector_add_up_to_one_row() -> None:
    run = a_run(mask=MaskKind.NONE)
    played = Played(run, "context")
    weights = run.trace.read("weights", (0, 3))
    heights = np.array([one.end.height() for one in played.motion.strips])
    np.testing.assert_allclose(heights, weights * played.target.height(), rtol=1e-4)
    assert heights.sum() == pytest.approx(played.target.height(), rel=1e-4)
    values = played.operand("values")
    for key, strip in enumerate(played.motion.strips):
        assert strip.start.top() == pytest.approx(values.cell_area(key, 0).top())
        assert strip.end.left() == played.target.left()
    stacked = played.motion.strips
    assert all(
        one.end.bottom() == pytest.approx(other.end.top())
        for one, other in itertools.pairwise(stacked)
    )


@pytest.mark.parametrize("words", [1, 2, 12, 64, 100])
@pytest.mark.parametrize("stage", ["scores", "weights", "context"])
def test_cards_stay_on_the_board(words: int, stage: str) -> None:
    run = a_run(" ".join(words * ["word"]), d_in=8, d_out=8, heads=2)
    for row in {0, words // 2, words - 1}:
        card = Played(run, stage, row).motion.card
        if card is not None:
            assert QRectF(0, 0, *SIZE).contains(card.area)


@pytest.mark.parametrize("words", [1, 6, 12, 64])
@pytest.mark.parametrize("stage", ["scores", "weights"])
def test_cards_cover_neither_computed_cells_nor_thumbnails(words: int, stage: str) -> None:
    run = a_run(" ".join(words * ["word"]), d_in=8, d_out=8, heads=4)
    for row in {0, words // 2, words - 1}:
        played = Played(run, stage, row)
        card = played.motion.card
        assert card is not None
        assert played.placement.thumbnails
        target = played.slot(stage)
        done = target.cell_area(0, 0).united(target.cell_area(row, words - 1))
        before = [played.slot(name).cells for name in ("input", "queries", "keys", "values")]
        above = [slot.cells for slot in played.placement.operands if slot]
        tabs = [slot.cells for slot in played.placement.thumbnails]
        for area in (done, *before, *above, *tabs):
            assert not card.area.intersects(area)


@pytest.mark.parametrize(
    ("kind", "temperature", "form"),
    [
        (NormalisationKind.NAIVE_SOFTMAX, 1.0, "exp(score)"),
        (NormalisationKind.SOFTMAX, 1.0, "exp(score)"),
        (NormalisationKind.SOFTMAX, 0.01, "exp(score − {})"),
        (NormalisationKind.SUM, 1.0, "score"),
    ],
)
def test_a_card_labels_its_numbers(kind: NormalisationKind, temperature: float, form: str) -> None:
    run = a_run(normalisation=kind, mask=MaskKind.NONE, temperature=temperature)
    card = Played(run, "weights").motion.card
    assert isinstance(card, SoftmaxCard)
    largest = run.trace.read(run.trace.stage("weights").reads[0], (0, 3)).max()
    assert card.terms.form == form.format(format_number(float(largest), 3))


def test_a_block_also_has_motions() -> None:
    run = a_run(d_in=8, d_out=8, block=TransformerBlockKind.PRE_NORM)
    for stage in ("scores", "weights", "context"):
        assert Played(run, stage).motion.kind is KINDS[stage]


def test_a_stage_as_a_whole_only_moves() -> None:
    assert Played(a_run(), "weights", grain=StepSize.STAGE).motion.kind is MotionKind.MOVE


def test_everything_that_is_painted_is_within_the_repainted_area() -> None:
    for stage in KINDS:
        played = Played(a_run(), stage)
        for share in (0.1, 0.4, 0.6, 0.9):
            changed = played.painted(share) != int(LIGHT.paper[1:], 16)
            bounds = played.motion.painted_region(share).boundingRect()
            changed[bounds.top() : bounds.bottom() + 1, bounds.left() : bounds.right() + 1] = False
            assert not changed.any()
