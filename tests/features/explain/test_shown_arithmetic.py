"""The numbers in Explain lead to the number of the cell, as a reader would compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.screens import resolved
from tests.support.shown_arithmetic import cell_faults, evaluate_text, line_faults
from tests.support.small_runs import a_run, cells
from visualizer.attention.display_transforms import WeightTransform
from visualizer.attention.spec import (
    BooleanMatrix,
    MaskKind,
    NormalisationKind,
    NumberMatrix,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.explanations.explain import Equation, equation, explain
from visualizer.features.explain.presenter import (
    CellExplanation,
    explain_head_cell,
    explain_transform,
)
from visualizer.format import format_number
from visualizer.session.cell_address import Cell
from visualizer.session.timeline import Step
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.attention.run import Run


def shown_cell(run: Run, cell: Cell, **fields: Any) -> CellExplanation:
    return explain_head_cell(resolved(run, View(**fields)), cell, is_pinned=False)


def faults(run: Run) -> list[str]:
    dtype = run.trace.spec.dtype.value
    return [fault for cell in cells(run) for fault in cell_faults(shown_cell(run, cell), dtype)]


@given(cases(most_tokens=3))
@examples(0.2)
def test_terms_lead_to_the_number(case: Case) -> None:
    assert not faults(case.run())


# ------------------------------------------------------------------------ sizes of 1

ONE: dict[str, Any] = {"heads": 1, "d_in": 1, "d_out": 1, "most_tokens": 1}
ONE_OF_EACH = st.one_of(cases(**ONE), cases(**ONE, block=TransformerBlockKind.PRE_NORM, d_ff=1))


@given(ONE_OF_EACH)
def test_terms_and_lines_lead_to_the_number_where_every_size_is_1(case: Case) -> None:
    run = case.run()
    assert not faults(run)
    leading = (0,) * len(run.trace.axes)
    assert not [fault for stage in run.trace.names for fault in line_faults(run, leading, stage)]


NORMALISATIONS = [
    kind
    for kind in NormalisationKind
    if kind not in {NormalisationKind.SUM, NormalisationKind.LINEAR}
]


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_the_weight_of_the_only_key_is_divided_by_the_only_term(
    normalisation: NormalisationKind,
) -> None:
    panel = shown_cell(a_run("one", normalisation=normalisation), Cell("weights", (0, 0, 0)))
    (term,) = panel.terms
    assert panel.closing == f"{term.value} ÷ {term.value} = 1.0000"


def test_where_only_the_first_key_has_a_weight_nothing_else_is_divided() -> None:
    shown = resolved(a_run("one two"), View(lens=WeightTransform.WITHOUT_FIRST))
    (line,) = explain_transform(shown, Cell("weights", (0, 0, 1)))
    assert "÷" not in line
    (line,) = explain_transform(shown, Cell("weights", (0, 1, 1)))
    assert line.endswith("= 1.0000")


# ------------------------------------------------------- exponents that were read

PLAIN: dict[str, Any] = {"heads": 1, "projection": Projection.NONE, "scale": ScaleKind.NONE}
BOOK = ((0.43, 0.15, 0.89), (0.55, 0.87, 0.66), (0.57, 0.85, 0.64), (0.22, 0.58, 0.33))


def scores_of(run: Run, query: int) -> list[float]:
    (read,) = run.trace.stage("weights").reads
    return [float(each) for each in run.trace.read(read, (0, query))]


def exponents(panel: CellExplanation) -> list[str]:
    return [term.product.removeprefix("exp(").removesuffix(")") for term in panel.terms]


def test_the_naive_softmax_shows_the_scores_that_it_read() -> None:
    run = a_run(
        "a b c d", own_input=NumberMatrix.from_array(np.array(BOOK)), d_in=3, d_out=3,
        mask=MaskKind.NONE,
        temperature=0.01, normalisation=NormalisationKind.NAIVE_SOFTMAX, **PLAIN,
    )  # fmt: skip
    panel = shown_cell(run, Cell("weights", (0, 1, 1)))
    assert panel.value == "NaN"
    assert exponents(panel) == [format_number(score) for score in scores_of(run, 1)]
    assert [term.value for term in panel.terms][1] == "∞"


def steep_run(**fields: Any) -> Run:
    """A causal run whose second key, of three that may be read, is far below the others."""
    inputs = NumberMatrix.from_array(np.array([[3.0], [-1.0], [2.9], [3.0]]))
    return a_run("a b c d", own_input=inputs, d_in=1, d_out=1, temperature=0.005, **PLAIN, **fields)


@pytest.mark.parametrize(
    "normalisation", [NormalisationKind.SOFTMAX, NormalisationKind.NAIVE_SOFTMAX]
)
def test_a_key_whose_exponential_is_0_is_not_shown_as_a_masked_one(
    normalisation: NormalisationKind,
) -> None:
    run = steep_run(normalisation=normalisation)
    panel, scores = shown_cell(run, Cell("weights", (0, 2, 1))), scores_of(run, 2)
    is_naive = normalisation is NormalisationKind.NAIVE_SOFTMAX
    far = scores[1] - (0 if is_naive else max(scores))
    assert far < -500
    assert exponents(panel)[1] == format_number(far)
    assert panel.terms[1].value == "0.0000"
    assert len(panel.terms) == 3  # masked keys are only counted
    assert panel.rest.startswith("1 ")
    assert "0%" in panel.plain_text


def test_what_is_subtracted_is_the_score_and_not_a_result() -> None:
    run = steep_run()
    (group,) = explain(run.trace, "weights", (0, 2, 1)).groups
    assert group.factors[0].shift == max(scores_of(run, 2))


def test_a_line_whose_exponentials_would_all_be_0_shows_what_is_subtracted() -> None:
    inputs = NumberMatrix.from_array(np.array([[-3.0], [3.0], [3.001]]))
    mask = BooleanMatrix.from_array(np.array([[0, 1, 1], [1, 1, 1], [1, 1, 1]]))
    sizes: dict[str, Any] = {"d_in": 1, "d_out": 1, "temperature": 0.01}
    run = a_run("a b c", own_input=inputs, mask=MaskKind.OWN, own_mask=mask, **sizes, **PLAIN)
    assert max(scores_of(run, 0)) < -800
    shown = "".join(part.text for part in line_of(run, "weights", 0, 1).parts)
    weight = float(run.trace.read("weights", (0, 0, 1)))
    assert evaluate_text(shown) == pytest.approx(weight, abs=1e-2)


def line_of(run: Run, stage: str, row: int, column: int) -> Equation:
    return equation(run, (), Step(stage, range(row, row + 1), range(column, column + 1)), 0)
