"""Records the attention of a model to a long text without storing any query-key matrix.

The model looks up its attention and its masks by the name of an implementation. Our implementation
stores queries, keys and values, and represents masks as rules. In each layer, some rows are
compared with those of the model's own eager function; if they differ, nothing is shown. A text is
processed in one pass or in chunks; each chunk attends to the keys and values of all earlier tokens.

Source of the logarithms: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.blockwise_captured_run import (
    LayerVectors,
    LongTextAttention,
    blockwise_captured_run,
)
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.masks import MaskingSpec, allowed_cells, allowed_key_range
from visualizer.attention.spec import MaskKind
from visualizer.models.attention_recorder import (
    apply_context_edit,
    replace_attention,
    select_local_heads,
)
from visualizer.models.float32_computation import HALF_DTYPES
from visualizer.models.long_text_vectors import allocate_vectors
from visualizer.models.model_ranks import SINGLE_RANK
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.models.recorded_runs import (
    LayerGroup,
    LayerGroupRun,
    module_family,
    name_with_layers,
    number_calls_by_layer,
    unknown_arguments,
)
from visualizer.progress import check_cancelled, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import ContextEdit, ContextEdits
    from visualizer.models.model_ranks import ModelProcessGroup

RULE_IMPLEMENTATION = "attention_by_rule"
"""Name by which the model looks up our implementation of attention and masks."""
PROBED_ROWS = 24
"""Number of mask rows that are compared with the rule completely; in other rows, only the edges are
compared.
"""
CELLS_PER_BLOCK = 2**23
"""Maximum number of scores, over all heads, that are computed at a time without a kernel."""
WEIGHT_TOLERANCE = 1e-5
"""Absolute tolerance for the weights of compared rows."""
CONTEXT_TOLERANCE = 1e-4
"""Tolerance for the context vectors of compared rows, relative to the largest value."""
LOGARITHM_TOLERANCE, LOGARITHM_RELATIVE_TOLERANCE = 1e-4, 1e-6
"""Tolerances within which all keys must reproduce the logarithms computed in chunks."""
HAS_SHARED_KEYS = torch.__version__ >= "2.9"
"""Whether torch's kernel supports keys shared by several heads; older versions read beyond the last
key.
"""
CHUNK_MISMATCH = "The model’s attention differs between chunks of the text."


class LongTextCall(Struct, frozen=True, eq=False):
    """One call of one layer's attention.

    Parameters
    ----------
    module : str
        The path of the attention module within its model.
    """

    module: str
    vectors: LayerVectors
    scaling: float
    softcap: float


class MaskRule(Struct, frozen=True):
    """Rule that is passed to models in place of a mask tensor.

    Parameters
    ----------
    mask : LayerMask or None
        None for an unknown rule, because some models create masks that none of their layers uses.
    start : int
        Position of the first query; the keys range from the first token to the last query.
    """

    mask: LayerMask | None
    start: int


class _LayerQueries(Struct, eq=False):
    """Queries and logarithms of one layer, with space for the whole text."""

    name: str
    queries: Tensor
    logarithms: Tensor
    mask: LayerMask

    def is_continued_by(self, name: str, call: CallVectors, mask: LayerMask) -> bool:
        """Return whether a call for the next chunk has the same layer and the same mask rule."""
        before, now = self.mask, mask
        is_longer = before.mask is MaskKind.CAUSAL and now.mask is MaskKind.WINDOW
        # The mask of a text no longer than the window is recognized as causal.
        is_same = before == now or (is_longer and now.window >= call.start)
        return name == self.name and is_same


class _LongTextSession:
    """State of one recording; see `record_long_text` for the parameters."""

    implementation = RULE_IMPLEMENTATION

    def __init__(
        self,
        model: nn.Module,
        edits: ContextEdits,
        tokens: int,
        layers: int,
        ranks: ModelProcessGroup,
        *,
        keeps: bool,
    ) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.edits, self.keeps, self.ranks = edits, keeps, ranks
        self._tokens, self._layers = tokens, layers
        self._layer_queries: list[_LayerQueries] = []
        self._current_chunk, self._calls_in_chunk = range(0), 0
        self.calls: list[LongTextCall] = []

    def compute_attention(
        self, eager: Callable[..., tuple[Tensor, Tensor]], *given: Any, **more: Any
    ) -> tuple[Tensor, None]:
        """Call `_attend_and_record`; raise its errors only after all ranks have run the model.

        Parameters
        ----------
        given
            Arguments passed by the model: the module, queries, keys, values and the mask.
        """
        try:
            return _attend_and_record(self, eager, *given, **more)
        except UnsupportedAttentionError as refused:
            self.ranks.raise_or_keep_error(refused)
            # The other ranks wait for this one within the run; the result of the run is discarded.
            _, query, _, value, *_ = given
            return value.new_zeros(1, query.shape[-2], query.shape[1], value.shape[-1]), None

    def start_call(self, call: CallVectors) -> None:
        """Count a call, and check that its chunk follows the previous one."""
        chunk = range(call.start, call.key_count)
        if chunk != self._current_chunk:
            if self._tokens and chunk.start != self._current_chunk.stop:
                raise UnsupportedAttentionError(CHUNK_MISMATCH)
            self._current_chunk, self._calls_in_chunk = chunk, 0
        if self._tokens and call.masking.mask is MaskKind.NONE and call.key_count < self._tokens:
            raise UnsupportedAttentionError("In this model, tokens attend to later tokens.")
        self._calls_in_chunk += 1

    def end_call(self, name: str, call: CallVectors, mask: LayerMask, logarithms: Tensor) -> None:
        """Store a call, and report how many tokens have been processed."""
        if self.keeps:
            self._store_call(name, call, mask, logarithms)
        if self._layers:
            share = (
                len(self._current_chunk) * min(self._calls_in_chunk, self._layers) // self._layers
            )
            report_progress(
                self._current_chunk.start + share, self._tokens or self._current_chunk.stop
            )

    def _store_call(
        self, name: str, call: CallVectors, mask: LayerMask, logarithms: Tensor
    ) -> None:
        tokens = self._tokens or call.key_count
        at = self._calls_in_chunk - 1 if self._tokens else len(self._layer_queries)
        if at == len(self._layer_queries) and not call.start:
            heads, _, width = call.queries.shape
            dtype = call.queries.dtype
            queries = allocate_vectors((heads, tokens, width), dtype)
            layer_queries = _LayerQueries(
                name, queries, allocate_vectors((heads, tokens), logarithms.dtype), mask
            )
            self._layer_queries.append(layer_queries)
        if at >= len(self._layer_queries) or not self._layer_queries[at].is_continued_by(
            name, call, mask
        ):
            raise UnsupportedAttentionError(CHUNK_MISMATCH)
        kept = self._layer_queries[at]
        kept.queries[:, call.start : call.key_count] = call.queries
        kept.logarithms[:, call.start : call.key_count] = logarithms
        kept.mask = mask
        if call.key_count == tokens:
            self.calls.append(self._join_chunks(kept, call))

    def _join_chunks(self, kept: _LayerQueries, last: CallVectors) -> LongTextCall:
        """Return the call for the whole text, given the last chunk's call, which has all keys."""
        whole = replace(last, queries=kept.queries, start=0)
        if last.start and not _reproduces_logarithms(whole, kept.logarithms):
            raise UnsupportedAttentionError(CHUNK_MISMATCH)
        # With chunks, the cache already stores keys and values at their final location.
        are_kept = bool(self._tokens) and last.keys.device.type == "cpu"
        keys, values = (
            each if are_kept else allocate_vectors(each.shape, each.dtype).copy_(each)
            for each in (last.keys, last.values)
        )
        sinks = None if last.sinks is None else last.sinks.cpu()
        vectors = LayerVectors(kept.queries, keys, values, kept.logarithms, kept.mask, sinks)
        return LongTextCall(kept.name, vectors, last.scaling, last.softcap)


