"""Builds runs from attention weights that another program computed, without copying them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.captured_attention import (
    CapturedAttention,
    CapturedVectors,
    LayerMask,
    header_checks,
)
from visualizer.attention.captured_layers import WeightSample
from visualizer.attention.captured_run import create_layered_run
from visualizer.attention.importers.tensor_file_reader import (
    SEPARATE_NUMBERING_NOTICE,
    describe_excessive_size,
    with_tokens,
)
from visualizer.attention.masks import classify_mask
from visualizer.attention.roles import VECTOR_ROLES
from visualizer.attention.spec import BooleanMatrix, Dtype, MaskKind
from visualizer.attention.stage_computation import repeat_for_heads
from visualizer.errors import InputError
from visualizer.models.recorded_runs import LayerGroup, LayerGroupRun
from visualizer.models.recorded_texts import BATCH_NOTICE, PADDING_NOTICE

if TYPE_CHECKING:
    from torch import Tensor

    from visualizer.attention.run import Run

    Tokens = tuple[str, ...]

PART_NAME, CROSS_PART_NAME = "attention", "cross-attention"
"""Names of the part, as of the attention modules of a model."""
AXES = "query, key", "head, query, key", "layer, head, query, key", "layer, text, head, query, key"
_DOUBLE = {torch.float64, torch.int64, torch.uint32, torch.uint64}


class TextTokens(Struct, frozen=True):
    """Tokens of a text; each tuple is empty if it was not given."""

    both: Tokens = ()
    queries: Tokens = ()
    keys: Tokens = ()


class ArrayBatch:
    """Attention weights of one or more texts, with the vectors from which they were computed.

    Parameters
    ----------
    name : str
        Name of the source of the weights.
    weights : object
        Array or tensor of any type with the axes [layer, text, head, query, key]; all but the last
        two, or only the text, may be missing. Or a list with one array [text, head, query,
        key] per layer; the axes of the text and the head may be missing.
    vectors : dict of str to object
        Queries, keys and values in the same form, with the axes [token, d_head] instead of [query,
        key]; heads may share keys and values.
    tokens : list of TextTokens
        Tokens of the first texts, with or without padding; those of further texts are numbered.
    mask : object, optional
        Array [text, key] or [key] that is 0 for padding, which is then removed.

    Raises
    ------
    InputError
        With the field ``attention``, ``attention_mask``, ``queries``, ``keys``, ``values``,
        ``tokens`` or ``key_tokens``.
    """

    def __init__(
        self,
        name: str,
        weights: Any,
        vectors: dict[str, Any],
        tokens: list[TextTokens],
        mask: Any = None,
    ) -> None:
        self._name, self._tokens = name, tokens
        self._weights = _split_into_layers("attention", weights)
        self._vectors = {role: _split_into_layers(role, each) for role, each in vectors.items()}
        self._made: dict[int, tuple[LayerGroupRun, ...]] = {}
        self._check_layers()
        for role in self._vectors:
            self._check_vectors(role)
        self._real = None if mask is None else self._read_mask(mask)
        for at, each in enumerate(tokens):
            self._check_tokens(at, each)

    def __len__(self) -> int:
        return len(self._weights[0])

    def runs_of_text(self, at: int) -> tuple[LayerGroupRun, ...]:
        """Return the runs of one of the texts: one run per number of heads."""
        if at not in self._made:
            groups: dict[object, list[int]] = {}
            for layer in range(len(self._weights)):
                groups.setdefault(self._grouping_key(layer), []).append(layer)
            found = tuple(self._build_run(at, tuple(layers)) for layers in groups.values())
            if len(self) > 1:
                notice = BATCH_NOTICE.format(number=at + 1, count=len(self))
                found = tuple(each.with_notice(notice) for each in found)
            self._made[at] = found
        return self._made[at]

    def _grouping_key(self, layer: int) -> tuple[int, ...]:
        widths = (each[layer].shape[-1] for each in self._vectors.values())
        return (self._weights[layer].shape[1], *widths)

    def _check_layers(self) -> None:
        """Check that all layers have the same text, and that no size exceeds its limit."""
        first = self._weights[0].shape
        for layer, weights in enumerate(self._weights):
            texts, heads, queries, keys = weights.shape
            if (texts, queries, keys) != (first[0], *first[2:]):
                sentence = (
                    f"All layers of attention must have the same texts, queries and keys. Layer 0 "
                    f"has the shape {_describe_shape(first)}, and layer {layer} has the shape "
                    f"{_describe_shape(weights.shape)}."
                )
                raise InputError("attention", sentence)
            problem = describe_excessive_size((len(self._weights), heads, queries, keys))
            if problem:
                raise InputError("attention", problem)

    def _check_vectors(self, role: str) -> None:
        layers = self._vectors[role]
        if len(layers) != len(self._weights):
            sentence = f"attention has {len(self._weights)} layers, but {role} has {len(layers)}."
            raise InputError(role, sentence)
        for layer, (vectors, weights) in enumerate(zip(layers, self._weights, strict=True)):
            texts, heads, queries, keys = weights.shape
            tokens = queries if role == VECTOR_ROLES[0] else keys
            given_heads = vectors.shape[1]
            is_shared = role != VECTOR_ROLES[0] and heads % given_heads == 0
            if (vectors.shape[0], vectors.shape[2]) != (texts, tokens) or not (
                is_shared or given_heads == heads
            ):
                sentence = (
                    f"{role} must have the shape {texts} × {heads} × {tokens} × d_head in layer "
                    f"{layer}, to match attention. It has the shape "
                    f"{_describe_shape(vectors.shape)}."
                )
                raise InputError(role, sentence)
            queries_width = self._vectors[VECTOR_ROLES[0]][layer].shape[-1]
            if role == VECTOR_ROLES[1] and vectors.shape[-1] != queries_width:
                sentence = (
                    f"Each key must have as many numbers as a query. In layer {layer}, queries "
                    f"have {queries_width}, and keys have {vectors.shape[-1]}."
                )
                raise InputError(role, sentence)

    def _read_mask(self, mask: Any) -> Tensor:
        """Return which keys are not padding, as a boolean tensor [text, key]."""
        real = _to_tensor("attention_mask", mask)
        real = real[None] if real.ndim == 1 else real
        expected = len(self), self._weights[0].shape[-1]
        if real.shape != expected:
            sentence = (
                f"attention_mask must have the shape {_describe_shape(expected)}, to match the "
                f"texts and keys of attention. It has the shape {_describe_shape(real.shape)}."
            )
            raise InputError("attention_mask", sentence)
        if not bool(((real == 0) | (real == 1)).all()):
            sentence = "attention_mask must contain 1 for tokens and 0 for padding."
            raise InputError("attention_mask", f"{sentence} It contains other numbers.")
        if not bool(real.any(1).all()):
            raise InputError("attention_mask", "Each text of attention_mask must have a token.")
        return real.bool()

    def _positions(self, text: int) -> tuple[Tensor, Tensor]:
        """Return the queries and the keys of a text that are not padding."""
        queries, keys = self._weights[0].shape[-2:]
        if self._real is None:
            return torch.arange(queries), torch.arange(keys)
        real = self._real[text]
        is_cross = any(each.keys for each in self._tokens) or queries > keys
        own = torch.ones(queries, dtype=torch.bool) if is_cross else real[keys - queries :]
        return own.nonzero()[:, 0], real.nonzero()[:, 0]

    def _check_tokens(self, text: int, tokens: TextTokens) -> None:
        queries, keys = self._weights[0].shape[-2:]
        fits_keys = len(tokens.both) == keys and queries < keys
        name = "tokens" if len(self._tokens) < 2 else f"tokens[{text}]"
        if text >= len(self):
            sentence = f"tokens has {len(self._tokens):,} lists, but attention has {len(self):,}"
            raise InputError("tokens", f"{sentence} text{'s' * (len(self) != 1)}.")
        own_queries, own_keys = self._positions(text)
        for words, counts, axis in (
            (tokens.both, (queries, len(own_queries)), "queries"),
            (tokens.queries, (queries, len(own_queries)), "queries"),
            (tokens.keys, (keys, len(own_keys)), "keys"),
        ):
            if words and len(words) not in counts and not (words is tokens.both and fits_keys):
                own = f"key_{name}" if axis == "keys" else name
                found = f"{own} has {len(words):,} tokens, but attention has {counts[0]:,} {axis}"
                padding = f", and {counts[1]:,} without padding" * (counts[0] != counts[1])
                sentence = f"{found}{padding}."
                if words is tokens.both and queries != keys:
                    sentence += f" It has {keys:,} keys; pass their tokens as key_tokens."
                raise InputError(own.partition("[")[0], sentence)

    def _tokens_without_padding(self, text: int) -> TextTokens:
        tokens = self._tokens[text] if text < len(self._tokens) else TextTokens()
        queries, keys = self._positions(text)
        sizes = self._weights[0].shape[-2:]

        def select(words: Tokens) -> Tokens:
            for places, size in zip((keys, queries), reversed(sizes), strict=True):
                if len(words) == size:
                    return tuple(words[at] for at in places.tolist())
            return words

        return TextTokens(*map(select, (tokens.both, tokens.queries, tokens.keys)))

    def _build_run(self, text: int, layers: tuple[int, ...]) -> LayerGroupRun:
        rows, columns = self._positions(text)
        weights = [
            _select(_select(self._weights[layer][text], rows, -2), columns, -1) for layer in layers
        ]
        vectors = {
            role: [_select(each[at][text], rows if role == VECTOR_ROLES[0] else columns, -2)
                   for at in layers]
            for role, each in self._vectors.items()
        }  # fmt: skip
        heads, queries, keys = weights[0].shape
        is_double = any(each.dtype in _DOUBLE for each in weights)
        captured = CapturedAttention(
            name=self._name,
            layers=len(layers),
            heads=heads,
            queries=queries,
            keys=keys,
            dtype=Dtype.FLOAT64 if is_double else Dtype.FLOAT32,
            numbers=b"",
            vectors=_describe_vectors(weights, vectors) if vectors else None,
        )
        tokens = self._tokens_without_padding(text)
        captured = with_tokens(captured, tokens.both, tokens.queries, tokens.keys)
        for is_valid, name in header_checks(captured):
            if not is_valid:
                raise InputError("attention", f"Invalid value: {name}.")
        sources = [
            _GivenLayer(each, {role: own[at] for role, own in vectors.items()}, captured.dtype)
            for at, each in enumerate(weights)
        ]
        run = create_layered_run(captured, sources)
        found = as_layer_group(run, layers)
        if padding := self._weights[0].shape[-1] - keys:
            notice = PADDING_NOTICE.format(padding=padding, count=padding + keys)
            found = found.with_notice(notice)
        is_numbered = not (captured.query_tokens or captured.key_tokens)
        is_cross = found.group.is_cross
        return found.with_notice(SEPARATE_NUMBERING_NOTICE) if is_cross and is_numbered else found


def _select(tensor: Tensor, places: Tensor, axis: int) -> Tensor:
    """Return a part of a tensor, or the tensor itself if the part is the whole axis."""
    is_whole = len(places) == tensor.shape[axis]
    return tensor if is_whole else tensor.index_select(axis, places)


def as_layer_group(run: Run, layers: tuple[int, ...]) -> LayerGroupRun:
    """Return the run of layers that do not belong to a model that is in memory."""
    is_cross = not (run.has_same_keys or run.is_continuation)
    part = CROSS_PART_NAME if is_cross else PART_NAME
    return LayerGroupRun(LayerGroup(part, layers, (), ()), run)


class _GivenLayer:
    """One layer of given tensors, which are converted when they are read."""

    def __init__(self, weights: Tensor, vectors: dict[str, Tensor], dtype: Dtype) -> None:
        self._weights, self._vectors, self._dtype = weights, vectors, getattr(torch, dtype)

    def weights(self) -> Tensor:
        return self._weights.to(self._dtype)

    def sample_weights(self) -> WeightSample:
        return WeightSample.from_weights(self.weights())

    def vectors(self, name: str) -> Tensor:
        return repeat_for_heads(self._vectors[name].to(self._dtype), len(self._weights))

    def bias(self) -> Tensor | None:
        return None

    def sinks(self) -> Tensor | None:
        return None


def _describe_vectors(weights: list[Tensor], vectors: dict[str, list[Tensor]]) -> CapturedVectors:
    """Describe scaled dot products, with the mask that allows all cells with a weight."""
    masks = [_classify_layer_mask(each) for each in weights]
    common, are_equal = masks[0], all(mask == masks[0] for mask in masks)
    queries, keys, values = (vectors[role] for role in VECTOR_ROLES)
    assert len(queries) == len(keys)
    d_head = queries[0].shape[-1]
    return CapturedVectors(
        d_head=d_head,
        d_value=values[0].shape[-1],
        queries=b"",
        keys=b"",
        values=b"",
        scaling=d_head**-0.5,
        mask=common.mask if are_equal else MaskKind.NONE,
        own_mask=common.own_mask if are_equal else None,
        window=common.window if are_equal else 0,
        layer_masks=() if are_equal else tuple(masks),
    )


def _classify_layer_mask(weights: Tensor) -> LayerMask:
    allowed = (weights != 0).any(0).numpy()
    kind, window = classify_mask(allowed)
    return LayerMask(
        kind, BooleanMatrix.from_array(allowed) if kind is MaskKind.OWN else None, window
    )


# ------------------------------------------------------------------------- arrays of any kind


def _split_into_layers(name: str, given: Any) -> list[Tensor]:
    """Return one tensor [text, head, row, column] per layer."""
    if isinstance(given, list | tuple) and any(_is_array(each) or each is None for each in given):
        layers = [_to_tensor(f"{name}[{at}]", each) for at, each in enumerate(given)]
        for at, layer in enumerate(layers):
            if not 2 <= layer.ndim <= 4:
                _raise_shape_error(name, layer, f"{name}[{at}]", "text, head, query, key")
        return [layer[(None,) * (4 - layer.ndim)] for layer in layers]
    whole = _to_tensor(name, given)
    if whole.ndim not in range(2, 6):
        _raise_shape_error(name, whole, name, AXES[-1])
    if whole.ndim < 5:
        whole = whole[(None,) * (4 - whole.ndim)][:, None]
    return list(whole)


def _raise_shape_error(name: str, tensor: Tensor, given: str, axes: str) -> None:
    if name in VECTOR_ROLES:
        axes = axes.replace("query, key", "token, d_head")
    shape = _describe_shape(tensor.shape) or "a single number"
    sentence = f"{given} must have the axes [{axes}]; the first axes may be missing."
    raise InputError(name, f"{sentence} It is {shape}.")


def _describe_shape(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") or hasattr(value, "__array__")


def _is_nested(value: Any) -> bool:
    """Return whether a value is a list of lists of arrays."""
    return isinstance(value, list | tuple) and any(
        isinstance(each, list | tuple) and any(map(_is_array, each)) for each in value
    )


def _to_tensor(name: str, given: Any) -> Tensor:
    """Return numbers as a tensor on the CPU, without a copy if possible."""
    argument = name.partition("[")[0]
    if given is None:
        sentence = (
            f'{name} is None. Load the model with attn_implementation="eager", and run it with '
            "output_attentions=True."
        )
        raise InputError(argument, sentence)
    if hasattr(given, "attentions"):
        raise InputError(argument, f"{name} is the output of a model. Pass its `attentions`.")
    if _is_nested(given):
        sentence = (
            f"{name} is a list of arrays, as in the output of generate(). To record generated "
            "text, use visualizer.capture."
        )
        raise InputError(argument, sentence)
    try:
        tensor = given if isinstance(given, torch.Tensor) else _tensor_from_array(name, given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        why = " ".join(str(error).split())[:200].rstrip(".!")
        raise InputError(argument, f"{name} must be an array of numbers: {why}.") from error
    if tensor.is_complex() or tensor.is_quantized or tensor.layout is not torch.strided:
        sentence = f"{name} must be a dense array of real numbers. It is {tensor.dtype}."
        raise InputError(argument, sentence)
    if tensor.device.type == "meta":
        raise InputError(argument, f"{name} has no data, because it is on the device “meta”.")
    if not tensor.numel():
        raise InputError(argument, f"{name} is empty. Its shape is {[*tensor.shape]}.")
    return tensor.detach().cpu()


def _tensor_from_array(name: str, given: Any) -> Tensor:
    array = np.asanyarray(given)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InputError(name.partition("[")[0], f"{name} must not have masked elements.")
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":  # of JAX; torch does not accept it
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        sentence = f"{name} must contain numbers. It contains the type {array.dtype}."
        raise InputError(name.partition("[")[0], sentence)
    if array.dtype.itemsize > 8 or not array.dtype.isnative:  # long double
        array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
    if min(array.strides, default=0) < 0:
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():  # the tensor is never written to
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)
