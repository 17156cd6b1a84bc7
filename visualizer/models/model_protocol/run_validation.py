"""Validation of a run that a server has sent beyond its types: sizes, stages and indices.

A run that could not be drawn or explained is refused before it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.activation_functions import ACTIVATIONS
from visualizer.attention.captured_attention import MAX_CUT_EDGES, MAX_LAYERS, possible_dims
from visualizer.attention.captured_attention_validation import claims_of_header
from visualizer.attention.layer_stage_descriptions import CELLS
from visualizer.attention.model_layer_stages import ORDER, STEP_OPERATIONS
from visualizer.attention.model_layer_steps import (
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
from visualizer.attention.spec import MAX_VALUES
from visualizer.attention.stages import Operation
from visualizer.models.model_protocol.answer_values import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.captured_attention_validation import Claim
    from visualizer.attention.model_layer_steps import LayerStep
    from visualizer.models.model_protocol.run_message import ReadingOnWire, RunValues, StageOnWire

    Sizes = tuple[int, ...]

MODULE_OPERATIONS = {
    Operation.CAPTURED, Operation.DOT_PRODUCT, Operation.SCALE_SCORES,
    Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS, Operation.WEIGHTED_SUM,
}  # fmt: skip
"""What a model computes as a module of this program does; all else is known by its step."""
SCORE_OPERATIONS = {
    Operation.DOT_PRODUCT, Operation.SCALE_SCORES, Operation.CAP_SCORES, Operation.ADD_SCORE_BIAS,
    Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS, Operation.SOFTMAX_WITH_SINK,
}  # fmt: skip
"""What makes a number of each query and key."""
RESIZING_OPERATIONS = {
    Operation.DOT_PRODUCT, Operation.WEIGHTED_SUM, Operation.CONCAT_HEADS, Operation.LINEAR_LAYER,
    Operation.LATENT_KEYS,
}  # fmt: skip
"""What reads stages of other sizes than it makes."""
READ_AT_MOST = {
    Operation.RESIDUAL_ADDITION: 3, Operation.HIDDEN_ACTIVATION: 2, Operation.ADD_SCORE_BIAS: 2
}  # fmt: skip
"""How many stages are read by operations on stages of their own sizes; the others read one."""


def check_run(values: RunValues) -> None:
    """Refuse a run that could not be drawn or explained.

    Raises
    ------
    InputError
        Of ``server``, naming the first thing that cannot be.
    """
    for holds, what in _run_claims(values):
        if not holds:
            raise unreadable(f"it has {what} that cannot be")


def _run_claims(values: RunValues) -> Iterator[Claim]:
    sent = values.run
    header = sent.captured
    yield from claims_of_header(header)
    yield not any(header.held()), "numbers of attention"
    yield len(sent.tokens) == header.queries, "a number of tokens"
    yield len(sent.key_tokens) == header.keys, "a number of tokens that are read"
    yield from _reading_claims(header, sent.reading)
    low, high = values.limits
    yield -float("inf") < low <= high < float("inf"), "limits"
    if values.owners is not None:
        yield header.vectors is not None, "attention of a long text"
        return
    names = [row.name for row in sent.stages]
    yield bool(names) and names == [name for name in ORDER if name in names], "a set of stages"
    yield {*names} == values.shapes.keys(), "a set of sizes"
    attention = next((row for row in sent.stages if row.name == "weights"), sent.stages[-1])
    yield attention.dims == CELLS, "attention"
    for row in sent.stages:
        yield _has_size(header, row, values.shapes[row.name]), f"a size of {row.name}"
        yield len(row.by_layer) in (0, header.layers), f"a number of rows of {row.name}"
        yield from _stage_claims(values, row, range(0 if row.by_layer else header.layers))
        for layer, own in enumerate(row.by_layer):
            is_alike = (own.name, own.dims, own.by_layer) == (row.name, row.dims, ())
            yield is_alike, f"a row of {row.name}"
            yield from _stage_claims(values, own, range(layer, layer + 1))


def _reading_claims(header: CapturedAttention, reading: ReadingOnWire) -> Iterator[Claim]:
    layers = reading.layers
    yield len(layers) == header.layers, "a number of layers"
    are_layers = all(0 <= layer < MAX_LAYERS for layer in layers)
    yield are_layers and [*layers] == sorted({*layers}), "numbers of layers"
    yield all(0 <= at < header.queries for at, _ in reading.special), "a special token"
    edges = [edge for *_, edges in reading.cuts for edge in edges]
    are_edges = all(0 <= query < header.queries and 0 <= key < header.keys for query, key in edges)
    yield are_edges and len(edges) <= MAX_CUT_EDGES, "cut edges"


def _has_size(header: CapturedAttention, row: StageOnWire, sizes: Sizes) -> bool:
    """Whether a stage has the axes of its name, of the sizes that are known and others of some."""
    known = {
        "layer": (header.layers,),
        "head": (header.heads,),
        "query": (header.queries,),
        "key": (header.keys,),
        "token": (header.queries, header.keys),
    }
    axes = ("layer",)[: header.layers - 1] + row.dims
    is_known = row.dims in possible_dims(row.name) and len(axes) == len(sizes)
    return is_known and all(
        size in known.get(axis, (size,)) and 1 <= size <= MAX_VALUES["d_ff"]
        for axis, size in zip(axes, sizes, strict=True)
    )


def _stage_claims(values: RunValues, row: StageOnWire, layers: range) -> Iterator[Claim]:
    """Claim that what makes a stage in some layers, and what it reads there, is fitting."""
    earlier = ORDER[: ORDER.index(row.name)]
    are_there = all(name in values.shapes and name in earlier for name in row.reads)
    yield are_there, f"what {row.name} reads"
    axes = {one.name: len(one.dims) for one in values.run.stages}
    own, *read = (values.shapes[name][-axes[name] :] for name in (row.name, *row.reads))
    yield _reads_fit(row, own, read), f"what {row.name} reads"
    yield _step_fits(values, row, own, layers), f"what makes {row.name}"


def _reads_fit(row: StageOnWire, own: Sizes, read: Sequence[Sizes]) -> bool:
    """Whether a row reads as many stages as its operation takes, of sizes that go together."""
    operation = row.operation
    if operation in SCORE_OPERATIONS and len(own) != len(CELLS):
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
    most = READ_AT_MOST.get(operation, 1)
    is_of_its_size = operation not in RESIZING_OPERATIONS
    return is_of_its_size and 1 <= len(read) <= most and {*read} == {own}


def _step_fits(values: RunValues, row: StageOnWire, own: Sizes, layers: range) -> bool:
    """Whether what a step indexes in these layers is there: heads, columns, numbers of weights."""
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
        are_before = all(before is None or 0 <= before < layer for layer, before in places)
        is_there = {*step.before} == {None} or values.shapes.get("result", ())[-2:] == own
        is_whole = step.embedded is None and len(step.before) == header.layers
        return is_whole and are_before and is_there
    if isinstance(step, JoinedHeads):
        return all(
            0 <= layer < header.layers and 0 <= head < header.heads
            for layer, head, _ in step.edits
        )  # fmt: skip
    if isinstance(step, HiddenActivation):
        return step.function in ACTIVATIONS
    if isinstance(step, LinearLayer):
        return _matrix_fits(values, row, step, own)
    return _weights_fit(header, step, own, values.weights)


def _weights_fit(
    header: CapturedAttention, step: LayerStep, own: Sizes, weights: Mapping[str, Sizes]
) -> bool:
    """Whether the weights of a step, but for matrices, have the numbers that are read."""
    *_, tokens, columns = own
    if isinstance(step, RotaryPosition):
        is_within = min(step.pairs, step.start) >= 0 and step.start + 2 * step.pairs <= columns
        return is_within and _are_as_long(weights, step, (header.layers, tokens, step.pairs))
    if isinstance(step, NormLayer):
        if step.heads and not len(step.heads) == header.heads == own[0]:
            return False
        shared = {*step.heads} if step.is_over_heads else {0}
        are_heads = shared == {*range(len(shared))}
        return are_heads and _are_as_long(weights, step, (columns * len(shared),))
    if isinstance(step, ScaledVector):
        return _are_as_long(weights, step, (columns,))
    if isinstance(step, SinkSoftmax):
        return _are_as_long(weights, step, (header.layers, header.heads))
    if isinstance(step, LateSink):
        return _are_as_long(weights, step, (header.layers, header.heads, tokens))
    if isinstance(step, ExpertMixture):
        return all(_experts_fit(module, step, own, weights) for module in step.modules if module)
    return True


def _experts_fit(
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


def _are_as_long(weights: Mapping[str, Sizes], step: LayerStep, least: Sizes) -> bool:
    """Whether all weights of a step have these axes, each so long or longer."""
    return all(
        len(weights[name]) == len(least)
        and all(size >= one for size, one in zip(weights[name], least, strict=True))
        for name in weight_names(step)
    )


def _matrix_fits(values: RunValues, row: StageOnWire, step: LinearLayer, own: Sizes) -> bool:
    """Whether a matrix takes the vectors that it is given, and has the results that are read."""
    firsts, columns = step.first_columns, own[-1]
    made = step.own_columns if isinstance(step, LatentKeys) else columns
    heads = own[0] if len(own) == len(CELLS) else 1
    if len(firsts) != heads or min(firsts) < 0 or not 0 <= made <= columns:
        return False
    if isinstance(step, LatentKeys) and values.shapes[row.reads[1]][-1] != columns - made:
        return False
    taken, results = values.shapes[row.reads[0]][-1], max(firsts) + made
    for name in weight_names(step):
        sizes = values.weights[name][:: -1 if step.is_transposed else 1]
        is_bias = name.endswith(".bias")
        if len(sizes) != 2 - is_bias or sizes[0] < results or (not is_bias and sizes[1] != taken):
            return False
    return True