@contextmanager
def record_long_text(
    model: nn.Module,
    edits: ContextEdits | None = None,
    *,
    tokens: int = 0,
    layers: int = 0,
    keeps: bool = True,
    ranks: ModelProcessGroup = SINGLE_RANK,
) -> Iterator[list[LongTextCall]]:
    """Record the vectors of every attention call within the context.

    Parameters
    ----------
    edits : mapping, optional
        As in `record_attention`.
    tokens : int
        Number of tokens of a text that is processed in chunks, with a cache that keeps all keys
        and values; 0 if the text is processed in one pass.
    layers : int
        Number of attention calls per forward pass, used to report progress; 0 to report none.
    keeps : bool
        Whether calls are stored; otherwise, they are only edited.
    ranks : ModelProcessGroup
        The processes across which the model is split. The recorded heads are those of this process,
        and an error on one process is raised after all have run the model.

    Yields
    ------
    list of LongTextCall
        Filled while the model runs. The run may raise `UnsupportedAttentionError`, and may be
        cancelled by `check_cancelled`.
    """
    _register_mask_rule()
    recording = _LongTextSession(model, edits or {}, tokens, layers, ranks, keeps=keeps)
    with replace_attention(model, recording):
        yield recording.calls


@cache
def _register_mask_rule() -> None:
    from transformers import AttentionMaskInterface

    AttentionMaskInterface.register(RULE_IMPLEMENTATION, _create_mask_rule)


