"""An explained cell, and the names that a sentence about it needs."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.format import shorten
from visualizer.language.tokenizers import visible_token

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.explanations.cell_terms import Explanation
    from visualizer.session.cell_address import Cell


class CellContext(Struct, frozen=True, eq=False):
    """An explained cell, with the names of its tokens, head and column."""

    run: Run
    leading: LeadingIndex
    cell: Cell
    explanation: Explanation

    @property
    def position_by_axis(self) -> dict[str, int]:
        return dict(zip(self.explanation.stage.dims, self.cell.place, strict=True))

    @property
    def layer(self) -> int:
        """Index of the cell's layer in the run."""
        return self.run.trace.axis_position("layer", self.leading)

    @property
    def value(self) -> float:
        return self.explanation.value

    def describe_token(self, dim: str) -> str:
        at = self.position_by_axis[dim]
        kind = "position" if dim == "token" else dim
        return (
            f"<b>{escape(self.format_token(at, dim))}</b> ({kind} {self.run.token_number(at, dim)})"
        )

    def format_token(self, at: int, dim: str = "query") -> str:
        return shorten(visible_token(self.run.axis_tokens(self.leading, dim)[at]))

    @property
    def head_phrase(self) -> str:
        heads = self.run.trace.spec.heads
        return (
            f" in head {self.position_by_axis['head'] + 1}"
            if "head" in self.position_by_axis and heads > 1
            else ""
        )

    def with_head(self, sentence: str) -> str:
        """Return a sentence about the cell that names its head, if there are several."""
        if not self.head_phrase or self.head_phrase in sentence:
            return sentence
        return f"{self.head_phrase.strip().capitalize()}, {sentence[0].lower()}{sentence[1:]}"

    @property
    def column_number(self) -> int:
        return self.cell.place[-1] + 1

    @property
    def is_forbidden(self) -> bool:
        where = self.cell.stage, self.leading, self.cell.head, self.position_by_axis["query"]
        return not self.run.trace.allowed_mask(*where)[self.position_by_axis["key"]]

    @property
    def is_padding(self) -> bool:
        lengths = self.run.trace.spec.lengths
        text = self.run.trace.axis_position("text", self.leading)
        return bool(lengths) and self.position_by_axis["key"] >= lengths[text]
