"""Builds runs from recorded attention calls: one run per group of identical layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.captured_attention import CapturedAttention, CapturedVectors, LayerMask
from visualizer.attention.captured_layers import WeightSample
from visualizer.attention.captured_run import create_layered_run
from visualizer.attention.masks import classify_mask
from visualizer.attention.saved_numbers import captured_attention_with_numbers
from visualizer.attention.spec import BooleanMatrix, Dtype, MaskKind
from visualizer.attention.stage_computation import repeat_for_heads
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError
from visualizer.models.attention_recorder import AttentionCall, RecordingMethod
from visualizer.models.recognition_errors import infer_or_none

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from torch import Tensor

    from visualizer.attention.run import Run

OWN_ATTENTION_NOTICE = (
    "This model uses its own attention implementation. Its attention weights were "
    "recorded from its softmax; queries, keys and scores are not available."
)
SCORES_UNKNOWN_NOTICE = (
    "Only attention weights are shown: the program could not infer how the model computes them "
    "from queries and keys."
)
_SUPPORTED_ARGUMENTS = frozenset({
    "scaling", "dropout", "is_causal", "sliding_window", "softcap", "position_bias", "s_aux",
})  # fmt: skip
"""Arguments that are handled, are already part of the mask, or have no effect."""
MAX_LISTED_ARGUMENTS = 20
ROW_SUM_TOLERANCE = 1e-5
"""Tolerance for the difference between row sums and 1; a larger one indicates an attention sink."""
_CROSS_ATTENTION_NAMES = ("cross", "EncDec", "encoder_attn")
"""Parts of module paths that indicate cross-attention."""
_IGNORED_ARGUMENTS = frozenset({
    "position_ids", "use_cache", "output_attentions", "output_hidden_states", "deterministic",
    "output_router_logits", "num_items_in_batch", "cache_position", "return_dict",
})  # fmt: skip


class CallWithModule(Protocol):
    """A recorded call of a module."""

    @property
    def module(self) -> str:
        """Path of the module."""


CallT = TypeVar("CallT", bound=CallWithModule)


class ScoreAdditions(Struct, frozen=True, eq=False):
    """Mask and bias that a call adds to its scores.

    Parameters
    ----------
    bias : Tensor or None
        Bias, [head, query, key]; None if only zeros are added to the scores of allowed keys.
    """

    mask: LayerMask
    bias: Tensor | None = None


class LayerGroup(Struct, frozen=True, eq=False):
    """Layers with equal shapes and stages, which share one run.

    Parameters
    ----------
    name : str
        Path of the layers' attention in the model: ``model.layers.*.self_attn``.
    layers : tuple of int
        Numbers of the layers in the model, from 0.
    calls : tuple of AttentionCall
        One call per layer, for a single text; empty for a long text, since weights are not kept.
    added : tuple of ScoreAdditions
        Mask and bias of each layer; empty for a long text.
    """

    name: str
    layers: tuple[int, ...]
    calls: tuple[AttentionCall, ...]
    added: tuple[ScoreAdditions, ...]

    __repr__ = brief_repr

    @property
    def is_cross(self) -> bool:
        """Whether the queries attend to the tokens of another text."""
        own = [call for call in self.calls[:1] if not call.is_continuation]
        is_square = all(call.weights.shape[-2] == call.weights.shape[-1] for call in own)
        return not is_square or is_cross_attention_path(self.name)


class LayerGroupRun(Struct, frozen=True, eq=False):
    """The run of a group of layers."""

    group: LayerGroup
    run: Run

    @property
    def captured_attention(self) -> CapturedAttention | None:
        """The values in the form stored in documents; None for a long text without kept weights."""
        return captured_attention_with_numbers(self.run)

    __repr__ = brief_repr

    @property
    def description(self) -> str:
        """Notice that states which layers are shown, counted from 1."""
        layers = [layer + 1 for layer in self.group.layers]
        plural = "s" * (len(layers) > 1)
        return f"Shown: {self.group.name}, layer{plural} {_format_layer_numbers(layers)}"

    def select_stages(self, names: Collection[str]) -> LayerGroupRun:
        """Return the run with only its attention and some stages."""
        return replace(self, run=replace(self.run, trace=self.run.trace.select_stages(names)))

    def with_notice(self, sentence: str) -> LayerGroupRun:
        """Return the run with an additional notice about its values."""
        return replace(self, run=replace(self.run, notices=(*self.run.notices, sentence)))

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the values, as sentences."""
        is_by_itself = any(call.method is RecordingMethod.SOFTMAX for call in self.group.calls[:1])
        return (*((OWN_ATTENTION_NOTICE,) if is_by_itself else ()), *self.run.notices)


