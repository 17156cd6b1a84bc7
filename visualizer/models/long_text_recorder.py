"""Records what a model's attention reads of a long text, without any matrix of queries and keys.

The model asks transformers for its attention and for its masks by the name of an implementation;
ours keeps queries, keys and values, and its masks are rules. In each layer some rows are compared
with the model's own eager function: of attention that computes anything else nothing is shown.
A text is read at once, or in chunks, each with the keys and values of all tokens before it.

Source of the logarithms: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.blockwise_captured_run import LayerVectors
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.masks import Masking, allowed_cells, readable_keys
from visualizer.attention.spec import Mask
from visualizer.models.attention_recorder import configs_of, edited, heads_here
from visualizer.models.long_text_vectors import vectors_for
from visualizer.models.model_ranks import ONE
from visualizer.models.not_by_rule_error import NotByRuleError
from visualizer.models.run_from_attention_calls import not_understood
from visualizer.progress_callback import check_stopped, tell_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import ContextEdit, ContextEdits
    from visualizer.models.model_ranks import ModelRanks

BY_RULE = "attention_by_rule"
"""The name of our implementation of attention and masks."""
PROBED = 24
"""So many whole rows of a mask are compared with its rule, besides the edges of all rows."""
CELLS = 2**23
"""Cells of all heads that are computed together where no kernel does it."""
WEIGHTS_WITHIN = 1e-5
"""How far weights of the rows that are compared may be from the model's own."""
CONTEXT_WITHIN = 1e-4
"""How far their context vectors may be, as a share of the largest number."""
LOGARITHMS_WITHIN, LOGARITHMS_SHARE = 1e-4, 1e-6
"""How far logarithms of chunks may be from those that all keys give, and how much of them."""
SHARES_KEYS = torch.__version__ >= "2.9"
"""Whether torch's kernel reads keys that several heads share; before, it read beyond their end."""
CHUNK_MISMATCH = "Its attention to a chunk is another one than to the chunk before."


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
    """What models are given in place of a mask.

    Parameters
    ----------
    mask : LayerMask or None
        None of a rule that is not known: some models make masks that none of their layers reads.
    start : int
        The place of the first query; keys are all from the first token to the last query's.
    """

    mask: LayerMask | None
    start: int


class _QueriesOfText(Struct, eq=False):
    """The queries and logarithms of one call, with room for a whole text."""

    name: str
    queries: Tensor
    logarithms: Tensor
    mask: LayerMask

    def goes_on_as(self, name: str, call: _Vectors, mask: LayerMask) -> bool:
        """Whether a call to the next chunk is one of the same layer and rule."""
        before, now = self.mask, mask
        is_longer = before.mask is Mask.CAUSAL and now.mask is Mask.WINDOW
        # A text that is not longer than a window is read by the causal rule.
        is_same = before == now or (is_longer and now.window >= call.start)
        return name == self.name and is_same


