"""Parts of panels, aggregated, transformed and pooled, agree with independent NumPy."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.support.screens import needs, resolved, warm
from tests.support.small_runs import a_run, board, panel
from visualizer.attention import run as attention_run
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.masks import allowed
from visualizer.attention.spec import MaskKind, MaskPlacement, NormalisationKind
from visualizer.attention.stages import has_forbidden_cells
from visualizer.features.view_bar.presenter import present_view_controls
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.heatmap.cell_lookup import cell_at, displayed_cell, move_cursor, panel_of_cell
from visualizer.heatmap.colour_mapping import DROPPED, NAN_COLOUR_INDEX
from visualizer.session.cell_address import Cell
from visualizer.session.view import View
from visualizer.session.view_options import ColourCurve, ColourLimits, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange, clamp_zoom

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.heatmap.board import Heatmap, HeatmapAxis

TOKENS = 13
TEXT = " ".join(f"w{number}" for number in range(TOKENS))
OTHER = " ".join(f"v{number}" for number in range(TOKENS - 2))
SIZES: dict[str, Any] = {"d_in": 5, "d_out": 6, "heads": 3}
RUNS = (
    a_run(TEXT, **SIZES),
    a_run(TEXT, mask=MaskKind.WINDOW, window=3, route=MaskPlacement.AFTER, dropout=0.4, **SIZES),
    a_run(
        TEXT,
        mask=MaskKind.NONE,
        normalisation=NormalisationKind.SUM,
        output_projection=True,
        **SIZES,
    ),
    a_run(TEXT, OTHER, dropout=0.5, **SIZES),
)


class Looked(Struct, frozen=True):
    """A panel and the request from which it was built."""

    run: Run
    stage: str
    head: int | None
    fold: HeadAggregate | None
    view: View

    @property
    def panel(self) -> Heatmap:
        shown = board(self.run, **{name: getattr(self.view, name) for name in FIELDS})
        whose = (self.stage, self.head, self.fold)
        return next(one for one in shown.heatmaps if (one.stage, one.head, one.fold) == whose)

    def numbers(self) -> tuple[np.ndarray, bool]:
        """Return the whole panel, computed by NumPy in float64, and whether the stage is signed."""
        trace = self.run.trace
        whole = made(self.run, self.stage, self.view.lens)
        if self.fold:
            axis = len(trace.axes)
            whole = whole.mean(axis) if self.fold is HeadAggregate.MEAN else whole.max(axis)
        is_signed = bool((whole[np.isfinite(whole)] < 0).any())
        head = () if self.head is None else (self.head,)
        return whole[(*self.run.trace.leading_index(text=self.view.text), *head)], is_signed


FIELDS = ("stages", "heads", "folds", "lens", "zoom", "room", "text", "colouring")


def made(run: Run, stage: str, lens: WeightTransform) -> np.ndarray:
    numbers = run.trace.read(stage).astype(np.float64)
    if not run.trace.stage(stage).is_weights or lens is WeightTransform.PLAIN:
        return numbers
    if lens is WeightTransform.TIMES_VALUE:
        values = run.trace.read("values").astype(np.float64)
        return np.asarray(numbers * np.sqrt((values**2).sum(-1))[..., None, :])
    left = numbers.copy()
    left[..., 0] = 0
    sums = left.sum(-1, keepdims=True)
    return np.asarray(np.divide(left, sums, out=np.zeros_like(left), where=sums != 0))


@st.composite
def spans(draw: st.DrawFn) -> range:
    size = draw(st.integers(2, TOKENS))
    start = draw(st.integers(0, TOKENS - size))
    return range(start, start + size)


@st.composite
def looked(draw: st.DrawFn, /, **fixed: Any) -> Looked:
    run = draw(st.sampled_from(RUNS))
    stage = draw(st.sampled_from(run.trace.names))
    has_heads = "head" in run.trace.stage(stage).dims
    head = draw(st.none() | st.integers(0, 2)) if has_heads else None
    fold = draw(st.sampled_from(HeadAggregate)) if has_heads and head is None else None
    drawn_fields = {
        "stages": frozenset({stage}),
        "folds": frozenset({fold} if fold else ()),
        "lens": draw(st.sampled_from(WeightTransform)),
        "zoom": draw(st.none() | st.builds(ZoomRange, spans(), spans())),
        "room": draw(st.integers(2, 16)),
        "text": draw(st.integers(0, len(run.texts) - 1)),
    }
    return Looked(run, stage, head, fold, View(**{**drawn_fields, **fixed}))


def pooled(numbers: np.ndarray, is_signed: bool) -> float:
    """Return the number of a block according to the panel's note."""
    found = numbers[numbers != -np.inf]
    if not found.size:
        return -math.inf
    if not is_signed:
        return float(found.max())
    largest = np.abs(found).max()
    return float(largest if largest in found else -largest)


