"""The calculation of a step's leading cell on one line, with the numbers in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.explain import CombineRule, Explanation, Factor, explain
from visualizer.attention.stages import Operation
from visualizer.explanations.step_values import trimmed
from visualizer.number_format import format_number
from visualizer.session.timeline import leading

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace
    from visualizer.session.timeline import Step

SHOWN_TERMS = 4

# e to the power of more than this does not fit into float32.
MOST_EXPONENT = 88.0
SHOWN_SHIFTED = 2

NAMES = {
    "queries": "query",
    "keys": "key",
    "values": "value",
    "scores": "score",
    "scaled": "scaled score",
    "masked": "masked score",
    "unmasked": "weight before the mask",
    "zeroed": "weight after the mask",
    "weights": "weight",
    "dropped": "weight after dropout",
    "concat": "concat",
}
_TAKEN = {
    Operation.GIVEN: "given",
    Operation.CAPTURED: "read from the file",
    Operation.POSITION: "looked up",
    Operation.SPLIT: "taken from the input",
    Operation.JOIN: "taken from a head",
}


@dataclass(frozen=True, slots=True)
class EquationPart:
    """A piece of the line; lit is a number that stands in a panel and was read from there."""

    text: str
    is_lit: bool = False


@dataclass(frozen=True, slots=True)
class Equation:
    """One line: a name, equals, parts, equals, the result.

    Parameters
    ----------
    left : str
        What the cell is called.
    result : str
        Empty where nothing is reckoned and the parts are the result, as for what is looked up.
    """

    left: str
    parts: tuple[EquationPart, ...]
    result: str

    @property
    def plain(self) -> str:
        """The line without marks."""
        told = "".join(part.text for part in self.parts)
        return " = ".join(filter(None, (self.left, told, self.result)))


def equation(run: Run, text: int, step: Step, head: int) -> Equation:
    """Write how the leading cell of a step arose."""
    trace = run.trace
    batch = run.index(text)
    explanation = explain(trace, step.stage, (*batch, *leading(run, text, step, head)))
    written = _WRITE[explanation.rule](EquationLine(trace, explanation))
    parts = tuple(
        EquationPart("".join(part.text for part in alike), is_lit)
        for is_lit, alike in groupby(written.parts, lambda part: part.is_lit)
    )
    result = format_number(explanation.value) if written.is_reckoned else ""
    return Equation(NAMES.get(step.stage, step.stage), parts, result)


@dataclass(frozen=True, slots=True)
class EquationTerm:
    """One term of a line, with its parts; `is_reckoned` where it is a number that was computed."""

    parts: list[EquationPart]
    is_reckoned: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class EquationLine:
    """An explanation with ways to write its terms."""

    trace: Trace
    explanation: Explanation

    @property
    def operation(self) -> Operation:
        return self.explanation.stage.operation

    @property
    def factors(self) -> list[tuple[tuple[Factor, ...], int]]:
        """The factors of each term, with the number of the term in its group."""
        groups = self.explanation.groups
        return [(group.factors, at) for group in groups for at in range(len(group.terms))]

    def read(self, factor: Factor, at: int) -> EquationPart:
        """Write the number that was read."""
        value = float(factor.read[at if len(factor.read) > 1 else 0])
        is_lit = factor.name in self.trace and factor.name != self.explanation.stage.name
        return EquationPart(format_number(value) if factor.name else trimmed(value), is_lit)

    def factor(self, factor: Factor, at: int, is_first: bool) -> list[EquationPart]:
        part = self.read(factor, at)
        if factor.form.startswith("exp("):
            return [EquationPart("exp("), part, EquationPart(f"{_shift(factor)})")]
        if part.text.startswith("−") and not is_first:
            return [EquationPart("("), part, EquationPart(")")]
        return [part]

    def term(self, position: int, is_first: bool) -> list[EquationPart]:
        """Write the product of a term's factors."""
        factors, at = self.factors[position]
        parts = self.factor(factors[0], at, is_first)
        for factor in factors[1:]:
            sign = " ÷ " if factor.form == "1/{}" else " × "
            used = Factor(factor.name, factor.index, factor.read, factor.used)
            if factor.form.startswith("1/("):  # what dropout multiplies by
                used = Factor("", (), factor.used, factor.used)
            parts += [EquationPart(sign), *self.factor(used, at, False)]
        return parts

    def sum(self, opens: bool) -> list[EquationPart]:
        """Write the largest terms in their order, and how many more there are."""
        order, left = self.shown()
        parts: list[EquationPart] = []
        for number_, position in enumerate(order):
            is_first = number_ == 0 and opens
            parts += [EquationPart(" + ")] * (number_ > 0) + self.term(position, is_first)
        return parts + [EquationPart(f" + … {left:,} more")] * (left > 0)

    def shown(self) -> tuple[list[int], int]:
        """Pick the terms to write; what is 0 adds nothing to a sum over all keys."""
        terms, chosen = self.explanation.terms, self.explanation.chosen
        is_share = self.explanation.rule is CombineRule.SHARE
        places = np.arange(len(terms))
        if is_share or self.operation is Operation.MIX:
            adds = terms != 0
            adds[chosen] |= is_share or not adds.any()
            places = places[adds]
        sizes = np.nan_to_num(np.abs(terms[places]), posinf=np.inf)
        most = SHOWN_SHIFTED if is_share and _shift(self.factors[0][0][0]) else SHOWN_TERMS
        order = places[np.argsort(-sizes, kind="stable")[:most]].tolist()
        if is_share and chosen not in order:
            order[-1] = chosen
        return sorted(order), len(places) - len(order)