# ---------------------------------------------------------------------- masks


def _create_mask_rule(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: Callable[..., Any],
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    use_vmap: bool = False,
    **_: object,
) -> MaskRule:
    is_padded = attention_mask is not None and not bool(attention_mask.all())
    is_plain = batch_size == 1 and kv_length == q_offset + q_length and not kv_offset
    if use_vmap or is_padded or not is_plain:
        raise UnsupportedAttentionError(
            "The model’s mask is not that of a single text without padding."
        )
    zero = torch.zeros((), dtype=torch.long)

    def allows(queries: Tensor, keys: Tensor) -> np.ndarray:
        allowed = torch.as_tensor(mask_function(zero, zero, queries, keys), dtype=torch.bool)
        cells: np.ndarray = allowed.cpu().expand_as(queries + keys).numpy()
        return cells

    return MaskRule(recognize_mask_rule(allows, kv_length, q_offset), q_offset)


def recognize_mask_rule(
    allows: Callable[[Tensor, Tensor], np.ndarray], tokens: int, start: int = 0
) -> LayerMask | None:
    """Recognize the rule of a mask from some whole rows and the edges of every row.

    Unlike `classify_mask`, this function also supports texts for which a whole mask is too large.

    Parameters
    ----------
    allows : callable
        Returns whether queries may attend to keys, given arrays of positions that are broadcast.
    start : int
        Position of the first query.
    """
    every = torch.arange(tokens)
    queries = every[start:]
    last = allows(queries[-1:, None], every)[0]
    if len(queries) > 1 and allows(queries[:1], every[-1:])[0]:
        rule = LayerMask()
    elif last.all():
        rule = LayerMask(MaskKind.CAUSAL)
    else:
        rule = LayerMask(MaskKind.WINDOW, window=max(1, int(last.sum())))
    masking = MaskingSpec(rule.mask, rule.window, None, ())
    rows = torch.from_numpy(np.unique(np.linspace(start, tokens - 1, PROBED_ROWS).astype(np.int64)))
    if not (allows(rows[:, None], every) == _allowed_cells(masking, tokens, rows)).all():
        return None
    for away in (-tokens, -rule.window, 1 - rule.window, -1, 0, 1, tokens):
        keys = (queries + away).clamp(0, tokens - 1)
        expected = np.ones(len(queries), bool)
        if rule.mask is not MaskKind.NONE:
            distance = (queries - keys).numpy()
            expected = distance >= 0
            if rule.mask is MaskKind.WINDOW:
                expected &= distance < rule.window
        if not (allows(queries, keys) == expected).all():
            return None
    return rule


def _allowed_cells(
    masking: MaskingSpec, tokens: int, rows: Tensor, keys: slice = slice(None)
) -> np.ndarray:
    return allowed_cells(masking, (tokens, tokens), 0, rows.numpy(), keys)


# ---------------------------------------------------------------------- attention


