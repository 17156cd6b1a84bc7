"""The terms of a cell: its factors, how they combine, and where each was read; imports no torch.

The terms of an explanation always reproduce the traced value: as their sum, as one term's share of
the sum, or as the one chosen from two terms.
"""

from __future__ import annotations

import math
from enum import StrEnum, auto
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from visualizer.explanations.step_values import format_trimmed, parenthesize_negative
from visualizer.format import format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

CellIndex = tuple[int, ...]


class CombinationRule(StrEnum):
    """How terms combine to the value: a sum, one term's share of the sum, or one chosen term."""

    SUM = auto()
    SHARE = auto()
    CHOICE = auto()


class Factor(Struct, frozen=True, eq=False):
    """One factor of each of n terms.

    Parameters
    ----------
    name : str
        The stage or parameter that is read; empty for a constant.
    index : tuple of int or None
        Its index, leading axes first; None stands for the number of the term.
    read : numpy.ndarray
        The values read, [n].
    used : numpy.ndarray
        The values in the product, [n]: those read, or a function of them.
    form : str
        Format string of a factor, with ``{}`` for the value read.
    shift : float
        Number that is subtracted from the value read before `form` is applied to it.
    """

    name: str
    index: tuple[int | None, ...]
    read: np.ndarray
    used: np.ndarray
    form: str = "{}"
    shift: float = 0.0

    def source(self, term: int) -> CellIndex:
        """Return the index in `name` from which a term's factor was read."""
        return tuple(term if place is None else place for place in self.index)


class TermGroup(Struct, frozen=True, eq=False, dict=True):
    """Terms of the same kind, each the product of its factors."""

    factors: tuple[Factor, ...]

    @cached_property
    def terms(self) -> np.ndarray:
        """The products, [n]: float64, or the trace's own type where that overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(math.prod(factor.used for factor in self.factors))


class TermList(NamedTuple):
    """The operation-dependent part of an explanation."""

    rule: CombinationRule
    groups: tuple[TermGroup, ...]
    chosen: int = 0
    is_empty: bool = False


class Explanation(Struct, frozen=True, eq=False, dict=True):
    """One cell of a stage, and the terms that give its value.

    Parameters
    ----------
    cell : tuple of int
        Its index in the stage, leading axes first.
    value : float
        The value in the trace.
    chosen : int
        Number of the term whose share the value is, or of the chosen term.
    is_empty : bool
        Whether all shares are 0, as in a row whose keys are all forbidden.
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
        """All terms, group after group."""
        if len(self.groups) == 1:
            return self.groups[0].terms
        return np.concatenate([group.terms for group in self.groups])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Absolute values of all terms; NaN counts as 0."""
        sizes: np.ndarray = np.abs(self.terms)
        sizes[np.isnan(sizes)] = 0
        return sizes


class ExplainedCell(Struct, frozen=True, eq=False):
    """A cell of a trace, with methods that read its factors."""

    trace: Trace
    stage: Stage
    cell: CellIndex

    @property
    def spec(self) -> AttentionSpec:
        return self.trace.spec

    @property
    def leading(self) -> CellIndex:
        return self.cell[: len(self.trace.axes)]

    @property
    def place(self) -> CellIndex:
        return self.cell[len(self.trace.axes) :]

    def factor(self, name: str, *place: int | None, form: str = "{}") -> Factor:
        """Read a factor from a stage at an index into its named dims."""
        return self._read_factor(name, (*self.leading, *place), form)

    @property
    def layer(self) -> int:
        """Index of its layer in the run."""
        return self.trace.axis_position("layer", self.leading)

    def read_layer_factor(self, layer: int, name: str, *place: int | None) -> Factor:
        """Read a factor from another layer's stage at an index into its named dims."""
        places = zip(self.trace.axes, self.leading, strict=True)
        leading = tuple(layer if axis == "layer" else at for axis, at in places)
        return self._read_factor(name, (*leading, *place), "{}")

    def weight(self, name: str, *place: int | None) -> Factor:
        return self._read_factor(name, place, "{}")

    def _read_factor(self, name: str, index: tuple[int | None, ...], form: str) -> Factor:
        whole = tuple(slice(None) if place is None else place for place in index)
        read = np.atleast_1d(self.trace.read(name, whole)).astype(np.float64)
        return Factor(name, index, read, read, form)

    def allowed(self) -> np.ndarray:
        """Return which keys the cell's query may attend to, boolean [key]."""
        head, query, _ = self.place
        return self.trace.allowed(self.stage.name, self.leading, head, query)


def indices_of_largest(sizes: np.ndarray, count: int) -> np.ndarray:
    """Return the indices of the largest numbers without a full sort; ties keep their order."""
    if count >= len(sizes):
        return np.argsort(-sizes, kind="stable")
    least = np.partition(sizes, -count)[-count]
    places = np.flatnonzero(sizes >= least)
    order: np.ndarray = places[np.argsort(-sizes[places], kind="stable")][:count]
    return order


def constant(value: float, form: str) -> Factor:
    """Create a factor that is a constant."""
    number = np.array([value])
    return Factor("", (), number, number, form)


