"""The explanation of the current cell, for the Explain pane and captions.

A cell of one head is explained by a sentence, its calculation and its largest terms. A cell of
aggregated heads is explained by the same cell of each head. Weight transforms and comparisons add
further lines.
"""

from __future__ import annotations

import re
from html import escape, unescape
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.flow_columns import layer_name_of_stage
from visualizer.attention.layer_operations import ExpertMixture
from visualizer.attention.roles import Role
from visualizer.attention.spec import layer_symbol
from visualizer.attention.stages import Operation, axis_noun
from visualizer.brief_repr import brief_repr
from visualizer.explanations.cell_context import CellContext
from visualizer.explanations.cell_terms import (
    DIVISOR_FORM,
    CombinationRule,
    EquationPart,
    Explanation,
    Factor,
    TermGroup,
    indices_of_largest,
)
from visualizer.explanations.dependent_cells import DependentCell, dependent_cells
from visualizer.explanations.explain import EXPLAINERS, Equation, cell_equation, explain
from visualizer.explanations.step_context import LargestValue, parenthesize_negative
from visualizer.format import format_count, format_number, format_percentage, shorten
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import panel_of_cell, source_cell
from visualizer.heatmap.flow_presenter import layer_weight_factor
from visualizer.language.tokenizers import visible_token
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison import find_tensor_of_cell, format_signed, mismatch_reason
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import drawable_sample_count
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.provenance import describe_layer_origin
from visualizer.session.screen import PanelId
from visualizer.session.token_selection import TokenRole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.run import Run
    from visualizer.heatmap.board import Board
    from visualizer.session.cell_address import ParameterCell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.resolved_view import ResolvedView

MAX_SHOWN_TERMS = 12
FORBIDDEN = "forbidden"
MULTIPLICATION_SIGN, DIVISION_SIGN = "×", "÷"


def _describe_compared_values(resolved: ResolvedView, cell: Cell) -> tuple[str, ...]:
    """Describe the cell's value on each side of the comparison, and the difference."""
    comparison, run = resolved.comparison, resolved.run
    if comparison is None:
        return ()
    if comparison.against is ComparisonKind.SAMPLES:
        return _describe_sample_values(resolved, comparison, cell)
    if comparison.against is ComparisonKind.HEAD:
        return _describe_head_values(resolved, comparison, cell)
    kept, stage = comparison.kept, run.trace.stage(cell.stage)
    if kept is None or mismatch_reason(kept, run, stage):
        return ()
    a = _format_side_value(resolved, kept, cell, ComparisonSide.A)
    b = _format_side_value(resolved, run, cell, ComparisonSide.B)
    return (f"A {a}", f"B {b}", *_describe_value_difference(resolved, cell, "B − A", (a, b)))


def _format_side_value(resolved: ResolvedView, run: Run, cell: Cell, part: ComparisonSide) -> str:
    """Format the number of one side, or return `FORBIDDEN` if the cell is masked there."""
    if run.trace.has_forbidden_cells(cell.stage, resolved.leading, cell.head):
        query, key = cell.place[-2:]
        if not run.trace.allowed_mask(cell.stage, resolved.leading, cell.head, query)[key]:
            return FORBIDDEN
    return format_number(_read_side_value(resolved, cell, part))


def _read_side_value(resolved: ResolvedView, cell: Cell, part: ComparisonSide) -> float:
    held, index = find_tensor_of_cell(resolved, replace(cell, part=part))
    return float(held.read((*index, *cell.place[-2:])))


def _describe_value_difference(
    resolved: ResolvedView, cell: Cell, name: str, sides: Sequence[str]
) -> tuple[str, ...]:
    """Describe the difference; return an empty tuple if one side is a forbidden score."""
    if FORBIDDEN in sides and not resolved.run.trace.stage(cell.stage).is_weights:
        return ()
    return (f"{name} = {format_signed(_read_side_value(resolved, cell, ComparisonSide.CHANGE))}",)