class CallVectors(Struct, frozen=True, eq=False):
    """Tensors of one call, [head, token, d].

    Parameters
    ----------
    start : int
        Position of the first query; keys and values include all tokens up to the last query.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    masking: MaskingSpec
    scaling: float
    softcap: float
    sinks: Tensor | None
    start: int

    def with_exact_types(self) -> CallVectors:
        """Return the call with 16-bit vectors converted to float32."""
        if self.queries.dtype not in HALF_DTYPES:
            return self
        sinks = None if self.sinks is None else self.sinks.float()
        return replace(
            self,
            queries=self.queries.float(),
            keys=self.keys.float(),
            values=self.values.float(),
            sinks=sinks,
        )

    @property
    def query_count(self) -> int:
        """Number of queries."""
        return int(self.queries.shape[-2])

    @property
    def key_count(self) -> int:
        """Number of keys."""
        return int(self.keys.shape[-2])

    def allowed_mask(self, rows: Tensor, keys: slice = slice(None)) -> Tensor:
        """Return a mask of the keys to which the queries may attend, boolean [query, key]."""
        cells = _allowed_cells(self.masking, self.key_count, rows + self.start, keys)
        return torch.from_numpy(cells).to(self.queries.device)

    def allowed_range(self, rows: Tensor) -> slice:
        """Return a range that contains all keys to which consecutive queries may attend."""
        first, last = (self.start + int(rows[at]) for at in (0, -1))
        keys = allowed_key_range(self.masking, self.key_count, 0, first, last)
        return slice(keys.start, keys.stop)

    def compute_scores(self, rows: Tensor, keys: slice) -> Tensor:
        """Compute the scores before the softmax, [key head, head in group, query, key]."""
        queries = self.queries[:, rows]
        of_each = len(queries) // len(self.keys)
        groups = queries.reshape(len(self.keys), -1, queries.shape[-1])
        scores = (groups @ self.keys[:, keys].mT).mul_(self.scaling)
        scores = scores.view(len(self.keys), of_each, len(rows), -1)
        if self.softcap:
            scores.div_(self.softcap).tanh_().mul_(self.softcap)
        return scores.masked_fill_(~self.allowed_mask(rows, keys), -torch.inf)

    def compute_log_sum_exp(self, scores: Tensor) -> Tensor:
        """Compute the log-sum-exp of each row from its scores, [head, query]."""
        logarithms = scores.logsumexp(-1).flatten(0, 1)
        return (
            logarithms if self.sinks is None else torch.logaddexp(logarithms, self.sinks[:, None])
        )

    def compute_weights(self, rows: Tensor, logarithms: Tensor) -> Tensor:
        """Compute rows of weights [head, query, key] from logarithms [head, query]."""
        scores = self.compute_scores(rows, slice(0, self.key_count)).flatten(0, 1)
        return scores.sub_(logarithms[:, rows, None]).exp_()


def _attend_and_record(
    recording: _LongTextSession,
    eager: Callable[..., tuple[Tensor, Tensor]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """Compute the context vectors, and record the vectors of the call."""
    if recording.ranks.count == 1:  # several ranks stop together, between runs
        check_cancelled()
    name = recording.names.get(module)
    if name is None or not isinstance(attention_mask, MaskRule):
        raise UnsupportedAttentionError("The model’s mask is unknown.")
    if attention_mask.mask is None:
        raise UnsupportedAttentionError(
            "The model’s mask is neither causal, nor a sliding window, nor empty."
        )
    if unsupported := unknown_arguments(arguments, query.shape[1]):
        raise UnsupportedAttentionError(
            f"The attention has unsupported inputs: {', '.join(unsupported)}."
        )
    is_of_text = attention_mask.start + query.shape[-2] == key.shape[-2]
    if arguments.get("position_bias") is not None or not is_of_text:
        raise UnsupportedAttentionError(
            "The attention scores are not just products of queries and keys."
        )
    mask, scaling, sinks = (attention_mask.mask, *map(arguments.get, ("scaling", "s_aux")))
    call = CallVectors(
        query[0],
        key[0],
        value[0],
        MaskingSpec(mask.mask, mask.window, None, ()),
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        float(arguments.get("softcap") or 0),
        None if sinks is None else sinks.detach().flatten().to(query.dtype),
        attention_mask.start,
    )
    recording.start_call(call)

    # In 16 bits, rounding would hide additional steps of the model's own attention.
    exact = call.with_exact_types()
    if exact is not call and sinks is not None:
        arguments["s_aux"] = sinks.float()

    def attend_eagerly(queries: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        return eager(module, queries, exact.keys[None], exact.values[None], added, **arguments)

    context, logarithms = _compute_checked_attention(exact, attend_eagerly, mask)
    output = context[None].to(query.dtype)  # text query head d_value
    edits = select_local_heads(recording.edits.get(name, {}), recording.ranks, query.shape[1])
    for head, edit in edits.items():
        own_part = _slice_edit(edit, call)
        output[:, :, head] = apply_context_edit(output[:, :, head], own_part)
    recording.end_call(name, call, mask, logarithms)
    return output, None


def _slice_edit(edit: ContextEdit, call: CallVectors) -> ContextEdit:
    """Return the part of an edit that applies to the chunk of a call."""
    if isinstance(edit, torch.Tensor) and edit.ndim > 1:
        return edit[..., call.start : call.key_count, :]
    return edit


def _compute_checked_attention(
    call: CallVectors, own: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], mask: LayerMask
) -> tuple[Tensor, Tensor]:
    """Return the context vectors [query, head, d_value] and logarithms [head, query] of a call.

    ``own`` computes the model's own attention from some queries and a tensor that is added to their
    scores. Raise `UnsupportedAttentionError` if its result is different.
    """
    rows = torch.tensor(sorted({0, call.query_count // 2, call.query_count - 1}))
    queries = call.queries[None, :, rows]
    allowed = call.allowed_mask(rows)
    added = queries.new_zeros(allowed.shape)
    added.masked_fill_(~allowed, torch.finfo(queries.dtype).min)
    wanted = own(queries, added[None, None])
    methods = (
        (compute_with_flash_kernel, _compute_in_row_blocks)
        if _can_use_kernel(call, mask)
        else (_compute_in_row_blocks,)
    )
    for method in methods:
        context, logarithms = method(call)
        if _matches_model(call, rows, context, logarithms, wanted):
            return context, logarithms
    raise UnsupportedAttentionError("The model’s attention has unknown additional steps.")


def _matches_model(
    call: CallVectors, rows: Tensor, context: Tensor, logarithms: Tensor, own: tuple[Tensor, Tensor]
) -> bool:
    outputs, weights = own
    if outputs.shape[1:] != context[rows].shape:
        return False
    weight_error = (call.compute_weights(rows, logarithms) - weights[0]).abs().max()
    size = outputs.abs().max().clamp(min=1)
    context_error = (context[rows] - outputs[0]).abs().max()
    return bool(weight_error <= WEIGHT_TOLERANCE) and bool(
        context_error <= CONTEXT_TOLERANCE * size
    )


def _reproduces_logarithms(whole: CallVectors, logarithms: Tensor) -> bool:
    """Return whether the keys of the whole text reproduce the logarithms of all chunks."""
    whole = whole.with_exact_types()
    device, only = whole.keys.device, torch.zeros(1, dtype=torch.long)
    for row in {0, whole.query_count // 3, whole.query_count // 2}:
        queries = whole.queries[:, row : row + 1].to(device)
        one = replace(whole, queries=queries, start=row)
        recomputed = one.compute_log_sum_exp(one.compute_scores(only, slice(None))).cpu()
        before = logarithms[:, row : row + 1]
        if not torch.allclose(
            recomputed, before, rtol=LOGARITHM_RELATIVE_TOLERANCE, atol=LOGARITHM_TOLERANCE
        ):
            return False
    return True


def _can_use_kernel(call: CallVectors, mask: LayerMask) -> bool:
    on_cpu = call.queries.device.type == "cpu"
    if call.softcap or not on_cpu or call.queries.shape[-1] != call.values.shape[-1]:
        return False
    if len(call.queries) != len(call.keys) and not HAS_SHARED_KEYS:
        return False
    keys = call.allowed_range(torch.tensor([0, call.query_count - 1]))
    is_small = call.query_count * (keys.stop - keys.start) <= CELLS_PER_BLOCK
    return mask.mask in {MaskKind.CAUSAL, MaskKind.NONE} or (
        mask.mask is MaskKind.WINDOW and is_small
    )


def compute_with_flash_kernel(call: CallVectors) -> tuple[Tensor, Tensor]:
    """Compute context vectors and logarithms with torch's flash attention kernel."""
    if call.masking.mask is MaskKind.WINDOW:
        rows = torch.arange(call.query_count)
        keys = call.allowed_range(rows)
        added = call.queries.new_zeros(()).masked_fill(~call.allowed_mask(rows, keys), -torch.inf)
        output, logarithms = compute_flash_attention(call, keys, added=added[None, None])
    elif not call.start:
        output, logarithms = compute_flash_attention(
            call, slice(None), is_causal=call.masking.mask is MaskKind.CAUSAL
        )
    else:  # the tokens before the chunk and those in the chunk, each with a separate sum
        output, logarithms = compute_flash_attention(call, slice(0, call.start))
        others, own = compute_flash_attention(call, slice(call.start, None), is_causal=True)
        both = torch.logaddexp(logarithms, own)
        output = output * (logarithms - both).exp_().mT[..., None]
        output += others * (own - both).exp_().mT[..., None]
        logarithms = both
    if call.sinks is not None:
        both = torch.logaddexp(logarithms, call.sinks[:, None])
        output = output * (logarithms - both).exp_().mT[..., None]
        logarithms = both
    return output, logarithms


