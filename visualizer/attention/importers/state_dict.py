"""Converts a ``state_dict`` of the book's or torch's modules to a spec with custom weights.

Source: Raschka 2024, §3.4 to §3.6 (names and shapes of the modules' parameters). A
``state_dict`` does not contain the number of heads of a `MultiHeadAttention`, the dropout or the
scale. The buffer ``mask`` of the causal modules is 1 at forbidden cells; it is cut to the tokens of
the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from visualizer.attention.importers.tensor_file_listing import (
    natural_order_key,
    unreadable_file_error,
)
from visualizer.attention.masks import classify_mask
from visualizer.attention.mechanisms import (
    MECHANISM_TITLES,
    Mechanism,
    apply_mechanism,
    mechanism_of,
)
from visualizer.attention.spec import (
    BIAS_SUFFIX,
    BLOCK_LAYERS,
    MAX_VALUES,
    NORM_LAYERS,
    PROJECTION_LAYERS,
    AttentionSpec,
    BooleanMatrix,
    Dtype,
    MaskKind,
    NumberMatrix,
    Projection,
    TransformerBlockKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.format import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.importers.tensor_file_listing import ArrayEntry, TensorFileContents

_PACKED = re.compile(r"(?P<module>(?:.*\.)?)in_proj_(?P<kind>weight|bias)")
_SEPARATE = re.compile(r"(?P<module>(?:.*\.)?)(?P<letter>[qkv])_proj_weight")
_EXTRA = ("bias_k", "bias_v")


def rename_to_book_names(entries: Sequence[ArrayEntry]) -> tuple[ArrayEntry, ...]:
    """Rename the entries of torch's modules, and split the entries that combine three layers.

    Raises
    ------
    InputError
        If a module adds a key and a value without a token, or computes queries, keys and values
        from vectors of different sizes.
    """
    names = {entry.name for entry in entries}
    modules = {
        match["module"]
        for name in names
        if (match := _PACKED.fullmatch(name) or _SEPARATE.fullmatch(name))
    }
    extra = {f"{module}{name}" for module in modules for name in _EXTRA}
    found: list[ArrayEntry] = []
    for entry in entries:
        if entry.name in extra:
            raise unreadable_file_error(
                f"{entry.description} adds a key or value without a token (add_bias_kv), which is "
                "not supported. Open a module without add_bias_kv."
            )
        found += _convert_entry(entry)
    weights = {f"{module}out_proj.weight" for module in modules}
    for entry in entries:
        bias = f"{entry.name.removesuffix('.weight')}{BIAS_SUFFIX}"
        if entry.name in weights and bias not in names:
            found.append(_zero_bias(entry, bias))
    return tuple(found)


def _convert_entry(entry: ArrayEntry) -> list[ArrayEntry]:
    if match := _SEPARATE.fullmatch(entry.name):
        if len(set(entry.shape)) > 1:
            raise unreadable_file_error(
                f"{entry.description} is not square: queries, keys and values are computed from "
                "vectors of different sizes (kdim, vdim), so the module is not self-attention."
            )
        layer = PROJECTION_LAYERS["qkv".index(match["letter"])]
        return [replace(entry, name=f"{match['module']}{layer}.weight")]
    match = _PACKED.fullmatch(entry.name)
    if not match or not entry.shape or entry.shape[0] % len(PROJECTION_LAYERS):
        return [entry]
    rows, *others = entry.shape
    width = rows // len(PROJECTION_LAYERS)
    return [
        replace(
            entry,
            name=f"{match['module']}{layer}.{match['kind']}",
            shape=(width, *others),
            read=lambda start=number * width: entry.read()[start : start + width],
        )
        for number, layer in enumerate(PROJECTION_LAYERS)
    ]


def _zero_bias(weight: ArrayEntry, name: str) -> ArrayEntry:
    """Return a zero bias for an output projection without a bias (``bias=False``)."""
    shape = weight.shape[:1]
    return replace(weight, name=name, shape=shape, read=lambda: np.zeros(shape, np.float32))


OPTIMIZER_PREFIX = "optimiser/"
"""Name prefix of the optimizer state in the language lab's checkpoints."""
MAX_ELEMENTS = 4_000_000
MAX_STORED_MASK_TOKENS = 4_096
"""Maximum number of tokens for which a mask is read; larger masks are assumed to be causal."""
_NAME = re.compile(
    r"(?P<before>(?:.*\.)?)"
    r"(?P<layer>W_query|W_key|W_value|out_proj|mask|ln1|ln2|linear1|linear2)"
    r"(?:\.(?P<kind>weight|bias))?"
)
_HEAD = re.compile(r"(?P<module>(?:.*\.)?)heads\.(?P<head>[0-9]{1,6})\.")


