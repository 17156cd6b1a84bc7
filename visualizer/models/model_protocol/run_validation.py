"""Validates the shapes, stages and indices of a run received from a server.

A run that cannot be drawn or explained is rejected before it is shown. The types of its values have
already been checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.captured_attention import (
    MAX_CUT_EDGES,
    MAX_LAYERS,
    header_checks,
    possible_stage_axes,
)
from visualizer.attention.layer_operations import (
    ACTIVATIONS,
    ExpertMixture,
    HiddenActivation,
    JoinedHeads,
    LatentKeys,
    LateSink,
    LinearLayer,
    NormLayer,
    ResidualStream,
    RotaryPosition,
    ScaledVector,
    SinkSoftmax,
    weight_names,
)
from visualizer.attention.layer_stages import STAGE_ORDER, STEP_OPERATIONS
from visualizer.attention.roles import Role
from visualizer.attention.spec import MAX_VALUES
from visualizer.attention.stages import SCORE_AXES, Operation
from visualizer.models.model_protocol.responses import invalid_response_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from visualizer.attention.captured_attention import CapturedAttention, NumberCheck
    from visualizer.attention.layer_operations import LayerStep
    from visualizer.models.model_protocol.run_message import (
        ModelResultMessage,
        StageMessage,
        TextRunResponse,
    )

    Sizes = tuple[int, ...]

MODULE_OPERATIONS = {
    Operation.CAPTURED, Operation.DOT_PRODUCT, Operation.SCALE_SCORES,
    Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS, Operation.WEIGHTED_SUM,
}  # fmt: skip
"""Operations that a model computes in the same way as this program; all other operations require a
step.
"""
SCORE_OPERATIONS = {
    Operation.DOT_PRODUCT, Operation.SCALE_SCORES, Operation.CAP_SCORES, Operation.ADD_SCORE_BIAS,
    Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS, Operation.SOFTMAX_WITH_SINK,
}  # fmt: skip
"""Operations that compute one value per query and key."""
RESIZING_OPERATIONS = {
    Operation.DOT_PRODUCT, Operation.WEIGHTED_SUM, Operation.CONCAT_HEADS, Operation.LINEAR_LAYER,
    Operation.LATENT_KEYS,
}  # fmt: skip
"""Operations with an output shape that differs from the input shapes."""
MAX_INPUTS = {
    Operation.RESIDUAL_ADDITION: 3, Operation.HIDDEN_ACTIVATION: 2, Operation.ADD_SCORE_BIAS: 2
}  # fmt: skip
"""Maximum number of inputs of operations that keep the shape; operations that are not listed have
one input.
"""


def check_received_run(values: TextRunResponse) -> None:
    """Raise an `InputError` with field ``server`` for a run that cannot be drawn or explained.

    The message names the first invalid part.
    """
    for holds, subject in _run_checks(values):
        if not holds:
            raise invalid_response_error(f"invalid run data ({subject})")


def _run_checks(values: TextRunResponse) -> Iterator[NumberCheck]:
    sent = values.run
    header = sent.captured
    yield from header_checks(header)
    yield not any(header.buffers()), "attention values"
    yield len(sent.tokens) == header.queries, "number of query tokens"
    yield len(sent.key_tokens) == header.keys, "number of key tokens"
    yield from _reading_checks(header, sent.reading)
    low, high = values.limits
    yield -float("inf") < low <= high < float("inf"), "limits"
    if values.owners is not None:
        yield header.vectors is not None, "attention of a long text"
        return
    names = [row.name for row in sent.stages]
    yield bool(names) and names == [name for name in STAGE_ORDER if name in names], "set of stages"
    yield {*names} == values.shapes.keys(), "set of shapes"
    attention = next((row for row in sent.stages if row.name == Role.WEIGHTS), sent.stages[-1])
    yield attention.dims == SCORE_AXES, "attention"
    for row in sent.stages:
        yield _has_valid_axes(header, row, values.shapes[row.name]), f"shape of {row.name}"
        yield len(row.by_layer) in (0, header.layers), f"number of rows of {row.name}"
        yield from _stage_checks(values, row, range(0 if row.by_layer else header.layers))
        for layer, own in enumerate(row.by_layer):
            is_consistent = (own.name, own.dims, own.by_layer) == (row.name, row.dims, ())
            yield is_consistent, f"row of {row.name}"
            yield from _stage_checks(values, own, range(layer, layer + 1))


def _reading_checks(
    header: CapturedAttention, reading: ModelResultMessage
) -> Iterator[NumberCheck]:
    layers = reading.layers
    yield len(layers) == header.layers, "number of layers"
    are_layers = all(0 <= layer < MAX_LAYERS for layer in layers)
    yield are_layers and [*layers] == sorted({*layers}), "layer numbers"
    yield all(0 <= at < header.queries for at, _ in reading.special), "special token"
    edges = [edge for *_, edges in reading.cuts for edge in edges]
    are_edges = all(0 <= query < header.queries and 0 <= key < header.keys for query, key in edges)
    yield are_edges and len(edges) <= MAX_CUT_EDGES, "cut edges"


def _has_valid_axes(header: CapturedAttention, row: StageMessage, sizes: Sizes) -> bool:
    """Return whether a stage has the axes that belong to its name, with valid sizes."""
    known = {
        "layer": (header.layers,),
        "head": (header.heads,),
        "query": (header.queries,),
        "key": (header.keys,),
        "token": (header.queries, header.keys),
    }
    axes = ("layer",)[: header.layers - 1] + row.dims
    is_known = row.dims in possible_stage_axes(row.name) and len(axes) == len(sizes)
    return is_known and all(
        size in known.get(axis, (size,)) and 1 <= size <= MAX_VALUES["d_ff"]
        for axis, size in zip(axes, sizes, strict=True)
    )


def _stage_checks(
    values: TextRunResponse, row: StageMessage, layers: range
) -> Iterator[NumberCheck]:
    """Yield checks of a stage's inputs and operation in the given layers."""
    earlier = STAGE_ORDER[: STAGE_ORDER.index(row.name)]
    exist = all(name in values.shapes and name in earlier for name in row.reads)
    yield exist, f"inputs of {row.name}"
    axes = {one.name: len(one.dims) for one in values.run.stages}
    own, *read = (values.shapes[name][-axes[name] :] for name in (row.name, *row.reads))
    yield _has_valid_inputs(row, own, read), f"inputs of {row.name}"
    yield _is_valid_step(values, row, own, layers), f"operation of {row.name}"