def _describe_head_values(
    resolved: ResolvedView, comparison: Comparison, cell: Cell
) -> tuple[str, ...]:
    if cell.head not in comparison.heads:
        return ()
    one, other = comparison.heads
    sides = [
        _format_side_value(
            resolved, resolved.run, Cell(cell.stage, (head, *cell.place[-2:])), ComparisonSide.PLAIN
        )
        for head in (one, other)
    ]
    name = f"head {other + 1} − head {one + 1}"
    sentences = f"Head {one + 1}: {sides[0]}", f"Head {other + 1}: {sides[1]}"
    return (*sentences, *_describe_value_difference(resolved, cell, name, sides))


def _describe_sample_values(
    resolved: ResolvedView, comparison: Comparison, cell: Cell
) -> tuple[str, ...]:
    if cell.stage not in {Role.WEIGHTS, Role.DROPPED} or cell.fold:
        return ()
    weight, sample, mean, change = (
        _read_side_value(resolved, Cell(stage, cell.place), part)
        for stage, part in (
            (Role.WEIGHTS, ComparisonSide.PLAIN),
            (Role.DROPPED, ComparisonSide.PLAIN),
            (Role.DROPPED, ComparisonSide.MEAN),
            (Role.DROPPED, ComparisonSide.CHANGE),
        )
    )
    return (
        f"Weight {format_number(weight)}",
        f"One sample {format_number(sample)}",
        f"Mean of {drawable_sample_count(resolved.run, comparison.count):,}: {format_number(mean)}",
        f"Mean − weight = {format_signed(change)}",
    )


class FormattedFactor(Struct, frozen=True):
    """A formatted number, the sign before it, and the cell from which it was read, if any."""

    text: str
    source: Cell | None = None
    sign: str = MULTIPLICATION_SIGN


class FormattedTerm(Struct, frozen=True):
    """One term: its name, its factors and its value.

    Parameters
    ----------
    share : float
        Length of the bar, from −1 to 1: the value relative to the largest magnitude of all terms.
    """

    name: str
    pieces: tuple[FormattedFactor, ...]
    value: str
    is_chosen: bool
    share: float = 0.0

    __repr__ = brief_repr

    @property
    def product(self) -> str:
        """The factors as text."""
        first, *others = self.pieces
        return first.text + "".join(f" {piece.sign} {piece.text}" for piece in others)


class CellExplanation(Struct, frozen=True):
    """The explanation of a cell.

    Parameters
    ----------
    sentence : str
        The explanation in one sentence with the tokens in bold (HTML), for use below the heading.
    closing : str
        How the terms combine into the value.
    rest : str
        A note on the omitted terms; empty if there are none.
    additional_sentences : tuple of str
        The cell's values on the sides of the comparison.
    sentence_with_head : str
        The explanation for use without the heading; empty if `sentence` suits both uses.
    equation : Equation or None
        The calculation on one line; None if there is none or the value is covered.
    dependent_cells : tuple of DependentCell
        Cells that are computed from the value.
    """

    heading: str
    sentence: str
    value: str
    formula: str
    terms: tuple[FormattedTerm, ...]
    rest: str
    closing: str
    is_pinned: bool
    additional_sentences: tuple[str, ...] = ()
    sentence_with_head: str = ""
    equation: Equation | None = None
    dependent_cells: tuple[DependentCell, ...] = ()

    __repr__ = brief_repr

    @property
    def caption(self) -> str:
        """The sentence and the compared values, without the heading (HTML)."""
        return self._append_comparison(self.sentence_with_head or self.sentence)

    @property
    def plain_text(self) -> str:
        """The text below the heading without markup, for screen readers."""
        return plain_text(self._append_comparison(self.sentence))

    def _append_comparison(self, sentence: str) -> str:
        more = escape(", ".join(self.additional_sentences))
        return f"{sentence} {more}." if more else sentence


def plain_text(sentence: str) -> str:
    """Remove the markup of a sentence and, as in rich text, collapse consecutive spaces."""
    return unescape(re.sub("  +", " ", re.sub("</?b>", "", sentence)))


