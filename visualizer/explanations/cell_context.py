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
    def place(self) -> dict[str, int]:
        return dict(zip(self.explanation.stage.dims, self.cell.place, strict=True))

    @property
    def layer(self) -> int:
        """Index of the cell's layer in the run."""
        return self.run.trace.axis_position("layer", self.leading)

    @property
    def value(self) -> float:
        return self.explanation.value

    def token(self, dim: str) -> str:
        at = self.place[dim]
        kind = "position" if dim == "token" else dim
        return f"<b>{escape(self.word(at, dim))}</b> ({kind} {self.run.number(at, dim)})"

    def word(self, at: int, dim: str = "query") -> str:
        return shorten(visible_token(self.run.words(self.leading, dim)[at]))

    @property
    def head_phrase(self) -> str:
        heads = self.run.trace.spec.heads
        return f" in head {self.place['head'] + 1}" if "head" in self.place and heads > 1 else ""

    def with_head(self, sentence: str) -> str:
        """Return a sentence about the cell that names its head, if there are several."""
        if not self.head_phrase or self.head_phrase in sentence:
            return sentence
        return f"{self.head_phrase.strip().capitalize()}, {sentence[0].lower()}{sentence[1:]}"

    @property
    def column(self) -> int:
        return self.cell.place[-1] + 1

    @property
    def is_forbidden(self) -> bool:
        where = self.cell.stage, self.leading, self.cell.head, self.place["query"]
        return not self.run.trace.allowed(*where)[self.place["key"]]

    @property
    def is_padding(self) -> bool:
        lengths = self.run.trace.spec.lengths
        text = self.run.trace.axis_position("text", self.leading)
        return bool(lengths) and self.place["key"] >= lengths[text]
