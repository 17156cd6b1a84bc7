"""How one cell arose: the terms its value is made of, each with where it came from; no torch.

The terms of an explanation always give the traced value: added up, as a share of their sum, or
as the one chosen of two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.attention import masks
from visualizer.attention.embedding import sinusoids
from visualizer.attention.explanation import Cell, Explanation, Factor, Group, Rule
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

__all__ = ["Cell", "Explanation", "Factor", "Group", "Rule", "explain"]


def explain(trace: Trace, stage: str, cell: Cell) -> Explanation:
    """Take one cell of a trace apart.

    Parameters
    ----------
    cell : tuple of int
        The whole index of the cell: batch axes first, then the stage's dims.
    """
    row = trace.stage(stage)
    value = float(trace.read(stage, cell))
    made = _EXPLAIN[row.operation](_Asked(trace, row, cell))
    return Explanation(row, cell, made.rule, made.groups, value, made.chosen, made.is_empty)


class _Made(NamedTuple):
    """What of an explanation depends on the operation."""

    rule: Rule
    groups: tuple[Group, ...]
    chosen: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """A cell, and short ways to read what it came from."""

    trace: Trace
    stage: Stage
    cell: Cell

    @property
    def spec(self) -> AttentionSpec:
        return self.trace.spec

    @property
    def batch(self) -> Cell:
        return self.cell[: len(self.trace.batch)]

    @property
    def place(self) -> Cell:
        return self.cell[len(self.trace.batch) :]

    def factor(self, name: str, *place: int | None, form: str = "{}") -> Factor:
        """Read a factor of a stage at a place within its named dims."""
        return self._read(name, (*self.batch, *place), form)

    def weight(self, name: str, *place: int | None) -> Factor:
        return self._read(name, place, "{}")

    def _read(self, name: str, index: tuple[int | None, ...], form: str) -> Factor:
        whole = tuple(slice(None) if place is None else place for place in index)
        read = np.atleast_1d(self.trace.read(name, whole)).astype(np.float64)
        return Factor(name, index, read, read, form)

    def allowed(self) -> np.ndarray:
        """Say which keys the cell's query may read, boolean [key]."""
        cells = masks.allowed(self.spec, self.trace.tokens, self.stage.name)
        row: np.ndarray = (cells[(*self.batch, 0)] if cells.ndim > 2 else cells)[self.place[1]]
        return row


def _constant(value: float, form: str) -> Factor:
    number = np.array([value])
    return Factor("", (), number, number, form)


def _sum(*groups: tuple[Factor, ...]) -> _Made:
    return _Made(Rule.SUM, tuple(Group(factors) for factors in groups))


def _given(asked: _Asked) -> _Made:
    return _sum((asked.factor(asked.stage.name, *asked.place),))


def _position(asked: _Asked) -> _Made:
    place, column = asked.place
    if asked.spec.position is Position.LEARNED:
        return _sum((asked.weight("position.weight", place, column),))
    value = sinusoids(place + 1, asked.spec.d_in)[place, column]
    exponent = f"{column - column % 2}/{asked.spec.d_in}"
    function = "cos" if column % 2 else "sin"
    return _sum((_constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),))


def _add(asked: _Asked) -> _Made:
    return _sum(*((asked.factor(name, *asked.place),) for name in asked.stage.reads))


def _project(asked: _Asked) -> _Made:
    head, token, column = asked.place
    spec = asked.spec
    names = parameter_names(spec, asked.stage.parameters[0])
    kinds = [name for name in names if not name.endswith(".bias")]
    if len(kinds) == 1 and spec.arrangement is Arrangement.SPLIT:
        column += head * spec.d_head
    number = head % len(kinds)
    x = asked.factor("input", token, None)
    if spec.projection is Projection.UNIFORM:
        return _sum((x, asked.weight(kinds[number], None, column)))
    products = (x, asked.weight(kinds[number], column, None))
    biases = names[len(kinds) :]
    return _sum(products, (asked.weight(biases[number], column),)) if biases else _sum(products)


def _split(asked: _Asked) -> _Made:
    head, token, column = asked.place
    if asked.spec.arrangement is Arrangement.SPLIT:
        column += head * asked.spec.d_head
    return _sum((asked.factor("input", token, column),))


def _dot(asked: _Asked) -> _Made:
    head, query, key = asked.place
    return _sum((asked.factor("queries", head, query, None), asked.factor("keys", head, key, None)))


