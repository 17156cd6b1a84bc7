"""Captured attention of any size is shown in every view."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support import small_runs
from tests.support.examples import examples
from tests.support.screens import needs, present, warm
from tests.support.struct_strategies import structs
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.head_measures import measure_heads
from visualizer.attention.model_forward_pass import ModelForwardPass
from visualizer.errors import InputError
from visualizer.export.data import data_writers
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL
from visualizer.features.explain.code_presenter import CODE_PANEL
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.explain.script_generator import generate_script
from visualizer.features.head_table.presenter import HEADS_PANEL
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.document import Document, LineGrouping
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.session.user_prediction import Prediction, PredictionQuestion
from visualizer.session.view import CodeDialect, TableSelection, View
from visualizer.session.view_options import (
    ColourCurve,
    ColourLimits,
    ColourOptions,
    LineViewOptions,
)
from visualizer.session.worker_jobs import parse_token_labels
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.shell import pane_table
from visualizer.shell.screen_presenter import STATUS_PANEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

PANES = frozenset(pane.id for pane in pane_table.PANES)
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 7), st.integers(1, 7))


def weights(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=shape)
    shares = np.exp(scores)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True), np.float32)


def captured(array: np.ndarray, *tokens: tuple[str, ...]) -> CapturedAttention:
    return CapturedAttention.from_array("attn.npz", array, *tokens)


def a_run(shape: tuple[int, ...], *tokens: tuple[str, ...]) -> Run:
    return create_captured_run(captured(weights(shape), *tokens))


def screen(run: Run, **fields: Any) -> Screen:
    document = Document(captured=run.captured)
    return present(document, View(panes=PANES, **fields), run, None, False, None, document)


# -------------------------------------------------------------------------------------- panels


@examples(0.4)
@given(SIZES, st.integers(0, 9), st.data())
def test_attention_of_any_shape_is_shown_cell_by_cell(
    shape: tuple[int, int, int, int], seed: int, data: st.DataObject
) -> None:
    array = weights(shape, seed)
    layer = data.draw(st.integers(0, shape[0] - 1))
    shown = screen(create_captured_run(captured(array)), layer=layer).panel(BOARD_CONTENTS).board
    ((*panels,),) = shown.columns
    assert len(panels) == shape[1]
    for head, panel in enumerate(panels):
        np.testing.assert_array_equal(panel.values, array[layer, head])
        assert panel.rows.labels == tuple(map(str, range(1, shape[2] + 1)))
        assert panel.columns.labels == tuple(map(str, range(1, shape[3] + 1)))
        assert (panel.rows.name, panel.columns.name) == ("query", "key")


KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "weights": lambda array: array,
    "scores": lambda array: array - 0.5,
    "with −∞": lambda array: np.where(array > 0.3, -np.inf, array - 0.1),
    "only −∞": lambda array: np.full_like(array, -np.inf),
    "with NaN": lambda array: np.where(array > 0.3, np.nan, array),
    "only NaN": lambda array: np.full_like(array, np.nan),
    "with ∞": lambda array: np.where(array > 0.3, np.inf, array),
    "zeros": np.zeros_like,
    "large": lambda array: array * 1e30,
}


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, int, int, int], stage: str) -> View:
    layers, heads, queries, keys = shape
    place = tuple(draw(st.integers(0, size - 1)) for size in shape[1:])
    cell = draw(
        st.none()
        | st.just(Cell(stage, place))
        | st.sampled_from([Cell(stage, place[1:], fold) for fold in HeadAggregate])
    )
    pair = (draw(st.integers(0, heads - 1)), draw(st.integers(0, heads - 1)))
    rows = draw(st.integers(1, queries))
    return View(
        layer=draw(st.integers(0, layers)),
        panes=PANES,
        pinned=cell,
        hovered=draw(st.none() | st.just(Cell(stage, place))),
        heads=draw(st.none() | st.just(frozenset({0}))),
        folds=draw(st.frozensets(st.sampled_from(HeadAggregate))),
        lens=draw(st.sampled_from(WeightTransform)),
        spread=draw(st.booleans()),
        zoom=draw(st.none() | st.just(ZoomRange(range(rows), range(draw(st.integers(1, keys)))))),
        colouring=ColourOptions(
            draw(st.sampled_from(ColourCurve)), draw(st.sampled_from(ColourLimits))
        ),
        room=draw(st.sampled_from((2, 256))),
        playhead=PlaybackState(
            draw(st.none() | st.just(PlaybackPosition(stage, place[1], place[2]))),
            draw(st.sampled_from(StepSize)),
        ),
        guess=draw(
            st.none()
            | structs(
                Prediction,
                stage=st.just(stage),
                question=st.sampled_from(PredictionQuestion),
                marks=st.just((Cell(stage, place),)),
                is_revealed=st.booleans(),
            )
        ),
        comparison=draw(
            st.none()
            | structs(Comparison, against=st.sampled_from(ComparisonKind), heads=st.just(pair))
        ),
        table=draw(st.sampled_from((TableSelection(), TableSelection("weights", 1)))),
        tokens=TokenSelection(
            draw(st.frozensets(st.integers(0, 8), max_size=3)),
            draw(st.sampled_from(TokenRole)),
            draw(st.sampled_from(("", "1"))),
        ),
        lines=LineViewOptions(
            solo=draw(st.none() | st.integers(-1, 3)), top=draw(st.integers(0, 3))
        ),
    )


@examples(1.5)
@given(SIZES, st.sampled_from(list(KINDS)), st.data())
def test_every_view_can_be_shown(
    shape: tuple[int, int, int, int], kind: str, data: st.DataObject
) -> None:
    run = create_captured_run(captured(np.asarray(KINDS[kind](weights(shape)), np.float32)))
    view = data.draw(views(shape, run.trace.attention_stage_name))
    if view.comparison and view.comparison.against is ComparisonKind.KEPT:
        other = a_run(data.draw(SIZES | st.just(shape)))
        kept = replace(view.comparison, kept=other, document=Document(captured=other.captured))
        view = replace(view, comparison=kept)
    assert needs(run, view) == needs(run, view)
    warm(run, view)
    document = Document(captured=run.captured)
    shown = present(document, view, run, None, False, None, document)
    assert shown.panel(BOARD_CONTENTS).board.heatmaps
    again = present(document, view, run, None, False, shown, document)
    assert view.comparison or again.panel(BOARD_CONTENTS).board is shown.panel(BOARD_CONTENTS).board


@pytest.mark.parametrize(("queries", "keys"), [(2, 1), (1, 2)])
def test_a_selected_key_is_explained_if_it_exists(queries: int, keys: int) -> None:
    selection = TokenSelection(frozenset({1}), TokenRole.KEY)
    shown = screen(a_run((1, 1, queries, keys)), tokens=selection)
    assert (shown.panel(CELL_PANEL) is not None) == (keys > 1)


@pytest.mark.parametrize("shape", [(1, 2, 6, 6), (1, 1, 6, 6), (1, 2, 5, 6), (3, 2, 6, 6)])
@pytest.mark.parametrize("is_live", [True, False])
def test_it_is_compared_with_a_module(shape: tuple[int, ...], is_live: bool) -> None:
    module, elsewhere = small_runs.a_run(), a_run(shape)
    run, kept = (elsewhere, module) if is_live else (module, elsewhere)
    comparison = Comparison(ComparisonKind.KEPT, kept, Document(captured=kept.captured))
    for cell in (None, Cell("weights", (0, 1, 1)), Cell("weights", (1, 1), HeadAggregate.MEAN)):
        view = View(panes=PANES, comparison=comparison, pinned=cell)
        document = Document(captured=run.captured)
        warm(run, view)
        shown = present(document, view, run, None, False, None, document)
        stages = [
            column[0]
            for column in shown.panel(BOARD_CONTENTS).board.columns
            if column[0].stage == "weights"
        ]
        fits = shape == (1, 2, 6, 6)
        assert [panel.part for panel in stages] == [ComparisonSide.A, ComparisonSide.B] + [
            ComparisonSide.CHANGE
        ] * fits
        bar = shown.panel(COMPARISON_PANEL)
        assert bar
        assert bar.summary.endswith(": the captured attention.")


# ------------------------------------------------------------------------------------- messages


def test_missing_data_is_stated_in_place_of_the_settings() -> None:
    assert screen(a_run((12, 12, 64, 64))).panel(SETUP_PANEL).captured == (
        "Opened from attn.npz: 12 layers × 12 heads × 64 × 64. Only attention weights are "
        "included, so scores, context vectors and module settings are unavailable."
    )
    assert "1 layer × 1 head × 5 × 9." in screen(a_run((1, 1, 5, 9))).panel(SETUP_PANEL).captured


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("a.npy", "a.npy"),
        ("l" * 200 + ".safetensors", "lllllllllllll…l.safetensors"),
        ("<b>\n&.npy", "<b>�&.npy"),
    ],
)
def test_any_file_name_is_shown_in_one_short_line(name: str, called: str) -> None:
    run = create_captured_run(CapturedAttention.from_array(name, weights((1, 1, 2, 2))))
    shown = screen(run, pinned=Cell("weights", (0, 0, 0)))
    assert shown.panel(SETUP_PANEL).captured.startswith(f"Opened from {called}: 1 layer")
    readout = shown.panel(CELL_PANEL)
    assert readout
    assert readout.plain_text.endswith(f"This weight was read from {called}.")


def test_a_cell_names_its_source() -> None:
    run = create_captured_run(
        captured(np.array([[[[0.25, 0.75]]]], np.float32), ("Le",), ("The", "cat"))
    )
    readout = screen(run, pinned=Cell("weights", (0, 0, 1))).panel(CELL_PANEL)
    assert readout
    assert readout.plain_text == (
        "Le (query 1) attends to cat (key 2) with weight 75%. This weight was read from attn.npz."
    )
    assert (readout.value, readout.formula) == ("0.7500", "read from attn.npz")


def test_positions_without_a_token_are_numbered() -> None:
    run = create_captured_run(captured(np.array([[[[0.25, 0.75]]]], np.float32)))
    readout = screen(run, pinned=Cell("weights", (0, 0, 1))).panel(CELL_PANEL)
    assert readout
    assert (
        readout.plain_text
        == "Query 1 attends to key 2 with weight 75%. This weight was read from attn.npz."
    )
    run = create_captured_run(captured(np.array([[[[-0.25, 0.75]]]], np.float32)))
    readout = screen(run, pinned=Cell("scores", (0, 0, 0))).panel(CELL_PANEL)
    assert readout
    said = "The score of query 1 and key 1 is −0.2500. This score was read from attn.npz."
    assert readout.plain_text == said


def test_numbers_below_0_are_scores_and_are_coloured_around_0() -> None:
    shown = screen(create_captured_run(captured(weights((1, 2, 3, 3)) - 0.5)))
    ((panel, _),) = shown.panel(BOARD_CONTENTS).board.columns
    assert (panel.stage, panel.title, panel.colour.is_signed) == ("scores", "Scores", True)
    assert shown.panel(STATUS_PANEL).notices == (
        "Some numbers are negative, so they are shown as scores instead of weights.",
    )
    lines, heads = shown.panel(LINES_PANEL), shown.panel(HEADS_PANEL)
    assert lines
    assert lines.message == "This file contains scores only; lines need attention weights."
    assert heads
    assert "scores" in heads.sentences[0]


def test_rows_that_do_not_sum_to_1_are_counted() -> None:
    array = weights((2, 1, 3, 3))
    array[1, 0, 2] *= 0.5
    run = create_captured_run(captured(array))
    said = "In 1 of 6 rows, the weights do not sum to 1; the sums range from 0.5 to 0.5."
    assert run.notices == (said,)


def test_cells_without_a_number_are_counted() -> None:
    array = weights((1, 1, 2, 3))
    array[0, 0, 1, 2] = np.nan
    assert create_captured_run(captured(array)).notices == ("1 of 6 cells are NaN.",)


def test_the_caption_names_the_file_and_the_sizes() -> None:
    run = a_run((2, 4, 12, 12))
    assert describe_value_origin(run) == "attn.npz · 2 layers × 4 heads × 12 × 12"
    assert (
        screen(run)
        .panel(STATUS_PANEL)
        .facts.startswith("Not computed here  ·  2 layers × 4 heads × 12 × 12")
    )


def test_a_message_states_that_there_is_no_code() -> None:
    run = a_run((1, 1, 3, 3))
    twin = screen(run).panel(CODE_PANEL)
    assert twin
    assert [line.text for line in twin.lines] == [
        "# Read from a file:",
        "# attn.npz",
        "# No code is available.",
    ]
    with pytest.raises(InputError, match="No script is available"):
        generate_script(run, CodeDialect.BOOK)


def test_value_norms_are_not_available() -> None:
    shown = screen(
        a_run((1, 1, 3, 3)), lens=WeightTransform.TIMES_VALUE, pinned=Cell("weights", (0, 0, 0))
    )
    ((panel,),) = shown.panel(BOARD_CONTENTS).board.columns
    assert "unmodified: no value vectors" in panel.notes
    readout = shown.panel(CELL_PANEL)
    assert readout
    assert readout.additional_sentences == (
        "× ‖value‖: not available because the file does not contain the values.",
    )


def test_only_square_attention_is_measured_by_distance() -> None:
    table = screen(a_run((1, 1, 3, 5))).panel(HEADS_PANEL)
    assert table
    written = dict(
        zip([column.title for column in table.columns], table.rows[0].texts, strict=True)
    )
    assert {name for name, value in written.items() if value == "–"} == {
        *("Previous", "Current", "Distance"),
    }
    assert "Queries and keys are different tokens" in table.summary
    square = screen(a_run((1, 1, 5, 5))).panel(HEADS_PANEL)
    assert square
    assert "–" not in square.rows[0].texts


def test_dropout_samples_are_rejected_with_a_message() -> None:
    run = a_run((1, 1, 3, 3))
    bar = screen(run, comparison=Comparison(ComparisonKind.SAMPLES)).panel(COMPARISON_PANEL)
    assert bar
    assert bar.result.startswith("Captured attention has no dropout")


def test_layers_are_shown_side_by_side_like_texts() -> None:
    shown = screen(a_run((3, 2, 4, 4)), layer=1, spread=True)
    assert shown.resolved
    assert shown.resolved.leading_description == "layer 2 of 3"
    ((*panels,),) = shown.panel(BOARD_CONTENTS).board.columns
    assert [panel.label for panel in panels] == ["Layer 1", "Layer 2", "Layer 3"]


def test_layers_are_named_by_their_numbers_in_the_model() -> None:
    run = a_run((3, 2, 4, 4))
    reading = ModelForwardPass("made", (3, 7, 11), {}, {}, True, (), "", None, None)
    shown = screen(replace(run, reading=reading), layer=1, spread=True)
    assert shown.resolved
    assert shown.resolved.leading_description == "layer 8 (2 of 3)"
    ((*panels,),) = shown.panel(BOARD_CONTENTS).board.columns
    assert [panel.label for panel in panels] == ["Layer 4", "Layer 8", "Layer 12"]


def test_different_queries_and_keys_have_their_own_tokens() -> None:
    run = a_run((1, 1, 2, 3), ("Le", "chat"), ("The", "cat", "sat"))
    reads, read = (
        screen(run, tokens=TokenSelection(role=role)).panel(TOKENS_PANEL) for role in TokenRole
    )
    assert (reads.labels, read.labels) == (("Le", "chat"), ("The", "cat", "sat"))
    assert reads.note == ("These are the queries. The keys are different tokens; see the heatmaps.")
    assert read.note.startswith("These are the keys. The queries are")


def test_an_export_can_be_opened_again(tmp_path: Any) -> None:
    from visualizer.attention.importers.tensor_file_reader import read_tensor_file

    run = a_run((2, 2, 2, 3), ("Le", "chat"), ("The", "cat", "sat"))
    file = io.BytesIO()
    data_writers.write_npz(run, file)
    (tmp_path / "attn.npz").write_bytes(file.getvalue())
    assert read_tensor_file(tmp_path / "attn.npz", Document().spec)[0] == run.captured


# -------------------------------------------------------------------------------- token labels


def labels(shape: tuple[int, ...], text: str, **fields: Any) -> Any:
    document = Document(captured=captured(weights(shape)), labels=text, **fields)
    return parse_token_labels(document)


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ((1, 1, 3, 3), "", ((), ())),
        ((1, 1, 3, 3), "The cat sat", (("The", "cat", "sat"),) * 2),
        ((1, 1, 2, 3), "Le chat\nThe cat sat", (("Le", "chat"), ("The", "cat", "sat"))),
        ((1, 1, 2, 2), "Le chat\nThe cat", (("Le", "chat"), ("The", "cat"))),
        ((1, 1, 2, 2), "[CLS] it’s!", (("[CLS]", "it’s!"),) * 2),
    ],
)
def test_entered_tokens_label_queries_and_keys(
    shape: tuple[int, ...], text: str, expected: Any
) -> None:
    assert labels(shape, text) == expected


@pytest.mark.parametrize(
    ("shape", "text", "said"),
    [
        (
            (1, 1, 3, 3),
            "cat",
            "You entered 1 token, but 3 are needed. Leave the field empty to number the positions.",
        ),
        (
            (1, 1, 3, 3),
            "a cat",
            "You entered 2 tokens, but 3 are needed. "
            "Leave the field empty to number the positions.",
        ),
        (
            (1, 1, 2, 3),
            "a cat",
            "Enter 2 tokens for the queries on one line and 3 for the keys on the next. "
            "You entered 2.",
        ),
    ],
)
def test_the_required_number_of_tokens_is_stated(
    shape: tuple[int, ...], text: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        labels(shape, text)
    assert (caught.value.field, caught.value.sentence) == ("text", said)


def test_entered_tokens_keep_the_captured_numbers() -> None:
    run = a_run((1, 1, 3, 3))
    named = create_captured_run(
        captured(weights((1, 1, 3, 3))), ("a", "b", "c"), ("a", "b", "c"), run
    )
    assert named.trace is run.trace
    assert named.texts == (("a", "b", "c"),)


# ------------------------------------------------------------------------------------ document


def test_the_text_is_restored_together_with_the_module() -> None:
    document = Document(text="my text", lines=LineGrouping.APART)
    opened = document.with_setting("captured", captured(weights((1, 1, 2, 2)))).with_setting(
        "text", "a b"
    )
    assert (opened.get_setting("text"), opened.text) == ("a b", "my text")
    assert opened.with_setting("captured", None) == document


def test_large_objects_are_counted_for_undo() -> None:
    given_ = captured(weights((2, 3, 4, 5)))
    assert Document(captured=given_).data_buffers() == (given_.numbers,)


def test_equal_captured_attention_is_equal_and_hashable() -> None:
    one, other = (captured(weights((1, 2, 3, 3))) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != captured(weights((1, 2, 3, 3), seed=1))


def test_measures_of_rectangular_attention_agree_with_numpy() -> None:
    array = weights((2, 3, 4, 6)).astype(np.float64)
    import torch

    found = measure_heads(torch.from_numpy(array), ())
    entropy = -(array * np.log2(array)).sum(-1).mean(-1)
    np.testing.assert_allclose(found.entropy, entropy)
    np.testing.assert_allclose(found.first, array[..., 0].mean(-1))
    np.testing.assert_allclose(found.largest, array.max(-1).mean(-1))
    assert np.isnan(found.own).all()
