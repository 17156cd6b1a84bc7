"""Base class of the explanations of one operation: terms, sentences, formula, equation and code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from visualizer.explanations.cell_terms import sum_equation

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
    from visualizer.explanations.phrases import ShapeParameter
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
        """Write the operation for the Cell pane, in words and symbols."""

    def term_name(self, facts: CellInfo, at: int) -> str:
        """Name a term of a cell, counted from 0; if empty, the term is named after its input."""
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

    def parameter(self, spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
        """Return the weights that the operation uses; None for most operations."""
        return None
