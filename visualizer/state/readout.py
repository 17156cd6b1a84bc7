"""What the Cell pane says of one cell: a sentence, the calculation, the terms that matter most."""

from __future__ import annotations

from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.explain import Explanation, Factor, Group, Rule, explain
from visualizer.attention.masks import Masking
from visualizer.attention.spec import Mask, Scale
from visualizer.attention.stages import Operation
from visualizer.state.sentences import SENTENCES, Told
from visualizer.state.view import Cell
from visualizer.state.words import number

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.resolve import Resolved

SHOWN_TERMS = 12


@dataclass(frozen=True, slots=True)
class Piece:
    """A number as it is written, and the cell that it was read from; None for what is no cell."""

    text: str
    source: Cell | None = None


@dataclass(frozen=True, slots=True)
class TermLine:
    """One term: whose it is, the numbers it is the product of, what it comes to."""

    name: str
    pieces: tuple[Piece, ...]
    value: str
    chosen: bool

    @property
    def written(self) -> str:
        """The product, as text."""
        return " × ".join(piece.text for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Readout:
    """The Cell pane.

    Parameters
    ----------
    sentence : str
        In plain words, with the tokens in bold (HTML).
    closing : str
        How the terms become the value.
    rest : str
        What is said of the terms that are left out; empty when none is.
    also : tuple of str
        The cell's numbers in what it is compared with.
    """

    heading: str
    sentence: str
    value: str
    formula: str
    terms: tuple[TermLine, ...]
    rest: str
    closing: str
    is_pinned: bool
    also: tuple[str, ...] = ()

    @property
    def plain(self) -> str:
        """The sentence without marks, for the status line and for readers of the screen."""
        said = unescape(self.sentence.replace("<b>", "").replace("</b>", ""))
        return f"{said} {', '.join(self.also)}." if self.also else said


def present_readout(resolved: Resolved, cell: Cell, is_pinned: bool) -> Readout:
    """Explain a cell of one head in words."""
    run = resolved.run
    explanation = explain(run.trace, cell.stage, (*resolved.index, *cell.place))
    told = Told(run, resolved.text, cell, explanation)
    order, rest = _order(explanation)
    is_read = explanation.stage.operation is Operation.CAPTURED  # and nothing is reckoned
    return Readout(
        heading=_heading(told),
        sentence=SENTENCES[explanation.stage.operation](told),
        value=number(explanation.value),
        formula=_formula(told),
        terms=() if is_read else tuple(_term(told, position) for position in order),
        rest=rest,
        closing="" if is_read else _closing(explanation),
        is_pinned=is_pinned,
    )


def covered(run: Run, cell: Cell) -> Readout:
    """Say of a cell that it is to be predicted, and nothing else."""
    sentence = "Covered: click or press Enter to mark it; reveal to see it."
    return Readout(run.trace.stage(cell.stage).title, sentence, "", "", (), "", "", is_pinned=False)


def _heading(told: Told) -> str:
    stage, place = told.explanation.stage, told.place
    names = {"d_head": "column", "d_in": "column", "d_out": "column", "token": "place"}
    parts = [f"{names.get(dim, dim)} {at + 1}" for dim, at in place.items()]
    return f"{stage.title} · {', '.join(parts)}"


_FORMULAS = {
    Operation.GIVEN: "given",
    Operation.POSITION: "looked up",
    Operation.ADD: "embedding + position",
    Operation.PROJECT: "Σ input × weight",
    Operation.SPLIT: "taken over",
    Operation.DOT: "Σ query × key",
    Operation.FORBID: "the score where allowed, else −∞",
    Operation.ZERO: "the weight where allowed, else 0",
    Operation.RENORMALISE: "weight ÷ Σ of the row's weights",
    Operation.DROP: "weight ÷ (1 − rate) where kept, else 0",
    Operation.MIX: "Σ weight × value",
    Operation.JOIN: "taken over",
    Operation.PROJECT_OUT: "Σ number × weight",
    Operation.CAPTURED: "read from the file",
}


def _formula(told: Told) -> str:
    explanation, spec = told.explanation, told.run.trace.spec
    operation = explanation.stage.operation
    if operation is Operation.SCALE:
        return f"score ÷ {_divisor(spec)}"
    if operation is Operation.AVERAGE:
        return f"1 ÷ number of {_counted_keys(told)}"
    if operation is Operation.NORMALISE:
        return _normalising(explanation)
    biased = operation in {Operation.PROJECT, Operation.PROJECT_OUT}
    bias = " + bias" if biased and len(explanation.groups) > 1 else ""
    return _FORMULAS[operation] + bias


def _divisor(spec: AttentionSpec) -> str:
    if spec.scale is Scale.NONE:
        return "temperature"
    return "√d" if spec.temperature == 1 else "(√d × temperature)"


def _counted_keys(told: Told) -> str:
    masking = Masking.of(told.run.trace.spec, told.cell.stage)
    if masking.mask is not Mask.NONE:
        return "allowed keys"
    return "keys, padding aside" if masking.lengths else "keys"


def _normalising(explanation: Explanation) -> str:
    form = explanation.groups[0].factors[0].form
    if not form.startswith("exp("):
        return "score ÷ Σ scores of the row"
    largest = form.removeprefix("exp({}").removesuffix(")")
    shift = f"{largest}, the row’s largest" if largest else ""
    return f"exp(score{shift}) ÷ Σ of the row"


def _order(explanation: Explanation) -> tuple[list[int], str]:
    """Pick the terms to show: all that fit, else the largest in their order."""
    terms = explanation.terms
    if len(terms) <= SHOWN_TERMS:
        return list(range(len(terms))), ""
    sizes = np.nan_to_num(np.abs(terms), posinf=np.inf)
    order = set(np.argsort(-sizes, kind="stable")[: SHOWN_TERMS - 1].tolist())
    order.add(explanation.chosen if explanation.rule is Rule.SHARE else int(sizes.argmax()))
    left = np.delete(terms, sorted(order))
    return sorted(order), f"{len(left):,} smaller terms: {number(float(left.sum()))}"


def _term(told: Told, position: int) -> TermLine:
    explanation, group, at = told.explanation, told.explanation.groups[0], position
    for group in explanation.groups:
        if at < len(group.terms):
            break
        at -= len(group.terms)
    pieces = tuple(
        Piece(_bracketed(_written(factor, at), is_first), _source(told, factor, at))
        for factor, is_first in zip(group.factors, (True, False, False), strict=False)
    )
    chosen = explanation.rule is not Rule.SUM and position == explanation.chosen
    return TermLine(_named(told, group, at), pieces, number(float(group.terms[at])), chosen)


def _bracketed(written: str, is_first: bool) -> str:
    return f"({written})" if written.startswith("−") and not is_first else written


def _source(told: Told, factor: Factor, at: int) -> Cell | None:
    """Give the cell that a factor was read from; none for weights, and for what is given."""
    trace = told.run.trace
    if factor.name not in trace or factor.name == told.cell.stage:
        return None
    return Cell(factor.name, factor.source(at)[len(trace.batch) :])


def _written(factor: Factor, at: int) -> str:
    at = at if len(factor.read) > 1 else 0
    if factor.form.startswith("exp("):
        with np.errstate(divide="ignore"):
            return f"exp({number(float(np.log(factor.used[at])))})"
    return factor.form.format(number(float(factor.read[at])))


def _named(told: Told, group: Group, at: int) -> str:
    factor = group.factors[0]
    if told.explanation.rule is Rule.SHARE or factor.name in {"weights", "dropped"}:
        return told.word(at, "key") if told.explanation.rule is not Rule.CHOICE else "kept"
    if factor.name.endswith("bias"):
        return "bias"
    if None in factor.index:
        return f"column {at + 1}"
    if factor.name in told.run.trace:
        return told.run.trace.stage(factor.name).title
    return "else" if told.explanation.rule is Rule.CHOICE else "position"


def _closing(explanation: Explanation) -> str:
    value = number(explanation.value)
    if explanation.is_empty:
        return "nothing to share: 0"
    if explanation.rule is Rule.CHOICE or len(explanation.terms) == 1:
        return f"= {value}"
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(explanation.terms.sum())
    if explanation.rule is Rule.SUM:
        return f"sum = {value}"
    chosen = number(float(explanation.terms[explanation.chosen]))
    return f"{chosen} ÷ {number(total)} = {value}"