def explain_head_cell(
    resolved: ResolvedView, cell: Cell, is_pinned: bool, *, names_head: bool = False
) -> CellExplanation:
    """Explain a cell of one head; the caption names the head if several heads are shown."""
    run = resolved.run
    explanation = explain(run.trace, cell.stage, (*resolved.leading, *cell.place))
    info = CellContext(run, resolved.leading, cell, explanation)
    order, rest = _choose_terms(explanation)
    text = EXPLAINERS[explanation.stage.operation]
    sentence = text.explain_cell(info)
    is_computed = explanation.stage.operation is not Operation.CAPTURED  # else read from a file
    return CellExplanation(
        heading=_cell_heading(info),
        sentence=sentence,
        sentence_with_head=info.with_head(sentence) if names_head else "",
        value=format_number(explanation.value),
        formula=text.formula(info),
        terms=tuple(_format_term(info, position) for position in order if is_computed),
        rest=rest,
        closing=_term_combination_text(explanation) if is_computed else "",
        is_pinned=is_pinned,
        equation=cell_equation(run.trace, explanation),
        dependent_cells=dependent_cells(run.trace, resolved.leading, cell),
    )


def explain_parameter(resolved: ResolvedView, parameter: ParameterCell) -> CellExplanation | None:
    """Explain a layer weight: its value, its origin and the numbers that it connects."""
    run, head = resolved.run, parameter.head
    stage = run.trace.stage_in_layer(parameter.stage, resolved.leading)
    before = () if head is None else (head,)
    cell = Cell(stage.name, (*before, 0, parameter.column))
    factor = layer_weight_factor(resolved, stage, (*resolved.leading, *cell.place))
    if factor is None or parameter.row >= len(factor.read):
        return None
    value = format_number(float(factor.read[parameter.row]))
    layer, (source, *_) = layer_name_of_stage(stage), stage.reads
    symbol, row, column = layer_symbol(layer), parameter.row + 1, parameter.column + 1
    places = [*([f"head {head + 1}"] if head is not None else []), f"row {row:,}"]
    used = f"column {column:,} of {stage.title}"
    return CellExplanation(
        heading=f"{symbol} · {', '.join(places)}, column {column:,}",
        sentence=f"This parameter of {symbol} is multiplied by column {row:,} of "
        f"{escape(run.trace.stage(source).title)}. The product is a term of {used}.",
        value=value,
        formula=describe_layer_origin(run, layer),
        terms=(),
        rest="",
        closing="",
        is_pinned=parameter == resolved.view.pinned_parameter,
        equation=Equation(f"{symbol}[{row:,}, {column:,}]", (EquationPart(value, False),), ""),
        dependent_cells=(DependentCell(cell, used),),
    )


def explain_selected_token(resolved: ResolvedView) -> CellExplanation | None:
    """List the largest weights of the selected token; None unless exactly one token is selected.

    For a query, these are the weights of its row, and for a key, those of its column.
    """
    run, tokens = resolved.run, resolved.view.tokens
    stage = run.trace.stage(resolved.weights_stage(None))
    is_query = tokens.role is TokenRole.QUERY
    chosen = tokens.tokens_below(run.trace.query_key_counts[0 if is_query else 1])
    is_late = run.trace.is_blockwise and not is_query
    if len(chosen) != 1 or stage.name in resolved.hidden_stages or resolved.place or is_late:
        return None
    (at,), head = chosen, min(resolved.caption_head, run.trace.spec_at(resolved.leading).heads - 1)
    line = (at, slice(None)) if is_query else (slice(None), at)
    weights = np.nan_to_num(run.trace.read(stage.name, (*resolved.leading, head, *line)))
    other = tokens.role.opposite.value
    shown = [int(one) for one in np.argsort(-weights, kind="stable")[:MAX_SHOWN_TERMS]]
    shown = [one for one in shown if weights[one] > 0]
    if not shown:
        return None
    terms = []
    for one in shown:
        weight = float(weights[one])
        cell = Cell(stage.name, (head, at, one) if is_query else (head, one, at))
        piece = FormattedFactor(format_number(weight), cell)
        share = weight / float(weights[shown[0]])
        name = shorten(visible_token(run.axis_tokens(resolved.leading, other)[one]))
        terms.append(FormattedTerm(name, (piece,), format_percentage(weight), False, share))
    word = shorten(visible_token(run.axis_tokens(resolved.leading, tokens.role.value)[at]))
    token = f"<b>{escape(word)}</b> ({tokens.role.value} {run.token_number(at, tokens.role.value)})"
    verb = "attends most to" if is_query else "is attended to most by"
    where = f" in head {head + 1}" if run.trace.spec.heads > 1 else ""
    rest = int(np.count_nonzero(weights)) - len(shown)
    return CellExplanation(
        heading=f"{stage.title} · selected {tokens.role.value} {at + 1:,}",
        sentence=f"{token} {verb} <b>{escape(terms[0].name)}</b>{where}.",
        value="",
        formula=f"weight of each {other}, in descending order",
        terms=tuple(terms),
        rest=format_count(rest, "smaller weight") if rest else "",
        closing="",
        is_pinned=False,
    )


