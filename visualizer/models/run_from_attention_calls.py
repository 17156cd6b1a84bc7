"""Runs made of recorded attention: a run for all layers that are alike in what they compute."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.captured_attention import CapturedAttention, CapturedVectors, LayerMask
from visualizer.attention.run import USABLE, Run, gib
from visualizer.attention.run_from_captured_attention import captured_run
from visualizer.attention.spec import BooleanMatrix, Device, Mask
from visualizer.errors import InputError
from visualizer.models.attention_recorder import AttentionCall, RecordingMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

BY_ITSELF = (
    "The model computes its attention itself: its weights were read where it calls softmax, and "
    "nothing before them is known."
)
_UNDERSTOOD = frozenset({"scaling", "dropout", "is_causal", "sliding_window"})
"""Arguments that are known to be in the mask and the scaling already, or that do not act."""
_CROSS = ("cross", "EncDec", "encoder_attn")
"""What the paths of attention to another text's tokens have."""
_IRRELEVANT = frozenset({
    "position_ids", "use_cache", "output_attentions", "output_hidden_states", "deterministic",
    "output_router_logits", "num_items_in_batch", "cache_position", "return_dict",
})  # fmt: skip


class LayerGroup(Struct, frozen=True, eq=False):
    """Layers that can be read side by side: equal sizes and stages.

    Parameters
    ----------
    name : str
        Where they are in the model: ``model.layers.*.self_attn``.
    layers : tuple of int
        Their numbers in the model, from 0.
    calls : tuple of AttentionCall
        One a layer, of a single text.
    masks : tuple of LayerMask
        One a layer.
    """

    name: str
    layers: tuple[int, ...]
    calls: tuple[AttentionCall, ...]
    masks: tuple[LayerMask, ...]

    @property
    def is_cross(self) -> bool:
        """Whether its queries read other tokens than their own."""
        queries, keys = self.calls[0].weights.shape[-2:]
        return queries != keys or any(part in self.name for part in _CROSS)


class LayerRun(Struct, frozen=True, eq=False):
    """The run of a group of layers, and its weights as a document holds them."""

    group: LayerGroup
    run: Run
    captured: CapturedAttention

    @property
    def in_words(self) -> str:
        """Where its layers are in the model, counted from 1 as in the window."""
        layers = self.group.layers
        are_all = layers == tuple(range(layers[0], layers[-1] + 1))
        first = f"{layers[0] + 1}" + (f" to {layers[-1] + 1}" if len(layers) > 1 else "")
        each = first if are_all else ", ".join(str(layer + 1) for layer in layers)
        return f"Shown: {self.group.name}, layer{'s' * (len(layers) > 1)} {each}"

    def with_notice(self, sentence: str) -> LayerRun:
        """Add a notice about its numbers."""
        return replace(self, run=replace(self.run, notices=(*self.run.notices, sentence)))

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about its numbers, as sentences."""
        is_by_itself = self.group.calls[0].method is RecordingMethod.SOFTMAX
        return (*((BY_ITSELF,) if is_by_itself else ()), *self.run.notices)


def groups_of(calls: Sequence[AttentionCall]) -> tuple[LayerGroup, ...]:
    """Sort the calls of one pass into groups, in the order in which the model begins them."""
    numbered = numbered_by_layer(_of_one_softmax(calls))
    keys = [(_family(call.module), *_sizes(call)) for _, call in numbered]
    order = {key: at for at, key in reversed([*enumerate(keys)])}
    places = sorted(range(len(numbered)), key=lambda at: (order[keys[at]], at))
    found = []
    for key, group in groupby(places, key=lambda at: keys[at]):
        members = [numbered[at] for at in group]
        layers = tuple(layer for layer, _ in members)
        own = tuple(call for _, call in members)
        found.append(LayerGroup(key[0], layers, own, tuple(map(_mask, own))))
    return tuple(found)


def _of_one_softmax(calls: Sequence[AttentionCall]) -> list[AttentionCall]:
    """Leave out modules that call softmax several times: which is their attention is not known."""
    counts = Counter(call.module for call in calls if call.method is RecordingMethod.SOFTMAX)
    return [call for call in calls if counts[call.module] < 2]


def numbered_by_layer(calls: Sequence[AttentionCall]) -> list[tuple[int, AttentionCall]]:
    """Pair the calls with the numbers of their layers.

    The number is that in the module's path, or the place among those that run where that would
    name several alike: a module that runs again and again, or stacks of layers.
    """
    families: dict[str, list[AttentionCall]] = {}
    for call in calls:
        families.setdefault(_family(call.module), []).append(call)
    numbers: dict[int, int] = {}
    for family in families.values():
        named = [_number(call.module) for call in family]
        is_clear = None not in named and len({*named}) == len(named)
        for place, (call, number) in enumerate(zip(family, named, strict=True)):
            numbers[id(call)] = number if is_clear and number is not None else place
    return [(numbers[id(call)], call) for call in calls]


def _number(module: str) -> int | None:
    found = re.search(r"\.(\d+)(?=\.|$)", module)
    return int(found[1]) if found else None


def _family(module: str) -> str:
    return re.sub(r"\.\d+(?=\.|$)", ".*", module)


def _sizes(call: AttentionCall) -> tuple[object, ...]:
    parts = (call.queries, call.keys, call.values)
    shapes = tuple(None if part is None else tuple(part.shape) for part in parts)
    return (tuple(call.weights.shape), shapes, call.method, call.scaling)


def _mask(call: AttentionCall) -> LayerMask:
    """Return which keys a call's mask leaves."""
    queries, keys = call.weights.shape[-2:]
    if call.mask is None or queries != keys:
        return LayerMask()
    allowed = _allowed(call.mask)[0]
    cells = allowed[0].numpy()
    if not bool((allowed == allowed[:1]).all()):  # by head
        return LayerMask()
    if cells.all():
        return LayerMask()
    causal = np.tri(queries, dtype=bool)
    if (cells == causal).all():
        return LayerMask(Mask.CAUSAL)
    window = int(cells[-1].sum())
    if (cells == (causal & ~np.tri(queries, k=-window, dtype=bool))).all():
        return LayerMask(Mask.WINDOW, window=window)
    return LayerMask(Mask.OWN, BooleanMatrix.of(cells))


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
    check_memory(len(group.layers), *group.calls[0].weights.shape[1:3])
    weights = _stacked(call.weights for call in group.calls)
    captured = CapturedAttention.of(_named(group, name), weights, tokens, key_tokens)
    is_known = group.calls[0].method is RecordingMethod.INTERFACE and not group.is_cross
    if is_known:
        captured = replace(captured, vectors=_vectors(group))
    run = captured_run(captured)
    return LayerRun(group, replace(run, device=device or run.device), captured)


