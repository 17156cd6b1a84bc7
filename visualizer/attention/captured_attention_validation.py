"""Checks of captured attention from a file or a server: signs, sizes and settings.

The caller rejects values whose claims do not hold. A header has no numbers; these are elsewhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.captured_attention import MAX_CUT_EDGES, MAX_LAYERS, MAX_TOKENS
from visualizer.attention.spec import MAX_VALUES, Mask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.captured_attention import (
        CapturedAttention,
        CapturedVectors,
        ImagePatches,
        LayerMask,
    )
    from visualizer.attention.spec import BooleanMatrix

MAX_IMAGE_SIDE_PX = 10_000
MAX_NAMES, MAX_ARGUMENT_LENGTH = 100, 200
Claim = tuple[bool, str]
"""Whether a condition holds, and the subject of the message if it does not."""


def claims_of_header(captured: CapturedAttention) -> Iterator[Claim]:
    """Yield claims that sizes, tokens and settings are consistent, regardless of the numbers."""
    sizes = (captured.layers, captured.heads, captured.queries, captured.keys)
    limits = (MAX_LAYERS, MAX_VALUES["heads"], MAX_TOKENS, MAX_TOKENS)
    are_sizes = all(1 <= size <= largest for size, largest in zip(sizes, limits, strict=True))
    yield are_sizes, "captured attention of a size"
    yield len(captured.query_tokens) in (0, captured.queries), "a number of query tokens"
    yield len(captured.key_tokens) in (0, captured.keys), "a number of key tokens"
    if patches := captured.patches:
        yield _are_patches(captured, patches), "an image of patches"
    if captured.vectors:
        yield from _claims_of_vectors(captured, captured.vectors)


def claims_of_numbers(captured: CapturedAttention) -> Iterator[Claim]:
    """Yield claims that the number of values matches the sizes."""
    sizes = (captured.layers, captured.heads, captured.queries, captured.keys)
    item = np.dtype(captured.dtype.value).itemsize
    yield len(captured.numbers) == math.prod(sizes) * item, "a number of captured weights"
    if not (vectors := captured.vectors):
        return
    widths = {
        "queries": (captured.queries, vectors.d_head),
        "keys": (captured.keys, vectors.d_head),
        "values": (captured.keys, vectors.d_value),
    }
    heads = captured.layers * captured.heads
    for name, (tokens, width) in widths.items():
        is_whole = len(getattr(vectors, name)) == item * heads * tokens * width
        yield is_whole, f"a number of {name}"
    per_layer = item * captured.heads
    sinks = len(vectors.sinks or b"")
    yield vectors.sinks is None or sinks == per_layer * captured.layers, "a number of sinks"
    bias, scores = len(vectors.bias or b""), per_layer * captured.queries * captured.keys
    yield vectors.bias is None or bias in (scores, scores * captured.layers), "a number of biases"


def is_packed(own: BooleanMatrix) -> bool:
    """Whether the bits of a matrix match its size, with zeros as padding."""
    if min(own.rows, own.columns) < 0 or len(own.bits) != -(-own.rows * own.columns // 8):
        return False
    spare = -own.rows * own.columns % 8
    return not spare or own.bits[-1] & ((1 << spare) - 1) == 0


def _are_patches(captured: CapturedAttention, patches: ImagePatches) -> bool:
    """Whether the tokens match the grid of patches and the image is complete."""
    sides = (patches.rows, patches.columns, patches.height, patches.width)
    are_sizes = patches.first >= 0 and all(1 <= side <= MAX_IMAGE_SIDE_PX for side in sides)
    is_whole = len(patches.pixels) == 3 * patches.height * patches.width
    are_tokens = (captured.queries, captured.keys) == (patches.tokens,) * 2
    return are_sizes and is_whole and are_tokens and not captured.key_tokens


def _claims_of_vectors(captured: CapturedAttention, vectors: CapturedVectors) -> Iterator[Claim]:
    yield min(vectors.d_head, vectors.d_value) >= 1, "captured vectors of a size"
    yield 0 <= vectors.softcap < math.inf, "a soft cap of scores"
    names = vectors.not_understood
    is_short = len(names) <= MAX_NAMES and max(map(len, names), default=0) <= MAX_ARGUMENT_LENGTH
    yield is_short, "argument names"
    widest = captured.heads * max(vectors.d_head, vectors.d_value)
    yield widest <= MAX_VALUES["d_in"], "captured vectors of a size"
    yield 0 < vectors.scaling < math.inf, "a scaling of scores"
    yield len(vectors.layer_masks) in (0, captured.layers), "a number of masks"
    for each in (vectors.common_mask, *vectors.layer_masks):
        yield from _claims_of_mask(captured, each)
    limits = (captured.layers, captured.heads, captured.queries, captured.keys)
    are_within = all(
        0 <= at < most for edge in vectors.cut for at, most in zip(edge, limits, strict=True)
    )
    are_sorted = [*vectors.cut] == sorted({*vectors.cut})
    yield are_within and are_sorted and len(vectors.cut) <= MAX_CUT_EDGES, "cut edges"


def _claims_of_mask(captured: CapturedAttention, each: LayerMask) -> Iterator[Claim]:
    own = each.own_mask
    yield (own is not None) == (each.mask is Mask.OWN), "a mask of captured attention"
    if own:
        is_fitting = (own.rows, own.columns) == (captured.queries, captured.keys)
        yield is_fitting and is_packed(own), "a mask of captured attention"
    yield (
        captured.is_square or each.mask in {Mask.NONE, Mask.OWN},
        "a mask for keys of another text",
    )
    is_window = each.mask is Mask.WINDOW
    yield (1 <= each.window <= MAX_VALUES["window"]) == is_window, "a window"
