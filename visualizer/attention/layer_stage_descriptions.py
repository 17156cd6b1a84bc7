"""Dims, symbol and description of each stage of a transformer layer; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import (
    ExpertMixture,
    HiddenActivation,
    LateSink,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    RotaryPosition,
    ScaledVector,
    ScoreCap,
)

if TYPE_CHECKING:
    from visualizer.attention.model_layer_steps import LayerStep

CELLS = ("head", "query", "key")
TOKENS, QUERIES = ("token", "d_model"), ("query", "d_model")
HEADS = ("head", "token", "d_head")
LATENT = ("token", "d_latent")
WIDE = ("query", "d_ff")

LAYER_STAGES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "residual": (TOKENS, "stream", "the residual stream at the start of the layer"),
    "normed": (TOKENS, "", "normalized vectors, the input of attention"),
    "latent_queries": (LATENT, "", "a low-rank vector per token, from which queries are computed"),
    "normed_latent_queries": (LATENT, "", "normalized latents of the queries"),
    "latent_keys": (
        LATENT,
        "",
        "a low-rank vector per token, from which keys and values are computed",
    ),
    "normed_latent_keys": (LATENT, "", "normalized latents of keys and values"),
    "shared_keys": (
        LATENT,
        "",
        "the part of the keys shared by all heads, before rotary embedding",
    ),
    "projected_queries": (HEADS, "", "queries before positional encoding"),
    "projected_keys": (HEADS, "", "keys before positional encoding"),
    "normed_queries": (HEADS, "", "normalized queries"),
    "normed_keys": (HEADS, "", "normalized keys"),
    "turned_queries": (HEADS, "", "queries after rotary embedding"),
    "turned_keys": (HEADS, "", "keys after rotary embedding"),
    "queries": (HEADS, "", "queries used in the dot product"),
    "keys": (HEADS, "", "keys used in the dot product"),
    "values": (HEADS, "", "values that the weights are applied to"),
    "capped": (CELLS, "", "soft-capped scores"),
    "bias": (CELLS, "", "bias added to each score"),
    "biased": (CELLS, "+ bias", "scores plus bias"),
    "weights": (CELLS, "softmax with sink", "softmax over each row and the attention sink"),
    "context_gate": (HEADS, "", "gate values of each context vector"),
    "gated_context": (HEADS, "", "context vectors times their gate"),
    "concat": (("query", "d_out"), "‖ heads", "the heads' context vectors, concatenated"),
    "output": (QUERIES, "·W_O", "the concatenated heads after the output projection"),
    "normed_output": (QUERIES, "", "the normalized output"),
    "scaled_output": (QUERIES, "", "the output times a scale factor"),
    "attended": (QUERIES, "x + output", "the residual stream after attention"),
    "normed_attended": (QUERIES, "", "normalized vectors after attention"),
    "cross_output": (QUERIES, "", "output of cross-attention to the encoder"),
    "crossed": (QUERIES, "", "the residual stream after cross-attention"),
    "normed_crossed": (QUERIES, "", "normalized vectors after cross-attention"),
    "gate": (WIDE, "", "gate values of the feed-forward layer"),
    "up": (WIDE, "", "up projection of the feed-forward layer"),
    "hidden": (WIDE, "", "hidden activations of the feed-forward layer"),
    "feed_forward": (QUERIES, "", "output of the feed-forward layer"),
    "normed_feed_forward": (QUERIES, "", "the normalized output of the feed-forward layer"),
    "scaled_feed_forward": (
        QUERIES,
        "",
        "the output of the feed-forward layer times a scale factor",
    ),
    "added": (QUERIES, "", "the residual stream plus the output of the feed-forward layer"),
    "result": (QUERIES, "", "the residual stream at the end of the layer"),
}
"""By name, in order of computation; an empty symbol is derived from the step."""


def layer_stage_title(name: str) -> str:
    """Return the title of a stage of a layer."""
    words = name.replace("_", " ").replace("feed forward", "feed-forward")
    return words.replace("turned", "rotated").capitalize()


def layer_stage_symbol(step: LayerStep | None, reads: tuple[str, ...]) -> str:
    """Return the symbol of a stage computed by a step; empty if its name determines the symbol."""
    if isinstance(step, NormLayer):
        return step.name
    if isinstance(step, LinearLayer):
        return f"·{step.name}"
    if isinstance(step, RotaryPosition):
        return "RoPE" if step.pairs else "no RoPE"
    if isinstance(step, ScoreCap):
        return f"within ±{step.limit:g}"
    if isinstance(step, HiddenActivation):
        first, *others = (name.rpartition("_")[2] for name in reads)
        return " × ".join((f"{step.function}({first})", *others))
    if isinstance(step, ScaledVector):
        return f"× {step.name}" if step.is_by_column else f"× {step.factor:g}"
    if isinstance(step, LateSink):
        return "× (1 − sink)"
    if isinstance(step, ExpertMixture):
        return "Σ router × expert" + " + shared" * step.has_shared
    if isinstance(step, ResidualAddition):
        return " + ".join("x" if name == "residual" else name.replace("_", " ") for name in reads)
    return ""
