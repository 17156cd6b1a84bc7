"""Explanations of single cells as terms and factors with their sources; imports no torch.

The terms of an explanation always reproduce the traced value: as their sum, as one term's share of
the sum, or as the chosen one of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.attention.spec import (
    Arrangement,
    AttentionSpec,
    Normalisation,
    Position,
    Projection,
)
from visualizer.attention.stages import Operation, parameter_names
from visualizer.attention.token_and_position_vectors import sinusoids

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

__all__ = ["CellIndex", "CombineRule", "Explanation", "Factor", "Group", "explain"]


def explain(trace: Trace, stage: str, cell: CellIndex) -> Explanation:
    """Explain one cell of a trace.

    Parameters
    ----------
    cell : tuple of int
        The full index of the cell: leading axes first, then the stage's dims.
    """
    row = trace.stage(stage)
    value = float(trace.read(stage, cell))
    made = _EXPLAIN[row.operation](ExplainedCell(trace, row, cell))
    return Explanation(row, cell, made.rule, made.groups, value, made.chosen, made.is_empty)


class TermList(NamedTuple):
    """The operation-dependent part of an explanation."""

    rule: CombineRule
    groups: tuple[Group, ...]
    chosen: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ExplainedCell:
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
        return self._read(name, (*self.leading, *place), form)

    def weight(self, name: str, *place: int | None) -> Factor:
        return self._read(name, place, "{}")

    def _read(self, name: str, index: tuple[int | None, ...], form: str) -> Factor:
        whole = tuple(slice(None) if place is None else place for place in index)
        read = np.atleast_1d(self.trace.read(name, whole)).astype(np.float64)
        return Factor(name, index, read, read, form)

    def allowed(self) -> np.ndarray:
        """Return which keys the cell's query may read, boolean [key]."""
        row: np.ndarray = self.trace.allowed(self.stage.name, self.leading)[self.place[1]]
        return row


def _constant(value: float, form: str) -> Factor:
    number = np.array([value])
    return Factor("", (), number, number, form)


def _sum(*groups: tuple[Factor, ...]) -> TermList:
    return TermList(CombineRule.SUM, tuple(Group(factors) for factors in groups))


def _given(explained: ExplainedCell) -> TermList:
    return _sum((explained.factor(explained.stage.name, *explained.place),))


def _position(explained: ExplainedCell) -> TermList:
    place, column = explained.place
    if explained.spec.position is Position.LEARNED:
        return _sum((explained.weight("position.weight", place, column),))
    value = sinusoids(place + 1, explained.spec.d_in)[place, column]
    exponent = f"{column - column % 2}/{explained.spec.d_in}"
    function = "cos" if column % 2 else "sin"
    return _sum((_constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),))


def _add(explained: ExplainedCell) -> TermList:
    return _sum(*((explained.factor(name, *explained.place),) for name in explained.stage.reads))


def _project(explained: ExplainedCell) -> TermList:
    head, token, column = explained.place
    spec = explained.spec
    names = parameter_names(spec, explained.stage.parameters[0])
    kinds = [name for name in names if not name.endswith(".bias")]
    if len(kinds) == 1 and spec.arrangement is Arrangement.SPLIT:
        column += head * spec.d_head
    number = head % len(kinds)
    x = explained.factor(explained.stage.reads[0], token, None)
    if spec.projection is Projection.UNIFORM:
        return _sum((x, explained.weight(kinds[number], None, column)))
    products = (x, explained.weight(kinds[number], column, None))
    biases = names[len(kinds) :]
    return _sum(products, (explained.weight(biases[number], column),)) if biases else _sum(products)


def _split(explained: ExplainedCell) -> TermList:
    head, token, column = explained.place
    if explained.spec.arrangement is Arrangement.SPLIT:
        column += head * explained.spec.d_head
    return _sum((explained.factor(explained.stage.reads[0], token, column),))


