"""The table contains the numbers of the run, and an edit changes all dependent stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.attention.test_attend import assert_agrees, expected
from tests.support.attention_strategies import cases, numbers, specs
from tests.support.small_runs import a_run
from visualizer.attention import custom_weights, masks
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.run import run
from visualizer.attention.spec import (
    OWN_LAYERS,
    PROJECTION_LAYERS,
    AttentionSpec,
    Device,
    Dtype,
    HeadArrangement,
    NumberMatrix,
    PositionKind,
    Projection,
    TransformerBlockKind,
)
from visualizer.errors import InputError
from visualizer.features.tensor_editor.presenter import (
    NumberTablePanel,
    present_number_table,
)
from visualizer.features.tensor_editor.tensor_edit import (
    not_editable_reason,
    replace_block,
    reset_to_random,
)
from visualizer.session.cell_address import Cell
from visualizer.session.document import BOOK_SENTENCE, Document, LineGrouping
from visualizer.session.model_pane_options import HIDDEN_MESSAGE
from visualizer.session.resolved_view import resolve_view
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import TableSelection, View

if TYPE_CHECKING:
    from tests.support.attention_strategies import Case
    from visualizer.attention.run import Run

WHOLE = (slice(None), slice(None))


def a_document(*lines: str, **fields: Any) -> Document:
    spec = AttentionSpec(**{"device": Device.CPU, **fields})
    together = LineGrouping.APART if len(lines) > 1 else LineGrouping.TOGETHER
    return Document("\n".join(lines) or BOOK_SENTENCE, lines=together, spec=spec)


def computed(document: Document, previous: Run | None = None) -> Run:
    return run(document.tokens(), document.spec, previous)


def table(run: Run, name: str, head: int = 0, **fields: Any) -> NumberTablePanel:
    document = Document(spec=replace(run.trace.spec, lengths=()))
    view = View(table=TableSelection(name, head), **fields)
    return present_number_table(resolve_view(document, view, run))


def one(value: float) -> np.ndarray:
    return np.array([[value]])


# ----------------------------------------------------------------------------------- reading


@given(cases(), st.data())
def test_every_tensor_is_read_as_it_is(case: Case, data: st.DataObject) -> None:
    ran = case.run()
    text = data.draw(st.integers(0, len(case.texts) - 1))
    for name, _ in table(ran, "").choices:
        for head in range(max(1, table(ran, name).heads)):
            shown = table(ran, name, head, text=text)
            block = shown.read_block(*WHOLE)
            assert block.numbers.shape == shown.shape
            assert shown.head == head
            if shown.is_stage:
                index = (*ran.trace.leading_index(text=text), *([head] if shown.heads else []))
                np.testing.assert_array_equal(block.numbers, ran.trace.read(name, index))
    projected = [name for name, _ in table(ran, "").choices if name in PROJECTION_LAYERS]
    for name in projected:
        read = "normed" if case.spec.has_transformer_block else "input"
        x = ran.trace.read(read).astype(np.float64) @ table(ran, name).read_block(*WHOLE).numbers
        if case.spec.bias and case.spec.projection is Projection.LINEAR:
            x = x + table(ran, f"{name}.bias").read_block(*WHOLE).numbers
        stage = {"W_query": "queries", "W_key": "keys", "W_value": "values"}[name]
        if f"projected_{stage}" in ran.trace.names:  # with rotary embeddings
            stage = f"projected_{stage}"
        vectors = list(np.moveaxis(ran.trace.read(stage), -3, 0))
        groups = np.split(x, x.shape[-1] // vectors[0].shape[-1], axis=-1)  # heads that share keys
        for head, projected in enumerate(vectors):
            wanted = groups[head * len(groups) // len(vectors)]
            np.testing.assert_allclose(projected, wanted, rtol=1e-3, atol=1e-3)


@given(cases(), st.data())
def test_a_part_is_the_part_of_the_whole(case: Case, data: st.DataObject) -> None:
    ran = case.run()
    name = data.draw(st.sampled_from([name for name, _ in table(ran, "").choices]))
    shown = table(ran, name, text=data.draw(st.integers(0, len(case.texts) - 1)))
    part = tuple(
        slice(*sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size)))))
        for size in shown.shape
    )
    whole, some = shown.read_block(*WHOLE), shown.read_block(*part)
    np.testing.assert_array_equal(some.numbers, whole.numbers[part])
    for field in ("forbidden", "dropped"):
        cells = getattr(whole, field)
        wanted = None if cells is None else cells[part]
        np.testing.assert_array_equal(getattr(some, field), wanted)


def test_forbidden_and_dropped_cells_are_told_from_numbers() -> None:
    ran = a_run(dropout=0.5)
    for name in ("masked", "weights", "dropped"):
        block = table(ran, name).read_block(*WHOLE)
        words = [[block.replacement_text(row, column) for column in range(6)] for row in range(6)]
        for row in range(6):
            for column in range(6):
                assert (words[row][column] == "masked") == (column > row)
    kept = masks.draw_keep_mask(0.5, 0, (2, 6, 6))[0]
    assert [[word == "dropped" for word in row] for row in words] == (
        ~kept & np.tri(6, dtype=bool)
    ).tolist()


def test_padding_is_forbidden_in_its_own_text() -> None:
    ran = a_run("one two three", "one")
    assert table(ran, "masked", text=1).read_block(*WHOLE).replacement_text(0, 1) == "masked"
    assert table(ran, "masked", text=0).read_block(*WHOLE).replacement_text(1, 1) == ""


def test_rows_and_columns_have_their_names() -> None:
    ran = a_run()
    assert table(ran, "weights").rows.labels == tuple(BOOK_SENTENCE.split())
    assert table(ran, "weights").columns.labels == tuple(BOOK_SENTENCE.split())
    assert table(ran, "input").columns.labels == ("1", "2", "3")
    assert [title for _, title in table(ran, "input").choices[-5:]] == [
        *("W_q", "W_k", "W_v", "W_o"),
        "W_o, bias",
    ]
    assert table(ran, "W_output").shape == (2, 2)
    assert table(ran, "W_output.bias").rows.labels == ("bias",)


def test_the_layers_of_a_block_have_their_rows_and_columns() -> None:
    ran = a_run(block=TransformerBlockKind.PRE_NORM, d_in=4, d_out=4, d_ff=6)
    titles = dict(table(ran, "input").choices)
    assert {*OWN_LAYERS} <= titles.keys()
    assert titles["linear1.bias"] == "linear1, bias"
    shapes = {"ln1": (1, 4), "linear1": (4, 6), "linear2": (6, 4), "linear1.bias": (1, 6)}
    for name, shape in shapes.items():
        shown = table(ran, name)
        assert shown.shape == shown.read_block(*WHOLE).numbers.shape == shape
    assert (table(ran, "linear1").rows.name, table(ran, "linear1").columns.name) == (
        "d_model",
        "d_ff",
    )
    assert table(ran, "ln2").rows.labels == ("weight",)
    np.testing.assert_array_equal(table(ran, "ln2").read_block(*WHOLE).numbers, 1)
    up = ran.trace.read("normed_attended") @ table(ran, "linear1").read_block(*WHOLE).numbers
    up += table(ran, "linear1.bias").read_block(*WHOLE).numbers
    np.testing.assert_allclose(ran.trace.read("up"), up, atol=1e-6)


def test_what_a_run_has_not_leaves_the_given_vectors() -> None:
    ran = a_run(position=PositionKind.LEARNED)
    assert table(ran, "dropped").name == "embedding"
    assert table(ran, "input").note == (
        "Input values are computed. Edit the embedding or the weights instead."
    )
    assert not table(ran, "input").is_editable
    assert not table(ran, "position").is_editable
    assert "W_query" not in dict(table(a_run(projection=Projection.NONE, heads=1), "").choices)


def test_the_cell_is_the_pinned_one_and_its_head_is_shown() -> None:
    ran = a_run()
    shown = table(ran, "weights", pinned=Cell("weights", (1, 3, 2)))
    assert (shown.head, shown.current) == (1, (3, 2))
    assert shown.cell_indices(3, 2) == (1, 3, 2)
    assert table(ran, "input", pinned=Cell("input", (4, 1))).current == (4, 1)
    assert table(ran, "scores", pinned=Cell("weights", (1, 3, 2))).current is None
    assert table(ran, "weights", pinned=Cell("weights", (3, 2), HeadAggregate.MEAN)).current is None


def test_what_is_to_be_predicted_is_covered() -> None:
    ran = a_run()
    view = View(table=TableSelection("weights"), guess=Prediction("scores"))
    shown = present_number_table(resolve_view(Document(), view, ran))
    assert shown.shape == (0, 0)
    assert shown.note == HIDDEN_MESSAGE


def test_a_sentence_is_of_the_document_it_was_typed_into() -> None:
    ran, document = a_run(), Document()
    view = View(table=TableSelection("input", 0, "“x” is not a number.", document))
    assert present_number_table(resolve_view(document, view, ran)).problem == "“x” is not a number."
    assert (
        present_number_table(resolve_view(document.with_setting("seed", 7), view, ran)).problem
        == ""
    )


# ----------------------------------------------------------------------------------- editing


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Draw one or two texts of simple words, and a module that can process them."""
    words = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4)
    lines = draw(st.lists(words, min_size=1, max_size=2))
    sizes = [len(line) for line in lines]
    spec = draw(specs(max(sizes), len(set(sizes)) > 1, len(sizes)))
    together = LineGrouping.APART if len(lines) > 1 else LineGrouping.TOGETHER
    return Document("\n".join(map(" ".join, lines)), lines=together, spec=spec)


