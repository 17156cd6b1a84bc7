"""Phrases, sentences and shapes for the explainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.spec import (
    AttentionSpec,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    ScaleKind,
    layer_symbol,
)
from visualizer.attention.stages import Operation, vector_noun
from visualizer.explanations.step_context import (
    EQUALITY_TOLERANCE,
    LargestValue,
    StepContext,
    all_count_phrase,
    format_trimmed_number,
    other_count_phrase,
)
from visualizer.format import format_count, format_number, format_percentage

if TYPE_CHECKING:
    from visualizer.explanations.cell_context import CellContext

WEIGHTS_PHRASE = "weights that sum to 1"
NON_FINITE_PHRASE = "not every number is finite"
MASKED_ROW_PHRASE = "no token may attend to any key: all weights are 0"


def vector_column_name(info: CellContext) -> str:
    """Name a cell in a stage of vectors by its column, its token and its head."""
    stage = info.explanation.stage
    whose = (
        f"the {vector_noun(stage.name)} of {info.describe_token(stage.dims[-2])}{info.head_phrase}"
    )
    return f"Column {info.column_number} of {whose}"


def join_names(names: list[str]) -> str:
    """Join names into an enumeration such as "A, B and C"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def add_closing_comma(phrase: str) -> str:
    """Add a closing comma to a phrase that contains an opening one."""
    return f"{phrase}," if "," in phrase else phrase


def divisor_phrase(context: StepContext) -> str:
    """Return a phrase for the divisor of the scores; a model's scores have no temperature."""
    spec = context.spec
    temperature, divisor = (
        format_trimmed_number(spec.temperature),
        format_trimmed_number(spec.divisor),
    )
    if spec.scale is ScaleKind.NONE:
        return divisor if context.run.source_display_name else f"the temperature, {temperature}"
    root = divisor_root(spec)
    made = root if spec.temperature == 1 else f"{root} × temperature {temperature}"
    return f"{made} = {divisor}"


def divisor_root(spec: AttentionSpec) -> str:
    """Return the root in the divisor of the scores, or an empty string if there is none."""
    sizes = {ScaleKind.D_HEAD: spec.d_head, ScaleKind.D_MODEL: spec.d_in}
    return f"√{sizes[spec.scale]}" if spec.scale in sizes else ""


def change_phrase(before: float, after: float) -> str:
    """Describe how a number changes."""
    old, new = format_number(before), format_number(after)
    return f"stays {new}" if old == new else f"changes from {old} to {new}"


def projection_phrase(context: StepContext) -> str:
    """Return a phrase for the head's projection weights, including the bias if there is one."""
    spec, layer = context.spec, layer_symbol(context.stage.parameters[0])
    bias = (
        ", plus a bias," if any(".bias" in name for name in _layer_parameter_names(context)) else ""
    )
    if spec.heads == 1:
        return f"{layer}{bias}"
    if spec.arrangement is HeadArrangement.STACKED:
        return f"this head’s {layer}{bias}"
    return f"{_head_columns_phrase(context)} of {layer}{bias}"


def sharing_heads_phrase(spec: AttentionSpec, layer: str, head: int) -> str:
    """List the query heads that share the keys or values of a head, or return an empty string."""
    size = spec.heads // spec.projection_head_count(layer)
    first = spec.projection_head_index(layer, head) * size + 1
    if size == 1:
        return ""
    return f", shared by heads {first} {'and' if size == 2 else 'to'} {first + size - 1}"


def _head_columns_phrase(context: StepContext) -> str:
    """Name the columns of a head in a projection that the heads split."""
    size, layer = context.spec.d_head, "".join(context.stage.parameters)
    first = context.spec.projection_head_index(layer, context.head) * size + 1
    if size == 1:
        return f"column {first}"
    return f"columns {first} {'and' if size == 2 else 'to'} {first + size - 1}"


def _layer_parameter_names(context: StepContext) -> list[str]:
    layer = context.stage.parameters[0]
    return [name for name in context.run.trace.parameters if layer in name]


def unprojected_columns_phrase(context: StepContext) -> str:
    """Describe the input columns that a head uses without a projection."""
    spec, read = context.spec, vector_noun(context.first_input)
    if spec.heads == 1 or spec.arrangement is HeadArrangement.STACKED:
        return f"identical to its {read}"
    return f"{_head_columns_phrase(context)} of its {read}"


