"""One-line description of a computation, for the status bar and exported figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.mechanisms import MECHANISM_TITLES, apply_mechanism, mechanism_of
from visualizer.attention.settings import SETTINGS, SETTINGS_BY_NAME
from visualizer.attention.spec import (
    Activation,
    MaskKind,
    MaskPlacement,
    Projection,
    ScaleKind,
)
from visualizer.attention.stages import Operation
from visualizer.format import format_count, format_size
from visualizer.models.model_source import describe_cuts, describe_edits
from visualizer.session.provenance import describe_provenance

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace

_MASKS = {MaskKind.CAUSAL: "causal mask", MaskKind.OWN: "custom mask", MaskKind.NONE: "no mask"}
_SCALES = {
    ScaleKind.NONE: "not scaled",
    ScaleKind.D_HEAD: "÷ √head size",
    ScaleKind.D_MODEL: "÷ √embedding size",
}
_ROUTES = {
    MaskPlacement.AFTER: "after normalizing",
    MaskPlacement.AFTER_RENORMALISED: "after normalizing, renormalized",
}

_SCORE_WORDS = {
    Operation.CAP_SCORES: "scores {}",
    Operation.ADD_SCORE_BIAS: "biases added to scores",
    Operation.SOFTMAX_WITH_SINK: "rows with a sink",
}
"""Descriptions of operations on scores that occur only in models, without a setting."""


def describe_value_origin(run: Run) -> str:
    """Describe how a run's values were computed.

    Runs with different values have different captions, unless they differ only in the contents of
    custom matrices.
    """
    if not run.trace.has_module:
        steps = [
            _SCORE_WORDS[row.operation].format(row.symbol)
            for row in run.trace.stages
            if row.operation in _SCORE_WORDS
        ]
        source = describe_provenance(run) if run.reading else run.source_display_name
        return " · ".join((f"{source} · {run.size_text}", *steps, *_describe_edits(run)))
    spec = run.trace.spec
    parts = [
        MECHANISM_TITLES[mechanism_of(spec)],
        describe_provenance(run),
        _describe_text_size(run),
        f"embedding {spec.d_in}, {format_count(spec.heads, 'head')} of {spec.d_head}",
        f"output {spec.concatenated_head_width}",
        *_describe_feed_forward(spec),
        *_describe_weights(spec),
        *_describe_custom_values(spec),
        _describe_mask(spec),
        *_describe_optional_settings(spec),
        *_describe_seed(run),
        f"{spec.dtype}, {run.device}",
    ]
    return " · ".join(parts)


def _describe_seed(run: Run) -> list[str]:
    """Describe the seed of the vectors and weights, unless the provenance already contains it."""
    seed = f"seed {run.trace.spec.seed}"
    return [] if seed in describe_provenance(run) else [seed]


def _describe_edits(run: Run) -> list[str]:
    """Describe the edits of the model."""
    if run.reading is None:
        return []
    edits, cuts = run.reading.edits, run.reading.cuts
    parts = [describe_edits(edits)] if edits else []
    parts += [f"{describe_cuts(cuts)} cut"] if cuts else []
    return parts


def describe_computation(run: Run) -> str:
    """Describe the computation and its device, for the status bar."""
    spec, trace = run.trace.spec, run.trace
    if not trace.has_module:
        in_file = trace.bytes_in_file
        file = f", vectors in a file of {format_size(in_file)}" if in_file else ""
        size = f"{format_size(trace.bytes - in_file)}{file}"
        computed_in = run.reading.computed_in if run.reading else ""
        return "  ·  ".join((run.device, run.size_text, computed_in or str(spec.dtype), size))
    texts = f"{format_count(len(run.texts), 'text')} of " if len(run.texts) > 1 else ""
    parts = (
        run.device,
        texts + format_count(trace.query_count, "token"),
        f"{format_count(spec.heads, 'head')} of size {spec.d_head}",
        str(spec.dtype),
        f"{format_count(len(trace.stages), 'stage')}, {format_size(trace.bytes)}"
        f"{_memory_note(trace)}",
    )
    return "  ·  ".join(parts)


def _memory_note(trace: Trace) -> str:
    """Return a note if the matrices are not kept in memory; otherwise, return an empty string."""
    queries, keys = trace.query_key_counts
    matrices = f"; its {queries:,} × {keys:,} matrices are computed on demand"
    return matrices if trace.is_blockwise else ""


def _describe_text_size(run: Run) -> str:
    tokens = format_count(run.trace.query_count, "token")
    if len(run.texts) == 1:
        return tokens
    longest = "up to " if run.trace.spec.lengths else ""
    return f"{format_count(len(run.texts), 'text')} of {longest}{tokens}"


def _describe_weights(spec: AttentionSpec) -> list[str]:
    """Describe properties of the weights that the mechanism's name does not imply."""
    usual = apply_mechanism(mechanism_of(spec), spec)
    parts = []
    if spec.projection is not usual.projection:
        is_uniform = spec.projection is Projection.UNIFORM
        parts.append("weights from [0, 1)" if is_uniform else f"{spec.projection} weights")
    if spec.projection is Projection.LINEAR and spec.bias:
        parts.append("with bias")
    if spec.heads > 1 and spec.arrangement is not usual.arrangement:
        parts.append(f"{spec.arrangement} heads")
    if spec.has_grouped_heads:
        parts.append(format_count(spec.key_value_heads, "key-value head"))
    if spec.output_projection is not usual.output_projection:
        parts.append("output projection" if spec.output_projection else "no output projection")
    return parts


def _describe_feed_forward(spec: AttentionSpec) -> list[str]:
    activation = {Activation.RELU: "ReLU", Activation.GELU: "GELU"}[spec.activation]
    return (
        [f"feed-forward {spec.hidden_width} ({activation})"] if spec.has_transformer_block else []
    )


def _describe_custom_values(spec: AttentionSpec) -> list[str]:
    parts = ["custom vectors"] if spec.own_input else []
    if own := spec.used_custom_weights:
        parts.append(f"custom weights ({', '.join(name for name, _ in own)})")
    return parts


def _describe_mask(spec: AttentionSpec) -> str:
    mask = f"window of {spec.window}" if spec.mask is MaskKind.WINDOW else _MASKS[spec.mask]
    acts = spec.mask is not MaskKind.NONE and spec.route in _ROUTES
    return f"{mask} {_ROUTES[spec.route]}" if acts else mask


def _describe_optional_settings(spec: AttentionSpec) -> list[str]:
    extras = []
    if spec.is_dropout_active:
        cells = "custom cells" if spec.own_kept else f"seed {spec.dropout_seed}"
        extras.append(f"dropout {_format_exact(spec.dropout)} ({cells})")
    if spec.scale is not ScaleKind.D_HEAD and SETTINGS_BY_NAME["scale"].has_effect(spec):
        extras.append(_SCALES[spec.scale])
    for setting in SETTINGS:
        value = getattr(spec, setting.name, None)
        if setting.caption and value != setting.default and setting.has_effect(spec):
            extras.append(setting.caption.format(_format_exact(value)))
    return extras


def _format_exact(value: object) -> str:
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)
