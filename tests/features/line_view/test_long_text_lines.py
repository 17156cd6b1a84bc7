"""The strongest lines of a text whose matrices are not stored, compared with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.screens import resolved
from visualizer.attention import run as attention_run
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, DropoutMode, MaskKind
from visualizer.features.line_view import long_text_lines
from visualizer.features.line_view.long_text_lines import (
    MAX_LONG_TEXT_LINES,
    MAX_PINNED_QUERY_LINES,
)
from visualizer.features.line_view.presenter import (
    HIDDEN_MESSAGE,
    SEARCHING_MESSAGE,
    present_lines,
    strongest_line_cell,
)
from visualizer.heatmap.cell_cursor import present_cursor
from visualizer.session.cell_address import Cell
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import PANE_TITLE, LineViewOptions, LineViewSide, LineViewToken
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.features.line_view.presenter import LinePanel
    from visualizer.session.resolved_view import ResolvedView

SPEC = AttentionSpec(d_in=16, d_out=16, heads=2, mask=MaskKind.CAUSAL, mode=DropoutMode.EVAL)
TOKENS = 300
SEEN = View(panes=frozenset({PANE_TITLE}))
Place = tuple[int, int, int]


@pytest.fixture(scope="module")
def whole() -> Run:
    return run((tuple(f"w{number}" for number in range(TOKENS)),), SPEC)


@pytest.fixture
def long(whole: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run with the same values whose matrices are not stored."""
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
    made = run(whole.texts, SPEC)
    assert made.trace.is_blockwise
    return made


def show(shown: ResolvedView, previous: LinePanel | None = None) -> LinePanel:
    panel = present_lines(shown, present_cursor(shown), previous)
    assert panel is not None
    return panel


def read(made: Run, view: View) -> LinePanel:
    shown = resolved(made, view)
    long_text_lines.read_more_weights(shown, lambda: False)
    assert long_text_lines.are_weights_read(shown)
    return show(shown)


def placed(panel: LinePanel) -> dict[Place, float]:
    lines = panel.lines
    columns = (column.tolist() for column in (lines.heads, lines.queries, lines.keys))
    return dict(zip(zip(*columns, strict=True), lines.weights.tolist(), strict=True))


def strongest(weights: np.ndarray, queries: list[int], most: int) -> dict[Place, float]:
    """Return the largest of the given weights for the given queries, sorted by weight."""
    found = {
        (head, query, key): float(weights[head, query, key])
        for head in range(len(weights))
        for query in queries
        for key in range(query + 1)
    }
    return dict(sorted(found.items(), key=lambda item: -item[1])[:most])


def test_those_near_the_pinned_query_and_of_itself_are_the_strongest_of_all_its_weights(
    whole: Run, long: Run
) -> None:
    panel = read(long, replace(SEEN, pinned=Cell("weights", (0, 200, 7))))
    weights = whole.trace.read("weights").astype(np.float64)
    near = [*range(192, 208)]
    wanted = strongest(weights, near, MAX_LONG_TEXT_LINES) | strongest(
        weights, [200], MAX_PINNED_QUERY_LINES
    )
    assert placed(panel) == pytest.approx(wanted, rel=1e-4)
    pairs = 2 * sum(query + 1 for query in near)
    said = f"{len(wanted)} of {pairs:,} lines: the strongest for queries 193 to 208"
    assert said in panel.notes
    ends = {at for _, query, key in wanted for at in (query, key)} | {200}
    assert panel.tokens == tuple(sorted(ends))
    assert panel.labels[panel.tokens.index(200)] == "201 w200"


def test_lines_to_be_predicted_are_told_neither_by_their_count_nor_by_the_rows(long: Run) -> None:
    covered = read(long, replace(SEEN, guess=Prediction("weights")))
    assert covered.message == HIDDEN_MESSAGE
    assert len(covered.lines) == 0
    assert covered.tokens == tuple(range(2, TOKENS, 5))
    assert covered.notes[0].startswith("0 of ")


