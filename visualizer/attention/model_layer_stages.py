"""The stages of a model's layer around its attention: residual stream, norms, matrices; no torch.

What a layer does is known from the model that was met, and not from a spec: each stage carries a
description of its step, by which its cells are explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_layer_steps import (
    ExpertMixture,
    HiddenActivation,
    JoinedHeads,
    LatentKeys,
    LateSink,
    LayerStep,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    ResidualStream,
    RotaryPosition,
    ScaledVector,
    ScoreBias,
    ScoreCap,
    SinkSoftmax,
)
from visualizer.attention.stages import CELLS, TABLE, Operation, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.spec import AttentionSpec

TOKENS, QUERIES = ("token", "d_model"), ("query", "d_model")
HEADS = ("head", "token", "d_head")
LATENT = ("token", "d_latent")
WIDE = ("query", "d_ff")


class StepOfStage(Struct, frozen=True):
    """How a stage of a layer is computed.

    Parameters
    ----------
    step : LayerStep or None
        None where what the model does there is not known.
    reads : tuple of str
        The stages it reads, of the same layer.
    by_layer : tuple of StepOfStage
        How each layer computes it, where they do not do so alike.
    """

    step: LayerStep | None = None
    reads: tuple[str, ...] = ()
    by_layer: tuple[StepOfStage, ...] = ()


_ROWS: dict[str, tuple[tuple[str, ...], str, str]] = {
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
"""Dims, symbol and description of each stage of a layer, in order of computation."""

AROUND = frozenset(_ROWS) - {row.name for row in TABLE}
"""The stages that only a model's layer has."""

_OPERATIONS = {
    ResidualStream: Operation.RESIDUAL_STREAM,
    NormLayer: Operation.NORM_LAYER,
    LinearLayer: Operation.LINEAR_LAYER,
    RotaryPosition: Operation.ROTARY_POSITION,
    ExpertMixture: Operation.EXPERT_MIXTURE,
    HiddenActivation: Operation.HIDDEN_ACTIVATION,
    LatentKeys: Operation.LATENT_KEYS,
    ScaledVector: Operation.SCALE_VECTOR,
    LateSink: Operation.LATE_SINK,
    JoinedHeads: Operation.CONCAT_HEADS,
    ResidualAddition: Operation.RESIDUAL_ADDITION,
    ScoreCap: Operation.CAP_SCORES,
    ScoreBias: Operation.ADD_SCORE_BIAS,
    SinkSoftmax: Operation.SOFTMAX_WITH_SINK,
}
_AFTER_SCALED = ("capped", "bias", "biased")


def _order() -> tuple[str, ...]:
    """List the names of all stages, a module's and a layer's, in order of computation."""
    own = list(dict.fromkeys(row.name for row in TABLE))
    names = [name for name in _ROWS if name not in _AFTER_SCALED]
    order: list[str] = []
    for name in own:
        if name in names:
            at = names.index(name)
            order += names[:at]
            del names[: at + 1]
        order.append(name)
        order += _AFTER_SCALED if name == "scaled" else ()
    return (*order, *names)


ORDER = _order()

DESCRIPTIONS = {row.name: row.says for row in reversed(TABLE)}
"""What each stage is, by its name: a module's, or else a layer's."""
DESCRIPTIONS |= {name: says for name, (_, _, says) in _ROWS.items() if name in AROUND}


def layer_rows(steps: Mapping[str, StepOfStage]) -> tuple[Stage, ...]:
    """Return the rows of the stage table of a layer's steps, in order of computation."""
    return tuple(_row(name, steps[name]) for name in _ROWS if name in steps)


def _row(name: str, how: StepOfStage) -> Stage:
    dims, symbol, says = _ROWS[name]
    operation = _OPERATIONS[type(how.step)] if how.step else Operation.CAPTURED
    if how.step is None:
        symbol = "given"
    return Stage(
        name,
        name.replace("_", " ").replace("feed forward", "feed-forward").capitalize(),
        _symbol(how) or symbol,
        dims,
        operation,
        how.reads,
        (),
        (),
        says,
        always,
        step=how.step,
        by_layer=tuple(_row(name, each) for each in how.by_layer),
    )


def _symbol(how: StepOfStage) -> str:
    step = how.step
    if isinstance(step, NormLayer):
        return step.name
    if isinstance(step, LinearLayer):
        return f"·{step.name}"
    if isinstance(step, RotaryPosition):
        return "turned by place" if step.pairs else "not turned"
    if isinstance(step, ScoreCap):
        return f"within ±{step.limit:g}"
    if isinstance(step, HiddenActivation):
        first, *others = (name.rpartition("_")[2] for name in how.reads)
        return " × ".join((f"{step.function}({first})", *others))
    if isinstance(step, ScaledVector):
        return f"× {step.name}" if step.is_by_column else f"× {step.factor:g}"
    if isinstance(step, LateSink):
        return "× what the sink leaves"
    if isinstance(step, ExpertMixture):
        return "Σ router × expert" + " + shared" * step.has_shared
    if isinstance(step, ResidualAddition):
        return " + ".join(
            "x" if name == "residual" else name.replace("_", " ") for name in how.reads
        )
    return ""


def always(spec: AttentionSpec) -> bool:
    """Say that a stage is there, whatever the spec."""
    return True
