"""Messages that contain the run of a text as JSON values and arrays.

The message for a short text contains the attention weights; the client requests other stages when
they are read. For a long text, the client requests blocks of all stages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.blockwise_captured_run import header_of_long_text_run
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.captured_attention import CapturedAttention, LayerMask
from visualizer.attention.layer_operations import LayerStep, ResidualStream, weight_names
from visualizer.attention.model_forward_pass import (
    ModelForwardPass,
    NextTokenCandidate,
    SecondTextUse,
)
from visualizer.attention.remote_numbers import NumbersPendingError
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.run import Run
from visualizer.attention.saved_numbers import captured_header
from visualizer.attention.stages import Operation, Stage, is_always_present
from visualizer.attention.trace import Trace
from visualizer.errors import InputError
from visualizer.models.model_protocol.requests import Count  # noqa: TC001 - decoded
from visualizer.models.model_protocol.responses import check_response_array

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    import numpy as np
    from torch import Tensor

    from visualizer.attention.head_measures import HeadMeasures
    from visualizer.progress import Progress


ATTENTION_ARRAY = "attention"
"""Name of the array with the attention weights or scores."""
FIRST_LAYER_ARRAY = "first layer"
"""Name of the array with the weights or scores of the first layer, if not all layers are sent."""
MEASURES_PREFIX = "measures/"
"""Prefix of the names of the head measures."""
LARGE_VECTORS = (*VECTOR_ROLES, "bias", "sinks")
"""Fields of `CapturedAttention.vectors` that can be large."""
MAX_WHOLE_BYTES = 2**24
"""Maximum total size, in bytes, of all layers' attention weights; if they are larger, the client
requests blocks.
"""
MAX_INLINE_BYTES = 2**14
"""Maximum size, in bytes, of the attention that is included in the response: all layers or, if they
are too large, the first one, which is shown first. If that is also too large, the client requests
the parts that it needs.
"""
MAX_PARAMETER_BYTES = 2**16
"""Maximum size, in bytes, of a model weight that is sent. The server computes the stages that use
larger weights.
"""


class StageMessage(Struct, frozen=True):
    """A row of a layer's stage table, without the parts that depend on the specification."""

    name: str
    title: str
    symbol: str
    dims: tuple[str, ...]
    operation: Operation
    reads: tuple[str, ...]
    says: str
    step: LayerStep | None = None
    by_layer: tuple[StageMessage, ...] = ()

    @classmethod
    def from_stage(cls, row: Stage, weights: Collection[str]) -> StageMessage:
        """Return the message for a row, given the names of the weights that are sent."""
        step, operation, reads = row.step, row.operation, row.reads
        if isinstance(step, ResidualStream):
            step = replace(step, embedded=None)  # because the embedding tables are large
        elif step is not None and not set(weight_names(step)).issubset(weights):
            step, operation, reads = None, Operation.CAPTURED, ()
        by_layer = tuple(cls.from_stage(each, weights) for each in row.by_layer)
        return cls(
            row.name, row.title, row.symbol, row.dims, operation, reads, row.description, step,
            by_layer,
        )  # fmt: skip

    @property
    def to_stage(self) -> Stage:
        """The row of the stage table."""
        return Stage(
            self.name, self.title, self.symbol, self.dims, self.operation, self.reads, (), (),
            self.says, is_always_present, step=self.step,
            by_layer=tuple(each.to_stage for each in self.by_layer),
        )  # fmt: skip


