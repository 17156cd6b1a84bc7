"""The stage table: what is computed, from which inputs, and in which order; imports no torch.

The computation, the reuse of unchanged stages, explanations, the flow board, captions and exports
take all information on stages from this table.
"""

from __future__ import annotations

import math
from enum import StrEnum, auto
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.layer_operations import (
    ExpertMixture,
    HiddenActivation,
    LateSink,
    LayerStep,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    RotaryPosition,
    ScaledVector,
    ScoreBias,
    ScoreCap,
)
from visualizer.attention.masks import MASKED_SCORES, MASKED_STAGES, WEIGHT_STAGES, MaskingSpec
from visualizer.attention.roles import Role
from visualizer.attention.settings import HAS_SCORES, HAS_WEIGHTS
from visualizer.attention.spec import (
    BLOCK_LAYERS,
    KEY_VALUE_LAYERS,
    VECTOR_POSITIONS,
    Activation,
    AttentionSpec,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.brief_repr import brief_repr

if TYPE_CHECKING:
    from collections.abc import Callable

SCORE_AXES = ("head", "query", "key")
TOKENS, QUERIES = ("token", "d_model"), ("query", "d_model")
HEAD_AXES = ("head", "token", "d_head")
LATENT_AXES = ("token", "d_latent")
FEED_FORWARD_AXES = ("query", "d_ff")

LAYER_STAGES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "residual": (TOKENS, "stream", "the residual stream at the start of the layer"),
    "normed": (TOKENS, "", "normalized vectors, the input of attention"),
    "latent_queries": (LATENT_AXES, "", "one low-rank vector per token, projected to queries"),
    "normed_latent_queries": (LATENT_AXES, "", "normalized latents of the queries"),
    "latent_keys": (LATENT_AXES, "", "one low-rank vector per token, projected to keys and values"),
    "normed_latent_keys": (LATENT_AXES, "", "normalized latents of keys and values"),
    "shared_keys": (LATENT_AXES, "", "key columns shared by all heads, before rotary embedding"),
    "projected_queries": (HEAD_AXES, "", "queries before positional encoding"),
    "projected_keys": (HEAD_AXES, "", "keys before positional encoding"),
    "normed_queries": (HEAD_AXES, "", "normalized queries"),
    "normed_keys": (HEAD_AXES, "", "normalized keys"),
    "turned_queries": (HEAD_AXES, "", "queries after rotary embedding"),
    "turned_keys": (HEAD_AXES, "", "keys after rotary embedding"),
    "queries": (HEAD_AXES, "", "queries used in the dot product"),
    "keys": (HEAD_AXES, "", "keys used in the dot product"),
    "values": (HEAD_AXES, "", "values that the weights are applied to"),
    "capped": (SCORE_AXES, "", "soft-capped scores"),
    "bias": (SCORE_AXES, "", "bias added to each score"),
    "biased": (SCORE_AXES, "+ bias", "scores plus bias"),
    "weights": (SCORE_AXES, "softmax with sink", "softmax over each row and the attention sink"),
    "context_gate": (HEAD_AXES, "", "gate values of each context vector"),
    "gated_context": (HEAD_AXES, "", "context vectors times their gate"),
    "concat": (("query", "d_out"), "‖ heads", "the heads' context vectors, concatenated"),
    "output": (QUERIES, "·W_O", "the concatenated heads after the output projection"),
    "normed_output": (QUERIES, "", "the normalized output"),
    "scaled_output": (QUERIES, "", "the output times a scale factor"),
    "attended": (QUERIES, "x + output", "the residual stream after attention"),
    "normed_attended": (QUERIES, "", "normalized vectors after attention"),
    "cross_output": (QUERIES, "", "output of cross-attention to the encoder"),
    "crossed": (QUERIES, "", "the residual stream after cross-attention"),
    "normed_crossed": (QUERIES, "", "normalized vectors after cross-attention"),
    "gate": (FEED_FORWARD_AXES, "", "gate values of the feed-forward layer"),
    "up": (FEED_FORWARD_AXES, "", "up projection of the feed-forward layer"),
    "hidden": (FEED_FORWARD_AXES, "", "hidden activations of the feed-forward layer"),
    "feed_forward": (QUERIES, "", "output of the feed-forward layer"),
    "normed_feed_forward": (QUERIES, "", "the normalized output of the feed-forward layer"),
    "scaled_feed_forward": (QUERIES, "", "feed-forward output times a scale factor"),
    "added": (QUERIES, "", "the residual stream plus the output of the feed-forward layer"),
    "result": (QUERIES, "", "the residual stream at the end of the layer"),
}
"""Titles, symbols and descriptions of a layer's stages, in the order of computation. If a symbol is
empty, it is derived from the step."""


