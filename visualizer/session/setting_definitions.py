"""Table of settings: names, allowed values and conditions under which they have an effect."""

from __future__ import annotations

import math
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.mechanisms import TITLES
from visualizer.attention.spec import (
    MAX_SEED,
    WIDENING,
    Activation,
    Arrangement,
    AttentionSpec,
    Block,
    BooleanMatrix,
    Device,
    Dtype,
    Mask,
    Mode,
    Normalisation,
    NumberMatrix,
    Position,
    Projection,
    Route,
    Scale,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.errors import Problem


MAX_MASK_TOKENS = 64


class SettingKind(StrEnum):
    """Kind of control for a setting."""

    CHOICE = auto()
    COUNT = auto()
    RATE = auto()
    NUMBER = auto()
    SWITCH = auto()
    SEED = auto()
    MATRIX = auto()
    OWN = auto()
    WHOLE = auto()
    SMALL = auto()
    FILE = auto()


BOUNDS: dict[SettingKind, tuple[float, float]] = {
    SettingKind.COUNT: (0, 9_999_999),
    SettingKind.RATE: (-9.999, 9.999),
    SettingKind.NUMBER: (-1000, 1000),
    SettingKind.SEED: (0, MAX_SEED),
}
"""Values that a control accepts, including some that cannot be computed."""


class Setting(Struct, frozen=True):
    """One setting.

    Parameters
    ----------
    choices : tuple of (value, words)
        The options of a choice setting.
    top : float
        The slider's maximum; larger values can be typed.
    zero : str
        Meaning of 0 in a count; empty if 0 is an ordinary number.
    counts : callable
        Whether the setting has an effect on the given object, such as a spec.
    """

    name: str
    label: str
    kind: SettingKind
    common: bool
    help: str
    choices: tuple[tuple[Any, str], ...] = ()
    top: float = 0
    zero: str = ""
    counts: Callable[[Any], bool] = lambda made: True


def _can_compare(spec: AttentionSpec) -> bool:
    return spec.normalisation is not Normalisation.UNIFORM


def _has_dropout(spec: AttentionSpec) -> bool:
    return spec.dropout > 0


# fmt: off
SETTINGS: tuple[Setting, ...] = (
    Setting("mechanism", "Mechanism", SettingKind.CHOICE, True,
            "Which of the chapter's modules to start from", tuple(TITLES.items())),
    Setting("d_in", "Embedding size", SettingKind.COUNT, True,
            "Size of a token's vector (d_in)", top=64),
    Setting("d_out", "Output size", SettingKind.COUNT, True,
            "Width of all heads together, or of each stacked head (d_out)", top=64,
            counts=lambda spec: spec.projection is not Projection.NONE),
    Setting("heads", "Heads", SettingKind.COUNT, True,
            "Number of attention heads, which run in parallel", top=12),
    Setting("causal", "Causal mask", SettingKind.SWITCH, True,
            "Tokens do not attend to later tokens"),
    Setting("dropout", "Dropout", SettingKind.RATE, True,
            "Share of weights dropped in training; the others are scaled up", top=0.9),
    Setting("device", "Device", SettingKind.CHOICE, True, "Where the numbers are computed", (
        (Device.AUTO, "Best available"), (Device.CPU, "CPU"), (Device.CUDA, "CUDA GPU"),
        (Device.MPS, "Apple GPU (MPS)"))),

    Setting("mode", "Dropout acts", SettingKind.CHOICE, False, "Dropout acts in training only", (
        (Mode.TRAIN, "Training"), (Mode.EVAL, "Evaluation (off)")), counts=_has_dropout),
    Setting("dropout_seed", "Dropout seed", SettingKind.SEED, False,
            "Determines which weights are dropped", counts=_has_dropout),
    Setting("seed", "Weights seed", SettingKind.SEED, False,
            "Determines the random token vectors and weights"),
    Setting("own_input", "Custom vectors", SettingKind.OWN, False,
            "Token vectors to use instead of random ones",
            ((None, "None: random, from the seed"),),
            counts=lambda spec: spec.own_input is not None),
    Setting("own_weights", "Custom weights", SettingKind.OWN, False,
            "Weights of projections and block layers to use instead of random ones",
            (((), "None: random, from the seed"),),
            counts=lambda spec: bool(spec.counting_weights)),
    Setting("projection", "Projection", SettingKind.CHOICE, False,
            "How queries, keys and values are computed from the input", (
        (Projection.NONE, "None: Q = K = V = X"), (Projection.UNIFORM, "Uniform in [0, 1)"),
        (Projection.LINEAR, "Linear layers"))),
    Setting("bias", "Bias in Q, K, V", SettingKind.SWITCH, False,
        "Linear layers add a bias (qkv_bias)",
            counts=lambda spec: spec.projection is Projection.LINEAR),
    Setting("arrangement", "Heads are", SettingKind.CHOICE, False,
            "Whether the heads split the output size or each have all of it", (
        (Arrangement.SPLIT, "Split: size is divided"),
        (Arrangement.STACKED, "Stacked: full size each"))),
    Setting("output_projection", "Output projection", SettingKind.SWITCH, False,
            "Combine the heads with a final linear layer (W_O)"),
    Setting("block", "Block", SettingKind.CHOICE, False,
            "Norms, residual connections and feed-forward layer around the attention", (
        (Block.NONE, "None: attention only"), (Block.PRE_NORM, "Pre-norm transformer block"))),
    Setting("d_ff", "Feed-forward size", SettingKind.COUNT, False,
            "Hidden size of the feed-forward layer (d_ff)", top=256,
            zero=f"{WIDENING} ×", counts=lambda spec: spec.has_block),
    Setting("activation", "Activation", SettingKind.CHOICE, False,
            "Activation function of the feed-forward layer", (
        (Activation.RELU, "ReLU"), (Activation.GELU, "GELU")),
            counts=lambda spec: spec.has_block),
    Setting("position", "Positions", SettingKind.CHOICE, False,
            "Positional encoding added to the embedding", (
        (Position.NONE, "None"), (Position.LEARNED, "Learned (untrained)"),
        (Position.SINUSOIDAL, "Sinusoidal"))),
    Setting("scale", "Scale", SettingKind.CHOICE, False, "Divisor of the scores", (
        (Scale.NONE, "None"), (Scale.D_HEAD, "√ head size"), (Scale.D_MODEL, "√ embedding size")),
            counts=_can_compare),
    Setting("temperature", "Temperature", SettingKind.NUMBER, False,
            "Also divides the scores: below 1 sharpens, above 1 flattens the weights",
            counts=_can_compare),
    Setting("normalisation", "Normalisation", SettingKind.CHOICE, False,
            "How a row of scores is normalised to weights", (
        (Normalisation.SOFTMAX, "Softmax"), (Normalisation.NAIVE_SOFTMAX, "Naive softmax"),
        (Normalisation.SUM, "Divide by the sum"), (Normalisation.UNIFORM, "Uniform average"))),
    Setting("mask", "Mask", SettingKind.CHOICE, False, "Which keys a query can attend to", (
        (Mask.NONE, "None"), (Mask.CAUSAL, "Causal"), (Mask.WINDOW, "Sliding window"),
        (Mask.OWN, "Custom matrix"))),
    Setting("window", "Window", SettingKind.COUNT, False,
            "Number of tokens a query attends to: itself and those just before", top=32,
            counts=lambda spec: spec.mask is Mask.WINDOW),
    Setting("own_mask", "Custom matrix", SettingKind.MATRIX, False,
            "One row per query, one column per key: 1 allowed, 0 blocked",
            counts=lambda spec: spec.mask is Mask.OWN),
    Setting("route", "Mask acts", SettingKind.CHOICE, False, "Where the mask is applied", (
        (Route.BEFORE, "−∞ before normalising"),
        (Route.AFTER_RENORMALISED, "0 after, rows renormalised"),
        (Route.AFTER, "0 after, not renormalised")),
            counts=lambda spec: spec.mask is not Mask.NONE),
    Setting("dtype", "Precision", SettingKind.CHOICE, False,
        "Floating-point type of every number", (
        (Dtype.FLOAT32, "float32"), (Dtype.FLOAT64, "float64"))),
)


def unsettable(spec: AttentionSpec) -> Setting | None:
    """Return the first setting with a value that its control cannot show, used or not.

    Command line options can set numbers that are valid but too large for the control.
    """
    for setting in SETTINGS:
        if setting.kind in BOUNDS:
            low, high = BOUNDS[setting.kind]
            value = getattr(spec, setting.name)
            is_computable = setting.kind is SettingKind.NUMBER and 0 < value < math.inf
            if not (low <= value <= high or is_computable):
                return setting
    return None


class SettingState(Struct, frozen=True):
    """A setting with its current value and validation problem."""

    setting: Setting
    value: object
    counts: bool
    problem: Problem | None
    mends: str = ""
    """Description of the remedy for the problem; empty if there is none."""
    is_of_use: bool = True
    """Whether the setting would have an effect if it were not locked."""


def remedy_in_words(field: str, value: object, settings: tuple[Setting, ...] = SETTINGS) -> str:
    """Describe a remedy by the labels of settings."""
    setting = next(setting for setting in settings if setting.name == field)
    if setting.kind is SettingKind.OWN:
        return "Use random values from the seed"
    if isinstance(value, bool):
        return f"Turn {setting.label.lower()} {'on' if value else 'off'}"
    number = _format_number(value) if isinstance(value, int | float) else value
    words = dict(setting.choices).get(value, number)
    return f"Set {setting.label.lower()} to {words}"


def _format_number(value: float) -> str:
    """Format a number with all digits, because settings do not accept exponents."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.8f}".rstrip("0").rstrip(".")


def own_in_words(setting: Setting, value: Any) -> str:
    """Describe the custom values that are given: their count or their layers."""
    if not value:
        return setting.choices[0][1]
    if isinstance(value, NumberMatrix):
        return f"{value.rows:,} × {value.columns:,} given"
    return f"{', '.join(name for name, _ in value)} given"


def written_mask(own: BooleanMatrix | None) -> tuple[str, str]:
    """Format a mask as rows of 0 and 1 unless it is too long, and give the input's placeholder."""
    if own is None or own.rows <= MAX_MASK_TOKENS:
        rows = own.array().astype(int).tolist() if own else []
        text = "\n".join(" ".join(map(str, row)) for row in rows)
        return text, "1 allowed, 0 blocked:\n1 0 0\n1 1 0\n1 1 1"
    size = f"{own.rows:,} × {own.columns:,}"
    return "", f"{size}: too large to edit here. Enter rows of 0 and 1 to replace it."