def group_calls(calls: Sequence[AttentionCall]) -> tuple[LayerGroup, ...]:
    """Group the calls of one pass by identical layers, in order of their first call.

    If inference fails, the calls of the groups contain only weights.
    """
    found = infer_or_none("groups of layers", lambda: _group_layers_of_same_kind(calls))
    if found is None:
        return _group_layers_of_same_kind([call.with_weights_only() for call in calls])
    return found


def _group_layers_of_same_kind(calls: Sequence[AttentionCall]) -> tuple[LayerGroup, ...]:
    numbered = number_calls_by_layer(_without_ambiguous_softmax(calls))
    added = _find_score_additions(call for _, call in numbered)
    groups: dict[tuple[object, ...], list[tuple[int, AttentionCall, ScoreAdditions]]] = {}
    for (layer, call), each in zip(numbered, added, strict=True):
        key = (module_family(call.module), *_grouping_key(call), each.bias is None)
        groups.setdefault(key, []).append((layer, call, each))
    return tuple(
        LayerGroup(module_family(members[0][1].module), *zip(*members, strict=True))
        for members in groups.values()
    )


def _without_ambiguous_softmax(calls: Sequence[AttentionCall]) -> list[AttentionCall]:
    """Omit modules that call softmax several times: it is unknown which call is attention."""
    counts = Counter(call.module for call in calls if call.method is RecordingMethod.SOFTMAX)
    return [call for call in calls if counts[call.module] < 2]


def number_calls_by_layer(calls: Sequence[CallT]) -> list[tuple[int, CallT]]:
    """Pair the calls with the numbers of their layers.

    The number is taken from the module's path. If it is ambiguous, as for a module that runs
    several times or for several stacks of layers, the position in the order of execution is used.
    """
    families: dict[str, list[CallT]] = {}
    for call in calls:
        families.setdefault(module_family(call.module), []).append(call)
    numbers: dict[int, int] = {}
    for family in families.values():
        named = [_layer_number(call.module) for call in family]
        is_clear = None not in named and len({*named}) == len(named)
        for place, (call, number) in enumerate(zip(family, named, strict=True)):
            numbers[id(call)] = number if is_clear and number is not None else place
    return [(numbers[id(call)], call) for call in calls]


def is_cross_attention_path(module: str) -> bool:
    """Return whether the path of a module indicates cross-attention."""
    return any(part in module for part in _CROSS_ATTENTION_NAMES)


def _layer_number(module: str) -> int | None:
    found = re.search(r"\.(\d+)(?=\.|$)", module)
    return int(found[1]) if found else None


def module_family(module: str) -> str:
    """Return the path of a module with ``*`` for numbers, which is the same in all layers."""
    return re.sub(r"\.\d+(?=\.|$)", ".*", module)


def _grouping_key(call: AttentionCall) -> tuple[object, ...]:
    parts = (call.queries, call.keys, call.values)
    shapes = tuple(None if part is None else tuple(part.shape) for part in parts)
    own = (_softcap_of(call), _sink_logits(call) is None, _unknown_arguments_of(call))
    return (tuple(call.weights.shape), shapes, call.method, call.scaling, *own)