def editable(ran: Run) -> list[str]:
    return [name for name, _ in table(ran, "").choices if not not_editable_reason(ran, name)]


@given(documents(), st.data())
def test_a_pasted_block_changes_its_numbers_and_all_that_reads_them_as_numpy_says(
    document: Document, data: st.DataObject
) -> None:
    ran = computed(document)
    assume(editable(ran))
    name = data.draw(st.sampled_from(editable(ran)))
    wanted = table(ran, name).read_block(*WHOLE).numbers.astype(np.float64)
    row, column = (data.draw(st.integers(0, size - 1)) for size in wanted.shape)
    sizes = [data.draw(st.integers(1, size)) for size in wanted.shape]
    values = data.draw(numbers(*sizes)).to_array()
    room = wanted[row:, column:].shape
    if sizes[0] > room[0] or sizes[1] > room[1]:
        said = f"A block of {sizes[0]} × {sizes[1]} does not fit here."
        with pytest.raises(InputError, match=said):
            replace_block(document, ran, name, row, column, values)
        return
    changed = replace_block(document, ran, name, row, column, values)
    after = computed(changed, ran)
    wanted[row : row + sizes[0], column : column + sizes[1]] = values
    np.testing.assert_array_equal(table(after, name).read_block(*WHOLE).numbers, wanted)
    for stage, known in expected(after.trace).items():
        assert_agrees(after.trace, stage, known)
    others = {own for own, _ in changed.spec.own_weights} - {name}
    assert others == {own for own, _ in document.spec.own_weights} - {name}
    assert reset_to_random(changed, after, name) == reset_to_random(document, ran, name)


