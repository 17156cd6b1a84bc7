"""The equation for a step's caption agrees with the number in the trace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from tests.explanations.test_step_sentences import cell, every, row, whole
from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.shown_arithmetic import evaluate_text
from tests.support.small_runs import a_run
from visualizer.attention.spec import (
    BooleanMatrix,
    DropoutMode,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.attention.stages import Operation
from visualizer.explanations.cell_terms import (
    MAX_SHOWN_TERMS,
    EquationPart,
)
from visualizer.explanations.explain import Equation, cell_equation, equation, explain
from visualizer.explanations.step_context import MAX_SHOWN_NUMBERS, format_trimmed_number
from visualizer.format import format_number
from visualizer.session.timeline import caption_cell

if TYPE_CHECKING:
    from tests.explanations.test_step_sentences import Said
    from visualizer.attention.trace import Trace
    from visualizer.explanations.cell_terms import Explanation, Factor


def line(said: Said) -> Equation:
    return equation(said.run, said.leading, said.step, said.head)


def explained(said: Said) -> Explanation:
    trace = said.run.trace
    place = caption_cell(said.run, said.leading, said.step, said.head)
    return explain(trace, said.step.stage, (*said.leading, *place))


@pytest.mark.slow
@examples(0.8)
@given(cases(most_tokens=4))
def test_every_line_adds_up(case: Case) -> None:
    run = case.run()
    for grain in ("stage", "row", "cell"):
        for said in every(run, grain):
            shown, made = line(said), explained(said)
            told = "".join(part.text for part in shown.parts)
            assert shown == line(said)
            assert shown.plain_text.startswith(f"{shown.left} = {told}")
            if not shown.result:
                assert "more" not in told
                assert format_number(made.value) in told or (
                    made.value == 0 and told.startswith("0")
                )
                continue
            assert shown.result == format_number(made.value)
            if "more" in told or "NaN" in told or not np.isfinite(made.value):
                continue
            if abs(made.value) < 100 and "÷ (" not in told:
                magnified = max([1.0, *map(share, computed_factors(run.trace, made))])
                near = pytest.approx(made.value, rel=2e-2, abs=5e-3 * magnified)
                assert evaluate_text(told) == near


def factors_of(explanation: Explanation) -> list[Factor]:
    return [factor for group in explanation.groups for factor in group.factors]


def computed_factors(trace: Trace, explanation: Explanation) -> list[Factor]:
    """Return the factors of a cell and, for a masked score, those of the score."""
    found = factors_of(explanation)
    if explanation.stage.operation in (Operation.MASK_BEFORE_SOFTMAX, Operation.SCALE_SCORES):
        score = explain(trace, explanation.stage.reads[0], explanation.cell)
        found += computed_factors(trace, score)
    return found


def share(factor: Factor) -> float:
    """Return by how much a factor magnifies rounding errors, which only a norm's factor does."""
    return float(factor.used[0]) if factor.form == "1/{}" else 0.0


@examples(0.6)
@given(cases(most_tokens=5))
def test_what_is_lit_was_read_and_is_one_of_the_cells(case: Case) -> None:
    run = case.run()
    for said in every(run, "row"):
        shown, made = line(said), explained(said)
        read = {
            format_number(float(value))
            for factor in computed_factors(run.trace, made)
            if factor.name in run.trace and factor.name != said.step.stage
            for value in factor.read
        }
        lit = [part.text for part in shown.parts if part.is_highlighted]
        assert set(lit) <= read
        assert bool(lit) <= bool(run.trace.stage(said.step.stage).reads)
        if made.stage.reads and not made.is_empty and made.stage.name not in ("unmasked",):
            assert lit


@examples(0.6)
@given(cases(most_tokens=6))
def test_of_many_terms_the_largest_are_kept_in_their_order(case: Case) -> None:
    run = case.run()
    for said in every(run, "row"):
        told = "".join(part.text for part in line(said).parts)
        more = re.search(r"\(([\d,]+) more\)", told)
        made = explained(said)
        sums = said.step.stage in ("queries", "scores", "output") and len(made.terms) > 1
        if sums:
            assert int(more[1] if more else 0) == max(0, len(made.terms) - MAX_SHOWN_TERMS)
        if more:
            is_shifted = "exp(" in told and " − " in told
            written = told.replace("… + ", "").replace(" + …", "").count(" + ") + 1
            assert written == MAX_SHOWN_TERMS // (1 + is_shifted)


# -------------------------------------------------------------------------------------- exact lines


WAVES = {"position": PositionKind.SINUSOIDAL}
BARE = {"projection": Projection.NONE, "heads": 1}


