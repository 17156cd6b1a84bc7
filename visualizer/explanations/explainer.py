"""Base class of the explanations of one operation: terms, sentences, formula, equation and code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from visualizer.explanations.cell_terms import sum_equation
from visualizer.explanations.phrases import column_name, largest_number_phrase
from visualizer.explanations.step_values import format_vector
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Operation, Stage
    from visualizer.explanations.cell_facts import CellInfo
    from visualizer.explanations.cell_terms import (
        EquationTerm,
        EquationTermWriter,
        ExplainedCell,
        TermList,
    )
    from visualizer.explanations.code_dialects import ExpressionContext
    from visualizer.explanations.phrases import WeightShape
    from visualizer.explanations.step_values import StepContext


class Explainer(ABC):
    """Sentences, formulas and code that describe one operation and its numbers."""

    operation: ClassVar[Operation]

    @abstractmethod
    def terms(self, explained: ExplainedCell) -> TermList:
        """Return the terms that add up to a cell's value."""

    @abstractmethod
    def explain_cell(self, facts: CellInfo) -> str:
        """Describe a cell, with the tokens in bold (HTML)."""

    @abstractmethod
    def row_sentence(self, block: StepContext) -> str:
        """Describe the computation of a row, without the head and the full stop."""

    @abstractmethod
    def stage_sentence(self, block: StepContext) -> str:
        """Describe the computation of a whole stage, without the head and the full stop."""

    @abstractmethod
    def formula(self, facts: CellInfo) -> str:
        """Write the operation for the Explain pane, in words and symbols."""

    def term_name(self, facts: CellInfo, at: int) -> str:
        """Return the name of a term, counted from 0; empty if it is named after its input."""
        return ""

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        """Write the computation of a cell with its numbers; a sum of products by default."""
        return sum_equation(line)

    def code(self, context: ExpressionContext) -> str:
        """Write the expression that computes the stage, with the names of a dialect.

        Empty by default: stages that are read from a file or a model have no code.
        """
        return ""

    def helpers(self, context: ExpressionContext) -> dict[str, str]:
        """Return the lines that the code needs, by the name that each defines; usually none."""
        return {}

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        """Write how the shapes of one text change; nothing if the shape stays the same."""
        return ()

    def multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        """Count the multiply-adds of the matrix product for one text: rows × between × columns."""
        return 0

    def parameter(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        """Return the weights that the operation uses; None for most operations."""
        return None


class VectorExplainer(Explainer):
    """Base class for operations that compute vectors, with one phrase for each sentence."""

    row_joint: ClassVar[str] = ": "
    """Joins the phrase of a row to its vector."""

    @abstractmethod
    def column_phrase(self, facts: CellInfo) -> str:
        """Describe the computation of a cell, as the predicate of a column."""

    @abstractmethod
    def row_phrase(self, block: StepContext) -> str:
        """Describe the computation of a row, without its numbers."""

    @abstractmethod
    def stage_phrase(self, block: StepContext) -> str:
        """Describe the computation of a whole stage, without its largest number."""

    def explain_cell(self, facts: CellInfo) -> str:
        return f"{column_name(facts)} {self.column_phrase(facts)}: {format_number(facts.value)}."

    def row_sentence(self, block: StepContext) -> str:
        return f"{self.row_phrase(block)}{self.row_joint}{format_vector(block.row())}"

    def stage_sentence(self, block: StepContext) -> str:
        return f"{self.stage_phrase(block)}; {largest_number_phrase(block)}"
