"""Every cell has an explanation, and its numbers are those of the trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from msgspec import structs

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import present, resolved
from tests.support.small_runs import a_run, cells, places
from visualizer.attention.masks import allowed
from visualizer.attention.spec import (
    LAYER_SYMBOLS,
    BooleanMatrix,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.stages import Operation
from visualizer.explanations.attention_weights import MAX_PLAIN_EXPONENT
from visualizer.features.explain.presenter import (
    CELL_PANEL,
    MAX_SHOWN_TERMS,
    CellExplanation,
    explain_head_cell,
)
from visualizer.format import format_number, format_percentage, shorten
from visualizer.language.tokenizers import visible_token
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run

ROWS = {"unmasked", "zeroed", "weights"}


def taken_before(run: Run, stage: str) -> str:
    """Return how a sentence begins on weights of which there are others after them."""
    if stage == "unmasked":
        return "Before the mask, "
    if stage != run.trace.attention_stage_name:
        return "Before renormalization, "
    return "Before dropout, " if run.trace.dropout_stage_name else ""


def told(run: Run, cell: Cell, text: int = 0) -> CellExplanation:
    return explain_head_cell(resolved(run, View(text=text)), cell, is_pinned=False)


def value(run: Run, cell: Cell, text: int) -> float:
    index = (text, *cell.place) if run.trace.axes else cell.place
    return float(run.trace.read(cell.stage, index))


def may_read(run: Run, text: int, stage: str, place: tuple[int, ...]) -> bool:
    matrix = allowed(run.trace.spec, run.trace.query_count, stage)
    return bool((matrix[text, 0] if matrix.ndim > 2 else matrix)[place[-2:]])


def is_padding(run: Run, text: int, key: int) -> bool:
    lengths = run.trace.spec.lengths
    return bool(lengths) and key >= lengths[text]


# ------------------------------------------------------------------------------- every cell


@examples(0.4)
@given(cases(most_tokens=4))
def test_every_cell_can_be_told(case: Case) -> None:
    run = case.run()
    for text in range(len(run.texts)):
        for cell in cells(run):
            readout = told(run, cell, text)
            assert readout.value == format_number(value(run, cell, text))
            assert readout.sentence.endswith(".")
            assert readout.heading.startswith(run.trace.stage(cell.stage).title)
            empty = readout.closing == "no allowed keys: 0" and float(readout.value) == 0
            assert empty or readout.closing.endswith(f"= {readout.value}")
            assert not re.match(r"0\.0000 ÷ 0\.0000 = 0", readout.closing)
            assert 1 <= len(readout.terms) <= MAX_SHOWN_TERMS
            assert readout.formula
            assert all(term.product and term.value for term in readout.terms)


@examples(0.4)
@given(cases(most_tokens=4))
def test_the_words_of_a_weight_are_true(case: Case) -> None:
    run = case.run()
    for text in range(len(run.texts)):
        words = [shorten(visible_token(token)) for token in run.texts[text]]
        for stage in sorted(ROWS & set(run.trace.names)):
            for place in places(run, stage):
                cell = Cell(stage, place)
                said, weight = told(run, cell, text).plain_text, value(run, cell, text)
                query, key = (f"{words[at]} ({kind} {at + 1})" for at, kind in pair(place))
                before = taken_before(run, stage)
                is_unmasked = stage == "unmasked"
                attends = "would attend" if is_unmasked else "attends"
                if not may_read(run, text, stage, place):
                    padding = is_padding(run, text, place[2])
                    why = "the key is padding" if padding else "the pair is masked"
                    expected = f"{query} may not attend to {key}: {why}."
                elif not np.isfinite(weight):
                    expected = f"{query} has no weights: its row cannot be computed."
                else:
                    is_share = 0 <= weight <= 1
                    written = format_percentage(weight) if is_share else format_number(weight)
                    is_linear = run.trace.spec.normalisation is NormalisationKind.LINEAR
                    end = ", implied by the features" if is_linear else ""
                    expected = f"{before}{query} {attends} to {key} with weight {written}{end}."
                assert said == re.sub("  +", " ", expected)


@examples(0.6)
@given(cases(most_tokens=3))
def test_the_formula_names_what_the_terms_are_made_of(case: Case) -> None:
    run = case.run()
    spec = run.trace.spec
    for cell in cells(run):
        readout, stage = told(run, cell), run.trace.stage(cell.stage)
        is_told = "bias" in {term.name for term in readout.terms}
        if not readout.rest:  # else the bias may be one of the many that are told together
            assert ("bias" in readout.formula.split(" ")) == is_told
        assert not is_told or "bias" in readout.formula
        if stage.operation is Operation.INPUT_PROJECTION:
            assert ("bias" in readout.plain_text) == ("bias" in readout.formula.split(" "))
        scaled = cell.stage == "scaled"
        assert ("√d" in readout.formula) == (scaled and spec.scale is not ScaleKind.NONE)
        assert ("temperature" in readout.formula) == (scaled and spec.temperature != 1)
        assert ("√d" in stage.symbol) == (scaled and spec.scale is not ScaleKind.NONE)
        if stage.operation is Operation.SCORES_TO_WEIGHTS:
            divides = spec.normalisation is NormalisationKind.SUM
            assert ("exp(" in readout.formula) == (stage.symbol == "softmax") == (not divides)
        if stage.operation is Operation.EQUAL_WEIGHTS:
            acts = cell.stage == "weights" and spec.mask is not MaskKind.NONE
            assert ("allowed" in readout.formula) == acts


@examples(0.6)
@given(cases(most_tokens=2))
def test_the_column_that_is_named_is_the_one_that_was_read(case: Case) -> None:
    run = case.run()
    spec, trace = run.trace.spec, run.trace
    for cell in cells(run):
        if trace.stage(cell.stage).operation is not Operation.INPUT_PROJECTION:
            continue
        named = re.search(
            r"times column (\d+) of (this head’s )?(W_\w+)", told(run, cell).plain_text
        )
        assert named
        head, token, _ = cell.place
        layer = next(name for name, symbol in LAYER_SYMBOLS.items() if symbol == named[3])
        name = f"heads.{head}.{layer}" if named[2] else layer
        is_linear = spec.projection is Projection.LINEAR
        weights = trace.read(f"{name}.weight").T if is_linear else trace.read(name)
        column = int(named[1]) - 1
        (read,) = trace.stage(cell.stage).reads
        made = trace.read(read)[(0,) * len(trace.axes)][token] @ weights[:, column]
        made += trace.read(f"{name}.bias")[column] if is_linear and spec.bias else 0
        assert value(run, cell, 0) == pytest.approx(made, rel=1e-3, abs=1e-4)


def pair(place: tuple[int, ...]) -> list[tuple[int, str]]:
    return [(place[1], "query"), (place[2], "key")]


# ----------------------------------------------------------------------------- sentences


def test_the_largest_of_large_scores_is_subtracted_and_said_so() -> None:
    run = a_run(temperature=0.001)
    readout = told(run, Cell("weights", (0, 1, 0)))
    largest = run.trace.read("masked", (0, 1))[:2].max()
    assert largest > MAX_PLAIN_EXPONENT
    assert format_number(float(largest)) in readout.formula


def test_a_weight_is_said_with_the_words_it_joins() -> None:
    readout = told(a_run(), Cell("weights", (0, 1, 0)))
    assert readout.plain_text == "journey (query 2) attends to Your (key 1) with weight 48%."
    assert readout.sentence == (
        "<b>journey</b> (query 2) attends to <b>Your</b> (key 1) with weight 48%."
    )
    assert readout.heading == "Weights · head 1, query 2, key 1"
    assert readout.value == "0.4776"
    assert readout.formula == "exp(masked score) ÷ Σ exp(masked score)"
    assert [term.name for term in readout.terms] == ["Your", "journey"]
    assert readout.rest.startswith("4 ")  # masked tokens
    assert [term.is_chosen for term in readout.terms] == [True, False]
    assert [term.share for term in readout.terms] == pytest.approx([0.4776 / 0.5224, 1], abs=1e-3)
    assert re.fullmatch(r"[\d.]+ ÷ [\d.]+ = 0\.4776", readout.closing)


def test_a_sentence_below_the_heading_does_not_repeat_its_head() -> None:
    view = resolved(a_run(), View())
    readout = explain_head_cell(view, Cell("weights", (0, 1, 0)), is_pinned=False, names_head=True)
    assert "head 1" in readout.heading
    assert "head" not in readout.plain_text
    assert readout.caption.startswith("In head 1, <b>journey</b>")


def test_a_forbidden_cell_is_said_to_be_one() -> None:
    run = a_run(dropout=0.5)
    assert told(run, Cell("weights", (0, 0, 1))).plain_text == (
        "Your (query 1) may not attend to journey (key 2): the pair is masked."
    )
    assert told(run, Cell("masked", (0, 0, 1))).plain_text == (
        "Your (query 1) may not attend to journey (key 2): their score becomes −∞, "
        "so their weight will be 0."
    )
    assert told(run, Cell("masked", (0, 1, 0))).plain_text.endswith("the score is unchanged.")
    assert told(run, Cell("masked", (0, 0, 1))).value == "−∞"


def test_what_dropout_does_is_said() -> None:
    run = a_run(dropout=0.2, dropout_seed=1)
    dropped, weights = (run.trace.read(name) for name in ("dropped", "weights"))
    for place in places(run, "dropped"):
        said, before = told(run, Cell("dropped", place)).plain_text, weights[place]
        if before == 0:
            assert said.startswith("There is nothing to drop")
        elif dropped[place] == 0:
            assert said.startswith("Dropout drops the weight of ")
            assert said.endswith(f": {format_number(before)} becomes 0.")
        else:
            assert said.startswith("Dropout keeps the weight of ")
            assert said.endswith(
                f": {format_number(before)} times 1.25 is {format_number(dropped[place])}."
            )
    assert (dropped[weights > 0] == 0).any()


def test_a_score_is_the_products_of_a_query_and_a_key() -> None:
    run = a_run(d_out=4)
    readout = told(run, Cell("scores", (1, 2, 0)))
    pair = "the query of starts (query 3) and the key of Your (key 1)"
    assert readout.plain_text == f"The dot product of {pair} is {readout.value}."
    queries, keys = (run.trace.read(name, (1,)) for name in ("queries", "keys"))
    assert [term.product for term in readout.terms] == [
        f"{format_number(a)} × {format_number(b)}" for a, b in zip(queries[2], keys[0], strict=True)
    ]
    assert [term.name for term in readout.terms] == ["column 1", "column 2"]


def test_a_context_vector_mixes_the_values_of_what_it_reads() -> None:
    readout = told(a_run(), Cell("context", (1, 1, 0)))
    assert readout.plain_text == (
        "Column 1 of the context vector of journey (query 2) in head 2 "
        f"is the sum of column 1 of all values, each multiplied by its weight: {readout.value}."
    )
    assert [term.name for term in readout.terms][:2] == ["Your", "journey"]
    assert readout.closing == f"sum = {readout.value}"


def test_bias_and_columns_are_named() -> None:
    run = a_run(d_in=3, bias=True)
    queries, output = (told(run, Cell(*at)) for at in (("queries", (0, 0, 0)), ("output", (0, 0))))
    assert [term.name for term in queries.terms] == ["column 1", "column 2", "column 3", "bias"]
    assert [term.name for term in output.terms] == ["column 1", "column 2", "bias"]


@pytest.mark.parametrize(
    ("stage", "place", "names"),
    [
        ("key_value_sums", (0, 1, 0), ["Your", "journey", "starts"]),
        ("key_sums", (0, 1, 0), ["Your", "journey", "starts"]),
        ("normalizer", (0, 1, 0), ["feature 1", "feature 2"]),
        ("weights", (0, 1, 0), ["feature 1", "feature 2"]),
        ("context", (0, 1, 0), ["feature 1", "feature 2"]),
    ],
)
def test_terms_of_linear_attention_are_keys_or_features(
    stage: str, place: tuple[int, ...], names: list[str]
) -> None:
    run = a_run(heads=1, d_out=2, normalisation=NormalisationKind.LINEAR)
    assert [term.name for term in told(run, Cell(stage, place)).terms][:3] == names


@pytest.mark.parametrize("position", [PositionKind.SINUSOIDAL, PositionKind.LEARNED])
def test_a_position_is_named(position: PositionKind) -> None:
    readout = told(a_run(position=position), Cell("position", (1, 0)))
    assert [term.name for term in readout.terms] == ["position"]
    assert readout.plain_text.startswith("Column 1 of the position vector of journey (position 2)")


def test_an_average_counts_the_allowed_keys() -> None:
    run = a_run(normalisation=NormalisationKind.UNIFORM, projection=Projection.NONE, heads=1)
    readout = told(run, Cell("weights", (0, 3, 1)))
    assert readout.value == "0.2500"
    assert readout.formula == "1 ÷ number of allowed keys"
    after = a_run("a b", "c", normalisation=NormalisationKind.UNIFORM, route=MaskPlacement.AFTER)
    assert told(after, Cell("unmasked", (0, 0, 1))).formula == "1 ÷ number of keys except padding"
    alone = a_run("a b", normalisation=NormalisationKind.UNIFORM, route=MaskPlacement.AFTER)
    readout = told(alone, Cell("unmasked", (0, 0, 1)))
    assert readout.formula == "1 ÷ number of keys"
    assert (
        readout.plain_text
        == "Before the mask, a (query 1) would attend to b (key 2) with weight 50%."
    )


@pytest.mark.parametrize(
    ("fields", "formula"),
    [
        ({}, "score ÷ √d"),
        ({"temperature": 2.0}, "score ÷ (√d × temperature)"),
        ({"temperature": 2.0, "scale": ScaleKind.NONE}, "score ÷ temperature"),
    ],
)
def test_what_divides_a_score_is_named(fields: dict[str, Any], formula: str) -> None:
    assert told(a_run(**fields), Cell("scaled", (0, 1, 0))).formula == formula


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"normalisation": NormalisationKind.UNIFORM},
        {"route": MaskPlacement.AFTER_RENORMALISED},
    ],
)
def test_a_row_that_may_read_nothing_has_nothing_to_share(fields: dict[str, Any]) -> None:
    nothing = BooleanMatrix.from_array(np.array([[0, 0], [1, 1]]))
    run = a_run("a b", mask=MaskKind.OWN, own_mask=nothing, **fields)
    assert told(run, Cell("weights", (0, 0, 1))).closing == "no allowed keys: 0"
    assert told(run, Cell("weights", (0, 1, 1))).closing.endswith("÷ 2.0000 = 0.5000") == (
        "normalisation" in fields
    )


def test_split_heads_read_columns_of_one_matrix_and_stacked_heads_of_their_own() -> None:
    split, stacked = Cell("keys", (1, 2, 0)), Cell("keys", (1, 2, 1))
    assert told(a_run(), split).plain_text == (
        "The input vector of starts (position 3) times column 2 of W_k "
        f"gives column 1 of its key in head 2: {told(a_run(), split).value}."
    )
    run = a_run(arrangement=HeadArrangement.STACKED, bias=True)
    assert told(run, stacked).plain_text == (
        "The input vector of starts (position 3) times column 2 of this head’s W_k, plus a bias, "
        f"gives column 2 of its key in head 2: {told(run, stacked).value}."
    )


def test_a_row_that_overflowed_is_said_to_be_no_number() -> None:
    run = a_run(normalisation=NormalisationKind.NAIVE_SOFTMAX, temperature=1e-4, mask=MaskKind.NONE)
    place = next(p for p in places(run, "weights") if np.isnan(run.trace.read("weights", p)))
    readout = told(run, Cell("weights", place))
    assert "has no weights: its row cannot be computed." in readout.plain_text
    assert readout.value == "NaN"


def test_a_row_that_reads_nothing_has_the_weight_0() -> None:
    run = a_run("a b", "c", mask=MaskKind.NONE, route=MaskPlacement.AFTER_RENORMALISED)
    readout = told(run, Cell("weights", (0, 0, 1)), 1)
    assert readout.value == "0.0000"
    assert readout.plain_text == "c (query 1) may not attend to ⟨pad⟩ (key 2): the key is padding."


# -------------------------------------------------------------------------- odd and many words


def test_words_that_look_like_tags_are_words() -> None:
    readout = told(a_run("< b > & c"), Cell("weights", (0, 3, 0)))
    assert "<b>&amp;</b> (query 4)" in readout.sentence
    assert readout.plain_text.startswith("& (query 4) attends to < (key 1)")


def test_the_space_before_a_token_is_marked_in_the_sentence_as_in_labels() -> None:
    run = structs.replace(a_run("one word"), texts=(("one", " word"),))
    assert " to ␣word (key 2) with" in told(run, Cell("weights", (0, 1, 1))).plain_text


def test_of_many_terms_the_largest_are_shown_and_the_rest_is_named() -> None:
    tokens = 40
    run = a_run(" ".join(f"w{number_}" for number_ in range(tokens)), mask=MaskKind.NONE, d_in=8)
    readout = told(run, Cell("weights", (0, 5, 7)))
    assert len(readout.terms) <= MAX_SHOWN_TERMS
    assert [term.name for term in readout.terms if term.is_chosen] == ["w7"]
    left = re.fullmatch(r"(\d+) other terms?: ([\d.]+)", readout.rest)
    assert left
    assert int(left[1]) + len(readout.terms) == tokens
    total = sum(float(term.value) for term in readout.terms) + float(left[2])
    divided = re.fullmatch(r"[\d.]+ ÷ ([\d.]+) = [\d.]+", readout.closing)
    assert divided
    assert total == pytest.approx(float(divided[1]), abs=1e-3)
    smallest = sorted(float(term.value) for term in readout.terms)[1]
    assert float(left[2]) / int(left[1]) <= smallest + 1e-4


def test_few_terms_are_all_shown() -> None:
    run = a_run(" ".join(MAX_SHOWN_TERMS * ["a"]), mask=MaskKind.NONE)
    readout = told(run, Cell("context", (0, 0, 0)))
    assert len(readout.terms) == MAX_SHOWN_TERMS
    assert readout.rest == ""


@pytest.mark.parametrize(
    "cell",
    [
        Cell("dropped", (0, 0, 0)),
        Cell("weights", (0, 6, 0)),
        Cell("weights", (0, 0)),
        Cell("x", ()),
    ],
)
def test_a_cell_that_is_not_there_is_not_told(cell: Cell) -> None:
    view = View(hovered=cell, pinned=cell)
    assert present(Document(), view, a_run(), None, False, None).panel(CELL_PANEL) is None


@pytest.mark.parametrize(
    ("text", "fields", "word"),
    [
        ("journey", {"d_in": 3}, "Raschka"),
        ("planet", {"d_in": 3}, "random"),
        ("journey", {"d_in": 4, "d_out": 4}, "random"),
        ("planet", {"d_in": 3, "own_input": NumberMatrix.from_array(np.ones((1, 3)))}, "custom"),
    ],
)
def test_the_origin_of_an_input_is_named(text: str, fields: dict[str, Any], word: str) -> None:
    assert word in told(a_run(text, **fields), Cell("input", (0, 1))).formula


def test_a_quotient_has_a_division_sign() -> None:
    panel = told(a_run(), Cell("scaled", (0, 3, 1)))
    (term,) = panel.terms
    assert "÷" in term.product
    assert "1/" not in term.product
    assert panel.equation
    assert "÷" in "".join(part.text for part in panel.equation.parts)


@pytest.mark.parametrize("role", TokenRole)
def test_a_selected_token_has_its_largest_weights(role: TokenRole) -> None:
    run, at = a_run(), 3
    view = View(flow=True, tokens=TokenSelection(frozenset({at}), role))
    panel = present(Document(spec=run.trace.spec), view, run, None, False, None).panel(CELL_PANEL)
    assert panel
    line = (at,) if role is TokenRole.QUERY else (slice(None), at)
    weights = run.trace.read("weights", (0, *line))
    wanted = [format_number(float(one)) for one in sorted(weights[weights > 0], reverse=True)]
    assert [term.pieces[0].text for term in panel.terms] == wanted
    assert all(term.pieces[0].source for term in panel.terms)
    pinned = present(
        Document(spec=run.trace.spec), structs.replace(view, pinned=Cell("weights", (0, 1, 0))),
        run, None, False, None,
    ).panel(CELL_PANEL)  # fmt: skip
    assert pinned
    assert pinned.is_pinned
