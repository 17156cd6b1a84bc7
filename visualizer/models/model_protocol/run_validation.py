"""Validation of a run that a server has sent beyond its types: sizes, stages and indices.

What could not be drawn or explained is refused before it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.captured_attention_validation import claims_of_header
from visualizer.attention.layer_stage_descriptions import CELLS
from visualizer.attention.model_layer_stages import ORDER, STEP_OPERATIONS
from visualizer.attention.model_layer_steps import (
    ExpertMixture,
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
from visualizer.attention.spec import LARGEST
from visualizer.attention.stages import Operation
from visualizer.models.model_protocol.answer_values import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.captured_attention_validation import Claim
    from visualizer.attention.model_layer_steps import LayerStep
    from visualizer.models.model_protocol.run_message import RunValues, StageOnWire

OF_NOTHING = {Operation.CAPTURED, Operation.RESIDUAL_STREAM}
OF_TWO = {Operation.DOT_PRODUCT, Operation.WEIGHTED_SUM, Operation.ADD_SCORE_BIAS}
OF_ONE = {Operation.SCALE_SCORES, Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS}
OF_SEVERAL = {Operation.RESIDUAL_ADDITION, Operation.HIDDEN_ACTIVATION}
"""How many stages of as many axes as its own an operation reads; others have steps."""
AXES_READ = {
    Operation.LINEAR_LAYER: (2,), Operation.LATENT_KEYS: (2, 2), Operation.CONCAT_HEADS: (3,)
}  # fmt: skip
"""How many axes those have that some operations read."""


def check_run(values: RunValues) -> None:
    """Refuse a run that this program's server does not send.

    Raises
    ------
    InputError
        Of ``server``, naming the first thing that cannot be.
    """
    for holds, what in _claims(values):
        if not holds:
            raise unreadable(f"it has {what} that cannot be")


def _claims(values: RunValues) -> Iterator[Claim]:
    sent = values.run
    header = sent.captured
    yield from claims_of_header(header)
    yield len(sent.tokens) == header.queries, "a number of tokens"
    yield len(sent.key_tokens) == header.keys, "a number of tokens that are read"
    yield len(sent.reading.layers) == header.layers, "a number of layers"
    low, high = values.limits
    yield -float("inf") < low <= high < float("inf"), "limits"
    if values.owners is not None:
        yield header.vectors is not None, "attention of a long text"
        return
    names = [row.name for row in sent.stages]
    yield bool(names) and {*names} <= {*ORDER} and len({*names}) == len(names), "a set of stages"
    yield {*names} <= values.shapes.keys(), "a set of sizes"
    attention = next((row for row in sent.stages if row.name == "weights"), sent.stages[-1])
    yield attention.dims == CELLS, "attention"
    dims = {row.name: row.dims for row in sent.stages}
    for row in sent.stages:
        yield _has_size(header, row, values.shapes[row.name]), f"a size of {row.name}"
        yield len(row.by_layer) in (0, header.layers), f"a number of rows of {row.name}"
        yield {*row.reads} <= {*names}, f"what {row.name} reads"
        for at, each in enumerate(row.by_layer or (row,)):
            layers = range(at, at + 1) if row.by_layer else range(header.layers)
            yield (each.name, each.dims) == (row.name, row.dims), f"a row of {row.name}"
            yield {*each.reads} <= {*names}, f"what {row.name} reads"
            axes = tuple(len(dims[name]) for name in each.reads)
            yield _reads_fit(each, axes), f"what {row.name} reads"
            yield _step_fits(header, each, values, layers), f"what makes {row.name}"


def _has_size(header: CapturedAttention, row: StageOnWire, sizes: tuple[int, ...]) -> bool:
    """Whether the axes whose sizes are known have these, and the others a size."""
    known = {
        "layer": (header.layers,),
        "head": (header.heads,),
        "query": (header.queries,),
        "key": (header.keys,),
        "token": (header.queries, header.keys),
    }
    axes = ("layer",)[: header.layers - 1] + row.dims
    return len(axes) == len(sizes) and all(
        size in known.get(axis, (size,)) and 1 <= size <= LARGEST["d_ff"]
        for axis, size in zip(axes, sizes, strict=True)
    )


def _reads_fit(row: StageOnWire, axes: tuple[int, ...]) -> bool:
    """Whether a row reads as many stages as its operation takes, with so many axes each."""
    own = len(row.dims)
    if row.operation in OF_NOTHING:
        return not axes
    if row.operation in OF_TWO:
        return axes == (own, own)
    if row.operation in OF_SEVERAL:
        return bool(axes) and {*axes} == {own}
    return axes == AXES_READ.get(row.operation, (own,))


def _step_fits(
    header: CapturedAttention, row: StageOnWire, values: RunValues, layers: range
) -> bool:
    """Whether what a step indexes in these layers is there: heads, columns, numbers of weights."""
    step = row.step
    if step is None:
        return row.operation in {Operation.CAPTURED, *OF_TWO, *OF_ONE}
    is_there = {*weight_names(step)} <= {*values.weights}
    if row.operation is not STEP_OPERATIONS[type(step)] or not is_there:
        return False
    if isinstance(step, ResidualStream):
        places = (None, *range(header.layers))
        are_places = len(step.before) == header.layers and all(one in places for one in step.before)
        return are_places and ("result" in values.shapes or {*step.before} == {None})
    if isinstance(step, JoinedHeads):
        return all(
            0 <= layer < header.layers and 0 <= head < header.heads
            for layer, head, _ in step.edits
        )  # fmt: skip
    if isinstance(step, RotaryPosition):
        columns = values.shapes[row.name][-1]
        return min(step.pairs, step.start) >= 0 and step.start + 2 * step.pairs <= columns
    if isinstance(step, NormLayer | LinearLayer | ExpertMixture | ScaledVector):
        modules = step.modules
        is_whole = len(modules) == header.layers and (
            not weight_names(step) or all(modules[layer] for layer in layers)
        )
        if not is_whole:
            return False
    if isinstance(step, LinearLayer):
        return _matrix_fits(header, row, step, values)
    return _weights_fit(header, row, step, values)


def _weights_fit(
    header: CapturedAttention, row: StageOnWire, step: LayerStep, values: RunValues
) -> bool:
    """Whether the weights of a step, but for matrices, have the numbers that are read."""
    *_, tokens, columns = values.shapes[row.name]
    if isinstance(step, NormLayer):
        if step.heads and not (len(step.heads) == header.heads and min(step.heads) >= 0):
            return False
        shared = {*step.heads} if step.is_over_heads else {0}
        if shared != {*range(len(shared))}:
            return False
        return _are_as_long(values.weights, step, (columns * len(shared),))
    if isinstance(step, ScaledVector):
        return _are_as_long(values.weights, step, (columns,))
    if isinstance(step, SinkSoftmax):
        return _are_as_long(values.weights, step, (header.layers, header.heads))
    if isinstance(step, LateSink):
        return _are_as_long(values.weights, step, (header.layers, header.heads, tokens))
    return True


def _are_as_long(
    weights: Mapping[str, tuple[int, ...]], step: LayerStep, least: tuple[int, ...]
) -> bool:
    """Whether all weights of a step have these axes, each so long or longer."""
    return all(
        len(weights[name]) == len(least)
        and all(size >= one for size, one in zip(weights[name], least, strict=True))
        for name in weight_names(step)
    )


def _matrix_fits(
    header: CapturedAttention, row: StageOnWire, step: LinearLayer, values: RunValues
) -> bool:
    """Whether a matrix takes the vectors that it is given, and has the results that are read."""
    firsts = step.first_columns
    columns = values.shapes[row.name][-1]
    own = step.own_columns if isinstance(step, LatentKeys) else columns
    heads = header.heads if "head" in row.dims else 1
    if len(firsts) != heads or min(firsts) < 0 or not 0 <= own <= columns:
        return False
    taken, results = values.shapes[row.reads[0]][-1], max(firsts) + own
    for name in weight_names(step):
        sizes = values.weights[name][:: -1 if step.is_transposed else 1]
        is_bias = name.endswith(".bias")
        if len(sizes) != 2 - is_bias or sizes[0] < results or (not is_bias and sizes[1] != taken):
            return False
    return True