def test_edits_that_follow_each_other_need_no_newer_run() -> None:
    document = a_document()
    ran = computed(document)
    for at in range(3):
        document = replace_block(document, ran, "W_key", at, 0, one(at))
        document = replace_block(document, ran, "input", at, 0, one(at))
    after = computed(document)
    assert after.trace.read("W_key.weight")[0].tolist() == [0, 1, 2]
    assert after.trace.read("input")[:3, 0].tolist() == [0, 1, 2]
    assert [name for name, _ in document.spec.own_weights] == ["W_key"]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("W_key", {"seed": 7}),
        ("W_key", {"d_in": 4}),
        ("W_key", {"heads": 1}),
        ("W_output", {"bias": True}),
        ("input", {"seed": 7}),
        ("input", {"dtype": Dtype.FLOAT64}),
        ("input", {"text": "another text"}),
    ],
)
def test_numbers_that_are_on_their_way_are_waited_for(
    name: str, changed: dict[str, object]
) -> None:
    document = a_document()
    ran = computed(document)
    newer = document
    for field, value in changed.items():
        newer = newer.with_setting(field, value)
    with pytest.raises(InputError, match="New numbers are being computed"):
        replace_block(newer, ran, name, 0, 0, one(1))
    own = replace_block(document, ran, name, 0, 0, one(1))
    with pytest.raises(InputError, match="New numbers are being computed"):
        replace_block(reset_to_random(own, ran, name), computed(own), name, 0, 0, one(1))


