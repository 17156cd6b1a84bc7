"""The attention mechanisms of the book's chapter, as presets of a spec; imports no torch."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec.structs import replace

from visualizer.attention.spec import (
    Arrangement,
    AttentionSpec,
    Mask,
    Normalisation,
    Projection,
    Scale,
)


class Mechanism(StrEnum):
    """A named kind of attention."""

    SIMPLIFIED = "simplified"
    SELF = "self"
    CAUSAL = "causal"
    STACKED = "stacked"
    MULTI_HEAD = "multi-head"
    AVERAGE = "average"


_ALONE = {
    "heads": 1,
    "arrangement": Arrangement.STACKED,
    "output_projection": False,
    "normalisation": Normalisation.SOFTMAX,
    "scale": Scale.D_HEAD,
    "mask": Mask.NONE,
    "projection": Projection.LINEAR,
}

_CHANGES: dict[Mechanism, dict[str, Any]] = {
    Mechanism.SIMPLIFIED: {**_ALONE, "projection": Projection.NONE, "scale": Scale.NONE},
    Mechanism.SELF: _ALONE,
    Mechanism.CAUSAL: {**_ALONE, "mask": Mask.CAUSAL},
    Mechanism.STACKED: {**_ALONE, "mask": Mask.CAUSAL, "heads": 2},
    Mechanism.MULTI_HEAD: {
        **_ALONE,
        "mask": Mask.CAUSAL,
        "heads": 2,
        "arrangement": Arrangement.SPLIT,
        "output_projection": True,
    },
    Mechanism.AVERAGE: {
        **_ALONE,
        "projection": Projection.NONE,
        "scale": Scale.NONE,
        "normalisation": Normalisation.UNIFORM,
    },
}

TITLES = {
    Mechanism.SIMPLIFIED: "Simplified self-attention",
    Mechanism.SELF: "Self-attention",
    Mechanism.CAUSAL: "Causal attention",
    Mechanism.STACKED: "Multi-head, stacked heads",
    Mechanism.MULTI_HEAD: "Multi-head attention",
    Mechanism.AVERAGE: "Averaging",
}


def spec_of(mechanism: Mechanism, base: AttentionSpec | None = None) -> AttentionSpec:
    """Apply a mechanism to a spec; fields that the mechanism does not define are unchanged."""
    return replace(base or AttentionSpec(), **_CHANGES[mechanism])


def mechanism_of(spec: AttentionSpec) -> Mechanism:
    """Return the mechanism that a spec implements."""
    if spec.normalisation is Normalisation.UNIFORM:
        return Mechanism.AVERAGE
    if spec.projection is Projection.NONE:
        return Mechanism.SIMPLIFIED
    if spec.output_projection or (spec.heads > 1 and spec.arrangement is Arrangement.SPLIT):
        return Mechanism.MULTI_HEAD
    if spec.heads > 1:
        return Mechanism.STACKED
    return Mechanism.SELF if spec.mask is Mask.NONE else Mechanism.CAUSAL