class _LongRecording:
    """What is recorded of one model; parameters as of `record_long_text`."""

    def __init__(
        self,
        model: nn.Module,
        edits: ContextEdits,
        tokens: int,
        layers: int,
        ranks: ModelRanks,
        *,
        keeps: bool,
    ) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.edits, self.keeps, self.ranks = edits, keeps, ranks
        self._tokens, self._layers = tokens, layers
        self._kept: list[_QueriesOfText] = []
        self._chunk, self._count = range(0), 0
        self.calls: list[LongTextCall] = []

    def begin_call(self, call: _Vectors) -> None:
        """Count a call within its chunk."""
        chunk = range(call.start, call.tokens)
        if chunk != self._chunk:
            if self._tokens and chunk.start != self._chunk.stop:
                raise NotByRuleError(CHUNK_MISMATCH)
            self._chunk, self._count = chunk, 0
        if self._tokens and call.masking.mask is Mask.NONE and call.tokens < self._tokens:
            raise NotByRuleError("Its tokens read later ones.")
        self._count += 1

    def end_call(self, name: str, call: _Vectors, mask: LayerMask, logarithms: Tensor) -> None:
        """Keep a call, and tell how much of the text is read."""
        if self.keeps:
            self._keep(name, call, mask, logarithms)
        if self._layers:
            share = len(self._chunk) * min(self._count, self._layers) // self._layers
            tell_progress(self._chunk.start + share, self._tokens or self._chunk.stop)

    def _keep(self, name: str, call: _Vectors, mask: LayerMask, logarithms: Tensor) -> None:
        tokens = self._tokens or call.tokens
        at = self._count - 1 if self._tokens else len(self._kept)
        if at == len(self._kept) and not call.start:
            heads, _, width = call.queries.shape
            dtype = call.queries.dtype
            queries = vectors_for((heads, tokens, width), dtype)
            found = _QueriesOfText(name, queries, vectors_for((heads, tokens), dtype), mask)
            self._kept.append(found)
        if at >= len(self._kept) or not self._kept[at].goes_on_as(name, call, mask):
            raise NotByRuleError(CHUNK_MISMATCH)
        kept = self._kept[at]
        kept.queries[:, call.start : call.tokens] = call.queries
        kept.logarithms[:, call.start : call.tokens] = logarithms
        kept.mask = mask
        if call.tokens == tokens:
            self.calls.append(self._whole(kept, call))

    def _whole(self, kept: _QueriesOfText, last: _Vectors) -> LongTextCall:
        """Return the call of the whole text, as its last chunk reads all keys."""
        whole = replace(last, queries=kept.queries, start=0)
        if last.start and not _are_of_all_keys(whole, kept.logarithms):
            raise NotByRuleError(CHUNK_MISMATCH)
        # In chunks, keys and values are put by their cache where they are kept.
        are_kept = bool(self._tokens) and last.keys.device.type == "cpu"
        keys, values = (
            each if are_kept else vectors_for(each.shape, each.dtype).copy_(each)
            for each in (last.keys, last.values)
        )
        sinks = None if last.sinks is None else last.sinks.cpu()
        vectors = LayerVectors(kept.queries, keys, values, kept.logarithms, kept.mask, sinks)
        return LongTextCall(kept.name, vectors, last.scaling, last.softcap)


_CURRENT: ContextVar[_LongRecording | None] = ContextVar("recording of a long text", default=None)


@contextmanager
def record_long_text(
    model: nn.Module,
    edits: ContextEdits | None = None,
    *,
    tokens: int = 0,
    layers: int = 0,
    keeps: bool = True,
    ranks: ModelRanks = ONE,
) -> Iterator[list[LongTextCall]]:
    """Record the vectors of every call of attention within the context.

    Parameters
    ----------
    edits : mapping, optional
        As in `record_attention`.
    tokens : int
        Of a text that is read in chunks, by a cache that keeps all keys and values; 0 where one
        run reads all.
    layers : int
        How often a run attends, by which its progress is told; 0 where it is not.
    keeps : bool
        Whether calls are kept, and not only edited.
    ranks : ModelRanks
        The processes that the model is spread over: what is kept is of the heads that are here,
        and what is refused on one of them is raised once all have run the model.

    Yields
    ------
    list of LongTextCall
        It fills as the model runs; a run may raise `NotByRuleError`, or stop by `check_stopped`.
    """
    _register()
    recording = _LongRecording(model, edits or {}, tokens, layers, ranks, keeps=keeps)
    before = [(config, config._attn_implementation) for config in configs_of(model)]
    token = _CURRENT.set(recording)
    try:
        for config, _ in before:
            config._attn_implementation = BY_RULE
        yield recording.calls
    finally:
        for config, implementation in before:
            config._attn_implementation = implementation
        _CURRENT.reset(token)


