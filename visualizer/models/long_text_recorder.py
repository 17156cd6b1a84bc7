"""Records what a model's attention reads of a long text, without any matrix of queries and keys.

The model asks transformers for its attention and for its masks by the name of an implementation;
ours keeps queries, keys and values, and its masks are rules. In each layer some rows are compared
with the model's own eager function: of attention that computes anything else nothing is shown.

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

from visualizer.attention.blockwise_captured_run import LayerVectors
from visualizer.attention.captured_attention import LayerMask
from visualizer.attention.masks import Masking, allowed_cells, readable_keys
from visualizer.attention.spec import Mask
from visualizer.errors import InputError
from visualizer.models.attention_recorder import configs_of, edited
from visualizer.models.run_from_attention_calls import not_understood
from visualizer.progress_callback import check_stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import ContextEdits

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


class NotByRuleError(InputError):
    """The attention of a model cannot be computed again from its vectors and a rule."""

    def __init__(self, sentence: str) -> None:
        super().__init__("text", sentence)

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        return NotByRuleError, (self.sentence,)


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
    """What models are given in place of a mask."""

    mask: LayerMask


class _LongRecording:
    """What is recorded of one model."""

    def __init__(self, model: nn.Module, edits: ContextEdits, *, keeps: bool) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.edits, self.keeps = edits, keeps
        self.calls: list[LongTextCall] = []


_CURRENT: ContextVar[_LongRecording | None] = ContextVar("recording of a long text", default=None)


@contextmanager
def record_long_text(
    model: nn.Module, edits: ContextEdits | None = None, *, keeps: bool = True
) -> Iterator[list[LongTextCall]]:
    """Record the vectors of every call of attention within the context.

    Parameters
    ----------
    edits : mapping, optional
        As in `record_attention`.
    keeps : bool
        Whether calls are kept, and not only edited.

    Yields
    ------
    list of LongTextCall
        It fills as the model runs; a run may raise `NotByRuleError`, or stop by `check_stopped`.
    """
    _register()
    recording = _LongRecording(model, edits or {}, keeps=keeps)
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
    is_plain = batch_size == 1 and q_length == kv_length and not (q_offset or kv_offset)
    if use_vmap or is_padded or not is_plain:
        raise NotByRuleError("Its mask is not one of a single text by itself.")
    zero = torch.zeros((), dtype=torch.long)

    def allows(queries: Tensor, keys: Tensor) -> np.ndarray:
        found = torch.as_tensor(mask_function(zero, zero, queries, keys), dtype=torch.bool)
        cells: np.ndarray = found.cpu().expand_as(queries + keys).numpy()
        return cells

    rule = rule_of(allows, q_length)
    if rule is None:
        raise NotByRuleError("Its mask follows no rule that is known: causal, a window, or none.")
    return MaskRule(rule)


def rule_of(allows: Callable[[Tensor, Tensor], np.ndarray], tokens: int) -> LayerMask | None:
    """Recognise a mask by some whole rows, and by the edges of every row.

    Parameters
    ----------
    allows : callable
        Returns which queries may read which keys, of places that are broadcast together.
    """
    every = torch.arange(tokens)
    last = allows(every[-1:, None], every)[0]
    if tokens > 1 and allows(every[:1], every[-1:])[0]:
        rule = LayerMask()
    elif last.all():
        rule = LayerMask(Mask.CAUSAL)
    else:
        rule = LayerMask(Mask.WINDOW, window=max(1, int(last.sum())))
    masking = Masking(rule.mask, rule.window, None, ())
    rows = torch.from_numpy(np.unique(np.linspace(0, tokens - 1, PROBED).astype(np.int64)))
    if not (allows(rows[:, None], every) == _cells(masking, tokens, rows)).all():
        return None
    for away in (-tokens, -rule.window, 1 - rule.window, -1, 0, 1, tokens):
        keys = (every + away).clamp(0, tokens - 1)
        expected = np.ones(tokens, bool)
        if rule.mask is not Mask.NONE:
            distance = (every - keys).numpy()
            expected = distance >= 0
            if rule.mask is Mask.WINDOW:
                expected &= distance < rule.window
        if not (allows(every, keys) == expected).all():
            return None
    return rule


def _cells(masking: Masking, tokens: int, rows: Tensor, keys: slice = slice(None)) -> np.ndarray:
    return allowed_cells(masking, (tokens, tokens), 0, rows.numpy(), keys)


# ---------------------------------------------------------------------- attention


class _Vectors(Struct, frozen=True, eq=False):
    """One call, [head, token, d]."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    masking: Masking
    scaling: float
    softcap: float
    sinks: Tensor | None

    @property
    def tokens(self) -> int:
        return int(self.queries.shape[-2])

    def scores(self, rows: Tensor, keys: slice) -> Tensor:
        """Compute the scores that softmax reads, [key head, head of it, query, key]."""
        asked = self.queries[:, rows]
        of_each = len(asked) // len(self.keys)
        groups = asked.reshape(len(self.keys), -1, asked.shape[-1])
        found = (groups @ self.keys[:, keys].mT).mul_(self.scaling)
        found = found.view(len(self.keys), of_each, len(rows), -1)
        if self.softcap:
            found.div_(self.softcap).tanh_().mul_(self.softcap)
        allowed = torch.from_numpy(_cells(self.masking, self.tokens, rows, keys)).to(found.device)
        return found.masked_fill_(~allowed, -torch.inf)

    def weights(self, rows: Tensor, logarithms: Tensor) -> Tensor:
        """Compute whole rows of weights from their logarithms [head, query], [head, query, key]."""
        scores = self.scores(rows, slice(0, self.tokens)).flatten(0, 1)
        return scores.sub_(logarithms[:, rows, None]).exp_()