@dataclass(slots=True)
class StateDictModule:
    """Entries of one module, keyed by the name of the layer or bias and by head."""

    parts: dict[str, dict[int, ArrayEntry]] = field(default_factory=dict)
    heads: set[int] = field(default_factory=set)
    is_stacked: bool = False

    def entries(self, name: str) -> list[ArrayEntry]:
        return [entry for _, entry in sorted(self.parts.get(name, {}).items())]


def contains_attention_module(contents: TensorFileContents) -> bool:
    """Return whether a file contains the weights of one of the book's modules."""
    return any(_has_all_projections(module) for module in _find_modules(contents).values())


def spec_from_state_dict(
    contents: TensorFileContents, base: AttentionSpec, tokens: int | None = None
) -> tuple[AttentionSpec, str]:
    """Return the spec of the module in a file, or of the first module if there are several.

    Parameters
    ----------
    base : AttentionSpec
        Supplies the settings that the file does not contain.
    tokens : int, optional
        Number of tokens in the text; the file's mask is cut to this size.

    Returns
    -------
    AttentionSpec
        Spec with the file's weights and biases as custom weights, and with its mask.
    str
        A notice that names the module, the settings that the file does not contain, and the mask.

    Raises
    ------
    InputError
        If the shapes are inconsistent, a number is not finite, or a custom mask is smaller than the
        text.
    """
    modules = {
        name: module
        for name, module in _find_modules(contents).items()
        if _has_all_projections(module)
    }
    name = min(modules, key=natural_order_key)
    spec = _with_weights(modules[name], _spec_with_module_sizes(modules[name], base))
    for problem in spec_problems(spec):
        raise unreadable_file_error(f"The weights are inconsistent: {problem.sentence}")
    spec, mask_notice = _with_module_mask(modules[name], spec, tokens)
    settings_notice = _settings_notice(spec, name, len(modules))
    return spec, " ".join(filter(None, (settings_notice, mask_notice)))


def _find_modules(contents: TensorFileContents) -> dict[str, StateDictModule]:
    found: dict[str, StateDictModule] = {}
    for entry in rename_to_book_names(contents.entries):
        match = _NAME.fullmatch(entry.name)
        if match and not entry.name.startswith(OPTIMIZER_PREFIX):
            of_head = _HEAD.fullmatch(match["before"])
            module = found.setdefault(
                of_head["module"] if of_head else match["before"], StateDictModule()
            )
            head = int(of_head["head"]) if of_head else 0
            kind = f".{match['kind']}" if match["kind"] else ""
            module.parts.setdefault(match["layer"] + kind, {})[head] = entry
            module.is_stacked |= of_head is not None
            module.heads.add(head)
    return found


def _has_all_projections(module: StateDictModule) -> bool:
    return any(
        all(layer + kind in module.parts for layer in PROJECTION_LAYERS) for kind in ("", ".weight")
    )


