"""Runs made of recorded attention: a run for all layers that are alike in what they compute."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.captured_attention import CapturedAttention, captured_stages
from visualizer.attention.run import USABLE, Run, gib
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    Mask,
    Mode,
    Projection,
    Scale,
)
from visualizer.attention.stages import Operation, stages
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace
from visualizer.errors import InputError
from visualizer.models.attention_recorder import AttentionCall, RecordingMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
"""How far the weights that follow from the scores may be from the model's own."""
COARSE = 2e-2
"""The same, for types of fewer bits."""
_UNDERSTOOD = frozenset({"scaling", "dropout", "is_causal", "sliding_window"})
"""Arguments that are known to be in the mask and the scaling already, or that do not act."""
_IRRELEVANT = frozenset({
    "position_ids", "use_cache", "output_attentions", "output_hidden_states", "deterministic",
    "output_router_logits", "num_items_in_batch", "cache_position", "return_dict",
})  # fmt: skip
_GIVEN = ("queries", "keys", "values")


class LayerGroup(Struct, frozen=True, eq=False):
    """Layers that can be read side by side: equal sizes, masks and stages.

    Parameters
    ----------
    name : str
        Where they are in the model: ``model.layers.*.self_attn``.
    layers : tuple of int
        Their numbers in the model, from 0.
    calls : tuple of AttentionCall
        One a layer, of a single text.
    """

    name: str
    layers: tuple[int, ...]
    calls: tuple[AttentionCall, ...]
    masks: tuple[Mask, BooleanMatrix | None, int]


class LayerRun(Struct, frozen=True, eq=False):
    """The run of a group of layers, and its weights as a document holds them."""

    group: LayerGroup
    run: Run
    captured: CapturedAttention


def groups_of(calls: Sequence[AttentionCall]) -> tuple[LayerGroup, ...]:
    """Sort the calls of one pass into groups, in the order in which the model begins them."""
    numbered = numbered_by_layer(calls)
    keys = [(_family(call.module), *_sizes(call), _mask(call)) for _, call in numbered]
    order = {key: at for at, key in reversed([*enumerate(keys)])}
    places = sorted(range(len(numbered)), key=lambda at: (order[keys[at]], at))
    found = []
    for key, group in groupby(places, key=lambda at: keys[at]):
        members = [numbered[at] for at in group]
        layers = tuple(layer for layer, _ in members)
        found.append(LayerGroup(key[0], layers, tuple(call for _, call in members), key[-1]))
    return tuple(found)


def numbered_by_layer(calls: Sequence[AttentionCall]) -> list[tuple[int, AttentionCall]]:
    """Pair the calls with the numbers of their layers; a shared module is as many as it runs."""
    families: dict[str, int] = {}
    paired = []
    names = [call.module for call in calls]
    for call in calls:
        family = _family(call.module)
        is_shared = names.count(call.module) > 1
        number = re.search(r"\.(\d+)(?=\.|$)", call.module)
        running = families.get(family, 0)
        families[family] = running + 1
        paired.append((running if is_shared or not number else int(number[1]), call))
    return paired


def _family(module: str) -> str:
    return re.sub(r"\.\d+(?=\.|$)", ".*", module)


def _sizes(call: AttentionCall) -> tuple[object, ...]:
    parts = (call.queries, call.keys, call.values)
    shapes = tuple(None if part is None else tuple(part.shape) for part in parts)
    return (tuple(call.weights.shape), shapes, call.method, call.scaling)


def _mask(call: AttentionCall) -> tuple[Mask, BooleanMatrix | None, int]:
    """Return which keys a call's mask leaves: a mask of the spec, its own matrix and its window."""
    queries, keys = call.weights.shape[-2:]
    if call.mask is None or queries != keys:
        return Mask.NONE, None, 0
    allowed = _allowed(call.mask)[0]
    cells = allowed[0].numpy()
    if not bool((allowed == allowed[:1]).all()):  # by head
        return Mask.NONE, None, 0
    if cells.all():
        return Mask.NONE, None, 0
    causal = np.tri(queries, dtype=bool)
    if (cells == causal).all():
        return Mask.CAUSAL, None, 0
    window = int(cells[-1].sum())
    if (cells == (causal & ~np.tri(queries, k=-window, dtype=bool))).all():
        return Mask.WINDOW, None, window
    return Mask.OWN, BooleanMatrix.of(cells), 0


def _allowed(mask: Tensor) -> Tensor:
    """Return which cells a mask allows, boolean [batch, head, query, key], on the CPU."""
    if mask.dtype is torch.bool:
        return mask.cpu()
    return (mask > torch.finfo(mask.dtype).min / 2).cpu()


def run_of(
    group: LayerGroup,
    name: str,
    tokens: tuple[str, ...],
    key_tokens: tuple[str, ...] = (),
    device: str = "",
) -> LayerRun:
    """Make the run of a group of layers.

    Its trace has the axis ``layer``. The weights are the model's own. Queries, keys and values are
    those that met; where masked and scaled scores of them give the model's weights, these are
    stages, too, and the weights follow from them. Of attention to other tokens than the queries'
    own the weights are all.

    Raises
    ------
    InputError
        Of ``text``, when the stages need more memory than is free.
    """
    held, computed = _tensors(group, is_cross=bool(key_tokens))
    spec = _spec(group)
    given = frozenset(held) - computed
    rows = captured_stages(spec, _ordered(spec, held), given)
    axes = ("layer",)[: len(group.layers) - 1]
    cached = {row.name: CachedTensor(held[row.name] if axes else held[row.name][0]) for row in rows}
    trace = Trace(spec, rows, {}, cached, frozenset(cached), axes)
    captured = CapturedAttention.of(name, held["weights"].numpy(), tokens, key_tokens)
    notices = _notices(group, is_cross=bool(key_tokens), is_whole="weights" in computed)
    run = Run((tokens,), trace, device, notices, captured, key_tokens)
    return LayerRun(group, run, captured)


