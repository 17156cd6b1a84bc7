"""The colours of the token strip represent sums of weights, which are checked in float64."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import EVERYTHING, a_run, panel
from visualizer.attention import run as attention_run
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.spec import MaskKind, NormalisationKind
from visualizer.features.token_strip import presenter as token_strip_presenter
from visualizer.features.token_strip import token_weight_sums
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.view_options import DEFAULT_MAP

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.features.token_strip.presenter import TokenPanel, TokenWeights
    from visualizer.session.screen import Screen

BOOK = a_run(d_in=3, d_out=4)
LONG = a_run("one two three four five six " * 6, d_out=4)


def screen(run: Run, **fields: Any) -> Screen:
    return present(Document(), View(**fields), run, None, False, None)


def strip(
    run: Run = BOOK, *chosen: int, role: TokenRole = TokenRole.QUERY, **fields: Any
) -> TokenPanel:
    look = TokenSelection(frozenset(chosen), role)
    return screen(run, **{"tokens": look, **fields}).panel(TOKENS_PANEL)


def shares(run: Run = BOOK, *chosen: int, **fields: Any) -> TokenWeights:
    made = strip(run, *chosen, **fields).weights
    assert made is not None
    return made


def weights(run: Run, stage: str = "weights", text: int = 0) -> np.ndarray:
    """Return the weights of one text in float64, [head, query, key]."""
    tensor = run.trace.tensor(stage).double().numpy()
    return np.asarray(tensor[text] if run.trace.axes else tensor)


# ---------------------------------------------------------------------------------- the sums


@given(cases(most_tokens=6), st.data())
def test_chosen_tokens_are_summed(case: Case, data: st.DataObject) -> None:
    run = case.run()
    tokens, text = run.trace.query_count, data.draw(st.integers(0, len(run.texts) - 1))
    chosen = data.draw(st.frozensets(st.integers(0, tokens - 1), min_size=1))
    head = data.draw(st.none() | st.integers(0, run.trace.spec.heads - 1))
    role = data.draw(st.sampled_from(TokenRole))
    stages = data.draw(st.sampled_from([EVERYTHING, frozenset({"weights"})]))
    pinned = None if head is None else Cell("values", (head, 0, 0))
    made = shares(run, *chosen, role=role, text=text, pinned=pinned, stages=stages)
    is_dropped_shown = stages == EVERYTHING or pinned is not None  # the cell is on the flow board
    stage = "dropped" if "dropped" in run.trace and is_dropped_shown else "weights"
    cells = weights(run, stage, text)
    cells = cells.mean(axis=0) if head is None else cells[head]
    cells = (
        cells[sorted(chosen)].sum(0) if role is TokenRole.QUERY else cells[:, sorted(chosen)].sum(1)
    )
    assert made.values == pytest.approx(cells.tolist(), rel=1e-5, abs=1e-6, nan_ok=True)


@given(cases(most_tokens=6), st.data())
def test_forbidden_are_tokens_that_none_of_the_chosen_may_meet(
    case: Case, data: st.DataObject
) -> None:
    run = case.run()
    spec, tokens = run.trace.spec, run.trace.query_count
    chosen = data.draw(st.frozensets(st.integers(0, tokens - 1), min_size=1))
    role = data.draw(st.sampled_from(TokenRole))
    made = shares(run, *chosen, role=role, stages=frozenset({"weights"}))
    allowed = np.ones((tokens, tokens), dtype=bool)  # query key
    queries, keys = np.indices((tokens, tokens))
    if spec.mask in {MaskKind.CAUSAL, MaskKind.WINDOW}:
        allowed &= keys <= queries
    if spec.mask is MaskKind.WINDOW:
        allowed &= keys > queries - spec.window
    if spec.mask is MaskKind.OWN and spec.own_mask:
        allowed &= spec.own_mask.to_array()
    if spec.lengths:
        allowed &= keys < spec.lengths[0]
    met = allowed[sorted(chosen)] if role is TokenRole.QUERY else allowed[:, sorted(chosen)].T
    assert list(made.forbidden) == np.logical_not(met.any(axis=0)).tolist()


def test_the_cursor_counts_while_nothing_is_chosen() -> None:
    cell = Cell("weights", (1, 3, 2))
    assert shares(pinned=cell).values == pytest.approx(weights(BOOK)[1, 3])
    assert shares(pinned=cell, role=TokenRole.KEY).values == pytest.approx(weights(BOOK)[1, :, 2])
    assert shares(hovered=Cell("scores", (0, 1, 0)), pinned=cell).values == pytest.approx(
        weights(BOOK)[0, 1]
    )
    in_front = weights(BOOK)[0, 4]  # the cell is on the flow board
    assert shares(pinned=Cell("input", (4, 0))).values == pytest.approx(in_front)
    assert strip(pinned=Cell("keys", (0, 2, 0))).weights is None  # keys have no weights
    assert strip().weights is None


def test_chosen_tokens_stay_while_the_pointer_moves() -> None:
    pinned, hovered = Cell("weights", (1, 3, 2)), Cell("weights", (0, 5, 1))
    made = strip(BOOK, 2, 4, pinned=pinned, hovered=hovered)
    assert made.chosen == made.subjects == {2, 4}
    assert (made.query, made.key) == (5, 1)
    assert made.weights is not None
    assert made.weights.values == pytest.approx(weights(BOOK)[1, [2, 4]].sum(0))


def test_tokens_that_are_gone_are_not_chosen_any_more() -> None:
    assert strip(BOOK, 2, 99).chosen == {2}
    assert strip(BOOK, 99).weights is None


def test_the_mean_is_folded_before_it_is_shown() -> None:
    run = a_run(d_out=4)
    view = View(tokens=TokenSelection(frozenset({1, 2})))
    pinned = replace(view, pinned=Cell("context", (0, 1, 0)))
    assert needs(run, view) != needs(run, View())
    assert HeadAggregate.MEAN not in run.trace.cached_stage_tensor("weights").cached_keys
    warm(run, pinned)
    assert HeadAggregate.MEAN not in run.trace.cached_stage_tensor("weights").cached_keys
    warm(run, view)
    assert HeadAggregate.MEAN in run.trace.cached_stage_tensor("weights").cached_keys


# -------------------------------------------------------------------------------- long texts


@pytest.fixture
def by_blocks(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run whose query–key matrices are not stored, as for a long text."""
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
    monkeypatch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
    monkeypatch.setattr(token_weight_sums, "MAX_BAND_WEIGHTS", 36 * 5)  # five rows are read at once
    return a_run("one two three four five six " * 6, d_out=4)