def _named(group: LayerGroup, name: str) -> str:
    """Name the layers, where their places among those that are shown are not their numbers."""
    if group.layers == tuple(range(len(group.layers))):
        return name
    return f"layers {', '.join(str(layer + 1) for layer in group.layers)} of {name}"


def _vectors(group: LayerGroup) -> CapturedVectors:
    queries, keys, values = (
        _stacked(_repeated(getattr(call, name), call) for call in group.calls)
        for name in ("queries", "keys", "values")
    )
    first, *others = group.masks
    is_one = all(other == first for other in others)
    mask = first if is_one else LayerMask()
    return CapturedVectors(
        queries.shape[-1],
        values.shape[-1],
        queries.tobytes(),
        keys.tobytes(),
        values.tobytes(),
        group.calls[0].scaling,
        mask.mask,
        mask.own_mask,
        mask.window,
        all(map(_is_understood, group.calls)),
        () if is_one else group.masks,
    )


def _stacked(parts: Iterable[Tensor]) -> np.ndarray:
    whole = torch.stack([part[0].cpu() for part in parts])  # layer head …
    return (whole if whole.dtype is torch.float64 else whole.float()).contiguous().numpy()


def _repeated(part: Tensor, call: AttentionCall) -> Tensor:
    """Give every head of the queries the keys or values that it reads."""
    return part.repeat_interleave(call.weights.shape[1] // part.shape[1], 1)


def _is_understood(call: AttentionCall) -> bool:
    """Whether nothing but a scale and a plain mask stands between its scores and its weights."""
    if {*call.arguments} - _UNDERSTOOD - _IRRELEVANT:
        return False
    if call.mask is None or call.mask.dtype is torch.bool:
        return True
    lowest = torch.finfo(call.mask.dtype).min / 2
    return bool(((call.mask == 0) | (call.mask < lowest)).all())


def check_memory(layers: int, heads: int, tokens: int) -> None:
    """Refuse layers whose weights and stages would not fit into the free memory.

    Raises
    ------
    InputError
        Of ``text``.
    """
    # The weights, the stages beside them, and what softmax makes of one layer meanwhile.
    needed = 4 * heads * tokens**2 * (6 * layers + 4)
    free = USABLE * attention_device.free_bytes(Device.CPU)
    if needed > free:
        sentence = (
            f"{layers:,} layers × {heads:,} heads × {tokens:,} tokens need {gib(needed)}, and "
            f"{gib(free)} can be used. Use less text."
        )
        raise InputError("text", sentence)