def blocks(axis: HeatmapAxis) -> list[slice]:
    """Return the rows or columns of the stage in each drawn cell."""
    edges = [
        *range(axis.visible_range.start, axis.visible_range.stop, axis.block),
        axis.visible_range.stop,
    ]
    return [slice(*edge) for edge in itertools.pairwise(edges)]


# ------------------------------------------------------------------------------------ numbers


@given(looked())
def test_every_number_is_that_of_the_trace(given_: Looked) -> None:
    heatmap, (numbers, is_signed) = given_.panel, given_.numbers()
    rows, columns = blocks(heatmap.rows), blocks(heatmap.columns)
    expected = [[pooled(numbers[row, column], is_signed) for column in columns] for row in rows]
    np.testing.assert_allclose(heatmap.values, expected, rtol=1e-5, atol=1e-7)


@given(looked())
def test_the_visible_part_is_pooled_into_blocks_that_fit(given_: Looked) -> None:
    heatmap, stage = given_.panel, given_.run.trace.stage(given_.stage)
    zoom = clamp_zoom(given_.view.zoom, (TOKENS, TOKENS))
    parts = zoom.visible_ranges(stage) if zoom else (None, None)
    room = given_.view.room
    for axis, part, size in zip(
        (heatmap.rows, heatmap.columns), parts, given_.numbers()[0].shape, strict=True
    ):
        if part is None:
            assert axis.visible_range == range(size)
            assert axis.block == math.ceil(size / room)
            continue
        assert axis.block & (axis.block - 1) == 0  # the smallest power of two that fits
        assert math.ceil(len(part) / axis.block) <= room
        assert axis.block == 1 or math.ceil(len(part) / (axis.block // 2)) > room
        assert axis.visible_range.start % axis.block == 0
        assert 0 <= part.start - axis.visible_range.start < axis.block
        assert 0 <= axis.visible_range.stop - part.stop < axis.block
        assert axis.visible_range.stop <= size
    assert heatmap.is_zoomed == (zoom is not None)
    assert heatmap.is_pooled == (heatmap.rows.block * heatmap.columns.block > 1)


@given(looked())
def test_the_room_of_a_panel_does_not_depend_on_its_visible_part(given_: Looked) -> None:
    whole = replace(given_, view=replace(given_.view, zoom=None)).panel
    assert given_.panel.side == whole.side == whole.values.shape


# ------------------------------------------------------------------------------- labels and marks


@given(looked())
def test_labels_and_marks_belong_to_the_same_tokens(given_: Looked) -> None:
    heatmap, run = given_.panel, given_.run
    tokens = run.texts[given_.view.text]
    assert heatmap.rows.labels == tokens
    assert heatmap.columns.labels == (
        tokens
        if heatmap.columns.name == "key"
        else tuple(str(number + 1) for number in range(given_.numbers()[0].shape[1]))
    )
    spec = run.trace.spec
    if not has_forbidden_cells(spec, given_.stage):
        assert heatmap.forbidden is None
        return
    may = np.broadcast_to(allowed(spec, TOKENS, given_.stage), run.trace.read(given_.stage).shape)[
        (*run.trace.leading_index(text=given_.view.text), 0)
    ]
    assert heatmap.forbidden is not None
    for at, row in enumerate(blocks(heatmap.rows)):
        for across, column in enumerate(blocks(heatmap.columns)):
            assert heatmap.forbidden[at, across] == (not may[row, column].any())
            assert heatmap.rows.first_of_cell(at) == row.start
            assert heatmap.rows.cell_index_of(row.stop - 1) == at


@given(looked(lens=WeightTransform.PLAIN))
def test_dropped_cells_belong_to_the_same_tokens(given_: Looked) -> None:
    heatmap = given_.panel
    if given_.stage != "dropped" or given_.fold:
        assert heatmap.dropped is None
        return
    assert given_.head is not None
    index = (*given_.run.trace.leading_index(text=given_.view.text), given_.head)
    before, left = (given_.run.trace.read(name, index) for name in ("weights", "dropped"))
    assert heatmap.dropped is not None
    for at, row in enumerate(blocks(heatmap.rows)):
        for across, column in enumerate(blocks(heatmap.columns)):
            was, is_ = (numbers[row, column] for numbers in (before, left))
            assert heatmap.dropped[at, across] == (bool(was.any()) and not is_.any())


@given(looked(colouring=ColourOptions(limits=ColourLimits.ROW)))
def test_the_ends_of_a_row_are_those_of_the_whole_row(given_: Looked) -> None:
    heatmap, (numbers, _) = given_.panel, given_.numbers()
    sizes = np.where(np.isfinite(numbers), np.abs(numbers), 0)
    expected = [sizes[row].max() for row in blocks(heatmap.rows)]
    assert heatmap.ends is not None
    np.testing.assert_allclose(heatmap.ends[:, 0], expected, rtol=1e-5)


@given(looked(colouring=ColourOptions(limits=ColourLimits.PANEL)))
def test_the_ends_of_a_panel_are_those_of_the_whole_panel(given_: Looked) -> None:
    colour, (numbers, is_signed) = given_.panel.colour, given_.numbers()
    largest = np.abs(numbers[np.isfinite(numbers)]).max()
    assert colour.high == pytest.approx(largest or 1, rel=1e-5)
    is_signed |= not given_.run.trace.stage(given_.stage).is_weights
    assert colour.low == (-colour.high if is_signed else 0)


@given(looked(lens=WeightTransform.PLAIN))
def test_row_sums_are_those_of_the_whole_row(given_: Looked) -> None:
    heatmap, (numbers, _) = given_.panel, given_.numbers()
    is_share = (
        given_.run.trace.stage(given_.stage).is_weights and given_.fold is not HeadAggregate.MAX
    )
    sums = numbers[heatmap.rows.visible_range.start : heatmap.rows.visible_range.stop].sum(axis=1)
    if not is_share or heatmap.is_pooled or np.allclose(sums, 1, atol=1e-4):
        assert heatmap.sums is None
    else:
        assert heatmap.sums is not None
        np.testing.assert_allclose(heatmap.sums, sums, rtol=1e-5, atol=1e-6)


def test_only_the_visible_part_is_ranked_and_a_note_states_this() -> None:
    ranked, said = ColourOptions(ColourCurve.RANK), "ranked within the visible part"
    assert panel(RUNS[0], "scores", colouring=ranked).notes == ()
    part = ZoomRange(range(3, 9), range(4, 8))
    assert panel(RUNS[0], "scores", colouring=ranked, zoom=part).notes == (said,)
    assert panel(RUNS[0], "scores", zoom=part).notes == ()


# ---------------------------------------------------------------------------- transformations


@given(looked(lens=WeightTransform.WITHOUT_FIRST))
def test_a_note_states_that_the_first_token_is_hidden(given_: Looked) -> None:
    heatmap = given_.panel
    is_weights = given_.run.trace.stage(given_.stage).is_weights
    assert ("without the first token, renormalized" in heatmap.notes) == is_weights
    if not is_weights or heatmap.columns.block > 1:
        assert heatmap.hidden is None
        return
    assert heatmap.hidden is not None
    assert heatmap.hidden.shape == heatmap.values.shape
    assert (heatmap.hidden == (np.array(heatmap.columns.visible_range) == 0)).all()


@pytest.mark.parametrize("head", range(3))
def test_without_the_first_token_the_other_weights_are_renormalized(head: int) -> None:
    weights = RUNS[0].trace.read("weights", (head,)).astype(np.float64)
    values = panel(RUNS[0], "weights", head, lens=WeightTransform.WITHOUT_FIRST).values
    np.testing.assert_allclose(values[1:].sum(axis=1), 1, atol=1e-5)
    assert not values[0].any()  # it attends only to the first
    ratio = weights[5, 2] / weights[5, 4]
    assert values[5, 2] / values[5, 4] == pytest.approx(ratio, rel=1e-4)


def test_hidden_and_dropped_cells_are_not_out_of_range() -> None:
    typed = ColourOptions(
        limits=ColourLimits.TYPED, typed=(("weights", 0.2, 0.5), ("dropped", 0.2, 0.5))
    )
    run = RUNS[0]
    hidden = panel(run, "weights", lens=WeightTransform.WITHOUT_FIRST, colouring=typed)
    numbers = made(run, "weights", WeightTransform.WITHOUT_FIRST)[0]
    counts = np.tri(TOKENS, dtype=bool)
    counts[:, 0] = False
    above, below = (numbers[counts] > 0.5).sum(), (numbers[counts] < 0.2).sum()
    assert hidden.notes[-1] == f"◥ {above} above, ◢ {below} below"

    run = a_run(TEXT, dropout=0.5, **SIZES)
    dropped = panel(run, "dropped", colouring=typed)
    left, before = (run.trace.read(name, (0,)) for name in ("dropped", "weights"))
    kept = np.tri(TOKENS, dtype=bool) & ~((left == 0) & (before != 0))
    assert not kept.all()
    above, below = (left[kept] > 0.5).sum(), (left[kept] < 0.2).sum()
    assert dropped.notes[-1] == f"◥ {above} above, ◢ {below} below"


def test_limits_entered_for_signed_weights_start_at_0_for_unsigned_weights() -> None:
    typed = ColourOptions(limits=ColourLimits.TYPED, typed=(("weights", -0.6, 0.6),))
    colour = panel(RUNS[2], "weights", colouring=typed).colour
    assert (colour.low, colour.high, colour.is_signed) == (-0.6, 0.6, True)
    colour = panel(RUNS[0], "weights", colouring=typed).colour
    assert (colour.low, colour.high, colour.is_signed) == (0, 0.6, False)


# --------------------------------------------------------------------------------- the overview


@pytest.mark.parametrize("room", [4, 16])
def test_the_minimap_shows_the_whole_pinned_panel_or_the_first_weights(room: int) -> None:
    zoom = ZoomRange(range(2, 6), range(3, 9))
    fields: dict[str, Any] = {"room": room, "stages": frozenset({"scores", "weights", "context"})}
    assert board(RUNS[0], **fields).overview is None
    for pinned, stage, head in (
        (None, "weights", 0),
        (Cell("scores", (1, 4, 4)), "scores", 1),
        (Cell("context", (2, 4, 0)), "weights", 2),
        (Cell("weights", (4, 4), HeadAggregate.MEAN), "weights", 0),
    ):
        shown = board(RUNS[0], zoom=zoom, pinned=pinned, **fields)
        overview = shown.overview
        assert overview
        assert shown.zoom == zoom
        assert (overview.stage, overview.head) == (stage, head)
        np.testing.assert_array_equal(overview.values, RUNS[0].trace.read(stage, (head,)))


def test_everything_for_the_minimap_is_read_before_a_cell_is_pinned() -> None:
    long = a_run(" ".join(200 * ["a"]))
    view = View(stages=frozenset({"weights", "scores"}), zoom=ZoomRange(range(9), range(9)))
    assert needs(long, view) != needs(long, replace(view, zoom=None))
    for other in (
        replace(view, zoom=ZoomRange(range(5, 9), range(9))),
        replace(view, pinned=Cell("scores", (0, 1, 1))),
    ):
        assert needs(long, view) == needs(long, other)
    warm(long, view)
    kept = {name: long.trace.cached_stage_tensor(name).cached_keys for name in view.stages}
    assert all({("pooled", 3, 3, (head,)) for head in (0, 1)} <= known for known in kept.values())
    pinned = replace(view, pinned=Cell("scores", (1, 1, 1)))
    shown = present_board(resolved(long, pinned), Board())
    assert shown.overview
    assert shown.overview.stage == "scores"
    assert kept == {name: long.trace.cached_stage_tensor(name).cached_keys for name in view.stages}


# -------------------------------------------------------------------------- the cursor and words


def a_board(**fields: Any) -> Board:
    stages = frozenset({"weights", "context"})
    return board(RUNS[0], stages=stages, **fields)


@given(looked(folds=frozenset(HeadAggregate)))
def test_a_drawn_cell_is_the_cell_that_determines_its_number(given_: Looked) -> None:
    shown = board(given_.run, **{name: getattr(given_.view, name) for name in FIELDS})
    for heatmap in shown.heatmaps:
        numbers = replace(given_, head=heatmap.head, fold=heatmap.fold).numbers()[0]
        for at, across in np.ndindex(heatmap.values.shape):
            first = cell_at(
                heatmap, heatmap.rows.first_of_cell(at), heatmap.columns.first_of_cell(across)
            )
            assert panel_of_cell(shown, first) is heatmap
            cell = displayed_cell(resolved(given_.run, given_.view), shown, first)
            row, column = cell.place[-2:]
            assert (heatmap.rows.cell_index_of(row), heatmap.columns.cell_index_of(column)) == (
                at,
                across,
            )
            shown_number = float(heatmap.values[at, across])
            assert numbers[row, column] == pytest.approx(shown_number, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("fold", HeadAggregate)
def test_movement_includes_the_rows_of_aggregated_heads(fold: HeadAggregate) -> None:
    shown = a_board(folds=frozenset(HeadAggregate))
    last = Cell("weights", (2, TOKENS - 1, 3))
    mean, largest = (Cell("weights", (0, 3), by) for by in HeadAggregate)
    assert move_cursor(shown, last, 1, 0) == mean
    assert move_cursor(shown, replace(mean, place=(TOKENS - 1, 3)), 1, 0) == largest
    assert move_cursor(shown, Cell("weights", (0, 3), fold), -1, 0) in {
        last,
        Cell("weights", (TOKENS - 1, 3), HeadAggregate.MEAN),
    }
    beside = move_cursor(shown, Cell("weights", (2, TOKENS - 1), fold), 0, 1)
    assert beside == Cell("context", (2, 0), fold)


def test_the_visible_part_is_described() -> None:
    for zoom, said in (
        (None, ("", "")),
        (
            ZoomRange(range(2, 6), range(3, 9)),
            (f"3–6 × 4–9 of {TOKENS}", f"Showing queries 3–6 and keys 4–9 of {TOKENS}"),
        ),
        (ZoomRange(range(99), range(2)), ("", "")),
    ):
        view = View(zoom=zoom)
        shown = board(RUNS[0], zoom=zoom)
        looks = present_view_controls(resolved(RUNS[0], view), shown)
        assert (looks.part, looks.part_description) == said


def test_rows_of_panels_are_named_after_their_head_or_text() -> None:
    shown = a_board(folds=frozenset(HeadAggregate), heads=frozenset({1}))
    for column in shown.columns:
        assert [heatmap.label for heatmap in column] == ["Head 2", "Mean", "Largest"]
    alone = a_board(folds=frozenset({HeadAggregate.MAX}), heads=frozenset[int]())
    assert {heatmap.fold for heatmap in alone.heatmaps} == {HeadAggregate.MAX}


def test_texts_side_by_side_have_a_head_even_if_only_aggregates_are_shown() -> None:
    shown = board(
        RUNS[3],
        stages=frozenset({"weights"}),
        heads=frozenset[int](),
        folds=frozenset({HeadAggregate.MEAN}),
        spread=True,
    )
    assert [(heatmap.leading, heatmap.head) for heatmap in shown.heatmaps] == [((0,), 0), ((1,), 0)]


def test_coarse_rows_are_within_their_own_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
    run = a_run(" ".join(f"w{number}" for number in range(60)), **SIZES)
    run.trace.cached_stage_tensor("weights").draw_coarse_rows(4, 4, (0, slice(None), slice(None)))
    shown = panel(run, "weights", 0, colouring=ColourOptions(limits=ColourLimits.ROW))
    assert shown.values.shape == (60, 60)
    assert shown.ends is not None
    assert (shown.values <= shown.ends).all()
    assert (shown.values.max(-1) > 0).all()


def test_cells_that_are_not_drawn_yet_have_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
    run = a_run(" ".join(f"w{number}" for number in range(60)), **SIZES)
    shown = panel(run, "context", 0)
    assert set(colour_mapping.colour_indices(shown).ravel()) == {DROPPED}
    run.trace.cached_stage_tensor("context").draw_coarse_rows(1, 1, (0, slice(None), slice(None)))
    shown = panel(run, "context", 0)
    assert shown.hidden is None
    assert colour_mapping.colour_indices(shown).max() < NAN_COLOUR_INDEX