def read_once(run: Run, view: View) -> bool:
    """Read one band, as the worker does; return whether all weights have been read."""
    shown = resolved(run, view)
    token_strip_presenter.read_more_weights(shown, lambda: True)
    return token_strip_presenter.are_weights_read(shown)


@pytest.mark.parametrize("role", TokenRole)
@pytest.mark.parametrize("head", [None, 1])
@pytest.mark.parametrize("chosen", [(), (20,), (3, 4, 30), tuple(range(36))])
def test_in_long_texts_they_are_read_on_the_worker_in_bands(
    by_blocks: Run, role: TokenRole, head: int | None, chosen: tuple[int, ...]
) -> None:
    assert by_blocks.trace.is_blockwise
    cell = Cell("input", (20, 1)) if head is None else Cell("weights", (head, 20, 7))
    if head is None and not chosen and role is TokenRole.KEY:
        cell = Cell("keys", (0, 7, 1))
    looked = TokenSelection(frozenset(chosen), role)
    view = View(tokens=looked, pinned=cell if head is not None or not chosen else None)
    # Without a pinned cell, the mean over heads is shown.
    cells = weights(LONG)[cell.head or 0] if view.pinned else weights(LONG).mean(axis=0)
    places = list(chosen) or [7 if role is TokenRole.KEY else 20]
    before = strip(by_blocks, tokens=looked, pinned=view.pinned)
    assert before.weights is None
    assert before.note.endswith("computing…")
    bands = 1
    while not read_once(by_blocks, view):
        partial = shares(by_blocks, tokens=looked, pinned=view.pinned)
        if role is TokenRole.KEY:
            assert partial.known == range(5 * bands)
            expected = cells[:, places].sum(axis=1)[: 5 * bands]
            assert partial.values[: 5 * bands] == pytest.approx(expected, rel=1e-4)
            assert f"{5 * bands} of 36 rows computed so far" in partial.plain_sentence
            before_all = np.arange(36) < min(places)
            assert np.array_equal(partial.forbidden, before_all & (np.arange(36) < 5 * bands))
        else:
            assert not partial.forbidden.any()  # a later query may attend to it
        bands += 1
        assert bands < 20
    made = shares(by_blocks, tokens=looked, pinned=view.pinned)
    expected = cells[:, places].sum(1) if role is TokenRole.KEY else cells[places].sum(0)
    assert made.values == pytest.approx(expected, rel=1e-4, abs=1e-7)
    assert len(made.known) == 36
    assert "so far" not in made.plain_sentence
    queries = np.arange(36)
    last, first = max(places), min(places)
    is_met = queries <= last if role is TokenRole.QUERY else queries >= first
    assert np.array_equal(made.forbidden, ~is_met)