def _ordered(spec: AttentionSpec, held: dict[str, Tensor]) -> list[str]:
    names = [row.name for row in stages(spec) if row.name in held]
    return names if "weights" in names else ["weights"]


def _spec(group: LayerGroup) -> AttentionSpec:
    first = group.calls[0]
    heads = first.weights.shape[1]
    d_head = 1 if first.queries is None else first.queries.shape[-1]
    mask, own, window = group.masks
    spec = AttentionSpec(
        d_in=heads * d_head,
        d_out=heads * d_head,
        heads=heads,
        projection=Projection.NONE,
        output_projection=False,
        mask=mask,
        own_mask=own,
        mode=Mode.EVAL,
        dtype=Dtype.FLOAT64 if first.weights.dtype is torch.float64 else Dtype.FLOAT32,
    )
    spec = replace(spec, window=window) if window else spec
    if abs(first.scaling * d_head**0.5 - 1) < 1e-6:
        return spec
    return replace(spec, scale=Scale.NONE, temperature=1 / first.scaling)


def _tensors(group: LayerGroup, *, is_cross: bool) -> tuple[dict[str, Tensor], frozenset[str]]:
    """Return the stages [layer, …], and the names of those that follow from others."""
    check_memory(group)
    held = {"weights": _stacked(call.weights for call in group.calls)}
    first = group.calls[0]
    if first.method is not RecordingMethod.INTERFACE or is_cross:
        return held, frozenset()
    queries, keys, values = (
        _stacked(_repeated(getattr(call, name), call) for call in group.calls) for name in _GIVEN
    )
    spec = _spec(group)
    held |= {"queries": queries, "keys": keys, "values": values}
    held["scores"] = queries @ keys.transpose(-2, -1)
    held["context"] = held["weights"] @ values
    computed = {"scores", "context"}
    follow = _following(spec, held["scores"], group)
    own = first.weights.dtype
    is_known = all(_is_understood(call) for call in group.calls)
    if is_known and _distance(follow["weights"], held["weights"]) <= TOLERANCE.get(own, COARSE):
        held |= {name: tensor for name, tensor in follow.items() if name != "weights"}
        computed |= {*follow}
    return held, frozenset(computed)


def _stacked(parts: Iterable[Tensor]) -> Tensor:
    whole = torch.stack([part[0].cpu() for part in parts])  # layer head …
    return whole if whole.dtype is torch.float64 else whole.float()


def _repeated(part: Tensor, call: AttentionCall) -> Tensor:
    """Give every head of the queries the keys or values that it reads."""
    return part.repeat_interleave(call.weights.shape[1] // part.shape[1], 1)


def _following(spec: AttentionSpec, scores: Tensor, group: LayerGroup) -> dict[str, Tensor]:
    """Compute the stages from the scores to the weights as the spec has them."""
    names = {row.name for row in stages(spec)}
    found = {}
    now = scores
    if "scaled" in names:
        now = found["scaled"] = scores / spec.divisor
    if "masked" in names:
        mask = group.calls[0].mask
        assert mask is not None
        now = found["masked"] = now.masked_fill(~_allowed(mask)[0], -torch.inf)
    found["weights"] = torch.softmax(now, -1)
    return found


def _is_understood(call: AttentionCall) -> bool:
    """Whether nothing but a scale and a plain mask stands between its scores and its weights."""
    if {*call.arguments} - _UNDERSTOOD - _IRRELEVANT or call.mask is None:
        return not {*call.arguments} - _UNDERSTOOD - _IRRELEVANT
    if call.mask.dtype is torch.bool:
        return True
    lowest = torch.finfo(call.mask.dtype).min / 2
    return bool(((call.mask == 0) | (call.mask < lowest)).all())


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max()) if one.numel() else 0.0


def check_memory(group: LayerGroup) -> None:
    """Refuse a group whose stages would not fit into the free memory."""
    weights = group.calls[0].weights
    needed = 6 * 4 * weights[0].numel() * len(group.layers)
    free = USABLE * attention_device.free_bytes(Device.CPU)
    if needed > free:
        tokens = weights.shape[-2]
        sentence = (
            f"{len(group.layers):,} layers × {weights.shape[1]} heads × {tokens:,} tokens need "
            f"{gib(needed)}, and {gib(free)} can be used. Use less text."
        )
        raise InputError("text", sentence)


def _notices(group: LayerGroup, *, is_cross: bool, is_whole: bool) -> tuple[str, ...]:
    said = []
    if group.calls[0].method is RecordingMethod.SOFTMAX:
        said.append(
            "The model computes its attention itself: its weights were read where it calls "
            "softmax, and nothing before them is known."
        )
    elif not is_cross and not is_whole:
        said.append("The weights are the model's own; they do not follow from the scores alone.")
    return tuple(said)


def is_explained(run: Run) -> bool:
    """Whether the weights of a run follow from its scores."""
    return run.trace.stage("weights").operation is not Operation.CAPTURED
