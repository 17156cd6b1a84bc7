"""The terms of an explained cell: their factors with their sources, and how the terms combine.

The terms always give the value in the trace: it is their sum, the share of one term in their sum,
or one of two terms.
"""

from __future__ import annotations

import math
from enum import StrEnum, auto
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from visualizer.explanations.step_context import format_trimmed_number, parenthesize_negative
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

CellIndex = tuple[int, ...]


DIVISOR_FORM = "1/{}"
"""Form of a factor that the other factors are divided by."""


class CombinationRule(StrEnum):
    """How the terms give the value: as their sum, a term's share of the sum, or a chosen term."""

    SUM = auto()
    SHARE = auto()
    CHOICE = auto()


class Factor(Struct, frozen=True, eq=False):
    """One factor of each of n terms.

    Parameters
    ----------
    name : str
        The stage or parameter that the factor is read from; empty for a constant.
    index : tuple of int or None
        Index in the stage or parameter, leading axes first; None stands for the term's index.
    read : numpy.ndarray
        The values that are read, [n].
    used : numpy.ndarray
        The values that are multiplied, [n]: the read values, or a function of them.
    form : str
        Format string of a factor, with ``{}`` for the read value.
    shift : float
        Number that is subtracted from the read value before `form` is applied.
    """

    name: str
    index: tuple[int | None, ...]
    read: np.ndarray
    used: np.ndarray
    form: str = "{}"
    shift: float = 0.0

    def source_index(self, term: int) -> CellIndex:
        """Return the index in the stage or parameter from which a term's factor was read."""
        return tuple(term if place is None else place for place in self.index)


class TermGroup(Struct, frozen=True, eq=False, dict=True):
    """Terms of the same kind; each term is the product of its factors."""

    factors: tuple[Factor, ...]

    @cached_property
    def products(self) -> np.ndarray:
        """The products, [n], in float64 or, for the naive softmax, in the trace's dtype."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(math.prod(factor.used for factor in self.factors))


class TermCombination(NamedTuple):
    """The part of an explanation that depends on the operation."""

    rule: CombinationRule
    groups: tuple[TermGroup, ...]
    chosen: int = 0
    is_empty: bool = False


class Explanation(Struct, frozen=True, eq=False, dict=True):
    """One cell of a stage, and the terms that give its value.

    Parameters
    ----------
    cell : tuple of int
        Index of the cell in the stage, leading axes first.
    value : float
        The value in the trace.
    chosen : int
        Index of the chosen term; if the value is a share of the sum, the index of its term.
    is_empty : bool
        Whether all shares are 0, as in a row without allowed keys.
    """

    stage: Stage
    cell: CellIndex
    rule: CombinationRule
    groups: tuple[TermGroup, ...]
    value: float
    chosen: int = 0
    is_empty: bool = False

    @cached_property
    def terms(self) -> np.ndarray:
        """All terms, in the order of the groups."""
        if len(self.groups) == 1:
            return self.groups[0].products
        return np.concatenate([group.products for group in self.groups])

    @cached_property
    def term_magnitudes(self) -> np.ndarray:
        """Absolute values of all terms, with 0 for NaN."""
        sizes: np.ndarray = np.abs(self.terms)
        sizes[np.isnan(sizes)] = 0
        return sizes


class ExplainedCell(Struct, frozen=True, eq=False):
    """A cell of a trace, with methods that read the factors of its terms."""

    trace: Trace
    stage: Stage
    cell: CellIndex

    @property
    def spec(self) -> AttentionSpec:
        return self.trace.spec

    @property
    def leading_index(self) -> CellIndex:
        return self.cell[: len(self.trace.axes)]

    @property
    def index_in_stage(self) -> CellIndex:
        return self.cell[len(self.trace.axes) :]

    def read_factor(self, name: str, *place: int | None, form: str = "{}") -> Factor:
        """Read a factor from a stage; `place` is the index after the leading axes."""
        return self._read_factor(name, (*self.leading_index, *place), form)

    @property
    def layer(self) -> int:
        """Index of the cell's layer in the run."""
        return self.trace.axis_position("layer", self.leading_index)

    def read_layer_factor(self, layer: int, name: str, *place: int | None) -> Factor:
        """Read a factor from another layer; `place` is the index after the leading axes."""
        places = zip(self.trace.axes, self.leading_index, strict=True)
        leading = tuple(layer if axis == "layer" else at for axis, at in places)
        return self._read_factor(name, (*leading, *place), "{}")

    def read_weight(self, name: str, *place: int | None) -> Factor:
        return self._read_factor(name, place, "{}")

    def _read_factor(self, name: str, index: tuple[int | None, ...], form: str) -> Factor:
        whole = tuple(slice(None) if place is None else place for place in index)
        read = np.atleast_1d(self.trace.read(name, whole)).astype(np.float64)
        return Factor(name, index, read, read, form)

    def allowed_keys(self) -> np.ndarray:
        """Return which keys the cell's query may attend to, as a boolean array [key]."""
        head, query, _ = self.index_in_stage
        return self.trace.allowed_mask(self.stage.name, self.leading_index, head, query)