def compute_flash_attention(
    call: CallVectors, keys: slice, *, is_causal: bool = False, added: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return context vectors [query, head, d_value] and logarithms [head, query] for some keys."""
    output, logarithms = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        call.queries[None],
        call.keys[None, :, keys],
        call.values[None, :, keys],
        0.0,
        is_causal,
        attn_mask=added,
        scale=call.scaling,
    )
    # The shape is [text, head, query] for one text; the memory layout depends on the kernel.
    return output[0].transpose(0, 1), logarithms[0]


def _compute_in_row_blocks(call: CallVectors) -> tuple[Tensor, Tensor]:
    heads, count = call.queries.shape[:2]
    context = call.values.new_empty((count, heads, call.values.shape[-1]))
    logarithms = call.queries.new_empty((heads, count))
    step = max(1, CELLS_PER_BLOCK // (heads * call.key_count))
    for start in range(0, count, step):
        rows = torch.arange(start, min(start + step, count))
        keys = call.allowed_range(rows)
        scores = call.compute_scores(rows, keys)  # key head, head, query, key
        block_logarithms = call.compute_log_sum_exp(scores)
        weights = scores.flatten(0, 1).sub_(block_logarithms[..., None]).exp_()
        grouped = weights.view(len(call.values), -1, weights.shape[-1])
        output = (grouped @ call.values[:, keys]).view(heads, len(rows), -1)
        context[rows], logarithms[:, rows] = output.transpose(0, 1), block_logarithms
    return context, logarithms


def create_long_text_runs(
    calls: Sequence[LongTextCall], name: str, tokens: tuple[str, ...], device: str
) -> tuple[LayerGroupRun, ...]:
    """Return the runs of one pass, in order of the first call of each group."""
    groups: dict[tuple[object, ...], list[tuple[int, LongTextCall]]] = {}
    for number, call in number_calls_by_layer(calls):
        groups.setdefault((module_family(call.module), *_grouping_key(call)), []).append(
            (number, call)
        )
    found = []
    for members in groups.values():
        numbers, own = zip(*members, strict=True)
        one = own[0]
        attention = LongTextAttention(
            name_with_layers(numbers, name),
            tuple(call.vectors for call in own),
            tokens,
            one.scaling,
            one.softcap,
        )
        group = LayerGroup(module_family(one.module), numbers, (), ())
        found.append(LayerGroupRun(group, blockwise_captured_run(attention, device)))
    return tuple(found)


def _grouping_key(call: LongTextCall) -> tuple[object, ...]:
    vectors = call.vectors
    shapes = (vectors.queries.shape, vectors.keys.shape, vectors.values.shape)
    return (*shapes, call.scaling, call.softcap, vectors.sinks is None)