def layer_stage_title(name: str) -> str:
    """Return the title of a stage in a layer."""
    words = name.replace("_", " ").replace("feed forward", "feed-forward")
    return words.replace("turned", "rotated").capitalize()


def layer_stage_symbol(step: LayerStep | None, reads: tuple[str, ...]) -> str:
    """Return the symbol of a stage that a step computes; empty if the name determines it."""
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


Step = TypeVar("Step", bound="LayerStep")

MASK_FIELDS = ("mask", "window", "own_mask", "lengths")
HEAD_FIELDS = ("heads", "arrangement", "projection")
BLOCKWISE_BYTES = 2**28
"""Maximum memory, in bytes, for computed blocks and their tiles."""
NORM_EPSILON = 1e-5
"""Number that layer norms add to the variance, equal to PyTorch's default."""


class Operation(StrEnum):
    """Operation that computes a stage from its inputs."""

    INPUT_VECTORS = auto()
    POSITION_VECTORS = auto()
    ADD_POSITION = auto()
    INPUT_PROJECTION = auto()
    UNPROJECTED_INPUT = auto()
    DOT_PRODUCT = auto()
    SCALE_SCORES = auto()
    MASK_BEFORE_SOFTMAX = auto()
    SCORES_TO_WEIGHTS = auto()
    EQUAL_WEIGHTS = auto()
    MASK_AFTER_SOFTMAX = auto()
    RENORMALISE_MASKED_WEIGHTS = auto()
    DROPOUT = auto()
    WEIGHTED_SUM = auto()
    FEATURE_MAP = auto()
    KEY_VALUE_SUMS = auto()
    KEY_SUMS = auto()
    NORMALIZER = auto()
    IMPLIED_WEIGHTS = auto()
    LINEAR_CONTEXT = auto()
    CONCAT_HEADS = auto()
    OUTPUT_PROJECTION = auto()
    CAPTURED = auto()
    RESIDUAL_STREAM = auto()
    NORM_LAYER = auto()
    LINEAR_LAYER = auto()
    ROTARY_POSITION = auto()
    HIDDEN_ACTIVATION = auto()
    RESIDUAL_ADDITION = auto()
    CAP_SCORES = auto()
    LINEAR_BIAS = auto()
    ADD_SCORE_BIAS = auto()
    SOFTMAX_WITH_SINK = auto()
    EXPERT_MIXTURE = auto()
    LATE_SINK = auto()
    LATENT_KEYS = auto()
    SCALE_VECTOR = auto()


class StageNouns(Struct, frozen=True):
    """Nouns for the numbers and vectors of a stage.

    Parameters
    ----------
    number : str
        Name of a single number.
    numbers : str
        Plural of the name; by default, "elements of the" followed by the name of a vector.
    vector : str
        Name of a single vector; by default, the name of a number.
    """

    number: str
    numbers: str = ""
    vector: str = ""


class Stage(Struct, frozen=True):
    """A named tensor, and how it is computed.

    Parameters
    ----------
    dims : tuple of str
        Names of the axes; a batch axis may precede these.
    reads : tuple of str
        Input stages. Of stages that supersede one another, the table names the first.
    fields : tuple of str
        Fields of the spec that the values depend on, in addition to the fields of the inputs.
    parameters : tuple of str
        Layers or tables of weights that the stage uses.
    when : callable
        Returns whether a spec has this stage.
    supersedes : bool
        Whether later stages use this stage instead of its first input.
    step : LayerStep or None
        How a model's layer computes the stage.
    by_layer : tuple of Stage
        The stage in each layer if a model's layers compute it differently; otherwise empty. This
        object is then the most common variant.
    build_step : callable or None
        Returns the step for a spec, if the step depends on the spec.
    """

    name: str
    title: str
    symbol: str
    dims: tuple[str, ...]
    operation: Operation
    reads: tuple[str, ...]
    fields: tuple[str, ...]
    parameters: tuple[str, ...]
    description: str
    when: Callable[[AttentionSpec], bool]
    supersedes: bool = False
    step: LayerStep | None = None
    by_layer: tuple[Stage, ...] = ()
    build_step: Callable[[AttentionSpec], LayerStep] | None = None

    __repr__ = brief_repr

    def step_of_type(self, kind: type[Step]) -> Step:
        """Return how a layer computes the stage, as a step of the given type."""
        assert isinstance(self.step, kind)
        return self.step

    @property
    def role(self) -> Role | None:
        """Role of the stage, or None for a layer's stages before and after attention."""
        return Role.from_stage_name(self.name)

    @property
    def is_weights(self) -> bool:
        """Whether the values are attention weights."""
        return self.role in WEIGHT_STAGES

    @property
    def number_noun(self) -> str:
        """Name of a single number of the stage."""
        return STAGE_NOUNS[self.name].number

    @property
    def plural_number_noun(self) -> str:
        """Name of the stage's numbers, in the plural."""
        return STAGE_NOUNS[self.name].numbers or f"elements of the {vector_noun(self.name)}"

    @property
    def is_before_mask(self) -> bool:
        """Whether the mask is applied to these weights at a later stage."""
        return self.role is Role.UNMASKED

    @property
    def has_masked_input(self) -> bool:
        """Whether the input scores are −∞ in forbidden cells."""
        return any(name in MASKED_SCORES for name in self.reads)


