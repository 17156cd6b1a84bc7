"""Sentences and formulas that several operations share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.number_format import format_number, format_share

if TYPE_CHECKING:
    from visualizer.explanations.cell_facts import CellFacts


def weights_sentence(facts: CellFacts) -> str:
    """Describe how strongly a query attends to a key, or why it may not."""
    qualifier = facts.run.trace.weights_qualifier(facts.cell.stage)
    before = f"{qualifier.capitalize()}, " * bool(qualifier)
    is_before_mask = facts.explanation.stage.is_before_mask
    attends = "would attend" if is_before_mask else "attends"
    if facts.is_forbidden:
        why = "it is padding" if facts.is_padding else "it is masked"
        return f"{facts.token('query')} may not attend to {facts.token('key')}: {why}."
    if not np.isfinite(facts.value):
        return f"{facts.token('query')} has no weights: its row cannot be computed."
    is_share = 0 <= facts.value <= 1
    weight = format_share(facts.value) if is_share else format_number(facts.value)
    pair = f"{facts.token('query')} {attends} to {facts.token('key')}"
    return f"{before}{pair} with weight {weight}."


def vector_column(facts: CellFacts, name: str) -> str:
    """Describe a column of a vector that was given or looked up."""
    column = f"Column {facts.column} of the {name} of {facts.token('token')}"
    return f"{column} is {format_number(facts.value)}."


def with_bias(facts: CellFacts, formula: str) -> str:
    """Add the bias to a projection's formula, if there is one."""
    return f"{formula} + bias" if len(facts.explanation.groups) > 1 else formula