def indices_of_largest(sizes: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the largest numbers without a full sort; ties keep their order."""
    if count >= len(sizes):
        return np.argsort(-sizes, kind="stable")
    least = np.partition(sizes, -count)[-count]
    places = np.flatnonzero(sizes >= least)
    order: np.ndarray = places[np.argsort(-sizes[places], kind="stable")][:count]
    return order


def constant(value: float, form: str) -> Factor:
    """Create a constant factor."""
    number = np.array([value])
    return Factor("", (), number, number, form)


def combine_as_sum(*groups: tuple[Factor, ...]) -> TermCombination:
    """Create terms that sum to the value, in groups of terms with the same factors."""
    return TermCombination(CombinationRule.SUM, tuple(TermGroup(factors) for factors in groups))


def combine_inputs_as_sum(explained: ExplainedCell) -> TermCombination:
    """Create one term for each input: the number in the same cell of the input."""
    reads = explained.stage.reads
    return combine_as_sum(
        *((explained.read_factor(name, *explained.index_in_stage),) for name in reads)
    )


def combine_as_choice(explained: ExplainedCell, otherwise: float, form: str) -> TermCombination:
    """Create two terms, the input cell and its replacement, and choose the allowed one."""
    read = (explained.read_factor(explained.stage.reads[0], *explained.index_in_stage),)
    groups = (TermGroup(read), TermGroup((constant(otherwise, form),)))
    return TermCombination(
        CombinationRule.CHOICE,
        groups,
        0 if explained.allowed_keys()[explained.index_in_stage[-1]] else 1,
    )


MAX_SHOWN_TERMS = 4
"""Number of terms in an equation, unless there is room for more or only for fewer."""


class EquationPart(Struct, frozen=True):
    """A part of an equation; numbers that are read from another stage are highlighted."""

    text: str
    is_highlighted: bool = False


class EquationRightHandSide(Struct, frozen=True):
    """The right-hand side of an equation, before the value.

    Parameters
    ----------
    is_computed_number : bool
        Whether the parts are a computation, so that the value has to be written after them.
    remark : str
        Remark after the value; empty for most operations.
    """

    parts: list[EquationPart]
    is_computed_number: bool = True
    remark: str = ""


class EquationWriter(Struct, frozen=True, eq=False):
    """Writes the terms of an explanation as parts of an equation.

    Parameters
    ----------
    most : int
        Maximum number of terms; half as many if each term contains a subtraction.
    """

    trace: Trace
    explanation: Explanation
    most: int = MAX_SHOWN_TERMS

    def term_factors(self, position: int) -> tuple[tuple[Factor, ...], int]:
        """Return the factors of a term, and the index of the term in its group."""
        for group in self.explanation.groups:
            if position < len(group.products):
                return group.factors, position
            position -= len(group.products)
        raise IndexError(position)

    def write_number(self, factor: Factor, at: int) -> EquationPart:
        """Return the read value of a factor."""
        value = float(factor.read[at if len(factor.read) > 1 else 0])
        text = format_number(value) if factor.name else format_trimmed_number(value)
        is_other_stage = factor.name in self.trace and factor.name != self.explanation.stage.name
        return EquationPart(text, is_other_stage)

    def write_factor(self, factor: Factor, at: int, is_first: bool) -> list[EquationPart]:
        part = self.write_number(factor, at)
        before, _, after = factor.form.partition("{}")
        if before.endswith("("):  # a function of the number
            return [EquationPart(before), part, EquationPart(f"{_format_shift(factor)}{after}")]
        if parenthesize_negative(part.text) != part.text and not is_first:
            return [EquationPart("("), part, EquationPart(")")]
        return [part]

    def write_term(self, position: int, is_first: bool) -> list[EquationPart]:
        """Return the product of a term's factors."""
        factors, at = self.term_factors(position)
        return [
            *self.write_factor(factors[0], at, is_first),
            *self.write_multiplied_factors(factors[1:], at),
        ]

    def write_multiplied_factors(self, factors: tuple[Factor, ...], at: int) -> list[EquationPart]:
        """Write factors that follow another factor, each preceded by its operator."""
        parts: list[EquationPart] = []
        for factor in factors:
            sign = " ÷ " if factor.form == DIVISOR_FORM else " × "
            used = Factor(factor.name, factor.index, factor.read, factor.used)
            if factor.form.startswith("1/("):  # the scale factor of dropout
                used = Factor("", (), factor.used, factor.used)
            parts += [EquationPart(sign), *self.write_factor(used, at, False)]
        return parts

    def write_sum(self, *, omit_zeros: bool) -> list[EquationPart]:
        """Write the largest terms in order, with dots for omitted terms and their number."""
        order, omitted = self.select_terms(omit_zeros)
        parts: list[EquationPart] = []
        reached = -1
        for written, position in enumerate(order):
            is_gap = bool(((omitted > reached) & (omitted < position)).any())
            dots = "… + " if is_gap and not written else " + … + " if is_gap else " + "
            parts += [EquationPart(dots)] * (written > 0 or is_gap)
            parts += self.write_term(position, written == 0 and not is_gap)
            reached = position
        if not len(omitted):
            return parts
        dots = " + …" if omitted[-1] > reached else ""
        return [*parts, EquationPart(f"{dots} ({len(omitted):,} more)")]

    def select_terms(self, omit_zeros: bool) -> tuple[list[int], np.ndarray]:
        """Return the indices of the terms to write and of the omitted terms, in ascending order.

        With `omit_zeros`, terms that are 0 are in neither list.
        """
        explanation = self.explanation
        terms, chosen = explanation.terms, explanation.chosen
        is_share = explanation.rule is CombinationRule.SHARE
        places = np.arange(len(terms))
        if omit_zeros:
            adds = terms != 0
            adds[chosen] |= is_share or not adds.any()
            places = places[adds]
        is_shifted = is_share and bool(_format_shift(self.term_factors(0)[0][0]))
        most = max(1, self.most // 2) if is_shifted else self.most
        order = places[indices_of_largest(explanation.term_magnitudes[places], most)].tolist()
        if is_share and chosen not in order:
            order[-1] = chosen
        return sorted(order), places[np.isin(places, order, invert=True)]


def _format_shift(factor: Factor) -> str:
    """Format the subtraction in the argument of a factor's function, if there is one."""
    is_subtracted = 0 < abs(factor.shift) < np.inf
    return (
        f" − {parenthesize_negative(format_trimmed_number(factor.shift))}" if is_subtracted else ""
    )


def sum_equation(writer: EquationWriter) -> EquationRightHandSide:
    """Write a sum of terms."""
    return EquationRightHandSide(writer.write_sum(omit_zeros=False))


def key_sum_equation(writer: EquationWriter) -> EquationRightHandSide:
    """Write a sum over the keys, without terms that are 0."""
    return EquationRightHandSide(writer.write_sum(omit_zeros=True))


def copied_equation(writer: EquationWriter, how: str) -> EquationRightHandSide:
    """Write a number that was copied instead of computed, and a remark on its source."""
    factors, _ = writer.term_factors(0)
    return EquationRightHandSide(
        [writer.write_number(factors[0], 0), EquationPart(f", {how}")], False
    )


def empty_row_equation() -> EquationRightHandSide:
    """Write the weight in a row in which all weights are 0."""
    return EquationRightHandSide([EquationPart("0, because the row is empty")], False)


def share_equation(writer: EquationWriter) -> EquationRightHandSide:
    """Write one term divided by the sum of all terms."""
    if writer.explanation.is_empty:
        return empty_row_equation()
    over = writer.write_term(writer.explanation.chosen, is_first=True)
    below = writer.write_sum(omit_zeros=True)
    if len(writer.select_terms(omit_zeros=True)[0]) > 1:
        below = [EquationPart("("), *below, EquationPart(")")]
    return EquationRightHandSide([*over, EquationPart(" ÷ "), *below])


def masked_equation(writer: EquationWriter) -> EquationRightHandSide:
    """Write an allowed cell, or the replacement of a forbidden cell."""
    if writer.explanation.chosen == 0:
        return copied_equation(writer, "unchanged because it is allowed")
    return replacement_equation(writer, "because it is masked")


def replacement_equation(writer: EquationWriter, why: str) -> EquationRightHandSide:
    """Write the replacement of a number, and the reason for it."""
    (factors, _), (otherwise, _) = writer.term_factors(0), writer.term_factors(1)
    instead = EquationPart(f"{otherwise[0].form} in place of ")
    return EquationRightHandSide(
        [instead, writer.write_number(factors[0], 0), EquationPart(f", {why}")], False
    )