def _find_score_additions(calls: Iterable[AttentionCall]) -> list[ScoreAdditions]:
    """Return the mask and bias that each call adds to its scores; layers often share them."""
    known: dict[tuple[object, ...], ScoreAdditions] = {}
    found = []
    for call in calls:
        parts = (call.mask, call.arguments.get("position_bias"))
        key = (*map(id, parts), call.weights.shape)
        if key not in known:
            known[key] = _separate_mask(call, [part[0] for part in parts if part is not None])
        found.append(known[key])
    return found


def _separate_mask(call: AttentionCall, parts: list[Tensor]) -> ScoreAdditions:
    """Separate the mask from the bias: values near the minimum of the data type mask a key.

    The parts are the mask and the bias of the call, [1 or head, 1 or query, key].
    """
    queries, keys = call.weights.shape[-2:]
    allowed = torch.ones(1, queries, keys, dtype=torch.bool)
    bias = torch.zeros(1, 1, 1)
    for part in (part.cpu() for part in parts):
        if part.dtype is torch.bool:
            allowed = allowed & part
        else:
            allowed = allowed & (part > torch.finfo(part.dtype).min / 2)
            bias = bias + part
    bias = bias.where(allowed, 0)
    whole = bias.expand(call.weights.shape[1:]) if bool(bias.any()) else None
    return ScoreAdditions(_classify_layer_mask(allowed), whole)


def _classify_layer_mask(allowed: Tensor) -> LayerMask:
    """Classify a mask of allowed cells, [1 or head, query, key]; return no mask if heads differ."""
    cells = allowed[0].numpy()
    if cells.all() or not bool((allowed == allowed[:1]).all()):  # differs by head
        return LayerMask()
    kind, window = classify_mask(cells)
    return LayerMask(
        kind, BooleanMatrix.from_array(cells) if kind is MaskKind.OWN else None, window
    )


def _softcap_of(call: AttentionCall) -> float:
    return float(call.arguments.get("softcap") or 0)


def _sink_logits(call: AttentionCall) -> Tensor | None:
    """Return the sink logits, [head]; None without sinks."""
    sinks = call.arguments.get("s_aux")
    return None if sinks is None else sinks.detach().flatten()


def _are_row_sums_one(call: AttentionCall) -> bool:
    """Return whether the weights on the keys sum to 1 in each row, leaving none for a sink."""
    sums = _weight_sample_of_call(call).sums
    within = max(ROW_SUM_TOLERANCE, torch.finfo(call.weights.dtype).eps)
    return bool(((sums - 1).abs() <= within)[sums != 0].all())


def _weight_sample_of_call(call: AttentionCall) -> WeightSample:
    return call.sample or WeightSample.from_weights(call.weights[0].detach().cpu())


class _RecordedLayerTensors:
    """Access to the recorded tensors of one layer."""

    def __init__(self, call: AttentionCall, added: ScoreAdditions) -> None:
        self._call, self._bias_and_mask = call, added

    def release(self) -> None:
        """Release the compared sample and the context, which are no longer needed."""
        self._call = replace(self._call, sample=None, context=None)

    def weights(self) -> Tensor:
        return self._call.read_weights()[0].detach().cpu()

    def sample_weights(self) -> WeightSample:
        return _weight_sample_of_call(self._call)

    def vectors(self, name: str) -> Tensor:
        part: Tensor = getattr(self._call, name)
        return repeat_for_heads(part, self._call.weights.shape[1])[0].detach().cpu()

    def bias(self) -> Tensor | None:
        bias = self._bias_and_mask.bias
        return None if bias is None else bias.detach().cpu()

    def sinks(self) -> Tensor | None:
        sinks = _sink_logits(self._call)
        return None if sinks is None else sinks.cpu()