def dropout_factor_phrase(spec: AttentionSpec) -> str:
    """Describe how dropout scales the remaining weights."""
    factor = 1 / (1 - spec.dropout)
    if factor == 1:
        return "is unchanged"
    written = f"{factor:.4g}"
    return "increases slightly" if written == "1" else f"is multiplied by {written}"


def all_heads_phrase(spec: AttentionSpec) -> str:
    """Return a phrase for all heads together."""
    return "both heads" if spec.heads == 2 else f"all {spec.heads} heads"


def softmax_name(spec: AttentionSpec) -> str:
    """Return the name of the function that turns scores into weights."""
    naive = spec.normalisation is NormalisationKind.NAIVE_SOFTMAX
    return "the naive softmax" if naive else "softmax"


def largest_weights_phrase(context: StepContext, weights: np.ndarray) -> str:
    """Describe which keys have the largest weights in a row of finite weights."""
    low, top = float(weights.min()), LargestValue.of(weights)
    if top is None or low < 0 or top.value > 1:
        high = format_number(float(weights.max()))
        return f"the weights range from {format_number(low)} to {high}"
    key, written = context.key_name(top.at), format_percentage(top.value)
    if top.is_tied:
        if top.occurrences == np.count_nonzero(weights):
            return f"{format_count(top.occurrences, 'key')} receive {written} each"
        others = other_count_phrase(top.occurrences - 1)
        return f"the largest weights, {written} each, go to {key} and {others}"
    if top.value == 1:
        return f"{key} receives 100%"
    if written == "100%":
        return f"{key} receives nearly 100%"
    return f"{'most of the' if top.value > 0.5 else 'the largest'} weight, {written}, goes to {key}"


def largest_terms_phrase(context: StepContext, weights: np.ndarray, keys: np.ndarray) -> str:
    """Describe the largest terms of a weighted sum of values and the number of other terms."""
    sizes = np.abs(weights[keys])
    order = keys[np.argsort(-sizes, kind="stable")]
    values = weights[order]
    written = [weight_phrase(weights, float(value)) for value in values[:2]]
    if len(order) > 2 and np.ptp(values) <= EQUALITY_TOLERANCE * sizes.max():
        return f"the values of {len(order):,} keys ({written[0]} each)"
    first = f"{written[0]} {context.key_name(int(order[0]))}"
    second = f"{written[1]} {context.key_name(int(order[1]))}"
    if len(order) == 2:
        return f"values ({first} and {second})"
    more = "less" if abs(values[2]) < abs(values[1]) else "at most as much"
    others = f"{more} of {other_count_phrase(len(order) - 2)}"
    return f"values ({first}, {second} and {others})"


def weight_phrase(weights: np.ndarray, weight: float) -> str:
    """Format a weight so that a noun can follow: "52% of", "1.5 times"."""
    if weights.min() >= 0 and weights.max() <= 1:
        return f"{format_percentage(weight)} of"
    return f"{format_trimmed_number(weight)} times"


def allowed_keys_phrases(context: StepContext) -> tuple[str, str]:
    """Describe how many keys a query may attend to, and which cells of its row are masked.

    The second phrase contains a placeholder for a noun, and is empty if no cell is masked.
    """
    allowed = context.allowed_keys()
    count, may = len(allowed), int(allowed.sum())
    left = count - may
    if may == 0:
        return f"{context.query_name} may not attend to any key", all_count_phrase(count, "{}")
    if left == 0:
        return f"{context.query_name} may attend to {all_count_phrase(count, 'key')}", ""
    rest = "the other {}" if left == 1 else f"the other {left:,} {{}}s"
    return f"{context.query_name} may attend to {may:,} of {count:,} keys", rest


def no_allowed_keys_sentence(context: StepContext) -> str:
    """Return the sentence for a query that may not attend to any key."""
    is_single = len(context.allowed_keys()) == 1
    weights = "its weight is 0" if is_single else "all its weights are 0"
    return f"{context.query_name} may not attend to any key: {weights}"


