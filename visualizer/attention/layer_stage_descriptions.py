"""Dims, symbol and description of each stage of a transformer's layer; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.model_layer_steps import (
    HiddenActivation,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    RotaryPosition,
    ScoreCap,
)

if TYPE_CHECKING:
    from visualizer.attention.model_layer_steps import LayerStep

CELLS = ("head", "query", "key")
TOKENS, QUERIES = ("token", "d_model"), ("query", "d_model")
HEADS = ("head", "token", "d_head")
WIDE = ("query", "d_ff")

LAYER_STAGES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "residual": (TOKENS, "stream", "the residual stream as it enters the layer"),
    "normed": (TOKENS, "", "each vector made of one size, before attention"),
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
    "concat": (("query", "d_out"), "‖ heads", "the heads' context vectors side by side"),
    "output": (QUERIES, "·W_O", "the heads mixed by the output projection"),
    "normed_output": (QUERIES, "", "the output made of one size"),
    "attended": (QUERIES, "x + output", "the residual stream after attention"),
    "normed_attended": (QUERIES, "", "each vector made of one size, after attention"),
    "gate": (WIDE, "", "what lets the numbers beside it through"),
    "up": (WIDE, "", "each vector times the first matrix of the feed-forward"),
    "hidden": (WIDE, "", "the hidden numbers of the feed-forward"),
    "feed_forward": (QUERIES, "", "the hidden numbers times the last matrix of the feed-forward"),
    "normed_feed_forward": (QUERIES, "", "the feed-forward's result made of one size"),
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
        return f"{step.function}(gate) × up" if len(reads) > 1 else f"{step.function}(up)"
    if isinstance(step, ResidualAddition):
        return " + ".join("x" if name == "residual" else name.replace("_", " ") for name in reads)
    return ""