def recorded_stage(row: Stage) -> Stage:
    """Return a copy of a stage with known numbers but an unknown computation."""
    return replace(
        row,
        symbol="given",
        operation=Operation.CAPTURED,
        reads=(),
        fields=(),
        parameters=(),
        when=is_always_present,
        step=None,
        by_layer=(),
    )


def _has_positions(spec: AttentionSpec) -> bool:
    return spec.position in VECTOR_POSITIONS


def _has_rotation(spec: AttentionSpec) -> bool:
    return spec.position is PositionKind.ROTARY and HAS_SCORES.is_met(spec)


def _has_unrotated_scores(spec: AttentionSpec) -> bool:
    return HAS_SCORES.is_met(spec) and not _has_rotation(spec)


def _has_linear_bias(spec: AttentionSpec) -> bool:
    return spec.position is PositionKind.ALIBI and _has_scores(spec)


def _is_linear_attention(spec: AttentionSpec) -> bool:
    return not HAS_WEIGHTS.is_met(spec)


def _has_scores(spec: AttentionSpec) -> bool:
    return HAS_SCORES.is_met(spec) and HAS_WEIGHTS.is_met(spec)


def _divides_by_sum(spec: AttentionSpec) -> bool:
    return spec.normalisation is NormalisationKind.SUM


def _has_score_mask(spec: AttentionSpec) -> bool:
    return spec.mask is not MaskKind.NONE and spec.route is MaskPlacement.BEFORE


def _has_weight_mask(spec: AttentionSpec) -> bool:
    is_late = spec.mask is not MaskKind.NONE and spec.route is not MaskPlacement.BEFORE
    return is_late and HAS_WEIGHTS.is_met(spec)


def _has_renormalisation(spec: AttentionSpec) -> bool:
    return _has_weight_mask(spec) and spec.route is MaskPlacement.AFTER_RENORMALISED


def is_always_present(spec: AttentionSpec) -> bool:
    """Return True, as the condition of a stage that exists for every spec."""
    return True


def _has_block(spec: AttentionSpec) -> bool:
    return spec.has_transformer_block


def _projects_output(spec: AttentionSpec) -> bool:
    return spec.has_transformer_block and spec.output_projection


def _adds_heads(spec: AttentionSpec) -> bool:
    return spec.has_transformer_block and not spec.output_projection


def _block_stage(
    name: str,
    operation: Operation,
    reads: tuple[str, ...],
    step: LayerStep,
    when: Callable[[AttentionSpec], bool] = _has_block,
    *,
    supersedes: bool = False,
) -> Stage:
    """Return a block's stage, which is described like a stage of a model's layer."""
    dims, symbol, says = LAYER_STAGES[name]
    modules = step.modules if isinstance(step, NormLayer | LinearLayer) else ()
    return Stage(
        name,
        layer_stage_title(name),
        symbol if name == "residual" else layer_stage_symbol(step, reads),
        dims,
        operation,
        reads,
        ("d_ff",) if isinstance(step, LinearLayer) else (),
        modules,
        says,
        when,
        supersedes,
        step,
    )


def _norm_stage(name: str, read: str, layer: str, *, supersedes: bool = False) -> Stage:
    step = NormLayer((layer,), NORM_EPSILON, is_centred=True, has_gain=True, has_bias=True)
    return _block_stage(name, Operation.NORM_LAYER, (read,), step, supersedes=supersedes)