def largest_number_phrase(
    context: StepContext, name: str = "the largest number", *, names_positions: bool = False
) -> str:
    """Describe the largest number in a stage of vectors by its column and its token.

    Parameters
    ----------
    names_positions : bool
        Whether the row is named by its position instead of its token.
    """
    numbers = context.read_matrix()
    top = LargestValue.of(numbers)
    if top is None:
        return NON_FINITE_PHRASE
    if top.is_constant:
        return f"all numbers are {format_number(top.value)}"
    if top.is_tied:
        return f"{name}, {format_number(top.value)}, appears {top.occurrences:,} times"
    row, column = divmod(top.at, numbers.shape[1])
    kind = "query" if context.stage.dims[-2] == "query" and not context.run.has_same_keys else "key"
    named = context.token_name(row, kind).replace("(key ", "(position ")
    whose = f"position {row + 1}" if names_positions else named
    where = f"in column {column + 1} of {whose}" if numbers.shape[1] > 1 else f"that of {whose}"
    return f"{name}, {format_number(top.value)}, is {where}"


def masked_cells_phrase(context: StepContext, noun: str, one: str, many: str) -> str:
    """Describe how many cells of a stage are masked and what happens to them."""
    allowed = context.allowed_cells()
    count, left = allowed.size, allowed.size - int(allowed.sum())
    if left == 0:
        return f"{_mask_rule_phrase(context)}: all {count:,} {noun}s are unchanged"
    if left == count:
        return f"{_mask_rule_phrase(context)}: all {count:,} {noun}s {many}"
    return (
        f"{_mask_rule_phrase(context)}: {left:,} of {count:,} {noun}s {one if left == 1 else many}"
    )


def _mask_rule_phrase(context: StepContext) -> str:
    """State what the mask and the padding forbid."""
    masking, before = context.masking, context.masking.window - 1
    earlier = "the token before it" if before == 1 else f"the {before:,} tokens before it"
    rules = {
        MaskKind.NONE: "padding is masked" if context.is_padded else "this text has no padding",
        MaskKind.CAUSAL: "no token may attend to later tokens",
        MaskKind.WINDOW: (
            f"each token may attend to itself and {earlier}"
            if before
            else "each token may attend only to itself"
        ),
        MaskKind.OWN: "your mask is applied",
    }
    padding = masking.mask is not MaskKind.NONE and context.is_padded
    return rules[masking.mask] + ", and padding is masked" * padding


def most_attended_key_phrase(context: StepContext) -> str:
    """Describe which key has the largest mean weight over all queries except padding."""
    weights = context.read_matrix()[: context.query_count]
    low, high = float(weights.min()), float(weights.max())
    if not np.isfinite([low, high]).all():
        rows = int((~np.isfinite(weights).all(axis=1)).sum())
        return f"{rows:,} of {len(weights):,} rows cannot be computed"
    if low < 0 or high > 1:
        return f"the weights range from {format_number(low)} to {format_number(high)}"
    top = LargestValue.of(weights.mean(axis=0, dtype=np.float64))
    if top is None or top.value == 0:
        return "all weights are 0"
    part = format_percentage(top.value)
    receive = "would receive" if context.is_before_mask else "receive"
    if top.is_constant:
        return f"on average, all keys {receive} the same weight, {part}"
    if top.is_tied:
        keys = f"{context.key_name(top.at)} and {other_count_phrase(top.occurrences - 1)}"
        return f"on average, {keys} {receive} the most attention, {part} each"
    receives = receive if context.is_before_mask else "receives"
    most = f"on average, {context.key_name(top.at)} {receives} the most attention, {part}"
    return most + _uniform_share_phrase(context, top.at, top.value)


def _uniform_share_phrase(context: StepContext, key: int, mean: float) -> str:
    """State the mean weight that equal weights would give a key, if there is a mask.

    If it is not below the key's mean weight, the mask is the reason for the latter.
    """
    allowed = context.allowed_cells()[: context.query_count]
    if context.is_before_mask or allowed.all():
        return ""
    counts = np.maximum(1, allowed.sum(axis=1))
    share = float((allowed[:, key] / counts).mean())
    if share >= mean * (1 - EQUALITY_TOLERANCE):
        return f", because of the mask (equal weights: {format_percentage(share)})"
    return f" (if all weights were equal: {format_percentage(share)})"


def empty_rows_phrase(cells: np.ndarray) -> str:
    """Describe how many rows have no allowed key or no nonzero weight, if there are any.

    Parameters
    ----------
    cells : numpy.ndarray
        Allowed cells as booleans, or weights, [query, key].
    """
    count = len(cells) - int(np.count_nonzero(cells.any(axis=1)))
    if count == 0:
        return ""
    return f", but {format_count(count, 'row')} {'has' if count == 1 else 'have'} no nonzero weight"