def _hidden_cell_explanation(run: Run, cell: Cell) -> CellExplanation:
    """Return the panel of a cell whose value is hidden for a prediction."""
    sentence = "Hidden: click or press Enter to mark this cell; reveal the answer to see its value."
    return CellExplanation(
        run.trace.stage(cell.stage).title, sentence, "", "", (), "", "", is_pinned=False
    )


def _cell_heading(info: CellContext) -> str:
    stage, place = info.explanation.stage, info.position_by_axis
    parts = [f"{axis_noun(dim)} {info.run.token_number(at, dim)}" for dim, at in place.items()]
    return f"{stage.title} · {', '.join(parts)}"


def _choose_terms(explanation: Explanation) -> tuple[list[int], str]:
    """Choose the terms to show: all, or only the largest in their original order if not all fit.

    Masked keys, which add exactly 0 to a softmax, and values with a weight of 0 are only counted.
    """
    masked = _find_masked_terms(explanation)
    allowed = np.flatnonzero(~masked)
    notes = _masked_term_lines(int(masked.sum()), explanation)
    if len(allowed) <= MAX_SHOWN_TERMS:
        return allowed.tolist(), " · ".join(notes)
    sizes = explanation.term_magnitudes
    is_share = explanation.rule is CombinationRule.SHARE
    always_shown = explanation.chosen if is_share else int(sizes.argmax())
    order = sorted({always_shown, *indices_of_largest(sizes, MAX_SHOWN_TERMS - 1).tolist()})
    left = explanation.terms[np.setdiff1d(allowed, order, assume_unique=True)]
    others = format_count(len(left), "other term")
    return order, " · ".join([f"{others}: {format_number(float(left.sum()))}", *notes])


def _find_masked_terms(explanation: Explanation) -> np.ndarray:
    """Return which terms belong to masked keys or have a weight of 0, except the explained term."""
    factor, count = explanation.groups[0].factors[0], len(explanation.terms)
    none = np.zeros(count, bool)
    if len(explanation.groups) != 1:
        return none
    read = np.broadcast_to(factor.read, count).astype(float)
    if explanation.rule is CombinationRule.SHARE:
        masked = np.isneginf(read)
        masked[explanation.chosen] = False
    elif explanation.rule is CombinationRule.SUM and _is_attention_weight(factor):
        masked = read == 0
    else:
        return none
    return none if masked.all() else masked


def _is_attention_weight(factor: Factor) -> bool:
    return factor.name in {Role.WEIGHTS, Role.DROPPED}


def _masked_term_lines(count: int, explanation: Explanation) -> list[str]:
    """State how many terms are 0 because of a mask or a weight of 0."""
    if not count:
        return []
    words = format_count(count, "masked token")
    if explanation.rule is CombinationRule.SUM:
        words = f"{format_count(count, 'token')} with weight 0"
    return [f"{words}: 0{' each' * (count > 1)}"]


