"""Mask edits: brushes, strokes, pending cells and their descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.small_runs import a_run, board
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    MaskKind,
    MaskPlacement,
)
from visualizer.features.mask_editor.brush_masks import (
    apply_stroke,
    cells_on_line,
    is_allowed,
    mask_of_brush,
)
from visualizer.features.mask_editor.presenter import (
    HINT,
    PANEL_REQUIRED,
    SIZE_MISMATCH,
    MaskEditPanel,
    current_mask,
    present_mask_edit,
)
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.document import Document, LineGrouping
from visualizer.session.history import History
from visualizer.session.resolved_view import resolve_view
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import MaskEditState, MaskPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run

LONG = " ".join(f"w{number}" for number in range(300))


def own(cells: Any) -> BooleanMatrix:
    return BooleanMatrix.from_array(np.array(cells, dtype=bool))


def masks(size: int) -> st.SearchStrategy[BooleanMatrix]:
    rows = st.lists(st.booleans(), min_size=size, max_size=size)
    return st.lists(rows, min_size=size, max_size=size).map(own)


def places(size: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    at = st.integers(0, size - 1)
    return st.lists(st.tuples(at, at), min_size=1, max_size=9)


MASKS = st.integers(1, 7).flatmap(lambda size: st.tuples(masks(size), places(size)))


# ------------------------------------------------------------------------------ brushes


@given(st.integers(1, 8), st.integers(1, 10))
def test_brushes_allow_what_they_say(tokens: int, number: int) -> None:
    said: dict[MaskPattern, Callable[[int, int], bool]] = {
        MaskPattern.ALL: lambda query, key: True,
        MaskPattern.CAUSAL: lambda query, key: key <= query,
        MaskPattern.WINDOW: lambda query, key: query - number < key <= query,
        MaskPattern.PREFIX: lambda query, key: key < number or key <= query,
        MaskPattern.PADDING: lambda query, key: key < number,
    }
    for brush, allows in said.items():
        expected = [[allows(q, k) for k in range(tokens)] for q in range(tokens)]
        assert mask_of_brush(brush, tokens, number).to_array().tolist() == expected


def test_each_brush_has_its_own_number() -> None:
    look = MaskEditState(window=5, prefix=6, padding=7)
    assert [look.brush_parameter(brush) for brush in MaskPattern] == [0, 0, 5, 6, 7]


# ------------------------------------------------------------------------------ strokes


@given(MASKS, st.booleans())
def test_a_stroke_changes_its_cells_alone_and_twice_is_once(
    drawn: tuple[BooleanMatrix, list[tuple[int, int]]], allow: bool
) -> None:
    mask, cells = drawn
    painted = apply_stroke(mask, cells, allow)
    expected = mask.to_array().tolist()
    for query, key in cells:
        expected[query][key] = allow
    assert painted.to_array().tolist() == expected
    assert apply_stroke(painted, cells, allow) == painted
    assert all(is_allowed(painted, cell) == allow for cell in cells)


@given(MASKS)
def test_a_stroke_is_taken_back_whole(
    drawn: tuple[BooleanMatrix, list[tuple[int, int]]],
) -> None:
    mask, cells = drawn
    first = present = Document(spec=AttentionSpec(mask=MaskKind.CAUSAL, own_mask=None))
    history: History[Document] = History()
    for cell in cells:
        mask = apply_stroke(mask, [cell], False)
        history = history.record(present, "painted")
        present = present.with_setting("painted", mask)
    assert present.get_setting("painted") == present.spec.own_mask == mask
    assert present.spec.mask is MaskKind.OWN
    assert history.undo(present)[0] is first


def test_a_pooled_cell_paints_its_block_up_to_the_edge() -> None:
    mask = own(np.zeros((5, 5)))
    painted = apply_stroke(mask, [(0, 2), (4, 4)], True, (2, 2))
    expected = np.zeros((5, 5), int)
    expected[:2, 2:4] = expected[4:, 4:] = 1
    assert painted.to_array().astype(int).tolist() == expected.tolist()
    assert is_allowed(painted, (0, 2), (2, 2))
    assert not is_allowed(painted, (2, 2), (2, 2))


@given(st.tuples(*[st.integers(0, 40)] * 4), st.integers(1, 5))
def test_a_way_begins_and_ends_where_it_says_and_has_no_gap(
    drawn: tuple[int, int, int, int], block: int
) -> None:
    top, left, bottom, right = (at * block for at in drawn)
    way = cells_on_line((top, left), (bottom, right), (block, block))
    assert (way[0], way[-1]) == ((top, left), (bottom, right))
    assert len(way) == max(abs(bottom - top), abs(right - left)) // block + 1
    steps = np.abs(np.diff(np.array(way), axis=0))
    assert (steps <= block).all()
    assert (np.array(way) % block == 0).all()


@pytest.mark.parametrize("mask", [MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW, MaskKind.OWN])
@pytest.mark.parametrize("route", MaskPlacement)
def test_the_first_stroke_starts_from_the_present_mask(
    mask: MaskKind, route: MaskPlacement
) -> None:
    matrix = own(np.eye(6))
    spec = AttentionSpec(mask=mask, window=2, own_mask=matrix, route=route)
    expected = {
        MaskKind.NONE: np.ones((6, 6)),
        MaskKind.CAUSAL: np.tri(6),
        MaskKind.WINDOW: np.tri(6) - np.tri(6, k=-2),
        MaskKind.OWN: np.eye(6),
    }[mask]
    assert current_mask(Document(spec=spec), 6) == own(expected)


def test_a_matrix_of_another_size_is_none_to_start_from() -> None:
    document = Document().with_setting("painted", own(np.eye(5)))
    assert current_mask(document, 6) is None
    assert document.max_text_tokens == 6


# ------------------------------------------------------------------------------ showing


def painting(
    run: Run, document: Document, computed: Document | None = None, **fields: Any
) -> MaskEditPanel:
    shown = board(run, **{"stages": frozenset({"scores", "weights"}), **fields})
    view = View(painting=MaskEditState(is_on=True))
    painted = present_mask_edit(resolve_view(document, view, run, computed or document), shown)
    assert painted is not None
    return painted


def a_document(text: str = "", **fields: Any) -> Document:
    spec = AttentionSpec(**{"device": Device.CPU, **fields})
    return Document(text, spec=spec) if text else Document(spec=spec)


def test_nothing_is_shown_while_nobody_paints() -> None:
    run = a_run()
    shown = present_mask_edit(resolve_view(Document(), View(), run), board(run))
    assert shown is None


def test_what_is_painted_is_fresh_until_its_numbers_are_there() -> None:
    computed = a_document(mask=MaskKind.CAUSAL)
    mask = np.tri(6, dtype=bool)
    mask[0, 5], mask[4, 1] = True, False
    document = computed.with_setting("painted", own(mask))
    ((stage, *_), fresh), *others = painting(a_run(), document, computed).pending_cells.items()
    assert (stage, others) == ("weights", [])
    assert np.argwhere(fresh.forbidden).tolist() == [[4, 1]]
    assert np.argwhere(fresh.allowed).tolist() == [[0, 5]]
    assert painting(a_run(mask=MaskKind.OWN, own_mask=own(mask)), document).pending_cells == {}


def test_from_no_mask_at_all_what_is_forbidden_is_fresh() -> None:
    computed = a_document(mask=MaskKind.NONE)
    document = computed.with_setting("painted", own(np.eye(6)))
    (fresh,) = painting(a_run(mask=MaskKind.NONE), document, computed).pending_cells.values()
    assert fresh.forbidden.tolist() == (np.eye(6) == 0).tolist()
    assert not fresh.allowed.any()


def test_a_block_is_fresh_when_all_of_it_is_forbidden() -> None:
    computed = a_document(LONG, mask=MaskKind.NONE)
    run = a_run(LONG, mask=MaskKind.NONE)
    mask = np.ones((300, 300), bool)
    mask[3:9, :6] = False
    shown = painting(run, computed.with_setting("painted", own(mask)), computed, room=100)
    (fresh,) = shown.pending_cells.values()
    assert np.argwhere(fresh.forbidden).tolist() == [[1, 0], [1, 1], [2, 0], [2, 1]]
    assert shown.notes == ("3 × 3 blocks",)


def test_padding_is_not_fresh() -> None:
    texts = "a b c\nd e"
    computed = replace(a_document(texts, mask=MaskKind.NONE), lines=LineGrouping.APART)
    run = a_run("a b c", "d e", mask=MaskKind.NONE)
    document = computed.with_setting("painted", own([[1, 1, 0], [1, 1, 0], [1, 1, 0]]))
    assert painting(run, document, computed, text=1).pending_cells == {}
    (fresh,) = painting(run, document, computed, text=0).pending_cells.values()
    assert fresh.forbidden.tolist() == [[False, False, True]] * 3


def test_texts_side_by_side_are_fresh_each_as_long_as_it_is() -> None:
    texts = "a b c\nd e"
    computed = replace(a_document(texts, mask=MaskKind.NONE), lines=LineGrouping.APART)
    run = a_run("a b c", "d e", mask=MaskKind.NONE)
    document = computed.with_setting("painted", own([[1, 1, 0], [0, 1, 1], [1, 1, 1]]))
    fresh = painting(run, document, computed, spread=True).pending_cells
    changed = {drawn: np.argwhere(cells.forbidden).tolist() for drawn, cells in fresh.items()}
    assert changed == {
        ("weights", ComparisonSide.PLAIN, (0,)): [[0, 2], [1, 0]],
        ("weights", ComparisonSide.PLAIN, (1,)): [[1, 0]],
    }


def test_rows_that_read_nothing_are_said() -> None:
    mask = np.ones((6, 6), bool)
    mask[3] = False
    document = a_document().with_setting("painted", own(mask))
    assert painting(a_run(), document).notes == ("query 4 attends to no key",)
    mask[1] = False
    document = a_document().with_setting("painted", own(mask))
    shown = painting(a_run(), document)
    assert shown.notes == ("2 queries attend to no key",)
    assert shown.status.startswith(HINT)
    assert shown.status.endswith("2 queries attend to no key")


def test_which_brush_the_mask_is_of() -> None:
    run, number = a_run(), {MaskPattern.WINDOW: 3, MaskPattern.PREFIX: 2, MaskPattern.PADDING: 4}
    assert painting(run, a_document(mask=MaskKind.CAUSAL)).brush is MaskPattern.CAUSAL
    assert painting(run, a_document(mask=MaskKind.NONE)).brush is MaskPattern.ALL
    for brush in MaskPattern:
        document = a_document().with_setting(
            "painted", mask_of_brush(brush, 6, number.get(brush, 0))
        )
        assert painting(run, document).brush is brush
    assert painting(run, a_document().with_setting("painted", own(np.eye(6)))).brush is None


def test_where_there_is_nothing_to_paint_in_is_said() -> None:
    run, document = a_run(), a_document()
    shown = painting(run, document, stages=frozenset({"context"}))
    assert (shown.targets, shown.notes) == (frozenset(), (PANEL_REQUIRED,))
    assert painting(run, document).targets == {
        ("scores", ComparisonSide.PLAIN),
        ("weights", ComparisonSide.PLAIN),
    }
    view = View(painting=MaskEditState(is_on=True), guess=Prediction("weights"))
    shown_board = board(run, stages=frozenset({"scores", "weights"}))
    hidden = present_mask_edit(resolve_view(document, view, run, document), shown_board)
    assert hidden is not None
    assert hidden.targets == {("scores", ComparisonSide.PLAIN)}


def test_of_another_text_there_is_no_stroke() -> None:
    run, computed = a_run(), a_document()
    typed = replace(computed, text="Your journey")
    assert painting(run, typed, computed).targets == frozenset()
    unfit = typed.with_setting("painted", own(np.eye(6)))
    shown = painting(run, unfit, computed)
    assert (shown.targets, shown.tokens, shown.notes) == (frozenset(), 2, (SIZE_MISMATCH,))