def _linear_stage(name: str, read: str, layer: str) -> Stage:
    return _block_stage(name, Operation.LINEAR_LAYER, (read,), LinearLayer((layer,), has_bias=True))


def _activation_stage(activation: Activation, function: str) -> Stage:
    def when(spec: AttentionSpec) -> bool:
        return spec.has_transformer_block and spec.activation is activation

    return _block_stage(
        "hidden", Operation.HIDDEN_ACTIVATION, ("up",), HiddenActivation(function), when
    )


def _addition_stage(
    name: str,
    *reads: str,
    when: Callable[[AttentionSpec], bool] = _has_block,
    supersedes: bool = False,
) -> Stage:
    step = ResidualAddition()
    return _block_stage(name, Operation.RESIDUAL_ADDITION, reads, step, when, supersedes=supersedes)


# fmt: off
def _projection_stages(
    name: str, symbol: str, layer: str, needed: Callable[[AttentionSpec], bool]
) -> tuple[Stage, Stage]:
    common = (name, layer_stage_title(name), symbol, HEAD_AXES)
    sizes = (*HEAD_FIELDS, "d_out", *(("key_value_heads",) if layer in KEY_VALUE_LAYERS else ()))
    return (
        Stage(*common, Operation.INPUT_PROJECTION, ("input",),
              (*sizes, "bias"), (layer,), f"each token's vector times {layer}",
              lambda spec: needed(spec) and spec.has_projection),
        Stage(*common, Operation.UNPROJECTED_INPUT, ("input",), HEAD_FIELDS, (),
              "the unchanged input, without a projection",
              lambda spec: needed(spec) and not spec.has_projection),
    )


