"""Dims, symbol and description of each stage of a transformer's layer; imports no torch."""

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
    "residual": (TOKENS, "stream", "the residual stream as it enters the layer"),
    "normed": (TOKENS, "", "each vector made of one size, before attention"),
    "latent_queries": (LATENT, "", "what queries are made of: a shorter vector of each token"),
    "normed_latent_queries": (LATENT, "", "each such vector made of one size"),
    "latent_keys": (LATENT, "", "what keys and values are made of: a shorter vector of each token"),
    "normed_latent_keys": (LATENT, "", "each latent vector made of one size"),
    "shared_keys": (LATENT, "", "the part of the keys that all heads share, before its positions"),
    "projected_queries": (HEADS, "", "queries before their positions"),
    "projected_keys": (HEADS, "", "keys before their positions"),
    "normed_queries": (HEADS, "", "queries made of one size"),
    "normed_keys": (HEADS, "", "keys made of one size"),
    "turned_queries": (HEADS, "", "queries turned by their places"),
    "turned_keys": (HEADS, "", "keys turned by their places"),
    "queries": (HEADS, "", "queries as they meet keys"),
    "keys": (HEADS, "", "keys as they are met"),
    "values": (HEADS, "", "values as they are read"),
    "capped": (CELLS, "", "scores kept within limits"),
    "bias": (CELLS, "", "what is added to each score"),
    "biased": (CELLS, "+ bias", "scores with what is added to them"),
    "weights": (CELLS, "softmax with sink", "each row and its sink made to sum to 1"),
    "context_gate": (HEADS, "", "what lets the numbers of each context vector through"),
    "gated_context": (HEADS, "", "what is let through of each context vector"),
    "concat": (("query", "d_out"), "‖ heads", "the heads' context vectors side by side"),
    "output": (QUERIES, "·W_O", "the heads mixed by the output projection"),
    "normed_output": (QUERIES, "", "the output made of one size"),
    "scaled_output": (QUERIES, "", "the output times a factor"),
    "attended": (QUERIES, "x + output", "the residual stream after attention"),
    "normed_attended": (QUERIES, "", "each vector made of one size, after attention"),
    "cross_output": (QUERIES, "", "what attention to the encoder's tokens has made"),
    "crossed": (QUERIES, "", "the residual stream after attention to the encoder's tokens"),
    "normed_crossed": (QUERIES, "", "each vector made of one size, after that"),
    "gate": (WIDE, "", "what lets the numbers beside it through"),
    "up": (WIDE, "", "each vector times the first matrix of the feed-forward"),
    "hidden": (WIDE, "", "the hidden numbers of the feed-forward"),
    "feed_forward": (QUERIES, "", "the hidden numbers times the last matrix of the feed-forward"),
    "normed_feed_forward": (QUERIES, "", "the feed-forward's result made of one size"),
    "scaled_feed_forward": (QUERIES, "", "the feed-forward's result times a factor"),
    "added": (QUERIES, "", "the stream and the feed-forward's result"),
    "result": (QUERIES, "", "the residual stream as it leaves the layer"),
}
"""By name, in order of computation; an empty symbol is written from the step."""


def layer_stage_title(name: str) -> str:
    """Return the title of a stage of a layer."""
    return name.replace("_", " ").replace("feed forward", "feed-forward").capitalize()


def layer_stage_symbol(step: LayerStep | None, reads: tuple[str, ...]) -> str:
    """Return the symbol of a stage that a step makes of others; empty where its name decides."""
    if isinstance(step, NormLayer):
        return step.name
    if isinstance(step, LinearLayer):
        return f"·{step.name}"
    if isinstance(step, RotaryPosition):
        return "turned by place" if step.pairs else "not turned"
    if isinstance(step, ScoreCap):
        return f"within ±{step.limit:g}"
    if isinstance(step, HiddenActivation):
        first, *others = (name.rpartition("_")[2] for name in reads)
        return " × ".join((f"{step.function}({first})", *others))
    if isinstance(step, ScaledVector):
        return f"× {step.name}" if step.is_by_column else f"× {step.factor:g}"
    if isinstance(step, LateSink):
        return "× what the sink leaves"
    if isinstance(step, ExpertMixture):
        return "Σ router × expert" + " + shared" * step.has_shared
    if isinstance(step, ResidualAddition):
        return " + ".join("x" if name == "residual" else name.replace("_", " ") for name in reads)
    return ""