def _shift(factor: Factor) -> str:
    """Write what is subtracted first, where the result would not hold without it."""
    largest = float(factor.read.max())
    is_shifted = factor.form.startswith("exp(") and factor.form != "exp({})"
    return f" − {trimmed(largest)}" if is_shifted and MOST_EXPONENT < largest < np.inf else ""


def _sum(line: EquationLine) -> EquationTerm:
    factors, _ = line.factors[0]
    if line.operation in _TAKEN:
        form = factors[0].form
        if form != "{}":  # a wave, worked out from the place
            return EquationTerm([EquationPart(form.removesuffix(" = {}"))])
        taken = EquationPart(f", {_TAKEN[line.operation]}")
        if line.operation is Operation.JOIN:
            head = factors[0].source(0)[-3]
            taken = EquationPart(f", taken from head {head + 1}")
        return EquationTerm([line.read(factors[0], 0), taken], False)
    return EquationTerm(line.sum(opens=True))


def _share(line: EquationLine) -> EquationTerm:
    explanation = line.explanation
    if explanation.is_empty:
        return EquationTerm([EquationPart("0, as there is nothing to share out")], False)
    if line.operation is Operation.AVERAGE:
        chosen = trimmed(float(explanation.terms[explanation.chosen]))
        return EquationTerm([EquationPart(f"{chosen} ÷ {int(explanation.terms.sum()):,}")])
    over = line.term(explanation.chosen, is_first=True)
    below = line.sum(opens=True)
    if len(line.shown()[0]) > 1:
        below = [EquationPart("("), *below, EquationPart(")")]
    return EquationTerm([*over, EquationPart(" ÷ "), *below])


def _choice(line: EquationLine) -> EquationTerm:
    explanation = line.explanation
    if explanation.chosen == 0 and line.operation is Operation.DROP:
        return EquationTerm(line.term(0, is_first=True))
    factors, _ = line.factors[0]
    if explanation.chosen == 0:
        return EquationTerm(
            [line.read(factors[0], 0), EquationPart(", allowed, so it stays")], False
        )
    otherwise, _ = line.factors[1]
    why = "as it is dropped" if line.operation is Operation.DROP else "as it is forbidden"
    instead = EquationPart(f"{otherwise[0].form} in place of ")
    return EquationTerm([instead, line.read(factors[0], 0), EquationPart(f", {why}")], False)


_WRITE: dict[CombineRule, Callable[[EquationLine], EquationTerm]] = {
    CombineRule.SUM: _sum,
    CombineRule.SHARE: _share,
    CombineRule.CHOICE: _choice,
}
