"""A cell with the words for its parts, and what the sentences of several operations share."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.tokenizers import visible
from visualizer.number_format import format_number, format_share, shorten

if TYPE_CHECKING:
    from visualizer.attention.explain import Explanation
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.cell_address import Cell


@dataclass(frozen=True, slots=True, eq=False)
class CellFacts:
    """A cell with the words for its parts."""

    run: Run
    leading: LeadingIndex
    cell: Cell
    explanation: Explanation

    @property
    def place(self) -> dict[str, int]:
        return dict(zip(self.explanation.stage.dims, self.cell.place, strict=True))

    @property
    def value(self) -> float:
        return self.explanation.value

    def token(self, dim: str) -> str:
        at = self.place[dim]
        kind = "place" if dim == "token" else dim
        return f"<b>{escape(self.word(at, dim))}</b> ({kind} {at + 1})"

    def word(self, at: int, dim: str = "query") -> str:
        return shorten(visible(self.run.words(self.leading, dim)[at]))

    @property
    def in_head(self) -> str:
        heads = self.run.trace.spec.heads
        return f" in head {self.place['head'] + 1}" if "head" in self.place and heads > 1 else ""

    @property
    def column(self) -> int:
        return self.cell.place[-1] + 1

    @property
    def is_forbidden(self) -> bool:
        cells = self.run.trace.allowed(self.cell.stage, self.leading)
        return not cells[self.place["query"], self.place["key"]]

    @property
    def is_padding(self) -> bool:
        lengths = self.run.trace.spec.lengths
        text = self.run.trace.at("text", self.leading)
        return bool(lengths) and self.place["key"] >= lengths[text]


def weights_sentence(told: CellFacts) -> str:
    """Say how much a query reads of a key, or why it may not."""
    is_before = told.explanation.stage.is_before_mask
    before, reads = ("Before the mask, ", "would read") if is_before else ("", "reads")
    if told.is_forbidden:
        why = "it is padding" if told.is_padding else "the mask forbids it"
        return f"{told.token('query')} may not read {told.token('key')}: {why}."
    if not np.isfinite(told.value):
        return f"{told.token('query')} has no weights: its row cannot be worked out."
    if not 0 <= told.value <= 1:
        gives, weight = "would give" if is_before else "gives", format_number(told.value)
        return f"{before}{told.token('query')} {gives} {told.token('key')} the weight {weight}."
    share = format_share(told.value)
    return f"{before}{told.token('query')} {reads} {share} from {told.token('key')}."


def vector_column(told: CellFacts, name: str) -> str:
    """Say what stands in a column of a vector that was given or looked up."""
    column = f"Column {told.column} of the {name} of {told.token('token')}"
    return f"{column} is {format_number(told.value)}."


def with_bias(told: CellFacts, formula: str) -> str:
    """Add the bias to a projection's formula, where it has one."""
    return f"{formula} + bias" if len(told.explanation.groups) > 1 else formula