def _format_term(info: CellContext, position: int) -> FormattedTerm:
    explanation, group, at = info.explanation, info.explanation.groups[0], position
    for group in explanation.groups:
        if at < len(group.products):
            break
        at -= len(group.products)
    first, *others = group.factors
    texts = [_format_factor(first, at), *(_format_other_factor(factor, at) for factor in others)]
    texts[1:] = map(parenthesize_negative, texts[1:])
    pieces = tuple(
        FormattedFactor(
            text,
            source_cell(info.run.trace, info.leading, info.cell.stage, factor, at),
            DIVISION_SIGN if number and factor.form == DIVISOR_FORM else MULTIPLICATION_SIGN,
        )
        for number, (text, factor) in enumerate(zip(texts, group.factors, strict=True))
    )
    is_chosen = explanation.rule is not CombinationRule.SUM and position == explanation.chosen
    # Terms are float64. A single term is equal to the value, so it is rounded like the value.
    with np.errstate(over="ignore"):
        term = group.products[at].astype(info.run.trace.spec.dtype.value)
    name = EXPLAINERS[explanation.stage.operation].term_name(info, position)
    name = name or _term_name(info, group, at)
    largest = float(explanation.term_magnitudes.max())
    signed = float(np.nan_to_num(explanation.terms[position]))
    share = signed / largest if 0 < largest < np.inf else 0.0
    return FormattedTerm(name, pieces, format_number(float(term)), is_chosen, share)


def _format_factor(factor: Factor, at: int) -> str:
    read = float(factor.read[at if len(factor.read) > 1 else 0])
    if np.isfinite(factor.shift):
        return factor.form.format(format_number(read - factor.shift))
    return factor.form.format(
        f"{format_number(read)} − {parenthesize_negative(format_number(factor.shift))}"
    )


def _format_other_factor(factor: Factor, at: int) -> str:
    """Format a factor after the first one; a divisor is preceded by a division sign."""
    is_divisor = factor.form == DIVISOR_FORM
    return _format_factor(replace(factor, form="{}") if is_divisor else factor, at)


def _term_name(info: CellContext, group: TermGroup, at: int) -> str:
    step, factor, rule = info.explanation.stage.step, group.factors[0], info.explanation.rule
    trace = info.run.trace
    if isinstance(step, ExpertMixture):
        return _expert_name(info, step, group, at)
    if rule is CombinationRule.SHARE and factor.name in trace.model_weights:
        return "sink"
    if rule is CombinationRule.SHARE or _is_attention_weight(factor):
        return "kept" if rule is CombinationRule.CHOICE else info.format_token(at, "key")
    if factor.name.endswith("bias"):
        return "bias"
    if None in factor.index:
        return f"column {at + 1}"
    if factor.name in trace:
        return trace.stage(factor.name).title
    if rule is CombinationRule.CHOICE:
        return "else"
    if factor.name in trace.model_weights:  # a row of a table in the model
        return factor.name.split(".")[-2]
    is_norm = step is not None  # a norm that subtracts the mean
    return "−mean" if is_norm and not factor.name else "position"


def _expert_name(info: CellContext, step: ExpertMixture, group: TermGroup, at: int) -> str:
    """Name the expert of a term, numbered from 1; shared experts have no router weight."""
    if len(group.factors) == 1:
        return "shared"
    token = info.cell.place[-2]
    numbers = info.run.trace.read(f"{step.modules[info.layer]}.numbers", (token, at))
    return f"expert {int(numbers) + 1}"


def _term_combination_text(explanation: Explanation) -> str:
    value = format_number(explanation.value)
    if explanation.is_empty:
        return "no allowed keys: 0"
    if explanation.rule is CombinationRule.SUM and len(explanation.terms) > 1:
        return f"sum = {value}"
    if explanation.rule is not CombinationRule.SHARE:  # of the only or chosen term
        return f"= {value}"
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(explanation.terms.sum())
    chosen = format_number(float(explanation.terms[explanation.chosen]))
    return f"{chosen} ÷ {format_number(total)} = {value}"