def _has_valid_inputs(row: StageMessage, own: Sizes, read: Sequence[Sizes]) -> bool:
    """Return whether the number and shapes of the inputs of a stage are valid for its operation."""
    operation = row.operation
    if operation in SCORE_OPERATIONS and len(own) != len(SCORE_AXES):
        return False
    match operation, own, read:
        case ((Operation.CAPTURED | Operation.RESIDUAL_STREAM), _, _):
            return not read
        case Operation.DOT_PRODUCT, (_, queries, keys), [(_, rows, width), (_, columns, same)]:
            return (rows, columns, width) == (queries, keys, same)
        case Operation.WEIGHTED_SUM, (_, queries, width), [(_, rows, keys), (_, tokens, same)]:
            return (rows, keys, width) == (queries, tokens, same)
        case Operation.CONCAT_HEADS, (tokens, columns), [(heads, rows, width)]:
            return (rows, heads * width) == (tokens, columns)
        case Operation.LINEAR_LAYER, (*_, tokens, _), [(rows, _)]:
            return rows == tokens
        case Operation.LATENT_KEYS, (_, tokens, _), [(rows, _), (others, _)]:
            return rows == others == tokens
    max_inputs = MAX_INPUTS.get(operation, 1)
    keeps_shape = operation not in RESIZING_OPERATIONS
    return keeps_shape and 1 <= len(read) <= max_inputs and {*read} == {own}


