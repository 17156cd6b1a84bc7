"""The calculation of a step's leading cell on one line, with the numbers in it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.explanations.cell_equation_writer import EquationPart, EquationTermWriter
from visualizer.explanations.explain import explain
from visualizer.explanations.operation_registry import TEXTS
from visualizer.number_format import format_number
from visualizer.session.timeline import described_cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.timeline import Step


class Equation(Struct, frozen=True):
    """One line: a name, equals, parts, equals, the result.

    Parameters
    ----------
    left : str
        Name of the cell.
    result : str
        Empty if nothing is computed and the parts are the result, as for a table lookup.
    """

    left: str
    parts: tuple[EquationPart, ...]
    result: str

    @property
    def plain(self) -> str:
        """The line as plain text."""
        terms = "".join(part.text for part in self.parts)
        return " = ".join(filter(None, (self.left, terms, self.result)))


def equation(run: Run, leading: LeadingIndex, step: Step, head: int) -> Equation:
    """Write the computation of the leading cell of a step."""
    trace = run.trace
    place = described_cell(run, leading, step, head)
    explanation = explain(trace, step.stage, (*leading, *place))
    written = TEXTS[explanation.stage.operation].equation(EquationTermWriter(trace, explanation))
    parts = tuple(
        EquationPart("".join(part.text for part in alike), is_lit)
        for is_lit, alike in groupby(written.parts, lambda part: part.is_lit)
    )
    result = format_number(explanation.value) if written.is_reckoned else ""
    return Equation(explanation.stage.noun, parts, result)