def test_what_does_not_decide_the_weights_need_not_be_waited_for() -> None:
    document = a_document()
    newer = (
        document.with_setting("causal", False)
        .with_setting("text", "some other words")
        .with_setting("dropout", 0.5)
    )
    own = replace_block(newer, computed(document), "W_key", 0, 0, one(1))
    assert computed(own).trace.read("W_key.weight")[0, 0] == 1


@pytest.mark.parametrize(
    ("document", "name", "values", "said"),
    [
        (a_document(), "scores", [[1]], "Scores are computed. Edit the input or the weights"),
        (a_document(projection=Projection.NONE, d_in=2, output_projection=False), "masked", [[1]],
         "Masked values are computed. Edit the input instead."),
        (a_document("a b", "c"), "input", [[1]], "Use a single text to edit them."),
        (a_document("a b", "c"), "weights", [[1]], "computed. Edit the weights instead."),
        (a_document(bias=True), "W_key.bias", [[1]], "random values generated from the seed"),
        (a_document(position=PositionKind.LEARNED), "position", [[1]], "Positional encodings"),
        (a_document(), "input", [[1, 2, 3, 4]], "A block of 1 × 4 does not fit here."),
        (a_document(), "W_key", [[np.inf]], "inf is out of range for float32."),
        (a_document(), "W_key", [[1e300]], r"1e\+300 is out of range for float32."),
    ],
)  # fmt: skip
def test_what_cannot_be_put_is_said(
    document: Document, name: str, values: list[list[float]], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        replace_block(document, computed(document), name, 0, 0, np.array(values))


def test_a_double_holds_what_a_single_cannot() -> None:
    document = a_document(dtype=Dtype.FLOAT64)
    own = replace_block(document, computed(document), "W_key", 0, 0, one(1e300))
    assert own.spec.own_weights[0][1].to_array()[0, 0] == 1e300


def test_more_weights_than_a_document_should_hold_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(custom_weights, "MAX_ELEMENTS", 5)
    document = a_document()
    with pytest.raises(InputError, match="There are 6 weights; at most 5"):
        replace_block(document, computed(document), "W_key", 0, 0, one(1))


def test_stacked_heads_are_edited_side_by_side() -> None:
    for projection in (Projection.LINEAR, Projection.UNIFORM):
        document = a_document(arrangement=HeadArrangement.STACKED, projection=projection)
        ran = computed(document)
        after = computed(replace_block(document, ran, "W_value", 1, 2, one(5)))
        own = after.trace.spec.own_weights[0][1].to_array()
        assert own[1, 2] == 5
        suffix = ".weight" if projection is Projection.LINEAR else ""
        weight = after.trace.read(f"heads.1.W_value{suffix}")
        assert (weight.T if suffix else weight)[1, 0] == 5


def test_own_matrices_that_no_longer_count_stay_out_of_the_way() -> None:
    own = (("W_output", NumberMatrix.from_array(np.eye(9))),)
    document = a_document(output_projection=False, own_weights=own)
    ran = computed(document)
    assert "W_output" not in dict(table(ran, "").choices)
    assert [
        name for name, _ in replace_block(document, ran, "W_key", 0, 0, one(1)).spec.own_weights
    ] == [
        "W_key",
        "W_output",
    ]


def test_a_pinned_cell_that_a_run_does_not_have_is_not_marked() -> None:
    short = a_run("one two three", heads=2)
    pinned = Cell("weights", (1, 5, 5))
    assert table(a_run(heads=2), "weights", pinned=pinned).current == (5, 5)
    shown = table(short, "weights", pinned=pinned)
    assert (shown.current, shown.head) == (None, 0)
