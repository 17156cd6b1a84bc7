"""Base classes of the explainers, which describe one operation each: text, equations and code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from visualizer.explanations.cell_terms import sum_equation
from visualizer.explanations.phrases import (
    attention_weight_sentence,
    largest_number_phrase,
    vector_column_name,
)
from visualizer.explanations.step_context import format_vector
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Operation, Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import (
        EquationRightHandSide,
        EquationWriter,
        ExplainedCell,
        TermCombination,
    )
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.phrases import WeightShape
    from visualizer.explanations.step_context import StepContext


class Explainer(ABC):
    """Describes one operation and its numbers in sentences, formulas, equations and code."""

    operation: ClassVar[Operation]

    @abstractmethod
    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        """Return the terms that give a cell's value."""

    @abstractmethod
    def explain_cell(self, info: CellContext) -> str:
        """Return a sentence about a cell, with the tokens in bold (HTML)."""

    @abstractmethod
    def explain_row(self, context: StepContext) -> str:
        """Describe the computation of a row, for use with `StepContext.to_sentence`."""

    @abstractmethod
    def explain_stage(self, context: StepContext) -> str:
        """Describe the computation of a whole stage, for use with `StepContext.to_sentence`."""

    @abstractmethod
    def formula(self, info: CellContext) -> str:
        """Return the formula of the operation for the Explain pane, in words and symbols."""

    def term_name(self, info: CellContext, at: int) -> str:
        """Return the name of the term with an index, or an empty string to use its input's name."""
        return ""

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        """Write a cell's computation with its numbers; a sum of products by default."""
        return sum_equation(writer)

    def code_expression(self, context: StageCodeContext) -> str:
        """Return the expression that computes the stage, in a code dialect.

        By default, the expression is empty, because stages that are read from a file or a model
        have no code.
        """
        return ""

    def helper_definitions(self, context: StageCodeContext) -> dict[str, str]:
        """Return the definitions that the code needs, keyed by name; none by default."""
        return {}

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        """Return the shapes in the computation for one text, unless the shape is unchanged."""
        return ()

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        """Return the number of multiply-adds in the matrix product for one text."""
        return 0

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        """Return the weights that the operation uses, or None for most operations."""
        return None


class AttentionWeightsExplainer(Explainer):
    """Base class for operations that compute weights."""

    def explain_cell(self, info: CellContext) -> str:
        return attention_weight_sentence(info)


class VectorExplainer(Explainer):
    """Base class for operations that compute vectors; a subclass supplies a phrase per sentence."""

    row_separator: ClassVar[str] = ": "
    """Text between the phrase that describes a row and the row's vector."""

    @abstractmethod
    def cell_phrase(self, info: CellContext) -> str:
        """Return the predicate of a sentence about a cell, such as "is the sum of …"."""

    @abstractmethod
    def row_phrase(self, context: StepContext) -> str:
        """Describe the computation of a row, without its numbers."""

    @abstractmethod
    def stage_phrase(self, context: StepContext) -> str:
        """Describe the computation of a whole stage, without its largest number."""

    def explain_cell(self, info: CellContext) -> str:
        return f"{vector_column_name(info)} {self.cell_phrase(info)}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        return f"{self.row_phrase(context)}{self.row_separator}{format_vector(context.read_row())}"

    def explain_stage(self, context: StepContext) -> str:
        return f"{self.stage_phrase(context)}; {largest_number_phrase(context)}"