def _rotary_stage(name: str) -> Stage:
    """Return the stage of rotated queries or keys, which pairs the halves of a head as in Llama."""
    says = f"pairs of columns of the {name}, rotated by angles proportional to the position"
    return Stage(name, layer_stage_title(name), "RoPE", HEAD_AXES, Operation.ROTARY_POSITION,
                 (f"projected_{name}",), (), (), says, _has_rotation,
                 build_step=lambda spec: RotaryPosition("", spec.d_head // 2))


def _scaling_stage(
    symbol: str, divisor: str, needed: Callable[[AttentionSpec], bool]
) -> Stage:
    return Stage("scaled", "Scaled", symbol, SCORE_AXES, Operation.SCALE_SCORES, ("scores",),
                 ("scale", "temperature", "d_in", "d_out", *HEAD_FIELDS), (),
                 f"scores divided by {divisor}",
                 lambda spec: _has_scores(spec) and needed(spec),
                 supersedes=True)


def _softmax_stages(
    name: str, says: str, needed: Callable[[AttentionSpec], bool]
) -> tuple[Stage, Stage]:
    title = name.capitalize()
    return (
        Stage(name, title, "softmax", SCORE_AXES, Operation.SCORES_TO_WEIGHTS, ("scores",),
              ("normalisation",), (), f"each row normalized to sum to 1{says}",
              lambda spec: _has_scores(spec) and not _divides_by_sum(spec) and needed(spec)),
        Stage(name, title, "÷ row sum", SCORE_AXES, Operation.SCORES_TO_WEIGHTS, ("scores",),
              ("normalisation",), (), f"each score divided by its row sum{says}",
              lambda spec: _divides_by_sum(spec) and needed(spec)),
    )


_LINEAR_STAGES = (
    Stage("feature_queries", "Query features", "φ(Q)", HEAD_AXES, Operation.FEATURE_MAP,
          ("queries",), (), (), "feature map of the queries, elu(x) + 1", _is_linear_attention),
    Stage("feature_keys", "Key features", "φ(K)", HEAD_AXES, Operation.FEATURE_MAP,
          ("keys",), (), (), "feature map of the keys, elu(x) + 1", _is_linear_attention),
    Stage("key_value_sums", "Key–value sums", "S = Σ φ(k)vᵀ", ("head", "query", "d_state"),
          Operation.KEY_VALUE_SUMS, ("feature_keys", "values"), MASK_FIELDS, (),
          "products of key features and values, summed over the allowed keys of each query",
          _is_linear_attention),
    Stage("key_sums", "Key sums", "Σ φ(k)", ("head", "query", "d_head"), Operation.KEY_SUMS,
          ("feature_keys",), MASK_FIELDS, (),
          "key features, summed over the allowed keys of each query",
          _is_linear_attention),
    Stage("normalizer", "Normalizer", "z = φ(q)·Σ φ(k)", ("head", "query", "d_single"),
          Operation.NORMALIZER, ("feature_queries", "key_sums"), (), (),
          "query features times the sums of the key features", _is_linear_attention),
)

STAGE_TABLE: tuple[Stage, ...] = (
    Stage("embedding", "Embedding", "E", ("token", "d_in"), Operation.INPUT_VECTORS, (), (), (),
          "one vector per token", _has_positions),
    Stage("position", "Position", "P", ("token", "d_in"), Operation.POSITION_VECTORS, (),
          ("position",), ("position",), "one vector per position", _has_positions),
    Stage("input", "Input", "X", ("token", "d_in"), Operation.INPUT_VECTORS, (), (), (),
          "one vector per token", lambda spec: not _has_positions(spec)),
    Stage("input", "Input", "X = E + P", ("token", "d_in"), Operation.ADD_POSITION,
          ("embedding", "position"), (), (), "embedding plus position", _has_positions),
    _addition_stage("residual", "input", supersedes=True),
    _norm_stage("normed", "input", "ln1", supersedes=True),
    *_projection_stages("projected_queries", "Q", "W_query", _has_rotation),
    *_projection_stages("projected_keys", "K", "W_key", _has_rotation),
    *_projection_stages("queries", "Q", "W_query", _has_unrotated_scores),
    *_projection_stages("keys", "K", "W_key", _has_unrotated_scores),
    _rotary_stage("queries"),
    _rotary_stage("keys"),
    *_projection_stages("values", "V", "W_value", is_always_present),
    *_LINEAR_STAGES,
    Stage("scores", "Scores", "QKᵀ", SCORE_AXES, Operation.DOT_PRODUCT, ("queries", "keys"), (), (),
          "dot product of each query with each key", _has_scores),
    _scaling_stage("QKᵀ/√d", "√d, so that large sizes do not saturate the softmax",
            lambda spec: spec.scale is not ScaleKind.NONE and spec.temperature == 1),
    _scaling_stage("QKᵀ/T", "the temperature T",
            lambda spec: spec.scale is ScaleKind.NONE and spec.temperature != 1),
    _scaling_stage("QKᵀ/(√d·T)", "√d and by the temperature T",
            lambda spec: spec.scale is not ScaleKind.NONE and spec.temperature != 1),
    Stage("bias", "Bias", "−m·distance", SCORE_AXES, Operation.LINEAR_BIAS, (), ("heads",), (),
          "minus the distance between query and key, times the head’s slope", _has_linear_bias),
    Stage("biased", "Biased", "+ bias", SCORE_AXES, Operation.ADD_SCORE_BIAS, ("scores", "bias"),
          (), (), "scores plus bias", _has_linear_bias, supersedes=True, step=ScoreBias()),
    Stage("masked", "Masked", "−∞ where forbidden", SCORE_AXES, Operation.MASK_BEFORE_SOFTMAX,
          ("scores",), MASK_FIELDS, (), "scores for forbidden keys set to −∞",
          lambda spec: _has_scores(spec) and _has_score_mask(spec), supersedes=True),
    Stage("masked", "Masked", "−∞ at padding", SCORE_AXES, Operation.MASK_BEFORE_SOFTMAX,
          ("scores",), ("lengths",), (), "scores for padding tokens set to −∞",
          lambda spec: (
              _has_scores(spec) and not _has_score_mask(spec) and bool(spec.lengths)
          ),
          supersedes=True),
    *_softmax_stages("unmasked", ", before the mask", _has_weight_mask),
    Stage("unmasked", "Unmasked", "1/n", SCORE_AXES, Operation.EQUAL_WEIGHTS, (), ("lengths",), (),
          "equal weight on every key, before the mask",
          lambda spec: not HAS_SCORES.is_met(spec) and _has_weight_mask(spec)),
    Stage("zeroed", "Zeroed", "0 where forbidden", SCORE_AXES, Operation.MASK_AFTER_SOFTMAX,
          ("unmasked",), MASK_FIELDS, (),
          "forbidden weights set to 0; rows no longer sum to 1", _has_renormalisation),
    *_softmax_stages("weights", "", lambda spec: not _has_weight_mask(spec)),
    Stage("weights", "Implied weights", "φ(q)·φ(k) / z", SCORE_AXES, Operation.IMPLIED_WEIGHTS,
          ("feature_queries", "feature_keys", "normalizer"), MASK_FIELDS, (),
          "weights that linear attention implies; no later step uses them", _is_linear_attention),
    Stage("weights", "Weights", "1/n", SCORE_AXES, Operation.EQUAL_WEIGHTS, (), MASK_FIELDS, (),
          "equal weight on every allowed key",
          lambda spec: not HAS_SCORES.is_met(spec) and not _has_weight_mask(spec)),
    Stage("weights", "Weights", "÷ row sum", SCORE_AXES, Operation.RENORMALISE_MASKED_WEIGHTS,
          ("zeroed",), (), (), "remaining weights divided by their row sum", _has_renormalisation),
    Stage("weights", "Weights", "0 where forbidden", SCORE_AXES, Operation.MASK_AFTER_SOFTMAX,
          ("unmasked",), MASK_FIELDS, (), "forbidden weights set to 0; rows no longer sum to 1",
          lambda spec: _has_weight_mask(spec) and not _has_renormalisation(spec)),
    Stage("dropped", "Dropout", "0 or ×1/(1−p)", SCORE_AXES, Operation.DROPOUT, ("weights",),
          ("dropout", "dropout_seed", "own_kept", "mode"), (),
          "some weights set to 0, and the others scaled by 1/(1−p)",
          lambda spec: spec.is_dropout_active,
          supersedes=True),
    Stage("context", "Context", "weights·V", ("head", "query", "d_head"), Operation.WEIGHTED_SUM,
          ("weights", "values"), (), (), "each query's weighted sum of the values",
          HAS_WEIGHTS.is_met),
    Stage("context", "Context", "φ(Q)·S / z", ("head", "query", "d_head"),
          Operation.LINEAR_CONTEXT, ("feature_queries", "key_value_sums", "normalizer"), (), (),
          "query features times the sums, divided by the normalizer", _is_linear_attention),
    Stage("concat", "Concat", "‖ heads", ("query", "d_out"), Operation.CONCAT_HEADS, ("context",),
          (), (), "the heads' context vectors, concatenated", is_always_present),
    Stage("output", "Output", "·W_O", ("query", "d_out"), Operation.OUTPUT_PROJECTION, ("concat",),
          (), ("out_proj",), "the concatenated heads after the output projection",
          lambda spec: spec.output_projection),
    _addition_stage("attended", "residual", "output", when=_projects_output),
    _addition_stage("attended", "residual", "concat", when=_adds_heads),
    _norm_stage("normed_attended", "attended", "ln2"),
    _linear_stage("up", "normed_attended", "linear1"),
    _activation_stage(Activation.RELU, "ReLU"),
    _activation_stage(Activation.GELU, "GELU"),
    _linear_stage("feed_forward", "hidden", "linear2"),
    _addition_stage("result", "attended", "feed_forward"),
)
# fmt: on

STAGE_NOUNS = {
    "embedding": StageNouns("embedding"),
    "position": StageNouns("position"),
    "input": StageNouns("input"),
    "queries": StageNouns("query", "queries"),
    "keys": StageNouns("key", "keys"),
    "values": StageNouns("value", "values"),
    "feature_queries": StageNouns("query feature", "query features", "query features"),
    "feature_keys": StageNouns("key feature", "key features", "key features"),
    "key_value_sums": StageNouns(
        "sum of keys and values", "sums of keys and values", "sums of keys and values"
    ),
    "key_sums": StageNouns("sum of keys", "sums of keys", "sums of keys"),
    "normalizer": StageNouns("normalizer", "normalizers"),
    "scores": StageNouns("score", "scores"),
    "scaled": StageNouns("scaled score", "scaled scores"),
    "capped": StageNouns("capped score", "capped scores", "row of capped scores"),
    "bias": StageNouns("bias", "biases", "row of biases"),
    "biased": StageNouns("biased score", "biased scores", "row of biased scores"),
    "masked": StageNouns("masked score", "masked scores"),
    "unmasked": StageNouns("weight before the mask", "weights before the mask"),
    "zeroed": StageNouns("weight after the mask", "weights after the mask"),
    "weights": StageNouns("weight", "weights"),
    "dropped": StageNouns("weight after dropout", "weights after dropout"),
    "context": StageNouns("context", "elements of the context vectors", "context vector"),
    "context_gate": StageNouns("gate", vector="context gate"),
    "gated_context": StageNouns(
        "gated context", "elements of the gated context vectors", "gated context vector"
    ),
    "concat": StageNouns("concat", "elements of the concatenated heads", "concatenated vector"),
    "output": StageNouns("output"),
    "residual": StageNouns("residual stream"),
    "normed": StageNouns(
        "normalized number", "elements of the normalized stream", "normalized stream"
    ),
    "latent_queries": StageNouns("query latent", "elements of the query latents"),
    "normed_latent_queries": StageNouns(
        "normalized query latent", "elements of the normalized query latents"
    ),
    "latent_keys": StageNouns("key–value latent", "elements of the key–value latents"),
    "normed_latent_keys": StageNouns(
        "normalized key–value latent", "elements of the normalized key–value latents"
    ),
    "shared_keys": StageNouns(
        "shared key", "elements of the shared keys", "shared part of the key"
    ),
    "projected_queries": StageNouns("projected query", "projected queries"),
    "projected_keys": StageNouns("projected key", "projected keys"),
    "normed_queries": StageNouns("normalized query", "normalized queries"),
    "normed_keys": StageNouns("normalized key", "normalized keys"),
    "turned_queries": StageNouns("rotated query", "rotated queries"),
    "turned_keys": StageNouns("rotated key", "rotated keys"),
    "normed_output": StageNouns("normalized output"),
    "scaled_output": StageNouns("scaled output"),
    "attended": StageNouns(
        "stream after attention", "elements of the residual stream after attention"
    ),
    "normed_attended": StageNouns(
        "normalized number",
        "elements of the normalized stream after attention",
        "normalized stream after attention",
    ),
    "cross_output": StageNouns("cross-attention output"),
    "crossed": StageNouns(
        "stream after cross-attention", "elements of the residual stream after cross-attention"
    ),
    "normed_crossed": StageNouns(
        "normalized number",
        "elements of the normalized stream after cross-attention",
        "normalized stream after cross-attention",
    ),
    "gate": StageNouns("gate"),
    "up": StageNouns("up projection"),
    "hidden": StageNouns("hidden activation", "hidden activations"),
    "feed_forward": StageNouns("feed-forward output"),
    "normed_feed_forward": StageNouns("normalized feed-forward output"),
    "scaled_feed_forward": StageNouns("scaled feed-forward output"),
    "added": StageNouns("sum"),
    "result": StageNouns("result", "elements of the result", "layer output"),
}


def vector_noun(stage: str) -> str:
    """Return the noun for a single vector of a stage."""
    return STAGE_NOUNS[stage].vector or STAGE_NOUNS[stage].number


def axis_noun(dim: str) -> str:
    """Return the noun for an element along an axis of a stage."""
    return "column" if dim.startswith("d_") else {"token": "position"}.get(dim, dim)


@lru_cache(maxsize=4)
def stages(spec: AttentionSpec) -> tuple[Stage, ...]:
    """Return the stages of a spec, in the order of computation."""
    found: list[Stage] = []
    superseded: dict[str, str] = {}
    for row in STAGE_TABLE:
        if row.when(spec):
            reads = tuple(superseded.get(name, name) for name in row.reads)
            step = row.build_step(spec) if row.build_step else row.step
            found.append(replace(row, reads=reads, step=step))
            if row.supersedes:
                superseded[row.reads[0]] = row.name
    return tuple(found)


def stages_before_query_key(spec: AttentionSpec) -> tuple[Stage, ...]:
    """Return the stages before the first query–key matrix, which are small."""
    return tuple(takewhile(lambda row: row.dims[-1] != "key", stages(spec)))


# Operations in torch's `scaled_dot_product_attention`, and operations before and after it.
FUSED_OPERATIONS = frozenset({
    Operation.DOT_PRODUCT, Operation.SCALE_SCORES, Operation.ADD_SCORE_BIAS,
    Operation.MASK_BEFORE_SOFTMAX, Operation.SCORES_TO_WEIGHTS, Operation.DROPOUT,
    Operation.WEIGHTED_SUM,
})  # fmt: skip
UNFUSED_INPUT_OPERATIONS = frozenset({
    Operation.INPUT_VECTORS, Operation.POSITION_VECTORS, Operation.ADD_POSITION,
    Operation.INPUT_PROJECTION, Operation.UNPROJECTED_INPUT,
    Operation.ROTARY_POSITION, Operation.LINEAR_BIAS, Operation.CONCAT_HEADS,
    Operation.OUTPUT_PROJECTION, Operation.RESIDUAL_ADDITION, Operation.NORM_LAYER,
    Operation.LINEAR_LAYER, Operation.HIDDEN_ACTIVATION,
})  # fmt: skip

LINEAR_OPERATIONS = frozenset(
    stage.operation for stage in STAGE_TABLE if stage.when is _is_linear_attention
)


def unfused_stages(spec: AttentionSpec) -> tuple[Stage, ...]:
    """Return the stages of a spec that torch's fused attention cannot compute."""
    known = FUSED_OPERATIONS | UNFUSED_INPUT_OPERATIONS
    return tuple(stage for stage in stages(spec) if stage.operation not in known)


def has_forbidden_cells(spec: AttentionSpec, stage: str) -> bool:
    """Return whether a stage has forbidden cells, which are hatched instead of coloured."""
    return stage in MASKED_STAGES and MaskingSpec.from_spec(spec, stage).can_forbid


def parameter_names(spec: AttentionSpec, layer: str) -> tuple[str, ...]:
    """Return the names of a layer's tensors in the book's ``state_dict``, ordered by head.

    For linear layers, the weights precede the biases.
    """
    if layer == "position":
        return ("position.weight",) if spec.position is PositionKind.LEARNED else ()
    if layer == "out_proj":
        return ("out_proj.weight", "out_proj.bias")
    if layer in BLOCK_LAYERS:
        return (f"{layer}.weight", f"{layer}.bias")
    stacked = spec.arrangement is HeadArrangement.STACKED and spec.heads > 1
    layers = [f"heads.{head}.{layer}" for head in range(spec.heads)] if stacked else [layer]
    if spec.projection is Projection.UNIFORM:
        return tuple(layers)
    kinds = ("weight", "bias") if spec.bias else ("weight",)
    return tuple(f"{name}.{kind}" for kind in kinds for name in layers)


def shape(spec: AttentionSpec, dims: tuple[str, ...], tokens: int) -> tuple[int, ...]:
    """Return the sizes of the named axes for the given number of tokens."""
    sizes = {
        "token": tokens, "query": tokens, "key": tokens, "d_in": spec.d_in, "head": spec.heads,
        "d_head": spec.d_head, "d_out": spec.concatenated_head_width, "d_model": spec.d_in,
        "d_ff": spec.hidden_width, "d_state": spec.d_head**2, "d_single": 1,
    }  # fmt: skip
    return tuple(sizes[dim] for dim in dims)


def query_key_matrix_bytes(spec: AttentionSpec, tokens: int, texts: int = 1) -> int:
    """Return how many bytes all query–key stages need if they are held in full."""
    item = 8 if spec.dtype is Dtype.FLOAT64 else 4
    count = sum(row.dims[-1] == "key" for row in stages(spec))
    return item * count * texts * spec.heads * tokens * tokens


@lru_cache(maxsize=8)
def estimate_bytes(
    spec: AttentionSpec, tokens: int, texts: int = 1, *, by_blocks: bool = False
) -> int:
    """Estimate how many bytes the computation of a spec needs for stages, weights and temporaries.

    Temporaries are two additional copies of the largest tensor. Embeddings and positions are looked
    up in float64. The result is an upper bound; the measured memory use is lower.

    Parameters
    ----------
    by_blocks : bool
        Whether to exclude stages that are computed block by block, except for their caches.
    """
    item = 8 if spec.dtype is Dtype.FLOAT64 else 4
    rows = stages_before_query_key(spec) if by_blocks else stages(spec)
    sizes = [texts * math.prod(shape(spec, row.dims, tokens)) for row in rows]
    layer = spec.d_in * spec.concatenated_head_width if spec.has_projection else 0
    output = (
        spec.concatenated_head_width * (spec.concatenated_head_width + 1)
        if spec.output_projection
        else 0
    )
    around = [math.prod(size) for size in spec.block_parameter_shapes.values()]
    output += sum(around)
    room = 2 * max(*sizes, layer, output)
    has_matrix = spec.is_masked and (not by_blocks or spec.mask is MaskKind.OWN)
    mask = 3 * texts * tokens * tokens if has_matrix else 0
    mask += BLOCKWISE_BYTES + 20 * texts * spec.heads * tokens if by_blocks else 0
    looked_up = 24 * texts * tokens + 80  # while a vector is generated, each number takes 80 bytes
    looked_up += 48 * tokens if _has_positions(spec) else 0
    drawn = 4 * (3 * layer + output)  # in float32, whatever the dtype of the spec
    return item * (sum(sizes) + 3 * layer + output + room) + mask + drawn + spec.d_in * looked_up