@pytest.mark.parametrize(
    ("stage", "column", "fields", "plain"),
    [
        ("input", 0, {}, "input = 0.5500, given"),
        (
            "queries",
            0,
            {},
            "query = 0.5500 × (−0.2354) + 0.8700 × 0.0191 + 0.6600 × (−0.2867) = −0.3021",
        ),
        (
            "scores",
            0,
            {"d_out": 4},
            "score = −0.3021 × (−0.4519) + (−0.0289) × 0.2216 = 0.1301",
        ),
        ("scaled", 0, {}, "scaled score = 0.1734 ÷ 1 = 0.1734"),
        (
            "masked",
            0,
            {},
            "masked score = −0.3021 × (−0.5740) ÷ √1 = 0.1734, allowed",
        ),
        ("masked", 3, {}, "masked score = −∞ in place of 0.1447, because it is masked"),
        ("weights", 0, {}, "weight = exp(0.1734) ÷ (exp(0.1734) + exp(0.2631)) = 0.4776"),
        ("context", 0, {}, "context = 0.4776 × (−0.4519) + 0.5224 × (−0.7142) = −0.5889"),
        ("concat", 1, {}, "concat = 0.0122, taken from head 2"),
        ("output", 0, {}, "output = −0.5889 × (−0.1668) + 0.0122 × 0.2270 + 0.1934 = 0.2943"),
        ("position", 0, WAVES, "position = sin(1 / 10000^(0/3)) = 0.8415"),
        ("input", 0, WAVES, "input = 0.5500 + 0.8415 = 1.3915"),
        ("weights", 0, {"normalisation": NormalisationKind.UNIFORM}, "weight = 1 ÷ 2 = 0.5000"),
        ("values", 0, BARE, "value = 0.5500, taken from the input"),
    ],
)  # fmt: skip
def test_a_cell_is_one_line(stage: str, column: int, fields: dict[str, Any], plain: str) -> None:
    assert equation(a_run(**fields), (), cell(stage, 1, column), 0).plain_text == plain


@pytest.mark.parametrize(
    ("fields", "divisor"),
    [
        ({"d_out": 4}, " ÷ √2"),
        ({"d_out": 4, "scale": ScaleKind.D_MODEL}, " ÷ √3"),
        ({"d_out": 4, "temperature": 0.5}, " ÷ 0.7071"),
        ({"d_out": 4, "scale": ScaleKind.NONE, "temperature": 0.5}, " ÷ 0.5"),
        ({"d_out": 4, "scale": ScaleKind.NONE}, ""),
        ({"d_in": 12, "d_out": 24}, " ÷ √12"),
        ({"d_out": 8, "heads": 4, "key_value_heads": 2}, " ÷ √2"),
        ({"d_out": 4, "position": PositionKind.ROTARY}, " ÷ √2"),
    ],
)
def test_an_allowed_masked_score_is_its_dot_product_and_scaling(
    fields: dict[str, Any], divisor: str
) -> None:
    run = a_run(**fields)
    head = run.trace.spec.heads - 1
    score, masked = (explain(run.trace, name, (head, 2, 1)) for name in ("scores", "masked"))
    shown = cell_equation(run.trace, masked)
    dot_product = "".join(part.text for part in cell_equation(run.trace, score).parts)
    told = "".join(part.text for part in shown.parts)
    assert told == (f"({dot_product})" if divisor else dot_product) + divisor
    assert shown.result == format_number(masked.value)
    assert shown.plain_text.endswith(shown.remark)
    assert shown.remark
    assert [len(parts) for parts in shown.versions] == sorted(
        (len(parts) for parts in shown.versions), reverse=True
    )
    if "more" not in told:
        assert evaluate_text(told) == pytest.approx(masked.value, abs=5e-4)


@pytest.mark.parametrize(
    "fields", [{"position": PositionKind.ALIBI}, {"route": MaskPlacement.AFTER_RENORMALISED}]
)
def test_a_cell_with_other_steps_before_the_mask_is_copied(fields: dict[str, Any]) -> None:
    run = a_run(**fields)
    stage = "masked" if "masked" in run.trace else "zeroed"
    shown = cell_equation(run.trace, explain(run.trace, stage, (0, 2, 1)))
    assert not shown.result
    assert not shown.remark


def test_what_is_dropped_and_what_is_kept() -> None:
    kept = BooleanMatrix.from_array(np.tri(6)[::-1])
    run = a_run(dropout=0.5, own_kept=kept)
    lines = [equation(run, (), cell("dropped", 5, key), 0).plain_text for key in (0, 1)]
    assert lines == [
        "weight after dropout = 0.1649 × 2 = 0.3298",
        "weight after dropout = 0 in place of 0.1726, because it is dropped",
    ]
    assert (
        equation(run, (), cell("dropped", 0, 5), 0).plain_text
        == "weight after dropout = 0.0000 × 2 = 0.0000"
    )


def test_numbers_that_were_read_are_lit_and_the_rest_is_not() -> None:
    assert equation(a_run(), (), row(a_run(), "weights", 1), 0).parts == (
        EquationPart("exp("),
        EquationPart("0.2631", True),
        EquationPart(") ÷ (exp("),
        EquationPart("0.1734", True),
        EquationPart(") + exp("),
        EquationPart("0.2631", True),
        EquationPart("))"),
    )
    queries = equation(a_run(), (), cell("queries", 1, 0), 0)
    assert [part.text for part in queries.parts if part.is_highlighted] == [
        "0.5500",
        "0.8700",
        "0.6600",
    ]