def _dot(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    queries, keys = explained.stage.reads
    return _sum(
        (explained.factor(queries, head, query, None), explained.factor(keys, head, key, None))
    )


def _scale(explained: ExplainedCell) -> TermList:
    divisor = explained.spec.divisor
    inverse = np.array([1 / divisor])
    constant = Factor("", (), np.array([divisor]), inverse, "1/{}")
    return _sum((explained.factor(explained.stage.reads[0], *explained.place), constant))


def _choose(explained: ExplainedCell, otherwise: float, form: str) -> TermList:
    read = (explained.factor(explained.stage.reads[0], *explained.place),)
    groups = (Group(read), Group((_constant(otherwise, form),)))
    return TermList(
        CombineRule.CHOICE, groups, 0 if explained.allowed()[explained.place[-1]] else 1
    )


def _normalise(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    row = explained.factor(explained.stage.reads[0], head, query, None)
    if explained.spec.normalisation is Normalisation.SUM:
        return TermList(CombineRule.SHARE, (Group((row,)),), key)
    is_empty = explained.stage.reads_masked and not explained.allowed().any()
    make = _exponentials if explained.spec.normalisation is Normalisation.SOFTMAX else _naive
    return TermList(CombineRule.SHARE, (Group((make(explained, row),)),), key, is_empty)


def _exponentials(explained: ExplainedCell, row: Factor) -> Factor:
    largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
    with np.errstate(invalid="ignore"):
        used = np.exp(row.read - largest)
    return replace(row, used=used, form=f"exp({{}} − {_signed(largest)})")


def _naive(explained: ExplainedCell, row: Factor) -> Factor:
    dtype = explained.trace.read(row.name, explained.cell).dtype
    with np.errstate(over="ignore"):  # overflows wherever the trace's type does
        used = np.exp(row.read).astype(dtype)
    return replace(row, used=used, form="exp({})")


def _signed(number: float) -> str:
    return f"{number:.4f}" if number >= 0 else f"(−{-number:.4f})"


def _average(explained: ExplainedCell) -> TermList:
    cells = explained.allowed().astype(np.float64)
    group = Group((Factor("", (), cells, cells),))
    return TermList(CombineRule.SHARE, (group,), explained.place[-1], not cells.any())


def _renormalise(explained: ExplainedCell) -> TermList:
    head, query, key = explained.place
    row = explained.factor(explained.stage.reads[0], head, query, None)
    return TermList(CombineRule.SHARE, (Group((row,)),), key, not row.read.any())


def _drop(explained: ExplainedCell) -> TermList:
    weight = explained.factor(explained.stage.reads[0], *explained.place)
    factor = 1 / (1 - explained.spec.dropout)
    scaled = _constant(factor, f"1/(1 − {explained.spec.dropout:g})")
    value = float(explained.trace.read(explained.stage.name, explained.cell))
    dropped = value == 0 and weight.read[0] != 0
    groups = (Group((weight, scaled)), Group((_constant(0.0, "0"),)))
    return TermList(CombineRule.CHOICE, groups, int(dropped))


def _mix(explained: ExplainedCell) -> TermList:
    head, query, column = explained.place
    weights, values = explained.stage.reads
    factors = (
        explained.factor(weights, head, query, None),
        explained.factor(values, head, None, column),
    )
    return _sum(factors)


def _join(explained: ExplainedCell) -> TermList:
    query, column = explained.place
    head, within = divmod(column, explained.spec.d_head)
    return _sum((explained.factor(explained.stage.reads[0], head, query, within),))


def _project_out(explained: ExplainedCell) -> TermList:
    query, column = explained.place
    weight, bias = parameter_names(explained.spec, explained.stage.parameters[0])
    joined = explained.factor(explained.stage.reads[0], query, None)
    return _sum((joined, explained.weight(weight, column, None)), (explained.weight(bias, column),))


_EXPLAIN: dict[Operation, Callable[[ExplainedCell], TermList]] = {
    Operation.INPUT_VECTORS: _given,
    Operation.POSITION_VECTORS: _position,
    Operation.ADD_POSITION: _add,
    Operation.INPUT_PROJECTION: _project,
    Operation.UNPROJECTED_INPUT: _split,
    Operation.DOT_PRODUCT: _dot,
    Operation.SCALE_SCORES: _scale,
    Operation.MASK_BEFORE_SOFTMAX: lambda explained: _choose(explained, -np.inf, "−∞"),
    Operation.SCORES_TO_WEIGHTS: _normalise,
    Operation.EQUAL_WEIGHTS: _average,
    Operation.MASK_AFTER_SOFTMAX: lambda explained: _choose(explained, 0.0, "0"),
    Operation.RENORMALISE_MASKED_WEIGHTS: _renormalise,
    Operation.DROPOUT: _drop,
    Operation.WEIGHTED_SUM: _mix,
    Operation.CONCAT_HEADS: _join,
    Operation.OUTPUT_PROJECTION: _project_out,
    Operation.CAPTURED: _given,
}

CellIndex = tuple[int, ...]


class CombineRule(StrEnum):
    """How terms combine to the value: their sum, one's share of it, or one chosen term."""

    SUM = auto()
    SHARE = auto()
    CHOICE = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
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
    """

    name: str
    index: tuple[int | None, ...]
    read: np.ndarray
    used: np.ndarray
    form: str = "{}"

    def source(self, term: int) -> CellIndex:
        """Return the index in `name` from which a term's factor was read."""
        return tuple(term if place is None else place for place in self.index)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Terms of the same kind, each the product of its factors."""

    factors: tuple[Factor, ...]

    @property
    def terms(self) -> np.ndarray:
        """The products, [n]: float64, or the trace's own type where that overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(math.prod(factor.used for factor in self.factors))


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
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
    rule: CombineRule
    groups: tuple[Group, ...]
    value: float
    chosen: int = 0
    is_empty: bool = False

    @property
    def terms(self) -> np.ndarray:
        """All terms, group after group."""
        return np.concatenate([group.terms for group in self.groups])