def sum_terms(*groups: tuple[Factor, ...]) -> TermList:
    """Create terms whose sum is the value; each group has the same factors."""
    return TermList(CombinationRule.SUM, tuple(TermGroup(factors) for factors in groups))


def added_inputs(explained: ExplainedCell) -> TermList:
    """Create one term for each input: the number in the same cell."""
    reads = explained.stage.reads
    return sum_terms(*((explained.factor(name, *explained.place),) for name in reads))


def choice_terms(explained: ExplainedCell, otherwise: float, form: str) -> TermList:
    """Create two terms: the input cell if it is allowed, and its replacement otherwise."""
    read = (explained.factor(explained.stage.reads[0], *explained.place),)
    groups = (TermGroup(read), TermGroup((constant(otherwise, form),)))
    return TermList(
        CombinationRule.CHOICE, groups, 0 if explained.allowed()[explained.place[-1]] else 1
    )


MAX_SHOWN_TERMS = 4

MAX_SHOWN_SHIFTED_TERMS = 2


class EquationPart(Struct, frozen=True):
    """A part of an equation; if lit, it is a number that is read from a panel and highlighted."""

    text: str
    is_highlighted: bool = False


class EquationTerm(Struct, frozen=True):
    """One term of an equation, with its parts; `is_computed_number` if it is a computed number."""

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

    def number_part(self, factor: Factor, at: int) -> EquationPart:
        """Return the number that was read."""
        value = float(factor.read[at if len(factor.read) > 1 else 0])
        is_lit = factor.name in self.trace and factor.name != self.explanation.stage.name
        return EquationPart(format_number(value) if factor.name else format_trimmed(value), is_lit)

    def factor_parts(self, factor: Factor, at: int, is_first: bool) -> list[EquationPart]:
        part = self.number_part(factor, at)
        before, _, after = factor.form.partition("{}")
        if before.endswith("("):  # a function of the number
            return [EquationPart(before), part, EquationPart(f"{_format_shift(factor)}{after}")]
        if parenthesize_negative(part.text) != part.text and not is_first:
            return [EquationPart("("), part, EquationPart(")")]
        return [part]

    def term_parts(self, position: int, is_first: bool) -> list[EquationPart]:
        """Return the product of a term's factors."""
        factors, at = self.factors[position]
        parts = self.factor_parts(factors[0], at, is_first)
        for factor in factors[1:]:
            sign = " ÷ " if factor.form == "1/{}" else " × "
            used = Factor(factor.name, factor.index, factor.read, factor.used)
            if factor.form.startswith("1/("):  # the scale factor of dropout
                used = Factor("", (), factor.used, factor.used)
            parts += [EquationPart(sign), *self.factor_parts(used, at, False)]
        return parts

    def sum_parts(self, *, leaves_out_zeros: bool) -> list[EquationPart]:
        """Return the largest terms in order, dots for omitted ones, and how many these are."""
        order, omitted = self.select_terms(leaves_out_zeros)
        parts: list[EquationPart] = []
        reached = -1
        for written, position in enumerate(order):
            is_gap = any(reached < other < position for other in omitted)
            dots = "… + " if is_gap and not written else " + … + " if is_gap else " + "
            parts += [EquationPart(dots)] * (written > 0 or is_gap)
            parts += self.term_parts(position, written == 0 and not is_gap)
            reached = position
        if not omitted:
            return parts
        dots = " + …" if max(omitted) > reached else ""
        return [*parts, EquationPart(f"{dots} ({len(omitted):,} more)")]

    def select_terms(self, leaves_out_zeros: bool) -> tuple[list[int], list[int]]:
        """Choose the terms to write, and return those that are omitted; zeros may be neither."""
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
        return sorted(order), [at for at in places.tolist() if at not in order]


def _format_shift(factor: Factor) -> str:
    """Format the number that is subtracted first, if there is one."""
    is_subtracted = 0 < abs(factor.shift) < np.inf
    return f" − {parenthesize_negative(format_trimmed(factor.shift))}" if is_subtracted else ""


def sum_equation(line: EquationTermWriter) -> EquationTerm:
    """Write a sum of terms."""
    return EquationTerm(line.sum_parts(leaves_out_zeros=False))


def key_sum_equation(line: EquationTermWriter) -> EquationTerm:
    """Write a sum over all keys; keys without attention weight add nothing."""
    return EquationTerm(line.sum_parts(leaves_out_zeros=True))


def copied_equation(line: EquationTermWriter, how: str) -> EquationTerm:
    """Write a number that was copied instead of computed, and its source."""
    factors, _ = line.factors[0]
    return EquationTerm([line.number_part(factors[0], 0), EquationPart(f", {how}")], False)


def empty_row_equation() -> EquationTerm:
    """Write the share of a row without any weights."""
    return EquationTerm([EquationPart("0, as the row is empty")], False)


def share_equation(line: EquationTermWriter) -> EquationTerm:
    """Write one term divided by the sum of all terms."""
    if line.explanation.is_empty:
        return empty_row_equation()
    over = line.term_parts(line.explanation.chosen, is_first=True)
    below = line.sum_parts(leaves_out_zeros=True)
    if len(line.select_terms(leaves_out_zeros=True)[0]) > 1:
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
    return EquationTerm([instead, line.number_part(factors[0], 0), EquationPart(f", {why}")], False)
