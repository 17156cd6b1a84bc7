"""The functions that explain one operation: terms, sentences, formula, equation, line of code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Operation, Stage
    from visualizer.explanations.cell_equation_writer import EquationTerm, EquationTermWriter
    from visualizer.explanations.cell_facts import CellFacts
    from visualizer.explanations.cell_terms import ExplainedCell, TermList
    from visualizer.explanations.code_expression_context import ExpressionContext
    from visualizer.explanations.shape_equations import ShapeParameter
    from visualizer.explanations.step_values_and_wording import StepValues


def no_code(context: ExpressionContext) -> str:
    """Write nothing: what was read from a file is made by no code."""
    return ""


def same_shape(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    """Write no equation: the shape stays as it is."""
    return ()


def no_product(spec: AttentionSpec, stage: Stage, tokens: int) -> int:
    """Count no multiply-adds: there is no matrix product."""
    return 0


def no_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> None:
    """Give no weights: most operations meet none."""


class OperationExplainer(Struct, frozen=True, kw_only=True):
    """All that is said and written of an operation, each by what knows the numbers.

    Parameters
    ----------
    terms : callable
        The terms that give a cell's value.
    cell_sentence : callable
        What a cell means, with the tokens in bold (HTML).
    row_sentence, stage_sentence : callable
        What the computation of a row or of a whole stage does, without the head and the full stop.
    formula : callable
        How the Cell pane writes what is done, in words and signs.
    equation : callable
        How a cell arose, with its numbers.
    code : callable
        The expression that makes the stage, in the words of a dialect.
    shape_equations : callable
        What becomes of the shapes of one text.
    multiply_adds : callable
        How many the matrix product of one text takes: rows × between × columns.
    parameter : callable
        The weights that are met.
    """

    operation: Operation
    terms: Callable[[ExplainedCell], TermList]
    cell_sentence: Callable[[CellFacts], str]
    row_sentence: Callable[[StepValues], str]
    stage_sentence: Callable[[StepValues], str]
    formula: Callable[[CellFacts], str]
    equation: Callable[[EquationTermWriter], EquationTerm]
    code: Callable[[ExpressionContext], str] = no_code
    shape_equations: Callable[[AttentionSpec, Stage, int], tuple[str, ...]] = same_shape
    multiply_adds: Callable[[AttentionSpec, Stage, int], int] = no_product
    parameter: Callable[[AttentionSpec, Stage, int], ShapeParameter | None] = no_parameter