def _attend(
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
    check_stopped()
    name = recording.names.get(module)
    if name is None or not isinstance(attention_mask, MaskRule):
        raise NotByRuleError("Its mask is not known.")
    if odd := not_understood(arguments, query.shape[1]):
        raise NotByRuleError(f"Its attention is also given {', '.join(odd)}.")
    if arguments.get("position_bias") is not None or query.shape[-2] != key.shape[-2]:
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
    )

    def own(queries: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        return eager(module, queries, key, value, added, **arguments)

    context, logarithms = _checked(call, own, mask)
    output = context[None]  # text query head d_value
    for head, edit in recording.edits.get(name, {}).items():
        output[:, :, head] = edited(output[:, :, head], edit)
    if recording.keeps:
        vectors = LayerVectors(
            _held(call.queries),
            _held(call.keys),
            _held(call.values),
            _held(logarithms),
            mask,
            None if call.sinks is None else _held(call.sinks),
        )
        recording.calls.append(LongTextCall(name, vectors, call.scaling, call.softcap))
    return output, None


def _held(tensor: Tensor) -> Tensor:
    """Return numbers on the CPU, in memory of their own."""
    own = tensor.detach().cpu().contiguous()
    return own.clone() if own.untyped_storage().nbytes() > own.nbytes else own


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
    rows = torch.tensor(sorted({0, call.tokens // 2, call.tokens - 1}))
    queries = call.queries[None, :, rows]
    allowed = torch.from_numpy(_cells(call.masking, call.tokens, rows)).to(queries.device)
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


def _has_kernel(call: _Vectors, mask: LayerMask) -> bool:
    is_plain = not call.softcap and call.sinks is None and mask.mask in {Mask.CAUSAL, Mask.NONE}
    on_cpu = call.queries.device.type == "cpu"
    return is_plain and on_cpu and call.queries.shape[-1] == call.values.shape[-1]


def _by_kernel(call: _Vectors) -> tuple[Tensor, Tensor]:
    is_causal = call.masking.mask is Mask.CAUSAL
    output, logarithms = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        call.queries[None], call.keys[None], call.values[None], 0.0, is_causal, scale=call.scaling
    )
    # It is [text, head, query] of one text, in whatever order the kernel has written it.
    return output[0].transpose(0, 1), logarithms[0]


def _by_blocks(call: _Vectors) -> tuple[Tensor, Tensor]:
    heads, tokens = call.queries.shape[:2]
    context = call.values.new_empty((tokens, heads, call.values.shape[-1]))
    logarithms = call.queries.new_empty((heads, tokens))
    step = max(1, CELLS // (heads * tokens))
    for start in range(0, tokens, step):
        rows = torch.arange(start, min(start + step, tokens))
        readable = readable_keys(call.masking, tokens, 0, start, int(rows[-1]))
        keys = slice(readable.start, readable.stop)
        scores = call.scores(rows, keys)  # key head, head, query, key
        found = scores.logsumexp(-1).flatten(0, 1)
        if call.sinks is not None:
            found = torch.logaddexp(found, call.sinks[:, None])
        weights = scores.flatten(0, 1).sub_(found[..., None]).exp_()
        grouped = weights.view(len(call.values), -1, weights.shape[-1])
        made = (grouped @ call.values[:, keys]).view(heads, len(rows), -1)
        context[rows], logarithms[:, rows] = made.transpose(0, 1), found
    return context, logarithms
