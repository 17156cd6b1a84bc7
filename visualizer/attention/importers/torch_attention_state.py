"""Conversion of a ``state_dict`` of ``torch.nn.MultiheadAttention`` to the book's names.

torch stores the three projections in one matrix ``in_proj_weight`` [3·width, width], or in three
``q_proj_weight`` … if keys or values have another size, and their biases in ``in_proj_bias``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.importers.reader_checks_and_errors import unreadable_file_error
from visualizer.attention.spec import BIAS, LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.importers.file_contents import ArrayEntry

_PACKED = re.compile(r"(?P<module>(?:.*\.)?)in_proj_(?P<kind>weight|bias)")
_SEPARATE = re.compile(r"(?P<module>(?:.*\.)?)(?P<letter>[qkv])_proj_weight")
_EXTRA = ("bias_k", "bias_v")


def with_book_names(entries: Sequence[ArrayEntry]) -> tuple[ArrayEntry, ...]:
    """Rename the entries of torch's modules, and split those that contain three layers.

    Raises
    ------
    InputError
        If a module has an extra key and value without a token, or if its queries, keys and values
        are computed from vectors of different sizes.
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
                f"{entry.said} adds a key or value without a token (add_bias_kv), which is "
                "not supported. Open a module without it."
            )
        found += _convert_entry(entry)
    weights = {f"{module}out_proj.weight" for module in modules}
    for entry in entries:
        bias = f"{entry.name.removesuffix('.weight')}{BIAS}"
        if entry.name in weights and bias not in names:
            found.append(_zero_bias(entry, bias))
    return tuple(found)


def _convert_entry(entry: ArrayEntry) -> list[ArrayEntry]:
    if match := _SEPARATE.fullmatch(entry.name):
        if len(set(entry.shape)) > 1:
            raise unreadable_file_error(
                f"{entry.said} is not square: queries, keys and values are computed from "
                "vectors of different sizes (kdim, vdim), so the module is not self-attention."
            )
        layer = LAYERS["qkv".index(match["letter"])]
        return [replace(entry, name=f"{match['module']}{layer}.weight")]
    match = _PACKED.fullmatch(entry.name)
    if not match or not entry.shape or entry.shape[0] % len(LAYERS):
        return [entry]
    rows, *others = entry.shape
    width = rows // len(LAYERS)
    return [
        replace(
            entry,
            name=f"{match['module']}{layer}.{match['kind']}",
            shape=(width, *others),
            read=lambda start=number * width: entry.read()[start : start + width],
        )
        for number, layer in enumerate(LAYERS)
    ]


def _zero_bias(weight: ArrayEntry, name: str) -> ArrayEntry:
    """Return a zero bias for an output projection without one (``bias=False``)."""
    shape = weight.shape[:1]
    return replace(weight, name=name, shape=shape, read=lambda: np.zeros(shape, np.float32))