def create_layer_run(
    group: LayerGroup,
    name: str,
    tokens: tuple[str, ...],
    key_tokens: tuple[str, ...] = (),
    device: str = "",
) -> LayerGroupRun:
    """Build the run of a group of layers; its trace has the axis ``layer``.

    The weights are the model's own. Queries, keys and values are the inputs of the attention
    function. If the model's weights are reproduced from them, the scores are stages of the run,
    and the weights are computed on access. If this inference fails, the run contains only the
    weights, and a notice.
    """
    one = group.calls[0].weights
    _, heads, queries, keys = one.shape
    is_double = one.dtype is torch.float64
    captured = CapturedAttention(
        name=name_with_layers(group.layers, name),
        layers=len(group.layers),
        heads=heads,
        queries=queries,
        keys=keys,
        dtype=Dtype.FLOAT64 if is_double else Dtype.FLOAT32,
        numbers=b"",
        query_tokens=tokens,
        key_tokens=key_tokens,
    )
    if group.calls[0].queries is not None:
        found = infer_or_none(
            f"how the weights of {group.name} are computed from queries and keys",
            lambda: _build_run(group, replace(captured, vectors=_describe_vectors(group)), device),
        )
        if found:
            return found
    found = _build_run(group, captured, device)
    is_by_itself = group.calls[0].method is RecordingMethod.SOFTMAX
    return found if is_by_itself else found.with_notice(SCORES_UNKNOWN_NOTICE)


def _build_run(group: LayerGroup, captured: CapturedAttention, device: str) -> LayerGroupRun:
    own = [_RecordedLayerTensors(*each) for each in zip(group.calls, group.added, strict=True)]
    run = create_layered_run(captured, own)
    for each in own:
        each.release()
    group = replace(group, calls=tuple(replace(call, sample=None) for call in group.calls))
    return LayerGroupRun(group, replace(run, device=device or run.device))


def name_with_layers(layers: tuple[int, ...], name: str) -> str:
    """Return the model's name, with the layer numbers unless they are those of the first layers."""
    if layers == tuple(range(len(layers))):
        return name
    return f"layers {', '.join(str(layer + 1) for layer in layers)} of {name}"


def _describe_vectors(group: LayerGroup) -> CapturedVectors:
    """Describe how a group's weights are computed from its vectors; the data remains empty."""
    masks = tuple(each.mask for each in group.added)
    cut = _cut_edges(group)
    if cut and all(each.mask is MaskKind.NONE for each in masks):
        # Without another mask, cut edges are represented in a mask that allows all cells.
        allowed = np.ones(tuple(group.calls[0].weights.shape[-2:]), dtype=bool)
        masks = (LayerMask(MaskKind.OWN, BooleanMatrix.from_array(allowed)),) * len(masks)
    is_one = all(other == masks[0] for other in masks[1:])
    mask = masks[0] if is_one else LayerMask()
    one = group.calls[0]
    assert one.queries is not None
    assert one.values is not None
    unknown = _unknown_arguments_of(one)
    has_bias = any(each.bias is not None for each in group.added)
    # Sinks that scale the context vectors after the softmax leave row sums of 1.
    has_sinks = _sink_logits(one) is not None and not all(map(_are_row_sums_one, group.calls))
    return CapturedVectors(
        d_head=one.queries.shape[-1],
        d_value=one.values.shape[-1],
        queries=b"",
        keys=b"",
        values=b"",
        scaling=one.scaling,
        mask=mask.mask,
        own_mask=mask.own_mask,
        window=mask.window,
        is_plain=not unknown,
        layer_masks=() if is_one else masks,
        softcap=_softcap_of(one),
        bias=b"" if has_bias else None,
        sinks=b"" if has_sinks else None,
        not_understood=unknown,
        cut=cut,
    )


