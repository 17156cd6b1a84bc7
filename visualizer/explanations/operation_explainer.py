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
    """Write no code: numbers from a file are not computed."""
    return ""


def same_shape(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    """Write no equation: the shape does not change."""
    return ()


def no_product(spec: AttentionSpec, stage: Stage, tokens: int) -> int:
    """Return 0: there is no matrix product."""
    return 0


def no_parameter(spec: AttentionSpec, stage: Stage, tokens: int) -> None:
    """Return None: most operations have no weights."""


class OperationExplainer(Struct, frozen=True, kw_only=True):
    """All texts about an operation, as functions of the numbers that each needs.

    Parameters
    ----------
    terms : callable
        Returns the terms that give a cell's value.
    cell_sentence : callable
        Describes a cell, with the tokens in bold (HTML).
    row_sentence, stage_sentence : callable
        Describe the computation of a row or of a whole stage, without the head and the full stop.
    formula : callable
        Writes the operation for the Cell pane, in words and symbols.
    equation : callable
        Writes the computation of a cell, with its numbers.
    code : callable
        Writes the expression that computes the stage, with the names of a dialect.
    shape_equations : callable
        Write how the shapes of one text change.
    multiply_adds : callable
        Counts the multiply-adds of the matrix product for one text: rows × between × columns.
    parameter : callable
        Returns the weights that are used.
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