def explain_aggregate_cell(resolved: ResolvedView, cell: Cell, is_pinned: bool) -> CellExplanation:
    """Explain a cell of aggregated heads by the same cell of each head."""
    run, index, lens = resolved.run, resolved.leading, resolved.view.lens
    by_head = run.trace.displayed_tensor(cell.stage, lens)
    numbers = by_head.read((*index, slice(None), *cell.place))  # head
    aggregated = run.trace.displayed_tensor(cell.stage, lens, cell.fold)
    value = float(aggregated.read((*index, *cell.place)))
    is_mean, count = cell.fold is HeadAggregate.MEAN, len(numbers)
    known = np.nan_to_num(numbers, nan=-np.inf)
    chosen = int(known.argmax())
    weights = np.abs(np.nan_to_num(numbers)) if is_mean else known
    order = sorted(np.argsort(-weights, kind="stable")[:MAX_SHOWN_TERMS].tolist())
    terms = []
    for head in order:
        number = format_number(float(numbers[head]))
        piece = FormattedFactor(number, Cell(cell.stage, (head, *cell.place)))
        is_chosen = not is_mean and head == chosen
        terms.append(FormattedTerm(f"head {head + 1}", (piece,), number, is_chosen))
    name = "mean over heads" if is_mean else "maximum over heads"
    quotient = f"{format_number(float(numbers.sum()))} ÷ {count}"
    calculation = quotient if is_mean else f"the largest of {format_count(count, 'head')}"
    return CellExplanation(
        heading=_aggregate_heading(run, cell, name),
        sentence=_aggregate_sentence(resolved, cell, value, numbers, chosen),
        value=format_number(value),
        formula=f"Σ over heads ÷ {count}" if is_mean else f"maximum over {count} heads",
        terms=tuple(terms),
        rest=_describe_other_heads(numbers, order, is_mean),
        closing=f"{quotient} = {format_number(value)}" if is_mean else f"= {format_number(value)}",
        is_pinned=is_pinned,
        equation=Equation(name, (EquationPart(calculation, False),), format_number(value)),
    )


def _aggregate_heading(run: Run, cell: Cell, aggregate: str) -> str:
    stage = run.trace.stage(cell.stage)
    dims = zip(stage.dims[-2:], cell.place, strict=True)
    places = ", ".join(f"{axis_noun(dim)} {run.token_number(at, dim)}" for dim, at in dims)
    return f"{stage.title} · {aggregate}, {places}"


def _aggregate_sentence(
    resolved: ResolvedView, cell: Cell, value: float, numbers: np.ndarray, chosen: int
) -> str:
    run, leading, view = resolved.run, resolved.leading, resolved.view
    stage = run.trace.stage(cell.stage)
    words = run.axis_tokens(leading, stage.dims[-2])
    row = f"<b>{escape(shorten(visible_token(words[cell.place[0]])))}</b>"
    heads = run.trace.spec.heads
    if cell.fold is HeadAggregate.MEAN:
        which, most = f"Averaged over {heads} heads", ""
    else:
        which, most = f"In head {chosen + 1}", _compare_to_other_heads(resolved, cell, numbers)
    which = ", ".join(filter(None, (which, run.trace.weights_qualifier(stage.name))))
    if stage.dims[-1] != "key":
        return f"{which}, column {cell.place[1] + 1} of {row} is {format_number(value)}{most}."
    key = f"<b>{escape(shorten(visible_token(run.axis_tokens(leading, 'key')[cell.place[1]])))}</b>"
    query = f"{row} (query {run.token_number(cell.place[0], 'query')})"
    key_position = f"{key} (key {cell.place[1] + 1})"
    if stage.is_weights and view.lens is WeightTransform.WITHOUT_FIRST:
        if cell.place[1] == 0:
            return f"{key} is the first token, which is excluded."
        most += ", excluding the first token"
    lens = run.trace.supported_transform(view.lens)
    if stage.is_weights and lens is not WeightTransform.TIMES_VALUE and 0 <= value <= 1:
        attention = f"the attention weight from {query} to {key_position}"
        return f"{which}, {attention} is {format_percentage(value)}{most}."
    return f"{which}, the value for {query} and {key_position} is {format_number(value)}{most}."


def _compare_to_other_heads(resolved: ResolvedView, cell: Cell, numbers: np.ndarray) -> str:
    """State whether other heads have the same largest number; return "" if all heads mask it."""
    trace, (row, column) = resolved.run.trace, cell.place
    is_masked = trace.has_forbidden_cells(cell.stage, resolved.leading)
    if is_masked and not trace.allowed_mask(cell.stage, resolved.leading, queries=row)[column]:
        return ""
    top = LargestValue.of(numbers)
    if top and top.is_tied:
        return f", the same as in {format_count(top.occurrences - 1, 'other head')}"
    return ", the largest of all heads" if top and len(numbers) > 1 else ""