@pytest.mark.parametrize(
    ("zoom", "queries", "whose"),
    [
        (None, range(2, TOKENS, 5), "for one query in 5; pin a query to see lines near it"),
        (ZoomRange(range(40, 90), range(TOKENS)), range(40, 90), "for queries 41 to 90"),
    ],
)
def test_without_a_pinned_query_they_are_of_those_that_are_seen(
    whole: Run, long: Run, zoom: ZoomRange | None, queries: range, whose: str
) -> None:
    panel = read(long, replace(SEEN, zoom=zoom))
    weights = whole.trace.read("weights").astype(np.float64)
    assert placed(panel) == pytest.approx(
        strongest(weights, [*queries], MAX_LONG_TEXT_LINES), rel=1e-4
    )
    assert any(note.endswith(f"the strongest {whose}") for note in panel.notes)


def test_transform_head_threshold_and_count_select_from_the_same_rows(
    whole: Run, long: Run
) -> None:
    options = LineViewOptions(solo=1, threshold=0.006, top=2)
    pinned = Cell("weights", (1, 100, 3))
    view = replace(SEEN, pinned=pinned, lines=options, lens=WeightTransform.WITHOUT_FIRST)
    panel = read(long, view)
    weights = whole.trace.read("weights")[1].astype(np.float64)
    weights[:, 0] = 0
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    wanted = {
        (1, query, key): weights[query, key]
        for query in range(96, 112)
        for key in np.argsort(-weights[query])[:2].tolist()
        if weights[query, key] >= 0.006
    }
    assert wanted
    assert placed(panel) == pytest.approx(wanted, rel=1e-4)


def test_heads_are_read_one_after_another_and_what_was_shown_stays_until_then(long: Run) -> None:
    first = read(long, SEEN)
    moved = replace(SEEN, pinned=Cell("weights", (0, 250, 9)))
    shown = resolved(long, moved)
    assert show(shown).message == SEARCHING_MESSAGE
    assert show(shown, first).lines is first.lines
    long_text_lines.read_more_weights(shown, lambda: True)
    assert not long_text_lines.are_weights_read(shown)
    partly = show(shown, first)
    assert set(partly.lines.heads.tolist()) == {0}
    assert "(heads 1 to 1 of 2 so far)" in partly.notes[0]
    long_text_lines.read_more_weights(shown, lambda: True)
    assert set(show(shown, partly).lines.heads.tolist()) == {0, 1}


def test_what_was_read_is_known_while_more_is_read(
    long: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = resolved(long, SEEN)
    long_text_lines.read_more_weights(shown, lambda: True)
    before = show(shown)
    meanwhile: list[LinePanel] = []
    read_rows = BlockwiseTensor.read_rows

    def look_and_read(
        tensor: BlockwiseTensor, rows: np.ndarray, index: tuple[int, ...] = ()
    ) -> np.ndarray:
        meanwhile.append(show(shown))
        return read_rows(tensor, rows, index)

    monkeypatch.setattr(BlockwiseTensor, "read_rows", look_and_read)
    long_text_lines.read_more_weights(shown, lambda: False)
    (panel,) = meanwhile
    assert panel.notes == before.notes
    assert placed(panel) == placed(before)


def test_the_lines_of_a_listed_token_light_up_and_lead_to_its_largest_cell(
    whole: Run, long: Run
) -> None:
    view = replace(SEEN, pinned=Cell("weights", (0, 200, 7)))
    panel = read(long, view)
    query = int(panel.lines.queries[-1])
    found = strongest_line_cell(resolved(long, view), LineViewToken(LineViewSide.QUERY, query))
    weights = whole.trace.read("weights")
    assert found is not None
    head, _, key = np.unravel_index(weights[:, query].argmax(), weights[:, :1].shape)
    assert found.place == (int(head), query, int(key))
    lit = show(resolved(long, replace(view, hovered=found)), panel)
    assert lit.highlighted_lines is not None
    assert set(lit.highlighted_lines.queries.tolist()) == {query}
    assert lit.weight == pytest.approx(float(weights[found.place]), rel=1e-4)
    elsewhere = show(resolved(long, replace(view, hovered=Cell("weights", (0, 20, 3)))), panel)
    assert elsewhere.highlighted_lines is None


def test_nothing_is_read_while_the_pane_is_closed(long: Run) -> None:
    assert long_text_lines.are_weights_read(resolved(long, View()))
    assert not long_text_lines.are_weights_read(resolved(long, SEEN))