class ModelResultMessage(Struct, frozen=True):
    """Further results of processing a text; see `ModelForwardPass`."""

    layers: tuple[int, ...]
    edits: tuple[tuple[int, int, str], ...]
    cuts: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]
    are_heads_switchable: bool
    next_tokens: tuple[NextTokenCandidate, ...]
    no_next_token: str
    largest_changes: tuple[NextTokenCandidate, ...]
    is_of_lab: bool
    text: str
    special: tuple[tuple[int, str], ...]
    has_chat_template: bool
    second: SecondTextUse
    is_text_alone: bool
    parts: tuple[tuple[str, str], ...]
    part: str
    training_step: int | None = None

    @classmethod
    def from_reading(cls, reading: ModelForwardPass) -> ModelResultMessage:
        """Return the message with the parts of a `ModelForwardPass` that are sent."""
        own = {name: getattr(reading, name) for name in cls.__struct_fields__}
        own["edits"] = tuple((*place, edit) for place, edit in reading.edits.items())
        own["cuts"] = tuple((*place, tuple(cells)) for place, cells in reading.cuts.items())
        return cls(**own)

    def to_reading(
        self,
        made_of: Hashable,
        captured: CapturedAttention | None,
        model: object,
        changes: np.ndarray | None,
    ) -> ModelForwardPass:
        """Return the `ModelForwardPass` with a model that runs on a server."""
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        own["edits"] = {(layer, head): edit for layer, head, edit in self.edits}
        own["cuts"] = {(layer, head): cells for layer, head, cells in self.cuts}
        return ModelForwardPass(
            made_of=made_of, captured=captured, model=model, changes=changes, **own
        )


class StageFetcher(Protocol):
    """Function that returns a stage with values that are on the server."""

    def __call__(self, name: str, *, is_attention: bool = False) -> CachedTensor:
        """Return the stage with this name; `is_attention` marks the attention that is shown."""


class RunMessage(Struct, frozen=True):
    """A run without its arrays.

    Parameters
    ----------
    captured : CapturedAttention
        Captured attention without its values.
    """

    captured: CapturedAttention
    stages: tuple[StageMessage, ...]
    reading: ModelResultMessage
    device: str
    notices: tuple[str, ...]
    tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]


class RankHeads(Struct, frozen=True):
    """The layers and heads of a long text that one process holds.

    Parameters
    ----------
    layers : tuple of int
        Indices of the layers in the run.
    """

    rank: int
    layers: tuple[int, ...]
    first: int
    heads: int


class TextRunResponse(Struct, frozen=True):
    """Values of the response to a `TextRunRequest`.

    Parameters
    ----------
    number : int
        Id of the run; the client uses it to request the run's values.
    shapes : mapping
        Shapes of the stages; empty for a long text.
    weights : mapping
        Shapes of the model weights that the client can request.
    limits : tuple of float
        Smallest and largest value of the attention.
    owners : tuple of RankHeads or None
        The layers and heads of each process for a long text, because its stages are computed when
        they are read; None for a short text.
    """

    run: RunMessage
    number: Count
    shapes: dict[str, tuple[int, ...]] = {}
    weights: dict[str, tuple[int, ...]] = {}
    limits: tuple[float, float] = (0.0, 0.0)
    owners: tuple[RankHeads, ...] | None = None


def create_short_run_message(run: Run) -> tuple[RunMessage, dict[str, np.ndarray]]:
    """Return the message for a short text's run, and its arrays (the weights or scores)."""
    reading, trace = run.reading, run.trace
    assert reading is not None
    header = captured_header(run)
    assert header is not None
    arrays = {ATTENTION_ARRAY: trace.read(trace.attention_stage_name)}
    if reading.changes is not None:
        arrays["changes"] = reading.changes
    weights = inline_weight_names(run)
    rows = tuple(StageMessage.from_stage(row, weights) for row in trace.stages)
    return _build_run_message(run, _without_values(header), rows, reading), arrays


def inline_weight_names(run: Run) -> tuple[str, ...]:
    """Return the names of the model weights that are small enough to be sent."""
    tensors = run.trace.model_weights.items()
    return tuple(name for name, tensor in tensors if tensor.nbytes <= MAX_PARAMETER_BYTES)