def _cut_edges(group: LayerGroup) -> tuple[tuple[int, int, int, int], ...]:
    """Return the cut edges of a group: layer, head, query, key."""
    edges = (
        (layer, head, query, key)
        for layer, call in enumerate(group.calls)
        for head, cut in call.cuts.items()
        for query, key in zip(cut.queries, cut.keys, strict=True)
    )
    return tuple(sorted(edges))


def unknown_arguments(arguments: Mapping[str, object], heads: int) -> tuple[str, ...]:
    """Return the names of arguments that may change how scores become weights."""
    names = {name for name, given in arguments.items() if _is_argument_given(given)}
    names -= _SUPPORTED_ARGUMENTS | _IGNORED_ARGUMENTS
    sinks = arguments.get("s_aux")
    if isinstance(sinks, torch.Tensor) and sinks.numel() != heads:
        names.add("s_aux")
    return tuple(sorted(names))[:MAX_LISTED_ARGUMENTS]


def _is_argument_given(argument: object) -> bool:
    is_empty = isinstance(argument, Mapping) and not argument
    return argument is not None and not is_empty


def _unknown_arguments_of(call: AttentionCall) -> tuple[str, ...]:
    return unknown_arguments(call.arguments, call.weights.shape[1])


UNNUMBERED_LAYERS_ERROR = "The layers of this model cannot be selected by number. Keep all layers."


class KeptLayersAndStages(Struct, frozen=True):
    """The layers and stages that are kept when a model runs on a text.

    Parameters
    ----------
    layers : frozenset of int or None
        Numbers of the layers in the model; None for all layers.
    stages : frozenset of str or None
        Names of the stages; None for all stages. Weights are always kept.
    """

    layers: frozenset[int] | None = None
    stages: frozenset[str] | None = None

    def keeps_module(self, path: str) -> bool:
        """Return whether a module may belong to one of the layers, according to its path."""
        number = _layer_number(path)
        return self.layers is None or number is None or number in self.layers

    def select_calls(self, calls: Sequence[CallT]) -> list[CallT]:
        """Return the recorded calls of the layers.

        Raises
        ------
        InputError
            With field ``layers`` if a layer does not compute attention.
        """
        if self.layers is None:
            return [*calls]
        numbered = number_calls_by_layer(calls)
        self.check_layers_exist({number for number, _ in numbered})
        selected = [(number, call) for number, call in numbered if number in self.layers]
        calls_found = [call for _, call in selected]
        is_same = [number for number, _ in number_calls_by_layer(calls_found)] == [
            at for at, _ in selected
        ]
        if not (is_same and all(self.keeps_module(call.module) for call in calls_found)):
            raise InputError("layers", UNNUMBERED_LAYERS_ERROR)
        return calls_found

    def check_layers_exist(self, known: Collection[int]) -> None:
        """Raise an `InputError` with field ``layers`` if a layer does not compute attention."""
        if missing := sorted((self.layers or frozenset()).difference(known)):
            layers = _format_layer_numbers(sorted(known))
            sentence = f"Layer {missing[0]} has no attention. Layers with attention: {layers}."
            raise InputError("layers", sentence)

    def select_runs(self, runs: tuple[LayerGroupRun, ...]) -> tuple[LayerGroupRun, ...]:
        """Return runs with only the selected stages.

        Raises
        ------
        InputError
            With field ``stages`` if no layer has one of the stages.
        """
        if self.stages is None:
            return runs
        known = dict.fromkeys(name for each in runs for name in each.run.trace.names)
        if unknown := sorted(self.stages.difference(known)):
            sentence = f"Stage “{unknown[0]}” is not available. Available: {', '.join(known)}."
            raise InputError("stages", sentence)
        return tuple(each.select_stages(self.stages) for each in runs)


KEEP_ALL_PARTS = KeptLayersAndStages()


def _format_layer_numbers(numbers: Sequence[int]) -> str:
    is_range = [*numbers] == [*range(numbers[0], numbers[-1] + 1)]
    if is_range and len(numbers) > 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))
