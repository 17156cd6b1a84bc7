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

from visualizer.attention.embedding import sinusoids
from visualizer.attention.spec import (
    Arrangement,
    AttentionSpec,
    Normalisation,
    Position,
    Projection,
)
from visualizer.attention.stages import Operation, parameter_names

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


def _given(asked: ExplainedCell) -> TermList:
    return _sum((asked.factor(asked.stage.name, *asked.place),))


def _position(asked: ExplainedCell) -> TermList:
    place, column = asked.place
    if asked.spec.position is Position.LEARNED:
        return _sum((asked.weight("position.weight", place, column),))
    value = sinusoids(place + 1, asked.spec.d_in)[place, column]
    exponent = f"{column - column % 2}/{asked.spec.d_in}"
    function = "cos" if column % 2 else "sin"
    return _sum((_constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),))


def _add(asked: ExplainedCell) -> TermList:
    return _sum(*((asked.factor(name, *asked.place),) for name in asked.stage.reads))


def _project(asked: ExplainedCell) -> TermList:
    head, token, column = asked.place
    spec = asked.spec
    names = parameter_names(spec, asked.stage.parameters[0])
    kinds = [name for name in names if not name.endswith(".bias")]
    if len(kinds) == 1 and spec.arrangement is Arrangement.SPLIT:
        column += head * spec.d_head
    number = head % len(kinds)
    x = asked.factor(asked.stage.reads[0], token, None)
    if spec.projection is Projection.UNIFORM:
        return _sum((x, asked.weight(kinds[number], None, column)))
    products = (x, asked.weight(kinds[number], column, None))
    biases = names[len(kinds) :]
    return _sum(products, (asked.weight(biases[number], column),)) if biases else _sum(products)


def _split(asked: ExplainedCell) -> TermList:
    head, token, column = asked.place
    if asked.spec.arrangement is Arrangement.SPLIT:
        column += head * asked.spec.d_head
    return _sum((asked.factor(asked.stage.reads[0], token, column),))


def _dot(asked: ExplainedCell) -> TermList:
    head, query, key = asked.place
    queries, keys = asked.stage.reads
    return _sum((asked.factor(queries, head, query, None), asked.factor(keys, head, key, None)))


def _scale(asked: ExplainedCell) -> TermList:
    divisor = asked.spec.divisor
    inverse = np.array([1 / divisor])
    constant = Factor("", (), np.array([divisor]), inverse, "1/{}")
    return _sum((asked.factor(asked.stage.reads[0], *asked.place), constant))


def _choose(asked: ExplainedCell, otherwise: float, form: str) -> TermList:
    read = (asked.factor(asked.stage.reads[0], *asked.place),)
    groups = (Group(read), Group((_constant(otherwise, form),)))
    return TermList(CombineRule.CHOICE, groups, 0 if asked.allowed()[asked.place[-1]] else 1)


def _normalise(asked: ExplainedCell) -> TermList:
    head, query, key = asked.place
    row = asked.factor(asked.stage.reads[0], head, query, None)
    if asked.spec.normalisation is Normalisation.SUM:
        return TermList(CombineRule.SHARE, (Group((row,)),), key)
    is_empty = asked.stage.reads_masked and not asked.allowed().any()
    make = _exponentials if asked.spec.normalisation is Normalisation.SOFTMAX else _naive
    return TermList(CombineRule.SHARE, (Group((make(asked, row),)),), key, is_empty)


def _exponentials(asked: ExplainedCell, row: Factor) -> Factor:
    largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
    with np.errstate(invalid="ignore"):
        used = np.exp(row.read - largest)
    return replace(row, used=used, form=f"exp({{}} − {_signed(largest)})")


def _naive(asked: ExplainedCell, row: Factor) -> Factor:
    dtype = asked.trace.read(row.name, asked.cell).dtype
    with np.errstate(over="ignore"):  # overflows wherever the trace's type does
        used = np.exp(row.read).astype(dtype)
    return replace(row, used=used, form="exp({})")


def _signed(number: float) -> str:
    return f"{number:.4f}" if number >= 0 else f"(−{-number:.4f})"


def _average(asked: ExplainedCell) -> TermList:
    cells = asked.allowed().astype(np.float64)
    group = Group((Factor("", (), cells, cells),))
    return TermList(CombineRule.SHARE, (group,), asked.place[-1], not cells.any())


def _renormalise(asked: ExplainedCell) -> TermList:
    head, query, key = asked.place
    row = asked.factor(asked.stage.reads[0], head, query, None)
    return TermList(CombineRule.SHARE, (Group((row,)),), key, not row.read.any())


def _drop(asked: ExplainedCell) -> TermList:
    weight = asked.factor(asked.stage.reads[0], *asked.place)
    factor = 1 / (1 - asked.spec.dropout)
    scaled = _constant(factor, f"1/(1 − {asked.spec.dropout:g})")
    value = float(asked.trace.read(asked.stage.name, asked.cell))
    dropped = value == 0 and weight.read[0] != 0
    groups = (Group((weight, scaled)), Group((_constant(0.0, "0"),)))
    return TermList(CombineRule.CHOICE, groups, int(dropped))


def _mix(asked: ExplainedCell) -> TermList:
    head, query, column = asked.place
    weights, values = asked.stage.reads
    factors = asked.factor(weights, head, query, None), asked.factor(values, head, None, column)
    return _sum(factors)


def _join(asked: ExplainedCell) -> TermList:
    query, column = asked.place
    head, within = divmod(column, asked.spec.d_head)
    return _sum((asked.factor(asked.stage.reads[0], head, query, within),))


def _project_out(asked: ExplainedCell) -> TermList:
    query, column = asked.place
    weight, bias = parameter_names(asked.spec, asked.stage.parameters[0])
    joined = asked.factor(asked.stage.reads[0], query, None)
    return _sum((joined, asked.weight(weight, column, None)), (asked.weight(bias, column),))


_EXPLAIN: dict[Operation, Callable[[ExplainedCell], TermList]] = {
    Operation.GIVEN: _given,
    Operation.POSITION: _position,
    Operation.ADD: _add,
    Operation.PROJECT: _project,
    Operation.SPLIT: _split,
    Operation.DOT: _dot,
    Operation.SCALE: _scale,
    Operation.FORBID: lambda asked: _choose(asked, -np.inf, "−∞"),
    Operation.NORMALISE: _normalise,
    Operation.AVERAGE: _average,
    Operation.ZERO: lambda asked: _choose(asked, 0.0, "0"),
    Operation.RENORMALISE: _renormalise,
    Operation.DROP: _drop,
    Operation.MIX: _mix,
    Operation.JOIN: _join,
    Operation.PROJECT_OUT: _project_out,
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