def attention_weight_sentence(info: CellContext) -> str:
    """Describe how strongly a query attends to a key, or why it may not."""
    qualifier = info.run.trace.weights_qualifier(info.cell.stage)
    is_before_mask = info.explanation.stage.is_before_mask
    attends = "would attend" if is_before_mask else "attends"
    if info.is_forbidden:
        why = "the key is padding" if info.is_padding else "the pair is masked"
        return (
            f"{info.describe_token('query')} may not attend to {info.describe_token('key')}: {why}."
        )
    if not np.isfinite(info.value):
        return f"{info.describe_token('query')} has no weights: its row cannot be computed."
    is_share = 0 <= info.value <= 1
    weight = format_percentage(info.value) if is_share else format_number(info.value)
    pair = f"{info.describe_token('query')} {attends} to {info.describe_token('key')}"
    if info.explanation.stage.operation is Operation.IMPLIED_WEIGHTS:
        return f"{pair} with weight {weight}, {qualifier}."
    before = f"{qualifier.capitalize()}, " * bool(qualifier)
    return f"{before}{pair} with weight {weight}."


def vector_column_sentence(info: CellContext, name: str) -> str:
    """Describe a number in a vector that was given or looked up."""
    column = f"Column {info.column_number} of the {name} of {info.describe_token('token')}"
    return f"{column} is {format_number(info.value)}."


def add_bias_to_formula(info: CellContext, formula: str) -> str:
    """Add the bias to a projection's formula, if there is one."""
    return f"{formula} + bias" if len(info.explanation.groups) > 1 else formula


class WeightShape(Struct, frozen=True):
    """Name and shape of the weights that a stage uses.

    Parameters
    ----------
    shape : tuple of int
        Shape as written in the equation; for stacked heads, the shape for one head.
    head_count : int
        Number of stacked heads, each with its own weights of this shape; otherwise 1.
    """

    name: str
    shape: tuple[int, ...]
    head_count: int = 1

    @property
    def description(self) -> str:
        """The name and the size, such as "W_query 3 × 4"."""
        sizes = " × ".join(map(str, self.shape))
        heads = f" in each of {self.head_count} heads" if self.head_count > 1 else ""
        return f"{self.name} {sizes}{heads}"


def split_head_shapes(spec: AttentionSpec, tokens: int) -> str:
    """Return the shapes before and after concatenated heads are split."""
    apart, between, joined = head_shapes(spec, tokens)
    return f"{joined} → {between} → {apart}"


def grouped_head_shapes(spec: AttentionSpec, tokens: int) -> tuple[str, str]:
    """Return how shared heads are split, and how they are repeated for the query heads."""
    groups, heads, d_head = spec.key_value_heads, spec.heads, spec.d_head
    joined, between = format_shape(tokens, groups * d_head), format_shape(tokens, groups, d_head)
    apart, repeated = format_shape(groups, tokens, d_head), format_shape(heads, tokens, d_head)
    return (
        f"{joined} → {between} → {apart}",
        f"each head is repeated {heads // groups} times: {apart} becomes {repeated}",
    )


def head_shapes(spec: AttentionSpec, tokens: int) -> tuple[str, str, str]:
    """Return the shapes with heads first, with heads after the tokens, and concatenated."""
    heads, d_head = spec.heads, spec.d_head
    return (
        format_shape(heads, tokens, d_head),
        format_shape(tokens, heads, d_head),
        format_shape(tokens, spec.concatenated_head_width),
    )


def matrix_product_shapes(rows: int, between: int, columns: int, has_bias: bool = False) -> str:
    """Return the equation of the shapes in a matrix product."""
    bias = f" + {format_shape(columns)}" if has_bias else ""
    left, right, made = (
        format_shape(rows, between),
        format_shape(between, columns),
        format_shape(rows, columns),
    )
    return f"{left} · {right}{bias} = {made}"


def each_head_phrase(spec: AttentionSpec) -> str:
    """Return " in each of n heads", or an empty string if there is only one head."""
    return f" in each of {spec.heads} heads" if spec.heads > 1 else ""


def format_shape(*counts: int) -> str:
    """Format sizes as Python does; thousands separators would look like additional axes."""
    return f"({', '.join(map(str, counts))})"