@cache
def _register() -> None:
    """Have models that ask for our implementation get it, around their own eager function.

    That stands in their question and nowhere else.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    asked = AttentionInterface.get_interface

    def get_interface(self: Any, attn_implementation: Any, default: Any) -> Any:
        recording = _CURRENT.get()
        if recording is None or attn_implementation != BY_RULE:
            return asked(self, attn_implementation, default)
        return partial(_attend, recording, default)

    AttentionInterface.get_interface = get_interface
    AttentionMaskInterface.register(BY_RULE, _mask)


# ---------------------------------------------------------------------- masks


def _mask(
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
        raise NotByRuleError("Its mask is not one of a single text by itself.")
    zero = torch.zeros((), dtype=torch.long)

    def allows(queries: Tensor, keys: Tensor) -> np.ndarray:
        found = torch.as_tensor(mask_function(zero, zero, queries, keys), dtype=torch.bool)
        cells: np.ndarray = found.cpu().expand_as(queries + keys).numpy()
        return cells

    return MaskRule(rule_of(allows, kv_length, q_offset), q_offset)


def rule_of(
    allows: Callable[[Tensor, Tensor], np.ndarray], tokens: int, start: int = 0
) -> LayerMask | None:
    """Recognise a mask by some whole rows, and by the edges of every row.

    Parameters
    ----------
    allows : callable
        Returns which queries may read which keys, of places that are broadcast together.
    start : int
        The place of the first query.
    """
    every = torch.arange(tokens)
    queries = every[start:]
    last = allows(queries[-1:, None], every)[0]
    if len(queries) > 1 and allows(queries[:1], every[-1:])[0]:
        rule = LayerMask()
    elif last.all():
        rule = LayerMask(Mask.CAUSAL)
    else:
        rule = LayerMask(Mask.WINDOW, window=max(1, int(last.sum())))
    masking = Masking(rule.mask, rule.window, None, ())
    rows = torch.from_numpy(np.unique(np.linspace(start, tokens - 1, PROBED).astype(np.int64)))
    if not (allows(rows[:, None], every) == _cells(masking, tokens, rows)).all():
        return None
    for away in (-tokens, -rule.window, 1 - rule.window, -1, 0, 1, tokens):
        keys = (queries + away).clamp(0, tokens - 1)
        expected = np.ones(len(queries), bool)
        if rule.mask is not Mask.NONE:
            distance = (queries - keys).numpy()
            expected = distance >= 0
            if rule.mask is Mask.WINDOW:
                expected &= distance < rule.window
        if not (allows(queries, keys) == expected).all():
            return None
    return rule


def _cells(masking: Masking, tokens: int, rows: Tensor, keys: slice = slice(None)) -> np.ndarray:
    return allowed_cells(masking, (tokens, tokens), 0, rows.numpy(), keys)


# ---------------------------------------------------------------------- attention


class _Vectors(Struct, frozen=True, eq=False):
    """One call, [head, token, d].

    Parameters
    ----------
    start : int
        The place of the first query; keys and values are of all tokens up to the last one.
    """

    queries: Tensor
    keys: Tensor
    values: Tensor
    masking: Masking
    scaling: float
    softcap: float
    sinks: Tensor | None
    start: int

    @property
    def count(self) -> int:
        """How many queries there are."""
        return int(self.queries.shape[-2])

    @property
    def tokens(self) -> int:
        """How many keys there are."""
        return int(self.keys.shape[-2])

    def allowed(self, rows: Tensor, keys: slice = slice(None)) -> Tensor:
        """Return which keys some queries may read, boolean [query, key]."""
        cells = _cells(self.masking, self.tokens, rows + self.start, keys)
        return torch.from_numpy(cells).to(self.queries.device)

    def readable(self, rows: Tensor) -> slice:
        """Return a range of keys that has all that queries in succession may read."""
        first, last = (self.start + int(rows[at]) for at in (0, -1))
        readable = readable_keys(self.masking, self.tokens, 0, first, last)
        return slice(readable.start, readable.stop)

    def scores(self, rows: Tensor, keys: slice) -> Tensor:
        """Compute the scores that softmax reads, [key head, head of it, query, key]."""
        asked = self.queries[:, rows]
        of_each = len(asked) // len(self.keys)
        groups = asked.reshape(len(self.keys), -1, asked.shape[-1])
        found = (groups @ self.keys[:, keys].mT).mul_(self.scaling)
        found = found.view(len(self.keys), of_each, len(rows), -1)
        if self.softcap:
            found.div_(self.softcap).tanh_().mul_(self.softcap)
        return found.masked_fill_(~self.allowed(rows, keys), -torch.inf)

    def logarithms(self, scores: Tensor) -> Tensor:
        """Compute the logarithms of rows from their scores, [head, query]."""
        found = scores.logsumexp(-1).flatten(0, 1)
        return found if self.sinks is None else torch.logaddexp(found, self.sinks[:, None])

    def weights(self, rows: Tensor, logarithms: Tensor) -> Tensor:
        """Compute whole rows of weights from their logarithms [head, query], [head, query, key]."""
        scores = self.scores(rows, slice(0, self.tokens)).flatten(0, 1)
        return scores.sub_(logarithms[:, rows, None]).exp_()


def _attend(
    recording: _LongRecording, eager: Callable[..., tuple[Tensor, Tensor]], *given: Any, **more: Any
) -> tuple[Tensor, None]:
    """Compute as `_recorded` does; what that refuses is raised once all ranks have run the model.

    Parameters
    ----------
    given
        What models give the function: the module, queries, keys, values and the mask.
    """
    try:
        return _recorded(recording, eager, *given, **more)
    except NotByRuleError as refused:
        recording.ranks.refuse(refused)
        # Others wait for this rank within the run, of which nothing will be shown.
        _, query, _, value, *_ = given
        return value.new_zeros(1, query.shape[-2], query.shape[1], value.shape[-1]), None


def _recorded(
    recording: _LongRecording,
    eager: Callable[..., tuple[Tensor, Tensor]],
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    **arguments: Any,
) -> tuple[Tensor, None]:
    """Compute the context vectors, and record what they are made of."""
    if recording.ranks.count == 1:  # several stop together, between runs
        check_stopped()
    name = recording.names.get(module)
    if name is None or not isinstance(attention_mask, MaskRule):
        raise NotByRuleError("Its mask is not known.")
    if attention_mask.mask is None:
        raise NotByRuleError("Its mask follows no rule that is known: causal, a window, or none.")
    if odd := not_understood(arguments, query.shape[1]):
        raise NotByRuleError(f"Its attention is also given {', '.join(odd)}.")
    is_of_text = attention_mask.start + query.shape[-2] == key.shape[-2]
    if arguments.get("position_bias") is not None or not is_of_text:
        raise NotByRuleError("Its scores are more than products of queries and keys.")
    mask, scaling, sinks = (attention_mask.mask, *map(arguments.get, ("scaling", "s_aux")))
    call = _Vectors(
        query[0],
        key[0],
        value[0],
        Masking(mask.mask, mask.window, None, ()),
        query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        float(arguments.get("softcap") or 0),
        None if sinks is None else sinks.detach().flatten().to(query.dtype),
        attention_mask.start,
    )
    recording.begin_call(call)

    def own(queries: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        return eager(module, queries, key, value, added, **arguments)

    context, logarithms = _checked(call, own, mask)
    output = context[None]  # text query head d_value
    edits = heads_here(recording.edits.get(name, {}), recording.ranks, query.shape[1])
    for head, edit in edits.items():
        own_part = _part_of_edit(edit, call)
        output[:, :, head] = edited(output[:, :, head], own_part)
    recording.end_call(name, call, mask, logarithms)
    return output, None


def _part_of_edit(edit: ContextEdit, call: _Vectors) -> ContextEdit:
    """Return what becomes of the queries of a chunk, where each has numbers of its own."""
    if isinstance(edit, torch.Tensor) and edit.ndim > 1:
        return edit[..., call.start : call.tokens, :]
    return edit


def _checked(
    call: _Vectors, own: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], mask: LayerMask
) -> tuple[Tensor, Tensor]:
    """Return the context vectors [query, head, d_value] and logarithms [head, query] of a call.

    Parameters
    ----------
    own : callable
        The model's own function of some queries and of what is added to their scores.

    Raises
    ------
    NotByRuleError
        When the model's own function gives others.
    """
    rows = torch.tensor(sorted({0, call.count // 2, call.count - 1}))
    queries = call.queries[None, :, rows]
    allowed = call.allowed(rows)
    added = queries.new_zeros(allowed.shape)
    added.masked_fill_(~allowed, torch.finfo(queries.dtype).min)
    wanted = own(queries, added[None, None])
    roads = (_by_kernel, _by_blocks) if _has_kernel(call, mask) else (_by_blocks,)
    for road in roads:
        context, logarithms = road(call)
        if _are_alike(call, rows, context, logarithms, wanted):
            return context, logarithms
    raise NotByRuleError("Its attention computes something that is not known.")


def _are_alike(
    call: _Vectors, rows: Tensor, context: Tensor, logarithms: Tensor, own: tuple[Tensor, Tensor]
) -> bool:
    outputs, weights = own
    if outputs.shape[1:] != context[rows].shape:
        return False
    apart = (call.weights(rows, logarithms) - weights[0]).abs().max()
    size = outputs.abs().max().clamp(min=1)
    others = (context[rows] - outputs[0]).abs().max()
    return bool(apart <= WEIGHTS_WITHIN) and bool(others <= CONTEXT_WITHIN * size)


def _are_of_all_keys(whole: _Vectors, logarithms: Tensor) -> bool:
    """Whether the keys that the last chunk has read give the logarithms of earlier chunks."""
    device, only = whole.keys.device, torch.zeros(1, dtype=torch.long)
    for row in {0, whole.count // 3, whole.count // 2}:
        queries = whole.queries[:, row : row + 1].to(device)
        one = replace(whole, queries=queries, start=row)
        found = one.logarithms(one.scores(only, slice(None))).cpu()
        before = logarithms[:, row : row + 1]
        if not torch.allclose(found, before, rtol=LOGARITHMS_SHARE, atol=LOGARITHMS_WITHIN):
            return False
    return True


def _has_kernel(call: _Vectors, mask: LayerMask) -> bool:
    on_cpu = call.queries.device.type == "cpu"
    if call.softcap or not on_cpu or call.queries.shape[-1] != call.values.shape[-1]:
        return False
    if len(call.queries) != len(call.keys) and not SHARES_KEYS:
        return False
    keys = call.readable(torch.tensor([0, call.count - 1]))
    is_small = call.count * (keys.stop - keys.start) <= CELLS
    return mask.mask in {Mask.CAUSAL, Mask.NONE} or (mask.mask is Mask.WINDOW and is_small)


def _by_kernel(call: _Vectors) -> tuple[Tensor, Tensor]:
    if call.masking.mask is Mask.WINDOW:
        rows = torch.arange(call.count)
        keys = call.readable(rows)
        added = call.queries.new_zeros(()).masked_fill(~call.allowed(rows, keys), -torch.inf)
        output, logarithms = _flash(call, keys, added=added[None, None])
    elif not call.start:
        output, logarithms = _flash(call, slice(None), is_causal=call.masking.mask is Mask.CAUSAL)
    else:  # tokens before the chunk, and those of it, each with its own sum
        output, logarithms = _flash(call, slice(0, call.start))
        others, own = _flash(call, slice(call.start, None), is_causal=True)
        both = torch.logaddexp(logarithms, own)
        output = output * (logarithms - both).exp_().mT[..., None]
        output += others * (own - both).exp_().mT[..., None]
        logarithms = both
    if call.sinks is not None:
        both = torch.logaddexp(logarithms, call.sinks[:, None])
        output = output * (logarithms - both).exp_().mT[..., None]
        logarithms = both
    return output, logarithms


def _flash(
    call: _Vectors, keys: slice, *, is_causal: bool = False, added: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the context vectors [query, head, d_value] and logarithms [head, query] of keys."""
    output, logarithms = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        call.queries[None],
        call.keys[None, :, keys],
        call.values[None, :, keys],
        0.0,
        is_causal,
        attn_mask=added,
        scale=call.scaling,
    )
    # It is [text, head, query] of one text, in whatever order the kernel has written it.
    return output[0].transpose(0, 1), logarithms[0]


def _by_blocks(call: _Vectors) -> tuple[Tensor, Tensor]:
    heads, count = call.queries.shape[:2]
    context = call.values.new_empty((count, heads, call.values.shape[-1]))
    logarithms = call.queries.new_empty((heads, count))
    step = max(1, CELLS // (heads * call.tokens))
    for start in range(0, count, step):
        rows = torch.arange(start, min(start + step, count))
        keys = call.readable(rows)
        scores = call.scores(rows, keys)  # key head, head, query, key
        found = call.logarithms(scores)
        weights = scores.flatten(0, 1).sub_(found[..., None]).exp_()
        grouped = weights.view(len(call.values), -1, weights.shape[-1])
        made = (grouped @ call.values[:, keys]).view(heads, len(rows), -1)
        context[rows], logarithms[:, rows] = made.transpose(0, 1), found
    return context, logarithms