def _describe_other_heads(numbers: np.ndarray, order: list[int], is_mean: bool) -> str:
    left = np.delete(numbers, order)
    if not len(left):
        return ""
    comparison = "larger in magnitude" if is_mean and numbers.min() < 0 else "larger"
    others = f"{format_count(len(left), 'other head')}, none {comparison}"
    return f"{others}: {format_number(float(left.sum()))}" if is_mean else others


def explain_transform(resolved: ResolvedView, cell: Cell) -> tuple[str, ...]:
    """Explain how the transformed number of a cell is computed from its weight."""
    run, view = resolved.run, resolved.view
    is_shown = run.trace.stage(cell.stage).is_weights and view.lens is not WeightTransform.PLAIN
    if not is_shown or cell.head is None:
        return ()
    index = (*resolved.leading, *cell.place)
    weight = format_number(float(run.trace.read(cell.stage, index)))
    result = format_number(float(run.trace.displayed_tensor(cell.stage, view.lens).read(index)))
    if view.lens is WeightTransform.TIMES_VALUE and Role.VALUES not in run.trace:
        source = "model does not report" if run.reading else "file does not contain"
        return (f"× ‖value‖: not available because the {source} the values.",)
    if view.lens is WeightTransform.TIMES_VALUE:
        value = run.trace.read(Role.VALUES, (*index[:-2], index[-1]))  # d_head
        length = float(np.sqrt((value.astype(np.float64) ** 2).sum()))
        return (f"× ‖value‖: {weight} × {format_number(length)} = {result}",)
    if cell.place[-1] == 0:
        return ("Hidden: this is the first token.",)
    row = run.trace.read(cell.stage, index[:-1]).astype(np.float64)  # key
    total = float(row[1:].sum())
    if total == 0:
        return (f"Without the first token: the other weights are 0, so {result}",)
    return (f"Without the first token: {weight} ÷ {format_number(total)} = {result}",)


CELL_PANEL: PanelId[CellExplanation | None] = PanelId("Cell")
EXPLAIN_PANE = "Explain"
"""Id of the pane that shows the explanation and the code."""


def present_cell_explanation(
    resolved: ResolvedView, board: Board, previous: CellExplanation | None
) -> CellExplanation | None:
    """Explain the first that exists: hovered cell, pinned cell, step's cell or selected token."""
    cell, parameter = (
        resolved.hovered_or_pinned_cell or resolved.described_step_cell,
        resolved.hovered_or_pinned_parameter,
    )
    panel = None
    if parameter and not resolved.reached_hovered_cell:
        panel = explain_parameter(resolved, parameter)
    if panel is None and cell:
        panel = _explain_cell(resolved, board, cell)
    if panel is None:
        panel = explain_selected_token(resolved)
    return previous if panel == previous else panel


def _explain_cell(resolved: ResolvedView, board: Board, cell: Cell) -> CellExplanation:
    if cell.stage in resolved.hidden_stages:
        return _hidden_cell_explanation(resolved.run, cell)
    is_pinned, are_several = cell == resolved.view.pinned, len(resolved.drawn_heads) > 1
    if cell.fold:
        panel = explain_aggregate_cell(resolved, cell, is_pinned)
    else:
        panel = explain_head_cell(resolved, cell, is_pinned, names_head=are_several)
    also = (*explain_transform(resolved, cell), *_describe_compared_values(resolved, cell))
    heatmap = panel_of_cell(board, cell)
    if heatmap is None or not heatmap.is_pooled:
        return replace(panel, additional_sentences=also)
    block = f"{heatmap.rows.block} × {heatmap.columns.block}"
    which = "largest in magnitude" if heatmap.colour.is_signed else "largest"
    return replace(
        panel,
        additional_sentences=also,
        heading=f"{panel.heading} · {which} in a block of {block} cells",
    )


PANEL = PanelSpec(
    CELL_PANEL,
    lambda resolved, inputs, previous: present_cell_explanation(
        resolved, inputs.panel(BOARD_CONTENTS).board, previous
    ),
    None,
)