def _spec_with_module_sizes(module: StateDictModule, base: AttentionSpec) -> AttentionSpec:
    """Return a spec with the sizes of a module, derived from its shapes, without its weights."""
    is_raw = all(layer in module.parts for layer in PROJECTION_LAYERS)
    first = module.entries("W_query" if is_raw else "W_query.weight")[0]
    if len(first.shape) != 2:
        raise unreadable_file_error(f"{first.description} is not a matrix.")
    d_in, d_out = first.shape if is_raw else first.shape[::-1]
    heads, key_value_heads = len(module.heads), 0
    mechanism = Mechanism.CAUSAL if "mask" in module.parts else Mechanism.SELF
    if "out_proj.weight" in module.parts:
        mechanism, heads = Mechanism.MULTI_HEAD, _fitting_head_count(base, d_out)
        keys = module.entries("W_key" if is_raw else "W_key.weight")[0]
        key_value_heads = _key_value_head_count(keys.shape[-1 if is_raw else 0], d_out, heads)
    elif module.is_stacked:
        mechanism = Mechanism.STACKED
    own_input = base.own_input if base.own_input and base.own_input.columns == d_in else None
    return replace(
        apply_mechanism(mechanism, base),
        d_in=d_in,
        d_out=d_out,
        heads=heads,
        key_value_heads=key_value_heads,
        projection=Projection.UNIFORM if is_raw else Projection.LINEAR,
        bias=not is_raw and all(f"{layer}.bias" in module.parts for layer in PROJECTION_LAYERS),
        mask=MaskKind.NONE,
        own_input=own_input,
        own_weights=(),
        **_block_settings(module),
        dtype=Dtype.FLOAT64 if first.is_double else base.dtype,
    )


def _block_settings(module: StateDictModule) -> dict[str, Any]:
    """Return the spec fields of a block if all its layers are present, otherwise an empty dict."""
    names = [f"{layer}{kind}" for layer in BLOCK_LAYERS for kind in (".weight", BIAS_SUFFIX)]
    if not all(name in module.parts for name in names):
        return {}
    (hidden, *_) = *module.entries("linear1.weight")[0].shape, 0
    return {"block": TransformerBlockKind.PRE_NORM, "d_ff": hidden}


def _with_module_mask(
    module: StateDictModule, spec: AttentionSpec, tokens: int | None
) -> tuple[AttentionSpec, str]:
    """Return a spec with a module's mask, and a notice unless this is the book's causal mask."""
    entries = module.entries("mask")
    if not entries:
        return spec, ""
    size = _mask_size(entries)
    if size > MAX_STORED_MASK_TOKENS:
        return replace(spec, mask=MaskKind.CAUSAL), (
            f"Its mask for {size:,} tokens is too large to read; a causal mask is used instead."
        )
    forbidden = entries[0].read() != 0  # query key
    if any(((entry.read() != 0) != forbidden).any() for entry in entries[1:]):
        raise unreadable_file_error(
            "The heads have different masks, but all heads must have the same mask."
        )
    spec, notice = _with_mask_matrix(spec, forbidden, tokens)
    if tokens is not None and size < tokens:
        if spec.mask is MaskKind.OWN:
            raise unreadable_file_error(
                f"The mask is for {size:,} tokens, but the text has {tokens:,}. "
                "Shorten the text and open the file again."
            )
        limit = f"It was created for at most {size:,} tokens; this text has {tokens:,}."
        notice = f"{notice} {limit}".strip()
    return spec, notice


def _mask_size(entries: list[ArrayEntry]) -> int:
    size = entries[0].shape[-1:]
    for entry in entries:
        if entry.shape != 2 * size or not all(size):
            raise unreadable_file_error(f"{entry.description} is not a square mask.")
    return size[0]


def _with_mask_matrix(
    spec: AttentionSpec, forbidden: np.ndarray, tokens: int | None
) -> tuple[AttentionSpec, str]:
    """Return a spec with a mask [query, key], preferably of a known kind, and a notice."""
    size, allowed = len(forbidden), ~forbidden
    kind, window = classify_mask(allowed)
    if kind is MaskKind.CAUSAL:
        return replace(spec, mask=kind), ""
    if kind is MaskKind.NONE:
        return replace(spec, mask=kind), "Its mask allows all keys."
    if kind is MaskKind.WINDOW:
        notice = f"Its mask is a sliding window of {format_count(window, 'token')}."
        return replace(spec, mask=kind, window=window), notice
    notice = "Its mask is used as a custom mask."
    if tokens and tokens < size:
        allowed = allowed[:tokens, :tokens]
        notice = f"Its mask for {size:,} tokens was cut to {tokens:,} and is used as a custom mask."
    return replace(spec, mask=kind, own_mask=BooleanMatrix.from_array(allowed)), notice