def create_long_run_message(
    run: Run, layers: tuple[int, ...], heads: int, masks: Sequence[Mapping[str, Any]]
) -> RunMessage:
    """Return the message for a long text's run, even if this process holds only part of the run.

    Parameters
    ----------
    layers : tuple of int
        Numbers, in the model, of all layers of the run.
    masks : sequence of mapping
        Mask of each layer, as JSON.
    """
    reading, header = run.reading, header_of_long_text_run(run)
    assert reading is not None
    vectors = header.vectors
    assert vectors is not None
    layer_masks = tuple(msgspec.convert(mask, LayerMask) for mask in masks)
    is_shared = all(mask == layer_masks[0] for mask in layer_masks)
    mask = layer_masks[0] if is_shared else LayerMask()
    vectors = replace(
        vectors,
        mask=mask.mask,
        own_mask=mask.own_mask,
        window=mask.window,
        layer_masks=() if is_shared else layer_masks,
    )
    header = replace(header, layers=len(layers), heads=heads, vectors=vectors)
    return _build_run_message(run, header, (), replace(reading, layers=layers))


def _build_run_message(
    run: Run, captured: CapturedAttention, rows: tuple[StageMessage, ...], reading: ModelForwardPass
) -> RunMessage:
    return RunMessage(
        captured, rows, ModelResultMessage.from_reading(reading), run.device, run.notices,
        run.texts[0],
        run.key_tokens,
    )  # fmt: skip


def build_run_from_message(
    sent: RunMessage,
    arrays: Mapping[str, np.ndarray],
    made_of: Hashable,
    model: object,
    fetch_stage: StageFetcher,
    measure_remotely: Callable[[str, Progress], HeadMeasures],
    weights: Mapping[str, Tensor],
) -> Run:
    """Build the run from the message that `create_short_run_message` returned.

    Parameters
    ----------
    fetch_stage : callable
        Returns the stage with the given name if it is not in the arrays.
    measure_remotely : callable
        The argument `measure_elsewhere` of `Trace`.
    weights : mapping
        Model weights that the server sends.

    Raises
    ------
    InputError
        With field ``server`` if the attention has an unexpected shape.
    """
    header, rows = sent.captured, tuple(row.to_stage for row in sent.stages)
    sizes = (header.layers, header.heads, header.queries, header.keys)
    attention = next((row.name for row in rows if row.role is Role.WEIGHTS), rows[-1].name)

    def captured(values: np.ndarray) -> CapturedAttention:
        return CapturedAttention.from_array(
            header.name, values.reshape(sizes), header.query_tokens, header.key_tokens
        )

    tensors = {row.name: fetch_stage(row.name) for row in rows if row.name != attention}
    attention_values, fetch = None, None
    if ATTENTION_ARRAY in arrays:
        values = check_response_array(arrays.get(ATTENTION_ARRAY), sizes[header.layers == 1 :])
        tensors[attention] = CachedTensor(torch.tensor(values))
        attention_values = captured(values)
    else:
        tensors[attention] = remote = fetch_stage(attention, is_attention=True)

        def fetch() -> CapturedAttention | None:
            try:
                return captured(remote.read())
            except (InputError, NumbersPendingError):  # raised again when the values are shown
                return None

    tensors = {row.name: tensors[row.name] for row in rows}
    vectors = header.vectors
    trace = Trace(
        header.spec, rows, {}, tensors, frozenset(tensors), ("layer",)[: header.layers - 1],
        weights, vectors.layer_masks if vectors else (), vectors.cut if vectors else (),
        measure_remotely,
    )  # fmt: skip
    reading = sent.reading.to_reading(made_of, attention_values, model, arrays.get("changes"))
    reading = replace(reading, fetch_captured=fetch)
    shown = attention_values or replace(header, numbers=b"")
    return Run((sent.tokens,), trace, sent.device, sent.notices, shown, sent.key_tokens, reading)


def _without_values(captured: CapturedAttention) -> CapturedAttention:
    vectors = captured.vectors
    if vectors:
        is_there = {name: b"" for name in LARGE_VECTORS if getattr(vectors, name) is not None}
        vectors = replace(vectors, **is_there)
    return replace(captured, numbers=b"", vectors=vectors)