def test_many_weights_of_a_held_text_are_read_on_the_worker_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_weight_sums, "MAX_GUI_THREAD_WEIGHTS", 36 * 10)
    monkeypatch.setattr(token_strip_presenter, "MAX_GUI_THREAD_WEIGHTS", 36 * 10)
    few, many = frozenset(range(10)), frozenset(range(11))
    run = a_run("one two three four five six " * 6, d_out=4)
    assert strip(run, *few).weights is not None
    assert strip(run, *many).weights is None
    while not read_once(run, View(tokens=TokenSelection(many))):
        pass
    expected = weights(run).mean(axis=0)[:11].sum(axis=0)
    assert shares(run, *many).values == pytest.approx(expected, rel=1e-5)


def test_sums_of_few_selections_are_kept(by_blocks: Run) -> None:
    for token in range(20, 20 + token_weight_sums.MAX_CACHED_SUMS + 1):
        while not read_once(by_blocks, View(tokens=TokenSelection(frozenset({token})))):
            pass
    assert strip(by_blocks, 20).weights is None
    assert strip(by_blocks, 21).weights is not None


@pytest.mark.usefixtures("by_blocks")
def test_what_is_kept_of_a_text_goes_with_it() -> None:
    run = a_run("one two three four five six " * 6, d_out=4)
    assert not read_once(run, View(tokens=TokenSelection(frozenset({20}), TokenRole.KEY)))
    trace = ref(run.trace)
    del run
    gc.collect()
    assert trace() is None


# ----------------------------------------------------------------------------- words, colours


@pytest.mark.parametrize(
    ("chosen", "fields", "says"),
    [
        ((), {"pinned": Cell("weights", (1, 3, 2))}, "Attention from with, head 2"),
        ((), {"pinned": Cell("input", (0, 2))}, "Attention from Your, head 1"),
        ((1, 2), {}, "Attention from journey and starts, Σ of 2 queries, mean of 2 heads"),
        (
            (0, 1, 5),
            {"role": TokenRole.KEY, "pinned": Cell("scores", (0, 0, 0))},
            "Attention to Your, journey and step, Σ of 3 keys, head 1",
        ),
        ((0, 1, 2, 3), {}, "Attention from 4 tokens, Σ of 4 queries, mean of 2 heads"),
    ],
)
def test_it_says_what_is_shown(chosen: tuple[int, ...], fields: dict[str, Any], says: str) -> None:
    assert shares(BOOK, *chosen, **fields).plain_sentence == says


def test_one_head_and_dropout_are_said() -> None:
    run = a_run(heads=1, dropout=0.5)
    assert shares(run, 4).plain_sentence == "Attention from one, after dropout"
    assert (
        shares(run, 4, stages=frozenset({"weights"})).plain_sentence
        == "Attention from one, before dropout"
    )