def _fitting_head_count(base: AttentionSpec, d_out: int) -> int:
    is_usable = 0 < base.heads <= MAX_VALUES["heads"] and d_out % base.heads == 0
    return base.heads if is_usable else 1


def _key_value_head_count(columns: int, d_out: int, heads: int) -> int:
    """Derive the number of key-value heads, or 0 for one per head, from the columns of the keys."""
    return columns * heads // d_out if 0 < columns < d_out else 0


def _with_weights(module: StateDictModule, spec: AttentionSpec) -> AttentionSpec:
    sizes = spec.custom_weight_sizes
    if (
        max(spec.d_in, spec.d_out) > MAX_VALUES["d_in"]
        or sum(rows * columns for rows, columns in sizes.values()) > MAX_ELEMENTS
    ):
        raise unreadable_file_error(
            f"The module has more than {MAX_ELEMENTS:,} weights. Open a smaller module."
        )
    own = tuple((name, _read_matrix(module, spec, name, size)) for name, size in sizes.items())
    return replace(spec, own_weights=own)


def _read_matrix(
    module: StateDictModule, spec: AttentionSpec, name: str, size: tuple[int, int]
) -> NumberMatrix:
    """Return a layer's weights or bias with all heads concatenated, [row, width]."""
    is_bias, layer = name.endswith(BIAS_SUFFIX), name.removesuffix(BIAS_SUFFIX)
    is_raw = spec.projection is Projection.UNIFORM and layer in PROJECTION_LAYERS
    known = layer.replace("W_output", "out_proj")
    entries = module.entries(known + ("" if is_raw else BIAS_SUFFIX if is_bias else ".weight"))
    parts = 1 if layer not in PROJECTION_LAYERS or not module.is_stacked else spec.heads
    each = (size[0], size[1] // parts)
    is_vector = is_bias or layer in NORM_LAYERS
    shape = each if is_raw else each[1:] if is_vector else each[::-1]
    if len(entries) != parts or any(entry.shape != shape for entry in entries):
        found = ", ".join(entry.description for entry in entries[:2]) or "nothing"
        expected = f"{parts} of " * (parts > 1) + " × ".join(map(str, shape))
        raise unreadable_file_error(
            f"{known} has the wrong shape for the module: found {found}, expected {expected}."
        )
    arrays = [entry.read() for entry in entries]
    if is_vector:
        whole = np.concatenate(arrays)[None]
    else:
        whole = np.concatenate([part if is_raw else part.T for part in arrays], axis=1)
    if not np.isfinite(whole).all():
        raise unreadable_file_error(f"{known} contains numbers that are not finite.")
    return NumberMatrix.from_array(whole)


def _settings_notice(spec: AttentionSpec, name: str, count: int) -> str:
    mechanism = mechanism_of(spec)
    sentences = [f"{MECHANISM_TITLES[mechanism]}, {spec.d_in} → {spec.d_out}."]
    if count > 1:
        first = name.rstrip(".")
        sentences.append(f"The file contains {count:,} modules; this is the first: {first}.")
    if mechanism is Mechanism.BLOCK:
        used = f"{format_count(spec.heads, 'head')} and {spec.activation}"
        sentences.append(
            f"The file does not contain the number of heads or the activation; {used} are used."
        )
    if mechanism is Mechanism.MULTI_HEAD and spec.output_projection:
        sentences.append(f"The file does not contain the number of heads; {spec.heads} is used.")
    return " ".join(sentences)