def _is_valid_step(values: TextRunResponse, row: StageMessage, own: Sizes, layers: range) -> bool:
    """Return whether the heads, columns and weights that a step uses in the given layers exist."""
    sent, step = values.run, row.step
    header = sent.captured
    if step is None:
        return row.operation in MODULE_OPERATIONS
    if row.operation is not STEP_OPERATIONS[type(step)]:
        return False
    modules = getattr(step, "modules", None)
    if modules is not None:
        is_named = len(modules) == header.layers and (
            not weight_names(step) or all(modules[layer] for layer in layers)
        )
        if not is_named:
            return False
    if not all(name in values.weights for name in weight_names(step)):
        return False
    if isinstance(step, ResidualStream):
        places = enumerate(step.before)
        are_earlier = all(before is None or 0 <= before < layer for layer, before in places)
        has_result = {*step.before} == {None} or values.shapes.get("result", ())[-2:] == own
        is_whole = step.embedded is None and len(step.before) == header.layers
        return is_whole and are_earlier and has_result
    if isinstance(step, JoinedHeads):
        return all(
            0 <= layer < header.layers and 0 <= head < header.heads
            for layer, head, _ in step.edits
        )  # fmt: skip
    if isinstance(step, HiddenActivation):
        return step.function in ACTIVATIONS
    if isinstance(step, LinearLayer):
        return _is_valid_matrix(values, row, step, own)
    return _has_valid_weights(header, step, own, values.weights)


def _has_valid_weights(
    header: CapturedAttention, step: LayerStep, own: Sizes, weights: Mapping[str, Sizes]
) -> bool:
    """Return whether the weights of a step, except matrices, have all values that the step uses."""
    *_, tokens, columns = own
    if isinstance(step, RotaryPosition):
        is_within = min(step.pairs, step.start) >= 0 and step.start + 2 * step.pairs <= columns
        return is_within and _have_min_sizes(weights, step, (header.layers, tokens, step.pairs))
    if isinstance(step, NormLayer):
        if step.heads and not len(step.heads) == header.heads == own[0]:
            return False
        shared = {*step.heads} if step.is_over_heads else {0}
        are_heads = shared == {*range(len(shared))}
        return are_heads and _have_min_sizes(weights, step, (columns * len(shared),))
    if isinstance(step, ScaledVector):
        return _have_min_sizes(weights, step, (columns,))
    if isinstance(step, SinkSoftmax):
        return _have_min_sizes(weights, step, (header.layers, header.heads))
    if isinstance(step, LateSink):
        return _have_min_sizes(weights, step, (header.layers, header.heads, tokens))
    if isinstance(step, ExpertMixture):
        return all(
            _has_valid_experts(module, step, own, weights) for module in step.modules if module
        )
    return True


def _has_valid_experts(
    module: str, step: ExpertMixture, own: Sizes, weights: Mapping[str, Sizes]
) -> bool:
    tokens, columns = own
    chosen = weights[f"{module}.numbers"]
    return (
        len(chosen) == 2
        and chosen[0] == tokens
        and weights[f"{module}.router_weights"] == chosen
        and weights[f"{module}.results"] == (*chosen, columns)
        and (not step.has_shared or weights[f"{module}.shared"] == own)
    )


def _have_min_sizes(weights: Mapping[str, Sizes], step: LayerStep, min_sizes: Sizes) -> bool:
    """Return whether all weights of a step have the given number of axes and minimum sizes."""
    return all(
        len(weights[name]) == len(min_sizes)
        and all(size >= low for size, low in zip(weights[name], min_sizes, strict=True))
        for name in weight_names(step)
    )


def _is_valid_matrix(
    values: TextRunResponse, row: StageMessage, step: LinearLayer, own: Sizes
) -> bool:
    """Return whether a matrix fits its input vectors and has all output columns that are used."""
    firsts, columns = step.first_columns, own[-1]
    columns_used = step.own_columns if isinstance(step, LatentKeys) else columns
    heads = own[0] if len(own) == len(SCORE_AXES) else 1
    if len(firsts) != heads or min(firsts) < 0 or not 0 <= columns_used <= columns:
        return False
    if isinstance(step, LatentKeys) and values.shapes[row.reads[1]][-1] != columns - columns_used:
        return False
    inputs, results = values.shapes[row.reads[0]][-1], max(firsts) + columns_used
    for name in weight_names(step):
        sizes = values.weights[name][:: -1 if step.is_transposed else 1]
        is_bias = name.endswith(".bias")
        if len(sizes) != 2 - is_bias or sizes[0] < results or (not is_bias and sizes[1] != inputs):
            return False
    return True