def test_words_that_look_like_tags_are_words() -> None:
    run = a_run("<b> &amp; c", heads=1)
    for token, label in enumerate(run.texts[0]):
        assert shares(run, token).plain_sentence == f"Attention from {label}"


@pytest.mark.parametrize("run", [BOOK, LONG])
def test_the_bar_of_a_token_is_that_of_the_heatmaps(run: Run) -> None:
    colour, shown = panel(run, "weights").colour, shares(run, 3)
    assert (shown.map, shown.low, shown.high) == (colour.map, colour.low, colour.high)
    assert shown.is_exceeded == (shown.values.max() > shown.high)


def test_the_bar_of_several_tokens_ends_at_the_largest_sum() -> None:
    every = shares(BOOK, *range(6))
    assert every.high == pytest.approx(weights(BOOK).mean(0).sum(0).max())
    assert every.map == DEFAULT_MAP
    nothing = a_run("one two " * 20, mask=MaskKind.WINDOW, window=1, dropout=0.999)
    assert shares(nothing, 0, 1).high > 0


def test_weights_below_zero_have_two_colours() -> None:
    run = a_run(normalisation=NormalisationKind.SUM, mask=MaskKind.NONE, seed=0)
    signed = [shares(run, token, pinned=Cell("values", (head, 0, 0)))
              for token in range(6) for head in range(2)]  # fmt: skip
    signed = [made for made in signed if min(made.values) < 0]
    assert signed
    for made in signed:
        assert made.map == "automatic"
        assert made.high == -made.low == panel(run, "weights").colour.high


# ------------------------------------------------------------------------- hidden weights


def test_what_is_to_be_predicted_is_not_given_away() -> None:
    assert strip(BOOK, 2, guess=Prediction("weights")).weights is None
    assert strip(BOOK, 2, guess=Prediction("weights", is_revealed=True)).weights is not None
    assert strip(BOOK, 2, guess=Prediction("context")).weights is not None


def test_what_playback_has_not_come_to_is_not_shown() -> None:
    def at(stage: str, row: int = 0, head: int = 0) -> PlaybackState:
        return PlaybackState(PlaybackPosition(stage, row, head), StepSize.ROW)

    assert strip(BOOK, 2, playhead=at("scores")).weights is None
    assert strip(BOOK, 2, playhead=at("context")).weights is not None
    assert strip(BOOK, 2, playhead=at("weights", 1)).weights is None
    assert strip(BOOK, 2, playhead=at("weights", 2)).weights is not None
    assert strip(BOOK, 2, role=TokenRole.KEY, playhead=at("weights", 2)).weights is None


# ------------------------------------------------------------------------------- colours, search


def test_chosen_tokens_light_rows_or_columns() -> None:
    look = TokenSelection(frozenset({1, 4, 77}))
    cursor = (
        screen(BOOK, tokens=look, pinned=Cell("weights", (0, 2, 1))).panel(BOARD_CONTENTS).cursor
    )
    assert cursor.queries == {1, 4}
    assert (cursor.keys, cursor.query) == (frozenset(), 2)
    cursor = screen(BOOK, tokens=replace(look, role=TokenRole.KEY)).panel(BOARD_CONTENTS).cursor
    assert cursor.keys == {1, 4}
    assert (cursor.queries, cursor.pinned) == (frozenset(), None)


@pytest.mark.parametrize(
    ("sought", "match", "found"),
    [
        ("", None, ""),
        ("ST", None, "2 found"),
        ("st", 0, "1 of 2"),
        ("st", 3, "2 of 2"),
        ("x", 0, "no matches"),
    ],
)
def test_a_search_says_how_many_match(sought: str, match: int | None, found: str) -> None:
    made = screen(BOOK, tokens=TokenSelection(sought=sought, match=match)).panel(TOKENS_PANEL)
    assert (made.sought, made.found) == (sought, found)
