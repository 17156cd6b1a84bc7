"""The attention mechanisms of the book's chapter, as presets of a spec; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from visualizer.attention.spec import (
    AttentionSpec,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)


class Mechanism(StrEnum):
    """A named kind of attention."""

    SIMPLIFIED = "simplified"
    SELF = "self"
    CAUSAL = "causal"
    STACKED = "stacked"
    MULTI_HEAD = "multi-head"
    BLOCK = "block"
    AVERAGE = "average"


_ALONE = {
    "heads": 1,
    "key_value_heads": 0,
    "arrangement": HeadArrangement.STACKED,
    "output_projection": False,
    "normalisation": NormalisationKind.SOFTMAX,
    "scale": ScaleKind.D_HEAD,
    "mask": MaskKind.NONE,
    "projection": Projection.LINEAR,
    "block": TransformerBlockKind.NONE,
}

_UNPROJECTED = {**_ALONE, "projection": Projection.NONE, "scale": ScaleKind.NONE}
_SPLIT = {"arrangement": HeadArrangement.SPLIT, "output_projection": True}

_CHANGES: dict[Mechanism, dict[str, Any]] = {
    Mechanism.SIMPLIFIED: _UNPROJECTED,
    Mechanism.SELF: _ALONE,
    Mechanism.CAUSAL: {**_ALONE, "mask": MaskKind.CAUSAL},
    Mechanism.STACKED: {**_ALONE, "mask": MaskKind.CAUSAL, "heads": 2},
    Mechanism.MULTI_HEAD: {**_ALONE, **_SPLIT, "mask": MaskKind.CAUSAL, "heads": 2},
    Mechanism.BLOCK: {
        **_ALONE,
        **_SPLIT,
        "mask": MaskKind.CAUSAL,
        "block": TransformerBlockKind.PRE_NORM,
    },
    Mechanism.AVERAGE: {**_UNPROJECTED, "normalisation": NormalisationKind.UNIFORM},
}

MECHANISM_TITLES = {
    Mechanism.SIMPLIFIED: "Simplified self-attention",
    Mechanism.SELF: "Self-attention",
    Mechanism.CAUSAL: "Causal attention",
    Mechanism.STACKED: "Multi-head, stacked heads",
    Mechanism.MULTI_HEAD: "Multi-head attention",
    Mechanism.BLOCK: "Transformer block",
    Mechanism.AVERAGE: "Averaging",
}


def apply_mechanism(mechanism: Mechanism, base: AttentionSpec | None = None) -> AttentionSpec:
    """Return a spec with a mechanism; fields that the mechanism does not define are unchanged.

    A block has the width of the embedding, and two heads if this width is even.
    """
    base = base or AttentionSpec()
    changes = _CHANGES[mechanism]
    if mechanism is Mechanism.BLOCK:
        changes = changes | {"d_out": base.d_in, "heads": 1 if base.d_in % 2 else 2}
    return replace(base, **changes)


def with_block_embedding_size(spec: AttentionSpec, d_in: int) -> AttentionSpec:
    """Return the spec of a block with the given embedding size and the same output size."""
    parts = max(1, spec.heads) if spec.arrangement is HeadArrangement.STACKED else 1
    return replace(spec, d_in=d_in, d_out=d_in // parts)


def mechanism_of(spec: AttentionSpec) -> Mechanism:
    """Return the mechanism that a spec implements."""
    if spec.has_transformer_block:
        return Mechanism.BLOCK
    if spec.normalisation is NormalisationKind.UNIFORM:
        return Mechanism.AVERAGE
    if not spec.has_projection:
        return Mechanism.SIMPLIFIED
    if spec.output_projection or (spec.heads > 1 and spec.arrangement is HeadArrangement.SPLIT):
        return Mechanism.MULTI_HEAD
    if spec.heads > 1:
        return Mechanism.STACKED
    return Mechanism.SELF if spec.mask is MaskKind.NONE else Mechanism.CAUSAL