def _scale(asked: _Asked) -> _Made:
    divisor = asked.spec.divisor
    inverse = np.array([1 / divisor])
    constant = Factor("", (), np.array([divisor]), inverse, "1/{}")
    return _sum((asked.factor("scores", *asked.place), constant))


def _choose(asked: _Asked, otherwise: float, form: str) -> _Made:
    read = (asked.factor(asked.stage.reads[0], *asked.place),)
    groups = (Group(read), Group((_constant(otherwise, form),)))
    return _Made(Rule.CHOICE, groups, 0 if asked.allowed()[asked.place[-1]] else 1)


def _forbid(asked: _Asked) -> _Made:
    return _choose(asked, -np.inf, "−∞")


def _zero(asked: _Asked) -> _Made:
    return _choose(asked, 0.0, "0")


def _normalise(asked: _Asked) -> _Made:
    head, query, key = asked.place
    row = asked.factor(asked.stage.reads[0], head, query, None)
    if asked.spec.normalisation is Normalisation.SUM:
        return _Made(Rule.SHARE, (Group((row,)),), key)
    is_empty = row.name == "masked" and not asked.allowed().any()
    make = _exponentials if asked.spec.normalisation is Normalisation.SOFTMAX else _naive
    return _Made(Rule.SHARE, (Group((make(asked, row),)),), key, is_empty)


def _exponentials(asked: _Asked, row: Factor) -> Factor:
    largest = 0.0 if row.read.max() == -np.inf else float(row.read.max())
    with np.errstate(invalid="ignore"):
        used = np.exp(row.read - largest)
    return replace(row, used=used, form=f"exp({{}} − {_signed(largest)})")


def _naive(asked: _Asked, row: Factor) -> Factor:
    dtype = asked.trace.read(row.name, asked.cell).dtype
    with np.errstate(over="ignore"):  # where the trace's own type does
        used = np.exp(row.read).astype(dtype)
    return replace(row, used=used, form="exp({})")


def _signed(number: float) -> str:
    return f"{number:.4f}" if number >= 0 else f"(−{-number:.4f})"


def _average(asked: _Asked) -> _Made:
    cells = asked.allowed().astype(np.float64)
    group = Group((Factor("", (), cells, cells),))
    return _Made(Rule.SHARE, (group,), asked.place[-1], not cells.any())


def _renormalise(asked: _Asked) -> _Made:
    head, query, key = asked.place
    row = asked.factor("zeroed", head, query, None)
    return _Made(Rule.SHARE, (Group((row,)),), key, not row.read.any())


def _drop(asked: _Asked) -> _Made:
    weight = asked.factor("weights", *asked.place)
    factor = 1 / (1 - asked.spec.dropout)
    scaled = _constant(factor, f"1/(1 − {asked.spec.dropout:g})")
    value = float(asked.trace.read("dropped", asked.cell))
    dropped = value == 0 and weight.read[0] != 0
    groups = (Group((weight, scaled)), Group((_constant(0.0, "0"),)))
    return _Made(Rule.CHOICE, groups, int(dropped))


def _mix(asked: _Asked) -> _Made:
    head, query, column = asked.place
    weights = asked.factor(asked.stage.reads[0], head, query, None)
    return _sum((weights, asked.factor("values", head, None, column)))


def _join(asked: _Asked) -> _Made:
    query, column = asked.place
    head, within = divmod(column, asked.spec.d_head)
    return _sum((asked.factor("context", head, query, within),))


def _project_out(asked: _Asked) -> _Made:
    query, column = asked.place
    products = (asked.factor("concat", query, None), asked.weight("out_proj.weight", column, None))
    return _sum(products, (asked.weight("out_proj.bias", column),))


_EXPLAIN: dict[Operation, Callable[[_Asked], _Made]] = {
    Operation.GIVEN: _given,
    Operation.POSITION: _position,
    Operation.ADD: _add,
    Operation.PROJECT: _project,
    Operation.SPLIT: _split,
    Operation.DOT: _dot,
    Operation.SCALE: _scale,
    Operation.FORBID: _forbid,
    Operation.NORMALISE: _normalise,
    Operation.AVERAGE: _average,
    Operation.ZERO: _zero,
    Operation.RENORMALISE: _renormalise,
    Operation.DROP: _drop,
    Operation.MIX: _mix,
    Operation.JOIN: _join,
    Operation.PROJECT_OUT: _project_out,
    Operation.CAPTURED: _given,
}