def test_of_a_long_row_four_terms_are_written_and_the_chosen_is_among_them() -> None:
    run = a_run(" ".join(f"w{at}" for at in range(70)), mask=MaskKind.NONE)
    largest = int(run.trace.read("weights", (0, 3)).argmax())
    most = equation(run, (), cell("weights", 3, largest), 0).plain_text.split(" ÷ ")[0]
    for key in range(70):
        shown = equation(run, (), cell("weights", 3, key), 0)
        assert shown.plain_text.count("exp(") == 1 + MAX_SHOWN_TERMS
        over, below = shown.plain_text.split(" ÷ ")
        assert over.removeprefix("weight = ") in below
        assert most.removeprefix("weight = ") in below
        assert below.endswith(f"({70 - MAX_SHOWN_TERMS} more)) = {shown.result}")
    assert (
        "(60 more)" in equation(a_run(d_in=64), (), whole(a_run(d_in=64), "queries"), 0).plain_text
    )


@pytest.mark.parametrize("route", [MaskPlacement.BEFORE, MaskPlacement.AFTER_RENORMALISED])
def test_a_row_that_may_read_nothing_shares_nothing_out(route: MaskPlacement) -> None:
    nothing = BooleanMatrix.from_array(np.array([[0, 0], [1, 1]]))
    run = a_run("a b", mask=MaskKind.OWN, own_mask=nothing, route=route, mode=DropoutMode.EVAL)
    told = equation(run, (), row(run, "weights", 0), 0).plain_text
    assert told == "weight = 0, because the row is empty"
    assert equation(run, (), row(run, "context", 0), 0).result == "0.0000"


def test_what_softmax_subtracts_is_written_where_it_must() -> None:
    fields: dict[str, Any] = {"heads": 1, "mask": MaskKind.NONE, "scale": ScaleKind.NONE}
    hot = equation(a_run("a b", temperature=0.001, **fields), (), cell("weights", 0, 0), 0)
    largest = hot.parts[1].text
    assert float(largest) > 88
    assert hot.plain_text.startswith(
        f"weight = exp({largest} − {format_trimmed_number(float(largest))}) ÷ exp("
    )
    warm = equation(a_run("a b", **fields), (), cell("weights", 0, 0), 0)
    assert re.match(r"weight = exp\([−\d.]+\) ÷ \(exp\([−\d.]+\) \+ exp", warm.plain_text)
    naive = a_run("a b", normalisation=NormalisationKind.NAIVE_SOFTMAX, temperature=0.001, **fields)
    assert " − " not in equation(naive, (), cell("weights", 0, 0), 0).plain_text


def test_numbers_that_overflow_are_written_as_what_they_are() -> None:
    run = a_run(normalisation=NormalisationKind.NAIVE_SOFTMAX, temperature=1e-4, mask=MaskKind.NONE)
    row_ = int(np.isnan(run.trace.read("weights", (0,))).any(axis=1).argmax())
    assert equation(run, (), cell("weights", row_, 1), 0).plain_text.endswith("= NaN")


@pytest.mark.parametrize("stage", ["normed", "normed_attended"])
def test_a_layer_norm_subtracts_the_mean(stage: str) -> None:
    run = a_run(
        "Your journey starts", block=TransformerBlockKind.PRE_NORM, d_in=3, d_out=3, heads=1
    )
    made = explain(run.trace, stage, (1, 0))
    shown = cell_equation(run.trace, made)
    mean = format_trimmed_number(float(run.trace.read(made.stage.reads[0], (1,)).mean()))
    assert f" − {mean}) ÷ " in shown.plain_text
    assert evaluate_text("".join(part.text for part in shown.parts)) == pytest.approx(
        made.value, abs=2e-3
    )


def test_a_column_of_a_long_vector_is_named() -> None:
    long, short = (
        a_run("one two", d_in=size, d_out=size, heads=1) for size in (MAX_SHOWN_NUMBERS + 1, 2)
    )
    for run, has_column in ((long, True), (short, False)):
        left = cell_equation(run.trace, explain(run.trace, "context", (0, 1, 1))).left
        assert ("2" in left) == has_column


@pytest.mark.parametrize("tokens", [3, 7, 40])
def test_the_longest_version_of_an_equation_has_no_gaps_unless_many_terms_are_omitted(
    tokens: int,
) -> None:
    run = a_run(" ".join(["word"] * tokens), mask=MaskKind.NONE, heads=1)
    shown = cell_equation(run.trace, explain(run.trace, "weights", (0, 1, 1)))
    texts = ["".join(part.text for part in parts) for parts in shown.versions]
    counts = [text.count("exp(") - 1 for text in texts]
    assert counts[0] == (tokens if tokens <= 2 * MAX_SHOWN_TERMS else MAX_SHOWN_TERMS)
    assert counts == sorted(counts, reverse=True)
