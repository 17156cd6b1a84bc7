"""Writes the terms of a cell's equation with their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.explanations.cell_terms import (
    CombinationRule,
    Explanation,
    Factor,
    indices_of_largest,
)
from visualizer.explanations.step_values import format_trimmed, parenthesize_negative
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace

MAX_SHOWN_TERMS = 4

# exp of anything larger overflows float32; exp of the negative is almost 0.
MAX_EXPONENT = 88.0
MAX_SHOWN_SHIFTED_TERMS = 2


class EquationPart(Struct, frozen=True):
    """A part of the line; if lit, it is a number read from a panel, which is highlighted."""

    text: str
    is_highlighted: bool = False


class EquationTerm(Struct, frozen=True):
    """One term of a line, with its parts; `is_computed_number` if it is a computed number."""

    parts: list[EquationPart]
    is_computed_number: bool = True


class EquationTermWriter(Struct, frozen=True, eq=False):
    """Writes the terms of an explanation."""

    trace: Trace
    explanation: Explanation

    @property
    def factors(self) -> list[tuple[tuple[Factor, ...], int]]:
        """The factors of each term, with the index of the term in its group."""
        groups = self.explanation.groups
        return [(group.factors, at) for group in groups for at in range(len(group.terms))]

    def read(self, factor: Factor, at: int) -> EquationPart:
        """Return the number that was read."""
        value = float(factor.read[at if len(factor.read) > 1 else 0])
        is_lit = factor.name in self.trace and factor.name != self.explanation.stage.name
        return EquationPart(format_number(value) if factor.name else format_trimmed(value), is_lit)

    def factor(self, factor: Factor, at: int, is_first: bool) -> list[EquationPart]:
        part = self.read(factor, at)
        before, _, after = factor.form.partition("{}")
        if before.endswith("("):  # a function of the number
            return [EquationPart(before), part, EquationPart(f"{_format_shift(factor)}{after}")]
        if parenthesize_negative(part.text) != part.text and not is_first:
            return [EquationPart("("), part, EquationPart(")")]
        return [part]

    def term(self, position: int, is_first: bool) -> list[EquationPart]:
        """Return the product of a term's factors."""
        factors, at = self.factors[position]
        parts = self.factor(factors[0], at, is_first)
        for factor in factors[1:]:
            sign = " ÷ " if factor.form == "1/{}" else " × "
            used = Factor(factor.name, factor.index, factor.read, factor.used)
            if factor.form.startswith("1/("):  # the scale factor of dropout
                used = Factor("", (), factor.used, factor.used)
            parts += [EquationPart(sign), *self.factor(used, at, False)]
        return parts

    def sum(self, *, leaves_out_zeros: bool) -> list[EquationPart]:
        """Return the largest terms in their order, and how many are omitted."""
        order, left = self.shown(leaves_out_zeros)
        parts: list[EquationPart] = []
        for number_, position in enumerate(order):
            parts += [EquationPart(" + ")] * (number_ > 0) + self.term(position, number_ == 0)
        return parts + [EquationPart(f" + … {left:,} more")] * (left > 0)

    def shown(self, leaves_out_zeros: bool) -> tuple[list[int], int]:
        """Choose the terms to write and count the rest; zeros may be left out of both."""
        explanation = self.explanation
        terms, chosen = explanation.terms, explanation.chosen
        is_share = explanation.rule is CombinationRule.SHARE
        places = np.arange(len(terms))
        if leaves_out_zeros:
            adds = terms != 0
            adds[chosen] |= is_share or not adds.any()
            places = places[adds]
        most = (
            MAX_SHOWN_SHIFTED_TERMS
            if is_share and _format_shift(self.factors[0][0][0])
            else MAX_SHOWN_TERMS
        )
        order = places[indices_of_largest(explanation.sizes[places], most)].tolist()
        if is_share and chosen not in order:
            order[-1] = chosen
        return sorted(order), len(places) - len(order)


def _format_shift(factor: Factor) -> str:
    """Format the number that is subtracted first, if the equation would be wrong without it."""
    is_needed = MAX_EXPONENT < abs(factor.shift) < np.inf
    return f" − {parenthesize_negative(format_trimmed(factor.shift))}" if is_needed else ""


def sum_equation(line: EquationTermWriter) -> EquationTerm:
    """Write a sum of terms."""
    return EquationTerm(line.sum(leaves_out_zeros=False))


def key_sum_equation(line: EquationTermWriter) -> EquationTerm:
    """Write a sum over all keys; keys without attention weight add nothing."""
    return EquationTerm(line.sum(leaves_out_zeros=True))


def copied_equation(line: EquationTermWriter, how: str) -> EquationTerm:
    """Write a number that was copied instead of computed, and its source."""
    factors, _ = line.factors[0]
    return EquationTerm([line.read(factors[0], 0), EquationPart(f", {how}")], False)


def empty_row_equation() -> EquationTerm:
    """Write the share of a row without any weights."""
    return EquationTerm([EquationPart("0, as the row is empty")], False)


def share_equation(line: EquationTermWriter) -> EquationTerm:
    """Write one term divided by the sum of all terms."""
    if line.explanation.is_empty:
        return empty_row_equation()
    over = line.term(line.explanation.chosen, is_first=True)
    below = line.sum(leaves_out_zeros=True)
    if len(line.shown(leaves_out_zeros=True)[0]) > 1:
        below = [EquationPart("("), *below, EquationPart(")")]
    return EquationTerm([*over, EquationPart(" ÷ "), *below])


def masked_equation(line: EquationTermWriter) -> EquationTerm:
    """Write a cell that the mask keeps, or the replacement of one that it forbids."""
    if line.explanation.chosen == 0:
        return copied_equation(line, "allowed: unchanged")
    return replacement_equation(line, "as it is masked")


def replacement_equation(line: EquationTermWriter, why: str) -> EquationTerm:
    """Write the replacement of a number, and the reason."""
    (factors, _), (otherwise, _) = line.factors
    instead = EquationPart(f"{otherwise[0].form} in place of ")
    return EquationTerm([instead, line.read(factors[0], 0), EquationPart(f", {why}")], False)
