"""What a cell means, in one plain sentence with the real words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.masks import allowed
from visualizer.attention.stages import Operation
from visualizer.explanations.phrases import all_heads
from visualizer.explanations.step_values import trimmed
from visualizer.language.tokenizers import visible
from visualizer.number_format import format_count, format_number, format_share, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.explain import Explanation
    from visualizer.attention.run import Run
    from visualizer.session.cell_address import Cell


@dataclass(frozen=True, slots=True, eq=False)
class CellFacts:
    """A cell with the words for its parts."""

    run: Run
    text: int
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
        return shorten(visible(self.run.words(self.text, dim)[at]))

    @property
    def in_head(self) -> str:
        heads = self.run.trace.spec.heads
        return f" in head {self.place['head'] + 1}" if "head" in self.place and heads > 1 else ""

    @property
    def column(self) -> int:
        return self.cell.place[-1] + 1

    @property
    def is_forbidden(self) -> bool:
        cells = allowed(self.run.trace.spec, self.run.trace.tokens, self.cell.stage)
        cells = cells[self.text, 0] if cells.ndim > 2 else cells
        return not cells[self.place["query"], self.place["key"]]

    @property
    def is_padding(self) -> bool:
        lengths = self.run.trace.spec.lengths
        return bool(lengths) and self.place["key"] >= lengths[self.text]


def _weights_sentence(told: CellFacts) -> str:
    is_before = told.cell.stage == "unmasked"
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


def _scores_sentence(told: CellFacts) -> str:
    score = format_number(told.value)
    pair = f"The query of {told.token('query')} meets the key of {told.token('key')}"
    return f"{pair}: their score is {score}."


def _scaled_sentence(told: CellFacts) -> str:
    divisor = trimmed(told.run.trace.spec.divisor)
    pair = f"{told.token('query')} and {told.token('key')}"
    score = format_number(float(told.explanation.groups[0].factors[0].read[0]))
    return f"The score of {pair}, {score}, divided by {divisor} is {format_number(told.value)}."


def _masked_sentence(told: CellFacts) -> str:
    if told.is_forbidden:
        pair = f"{told.token('query')} may not read {told.token('key')}"
        return f"{pair}: its score becomes −∞, so its weight will be 0."
    return f"{told.token('query')} may read {told.token('key')}: its score stays."


def _dropped_sentence(told: CellFacts) -> str:
    weight = f"the weight of {told.token('query')} for {told.token('key')}"
    before = told.explanation.groups[0].factors[0].read[0]
    if before == 0:
        return f"There was nothing to drop: {weight} is 0."
    if told.value == 0:
        return f"Dropout takes away {weight}: {format_number(before)} becomes 0."
    factor = 1 / (1 - told.run.trace.spec.dropout)
    times = f"{format_number(before)} times {factor:.4g} is {format_number(told.value)}"
    return f"Dropout keeps {weight}: {times}."


def _context_sentence(told: CellFacts) -> str:
    vector = f"Column {told.column} of the context vector of {told.token('query')}{told.in_head}"
    adds = f"adds up column {told.column} of the values, each times its weight"
    return f"{vector} {adds}: {format_number(told.value)}."


def _vector_sentence(told: CellFacts) -> str:
    stage = told.explanation.stage
    kind = {"queries": "query", "keys": "key", "values": "value"}[stage.name]
    token, value = told.token("token"), format_number(told.value)
    if stage.operation is Operation.SPLIT:
        column = f"Column {told.column} of the {kind} of {token}{told.in_head}"
        return f"{column} is taken from its input, as there is no projection: {value}."
    bias = ", plus a bias," if len(told.explanation.groups) > 1 else ""
    made = f"The input vector of {token} times {_column_of_weights(told)}{bias}"
    return f"{made} gives column {told.column} of its {kind}{told.in_head}: {value}."


def _column_of_weights(told: CellFacts) -> str:
    """Name the very column that was read: split heads lie side by side in one matrix."""
    weights = told.explanation.groups[0].factors[1]
    column = next(at for at in weights.index if at is not None) + 1
    *_, layer = weights.name.removesuffix(".weight").split(".")
    whose = f"this head’s {layer}" if weights.name.startswith("heads.") else layer
    return f"column {column} of {whose}"


def _input_sentence(told: CellFacts) -> str:
    token, value = told.token("token"), format_number(told.value)
    if told.explanation.stage.operation is Operation.ADD:
        column = f"Column {told.column} of the input of {token}"
        return f"{column} is its embedding plus its position: {value}."
    is_position = told.explanation.stage.operation is Operation.POSITION
    name = "position" if is_position else "vector"
    return f"Column {told.column} of the {name} of {token} is {value}."


def _concat_sentence(told: CellFacts) -> str:
    head = told.cell.place[-1] // told.run.trace.spec.d_head + 1
    column, value = f"olumn {told.column} of {told.token('query')}", format_number(told.value)
    if told.run.trace.spec.heads == 1:
        return f"With one head, c{column} goes on as it is: {value}."
    return f"C{column}, with all heads side by side, comes from head {head}: {value}."


def _output_sentence(told: CellFacts) -> str:
    spec = told.run.trace.spec
    heads = "the one head" if spec.heads == 1 else all_heads(spec)
    made = "is made of" if spec.width == 1 else "mixes"
    mixed = f"{made} the {format_count(spec.width, 'number')} from {heads}"
    column = f"Column {told.column} of the output for {told.token('query')}"
    return f"{column} {mixed}: {format_number(told.value)}."


def _captured_sentence(told: CellFacts) -> str:
    captured, stage = told.run.captured, told.explanation.stage
    kind, name = stage.title.lower().removesuffix("s"), escape(captured.called) if captured else ""
    source = f" This {kind} was read from {name}."
    query, key = (_numbered(told, dim) or told.token(dim) for dim in ("query", "key"))
    pair = f"{query} and {key}"
    if np.isnan(told.value):
        return f"For {pair} there is no number.{source}"
    if stage.is_weights and 0 <= told.value <= 1:
        query = query.replace("<b>query", "<b>Query", 1) if _numbered(told, "query") else query
        return f"{query} reads {format_share(told.value)} from {key}.{source}"
    return f"The {kind} of {pair} is {format_number(told.value)}.{source}"


def _numbered(told: CellFacts, dim: str) -> str:
    """Name a place by its number, where no token of it is known; else by nothing."""
    at = told.place[dim]
    return f"<b>{dim} {at + 1}</b>" if told.word(at, dim) == str(at + 1) else ""


SENTENCES: dict[Operation, Callable[[CellFacts], str]] = {
    Operation.GIVEN: _input_sentence,
    Operation.POSITION: _input_sentence,
    Operation.ADD: _input_sentence,
    Operation.PROJECT: _vector_sentence,
    Operation.SPLIT: _vector_sentence,
    Operation.DOT: _scores_sentence,
    Operation.SCALE: _scaled_sentence,
    Operation.FORBID: _masked_sentence,
    Operation.NORMALISE: _weights_sentence,
    Operation.AVERAGE: _weights_sentence,
    Operation.ZERO: _weights_sentence,
    Operation.RENORMALISE: _weights_sentence,
    Operation.DROP: _dropped_sentence,
    Operation.MIX: _context_sentence,
    Operation.JOIN: _concat_sentence,
    Operation.PROJECT_OUT: _output_sentence,
    Operation.CAPTURED: _captured_sentence,
}
