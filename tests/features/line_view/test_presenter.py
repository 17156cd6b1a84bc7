"""The lines of the line view: which of them are drawn, highlighted or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.examples import examples
from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import a_run
from tests.support.small_runs import panel as panel_of
from tests.support.struct_strategies import structs
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.masks import allowed
from visualizer.attention.spec import MaskKind, NormalisationKind
from visualizer.features.line_view import line_selection
from visualizer.features.line_view.presenter import (
    BELOW_THRESHOLD_MESSAGE,
    HIDDEN_MESSAGE,
    LINES_PANEL,
    PLAYBACK_PENDING_MESSAGE,
    present_lines,
    strongest_line_cell,
)
from visualizer.heatmap.cell_cursor import present_cursor
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import (
    FOLLOW_PINNED,
    PANE_TITLE,
    ColourLimits,
    ColourOptions,
    LineViewOptions,
    LineViewSide,
    LineViewToken,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.features.line_view.line_selection import SelectedLines
    from visualizer.features.line_view.presenter import LinePanel

LONG = " ".join(f"w{number}" for number in range(30))
HALF: dict[str, Any] = {"dropout": 0.5, "dropout_seed": 3}


def a_view(options: LineViewOptions | None = None, **fields: Any) -> View:
    return View(lines=options or LineViewOptions(), panes=frozenset({PANE_TITLE}), **fields)


def show(run: Run, view: View, previous: LinePanel | None = None) -> LinePanel:
    shown = resolved(run, view)
    panel = present_lines(shown, present_cursor(shown), previous)
    assert panel is not None
    return panel


def placed(lines: SelectedLines) -> dict[tuple[int, int, int], float]:
    columns = (column.tolist() for column in (lines.heads, lines.queries, lines.keys))
    return dict(zip(zip(*columns, strict=True), lines.weights.tolist(), strict=True))


def expected(run: Run, stage: str = "weights") -> dict[tuple[int, int, int], float]:
    """Return each allowed weight that is not 0, in float64, for a run of one text."""
    weights = run.trace.read(stage).astype(np.float64)
    may = np.broadcast_to(allowed(run.trace.spec, run.trace.query_count, stage), weights.shape)
    found = np.argwhere(may & (weights != 0)).tolist()
    return {(head, query, key): weights[head, query, key] for head, query, key in found}


def ranked(
    lines: dict[tuple[int, int, int], float],
) -> dict[tuple[int, int], list[tuple[float, int]]]:
    """Return the magnitudes and keys of each head and query, largest first."""
    rows: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for (head, query, key), weight in lines.items():
        rows.setdefault((head, query), []).append((abs(weight), key))
    return {row: sorted(sizes, reverse=True) for row, sizes in rows.items()}


# ------------------------------------------------------------------------------ which lines


@pytest.mark.parametrize("mask", [MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW])
def test_every_weight_has_a_line_and_no_forbidden_pair_has_one(mask: MaskKind) -> None:
    computed = a_run(mask=mask, window=2)
    panel = show(computed, a_view())
    assert placed(panel.lines) == pytest.approx(expected(computed))
    assert (panel.notes, panel.message, panel.lines.is_thinned) == ((), "", False)
    assert panel.labels == ("Your", "journey", "starts", "with", "one", "step")
    assert (np.diff(np.abs(panel.lines.weights)) >= 0).all()


def test_a_threshold_leaves_smaller_weights_out_and_says_so() -> None:
    computed = a_run(heads=2)
    panel = show(computed, a_view(LineViewOptions(threshold=0.2)))
    large = {at: weight for at, weight in expected(computed).items() if weight >= 0.2}
    assert placed(panel.lines) == pytest.approx(large)
    assert panel.notes == ("weights ≥ 0.2",)


@pytest.mark.parametrize("top", [1, 2, 3])
def test_the_largest_of_each_query_and_head(top: int) -> None:
    computed = a_run(d_in=4, d_out=4)
    panel = show(computed, a_view(LineViewOptions(top=top)))
    chosen = {
        (head, query, key)
        for (head, query), sizes in ranked(expected(computed)).items()
        for _, key in sizes[:top]
    }
    assert set(placed(panel.lines)) == chosen
    largest = "the largest" if top == 1 else f"the {top} largest"
    assert panel.notes == (f"{largest} per query and head",)


def test_more_than_there_are_is_all_of_them() -> None:
    panel = show(a_run("a b"), a_view(LineViewOptions(top=9)))
    assert (len(panel.lines), panel.notes) == (6, ())


def test_one_head_alone() -> None:
    computed = a_run()
    panel = show(computed, a_view(LineViewOptions(solo=1, top=1)))
    assert set(panel.lines.heads.tolist()) == {1}
    assert (panel.solo, panel.heads) == (1, 2)
    assert panel.notes == ("the largest per query",)
    assert show(computed, a_view(LineViewOptions(solo=7))).solo == 1


def test_the_head_of_the_pinned_cell_is_followed() -> None:
    computed, options = a_run(), LineViewOptions(solo=FOLLOW_PINNED)
    assert show(computed, a_view(options)).solo == 0
    assert show(computed, a_view(options, pinned=Cell("scores", (1, 2, 0)))).solo == 1
    assert show(computed, a_view(options, pinned=Cell("output", (1, 1)))).solo == 0


def test_heads_that_are_not_shown_have_no_lines() -> None:
    computed = a_run(heads=4, d_out=8)
    panel = show(computed, a_view(heads=frozenset({1, 3})))
    every = {at: weight for at, weight in expected(computed).items() if at[0] in {1, 3}}
    assert placed(panel.lines) == pytest.approx(every)
    lit = show(
        computed, a_view(heads=frozenset({1, 3}), hovered=Cell("weights", (1, 4, 2)))
    ).highlighted_lines
    assert lit is not None
    assert placed(lit) == pytest.approx({at: weight for at, weight in every.items() if at[1] == 4})


def test_lines_are_seen_through_the_lens_of_the_heatmaps() -> None:
    computed = a_run(mask=MaskKind.NONE)
    panel = show(computed, a_view(lens=WeightTransform.WITHOUT_FIRST))
    weights = computed.trace.read("weights").astype(np.float64)[..., 1:]
    weights /= weights.sum(axis=-1, keepdims=True)
    for (head, query, key), weight in placed(panel.lines).items():
        assert weight == pytest.approx(weights[head, query, key - 1])
    assert len(panel.lines) == 2 * 6 * 5


def test_where_only_folds_have_a_row_the_lines_are_of_all_heads() -> None:
    computed = a_run()
    panel = show(computed, a_view(heads=frozenset(), folds=frozenset({HeadAggregate.MEAN})))
    assert placed(panel.lines) == pytest.approx(expected(computed))


@pytest.mark.parametrize(
    ("lens", "said"),
    [
        (WeightTransform.PLAIN, ("weights ≥ 0.01",)),
        (
            WeightTransform.WITHOUT_FIRST,
            ("weights without the first token", "weights without the first token ≥ 0.01"),
        ),
        (WeightTransform.TIMES_VALUE, ("weights × ‖value‖", "weights × ‖value‖ ≥ 0.01")),
    ],
)
def test_it_is_said_what_the_lines_are_through_a_lens(
    lens: WeightTransform, said: tuple[str, ...]
) -> None:
    assert show(a_run(), a_view(LineViewOptions(threshold=0.01), lens=lens)).notes == said


def test_heads_folded_into_one_light_no_line_of_their_own() -> None:
    view = a_view(
        folds=frozenset({HeadAggregate.MEAN}), hovered=Cell("weights", (3, 1), HeadAggregate.MEAN)
    )
    panel = show(a_run(), view)
    assert panel.highlighted_lines is not None
    assert set(panel.highlighted_lines.queries.tolist()) == {3}
    assert (panel.cell, panel.weight) == (None, None)


def test_what_dropout_leaves_is_drawn_where_its_panel_is_shown() -> None:
    computed = a_run(**HALF)
    panel = show(computed, a_view())
    assert panel.stage == "dropped"
    assert panel.notes[0] == "weights, after dropout"
    assert placed(panel.lines) == pytest.approx(expected(computed, "dropped"))
    panel = show(computed, a_view(stages=frozenset({"weights"})))
    assert panel.stage == "weights"
    assert placed(panel.lines) == pytest.approx(expected(computed))


def test_weights_below_0_have_lines_by_their_size() -> None:
    computed = a_run(normalisation=NormalisationKind.SUM, mask=MaskKind.NONE, d_in=4, seed=5)
    every = expected(computed)
    assert min(every.values()) < 0
    panel = show(computed, a_view(LineViewOptions(threshold=0.3)))
    large = {at: weight for at, weight in every.items() if abs(weight) >= 0.3}
    assert placed(panel.lines) == pytest.approx(large)
    assert (panel.lines.line_strengths >= 0).all()


def test_a_text_of_a_batch_has_its_own_lines_and_none_to_padding() -> None:
    computed = a_run("a b c", "d", mask=MaskKind.NONE)
    weights = computed.trace.read("weights", (1,))
    panel = show(computed, a_view(text=1))
    assert set(panel.lines.keys.tolist()) == {0}
    for (head, query, key), weight in placed(panel.lines).items():
        assert weight == weights[head, query, key]
    assert len(panel.lines) == 2 * 3


def test_a_threshold_above_all_says_how_to_see_more() -> None:
    panel = show(a_run(mask=MaskKind.NONE), a_view(LineViewOptions(threshold=1)))
    assert (len(panel.lines), panel.message) == (0, BELOW_THRESHOLD_MESSAGE)


# ------------------------------------------------------------------------------ thinning


@examples(0.6)
@given(
    tokens=st.integers(1, 9),
    heads=st.integers(1, 4),
    most=st.integers(1, 60),
    mask=st.sampled_from([MaskKind.NONE, MaskKind.CAUSAL, MaskKind.WINDOW]),
    options=structs(
        LineViewOptions,
        threshold=st.sampled_from([0.0, 0.1, 0.3]),
        top=st.integers(0, 5),
        solo=st.sampled_from([None, 0, FOLLOW_PINNED]),
    ),
    seed=st.integers(0, 99),
)
def test_no_line_is_smaller_than_one_left_out_of_its_head_and_query(
    tokens: int, heads: int, most: int, mask: MaskKind, options: LineViewOptions, seed: int
) -> None:
    text = " ".join(f"w{number}" for number in range(tokens))
    spec: dict[str, Any] = {
        "heads": heads,
        "d_out": 2 * heads,
        "d_in": 3,
        "seed": seed,
        "mask": mask,
        "window": 3,
    }
    computed = a_run(text, **spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_selection, "MAX_LINES", most)
        panel = show(computed, a_view(options))
    drawn, every = placed(panel.lines), expected(computed)
    assert drawn.items() <= {at: np.float32(size) for at, size in every.items()}.items()
    assert len(drawn) <= max(most, tokens)
    left_out = {
        at: weight
        for at, weight in every.items()
        if at not in drawn and weight >= options.threshold and at[0] in _heads(panel)
    }
    smallest = {row: sizes[-1][0] for row, sizes in ranked(drawn).items()}
    for row, sizes in ranked(left_out).items():
        assert sizes[0][0] <= smallest.get(row, 1) + 1e-7
    by_top = options.top and all(
        len(sizes) == options.top for row, sizes in ranked(drawn).items() if row in ranked(left_out)
    )
    assert panel.lines.is_thinned or not left_out or by_top


def _heads(panel: LinePanel) -> set[int]:
    return set(range(panel.heads)) if panel.solo is None else {panel.solo}


def test_what_is_thinned_says_of_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = a_run("a b c d e f")
    monkeypatch.setattr(line_selection, "MAX_LINES", 2 * 6 * 3)
    panel = show(computed, a_view())
    assert panel.lines.is_thinned
    assert len(panel.lines) == 2 * (1 + 2 + 3 + 3 + 3 + 3)
    assert panel.notes == ("30 of 42 lines: the 3 largest per query and head",)
    panel = show(computed, a_view(LineViewOptions(solo=0)))
    assert not panel.lines.is_thinned
    panel = show(computed, a_view(LineViewOptions(top=5)))
    assert panel.notes == ("30 of 42 lines: the 3 largest per query and head",)
    panel = show(computed, a_view(LineViewOptions(top=3)))
    assert panel.notes == ("the 3 largest per query and head",)


def test_where_not_every_head_has_room_each_query_keeps_its_strongest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = a_run("a b c d e f", heads=4, d_out=8)
    monkeypatch.setattr(line_selection, "MAX_LINES", 6 * 2)
    panel = show(computed, a_view())
    weights = computed.trace.read("weights").astype(np.float64).max(axis=-1)  # head query
    for query in range(1, 6):
        at = panel.lines.queries == query
        strongest = np.argsort(-weights[:, query], kind="stable")[:2]
        assert sorted(panel.lines.heads[at].tolist()) == sorted(strongest.tolist())
    assert panel.notes == ("12 of 84 lines: the largest, in the 2 strongest heads per query",)


def test_the_same_lines_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_selection, "MAX_LINES", 40)
    first, second = (show(a_run(LONG), a_view()) for _ in range(2))
    assert placed(first.lines) == placed(second.lines)


# ------------------------------------------------------------------------------ strength


@pytest.mark.parametrize("mask", [MaskKind.CAUSAL, MaskKind.NONE])
def test_strength_is_relative_to_the_range_of_the_heatmaps(mask: MaskKind) -> None:
    computed = a_run(mask=mask)
    lines, end = show(computed, a_view()).lines, panel_of(computed, "weights").colour.high
    wanted = np.minimum(lines.weights / end, 1)
    np.testing.assert_allclose(lines.line_strengths, wanted, rtol=1e-6)
    to_one = a_view(colouring=ColourOptions(limits=ColourLimits.UNIT))
    lines = show(computed, to_one).lines
    np.testing.assert_allclose(lines.line_strengths, lines.weights, rtol=1e-6)


@pytest.mark.parametrize("text", ["a b c d", LONG])
def test_strength_is_in_relation_to_the_querys_largest_where_rows_are_coloured_so(
    text: str,
) -> None:
    computed = a_run(text)
    panel = show(computed, a_view(colouring=ColourOptions(limits=ColourLimits.ROW)))
    largest = computed.trace.read("weights").astype(np.float64).max(axis=(0, 2))  # query
    wanted = panel.lines.weights / largest[panel.lines.queries]
    np.testing.assert_allclose(panel.lines.line_strengths, wanted, rtol=1e-5)
    assert panel.notes[-1] == "opacity relative to each query’s largest weight"


def test_more_than_1_after_dropout_is_full_strength() -> None:
    panel = show(a_run(**HALF), a_view())
    assert panel.lines.weights.max() > 1
    assert panel.lines.line_strengths.max() == 1


# ------------------------------------------------------------------------------ the cursor


def test_a_cell_lights_all_lines_of_its_query() -> None:
    computed = a_run()
    every = expected(computed)
    for stage in ("weights", "scores"):
        panel = show(computed, a_view(hovered=Cell(stage, (1, 4, 2))))
        assert panel.highlighted_lines is not None
        assert placed(panel.highlighted_lines) == pytest.approx(
            {at: weight for at, weight in every.items() if at[1] == 4}
        )
        assert panel.cell == Cell("weights", (1, 4, 2))
        assert panel.weight == pytest.approx(every[1, 4, 2])
        assert (panel.query, panel.key, panel.pinned_lines) == (4, 2, None)


def test_a_cell_that_was_come_to_by_its_key_lights_all_lines_to_it() -> None:
    computed = a_run()
    cell = strongest_line_cell(resolved(computed, a_view()), LineViewToken(LineViewSide.KEY, 2))
    every = {at: weight for at, weight in expected(computed).items() if at[2] == 2}
    assert cell is not None
    assert computed.trace.read("weights", cell.place) == np.float32(max(every.values()))
    options = LineViewOptions(by_key=frozenset({cell}))
    panel = show(computed, a_view(options, pinned=cell))
    assert panel.highlighted_lines is not None
    assert placed(panel.highlighted_lines) == pytest.approx(every)
    other = Cell("weights", (0, 5, 1))
    panel = show(computed, a_view(options, pinned=cell, hovered=other))
    assert panel.highlighted_lines is not None
    assert panel.pinned_lines is not None
    assert set(panel.highlighted_lines.queries.tolist()) == {5}
    assert placed(panel.pinned_lines) == pytest.approx(every)


def test_a_row_of_the_keys_lights_the_lines_to_it() -> None:
    panel = show(a_run(), a_view(hovered=Cell("keys", (0, 3, 0))))
    assert panel.highlighted_lines is not None
    assert set(panel.highlighted_lines.keys.tolist()) == {3}
    assert (panel.cell, panel.weight) == (None, None)


def test_lit_lines_keep_to_the_threshold_and_to_the_largest() -> None:
    computed = a_run()
    options = LineViewOptions(threshold=0.1, top=2)
    whole = placed(show(computed, a_view(options)).lines)
    for cell, side in ((Cell("weights", (0, 5, 1)), 1), (Cell("keys", (0, 1, 0)), 2)):
        lit = show(computed, a_view(options, pinned=cell)).highlighted_lines
        assert lit is not None
        at_it, is_key = cell.place[1], side == 2  # a cell of the keys has a single head
        expected_ = {at: weight for at, weight in whole.items() if at[side] == at_it}
        assert placed(lit) == {
            at: weight for at, weight in expected_.items() if at[0] == 0 or not is_key
        }


def test_lit_lines_that_are_thinned_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = a_run()
    monkeypatch.setattr(line_selection, "MAX_HIGHLIGHTED_LINES", 5)
    panel = show(computed, a_view(pinned=Cell("weights", (0, 5, 1))))
    assert panel.highlighted_lines is not None
    every = sorted(weight for at, weight in expected(computed).items() if at[1] == 5)
    assert panel.highlighted_lines.weights.tolist() == pytest.approx(every[-5:])
    assert panel.highlight_note == "only the 5 largest are highlighted"


def test_a_forbidden_cell_has_no_line() -> None:
    panel = show(a_run(), a_view(hovered=Cell("scores", (0, 1, 4))))
    assert (panel.cell, panel.weight) == (Cell("weights", (0, 1, 4)), None)


def test_the_picture_is_kept_while_the_cursor_moves() -> None:
    computed = a_run()
    before = show(computed, a_view())
    after = show(computed, a_view(hovered=Cell("weights", (0, 1, 0))), previous=before)
    assert after.lines is before.lines
    left = show(computed, a_view(), previous=after)
    assert (
        left.highlighted_lines,
        left.pinned_lines,
        left.cell,
        left.weight,
        left.highlight_note,
    ) == (None,) * 4 + ("",)
    other = show(computed, a_view(LineViewOptions(top=1)), previous=before)
    assert other.lines is not before.lines


# ------------------------------------------------------------------------------ playback


def test_what_is_to_be_predicted_is_covered() -> None:
    view = a_view(pinned=Cell("scores", (0, 1, 0)), guess=Prediction("weights"))
    panel = show(a_run(), view)
    assert (len(panel.lines), panel.highlighted_lines, panel.weight, panel.message) == (
        0,
        None,
        None,
        HIDDEN_MESSAGE,
    )
    assert (
        strongest_line_cell(resolved(a_run(), view), LineViewToken(LineViewSide.QUERY, 3)) is None
    )


def test_lines_come_as_playback_does() -> None:
    computed, view = a_run(mask=MaskKind.NONE), a_view()
    view = replace(view, playhead=PlaybackState(PlaybackPosition("weights", 2, 2), StepSize.CELL))
    panel = show(computed, view)
    seen = {at for at in expected(computed) if at[0] == 0}  # of the head on the flow board
    there = {at for at in seen if at[1] < 2 or (at[1] == 2 and at[2] < 3)}
    assert set(placed(panel.lines)) == there
    assert (
        strongest_line_cell(resolved(computed, view), LineViewToken(LineViewSide.QUERY, 3)) is None
    )
    panel = show(computed, replace(view, playhead=PlaybackState(PlaybackPosition("scores"))))
    assert (len(panel.lines), panel.message) == (0, PLAYBACK_PENDING_MESSAGE)


# ------------------------------------------------------------------------------ reading


def test_nothing_is_made_while_the_pane_is_closed() -> None:
    computed, view = a_run(), replace(a_view(), panes=frozenset())
    assert present(Document(), view, computed, None, False, None).panel(LINES_PANEL) is None
    assert needs(computed, view) != needs(computed, a_view())
    warm(computed, view)
    assert not _found(computed)


def test_what_was_warmed_need_not_be_found_again() -> None:
    computed, view = a_run(LONG), a_view(LineViewOptions(top=4))
    warm(computed, view)
    held = _found(computed)
    show(computed, replace(view, pinned=Cell("weights", (0, 3, 1))))
    assert len(held) == 1
    assert _found(computed) == held
    assert needs(computed, view) != needs(computed, a_view(LineViewOptions(top=9)))
    assert needs(computed, view) == needs(computed, a_view(LineViewOptions(top=4, threshold=0.5)))


def _found(run: Run) -> set[Hashable]:
    kept = run.trace.cached_stage_tensor("weights").cached_keys
    return {key for key in kept if isinstance(key, tuple) and key[0] == "largest"}
