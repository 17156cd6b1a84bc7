"""The table of settings, with their kinds, ranges, choices and conditions; imports no torch.

The window, the command line, the Python API, lessons, the validation of documents and the help
texts use this table. Each of these only adds its own name for a setting.
"""

from __future__ import annotations

import math
from difflib import get_close_matches
from enum import StrEnum, auto
from numbers import Integral, Real
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.mechanisms import (
    MECHANISM_TITLES,
    Mechanism,
    apply_mechanism,
    mechanism_of,
    with_block_embedding_size,
)
from visualizer.attention.spec import (
    FEED_FORWARD_FACTOR,
    MAX_SEED,
    MAX_VALUES,
    VECTOR_POSITIONS,
    Activation,
    AttentionSpec,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
    ScaleKind,
    SettingChoice,
    TransformerBlockKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Wording = Callable[[str, object], str]
    """Function that formats a setting and its value unless it is None, as in ``--mask window``."""

Choice = TypeVar("Choice", bound=str)


class SettingKind(StrEnum):
    """Kind of a setting's value and control."""

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


class SettingGroup(StrEnum):
    """Group of settings in the command-line help."""

    MODULE = "Attention module"
    SCORES = "Scores and weights"
    MASK = "Mask"
    DROPOUT = "Dropout"
    NUMBERS = "Numbers"


CONTROL_RANGES: dict[SettingKind, tuple[float, float]] = {
    SettingKind.COUNT: (0, 9_999_999),
    SettingKind.RATE: (-9.999, 9.999),
    SettingKind.NUMBER: (-1000, 1000),
    SettingKind.SEED: (0, MAX_SEED),
}
"""Range of each kind of control, wider than the valid range so that errors can be explained."""
_WHOLE = (SettingKind.COUNT, SettingKind.SEED, SettingKind.WHOLE)


class InvalidValueError(ValueError):
    """A value that has the wrong type, is outside the range, or is not one of the choices.

    Parameters
    ----------
    requirement : str
        Phrase that states what is required and begins with "must be".
    suggestion : str
        The choice that is most similar to the value; empty if none is similar.
    """

    def __init__(self, requirement: str, suggestion: str = "") -> None:
        super().__init__(requirement)
        self.requirement, self.suggestion = requirement, suggestion

    def format_message(self, subject: str, value: str) -> str:
        """Return the message for a subject, such as ``mask``, and the value as displayed."""
        meant = f" Did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{subject} {self.requirement}. It is {value}.{meant}"


class ConditionOperator(StrEnum):
    """How a condition tests the value of a setting."""

    IS = auto()
    IS_NOT = auto()
    ABOVE = auto()
    GIVEN = auto()
    ABSENT = auto()


class SettingCondition(Struct, frozen=True):
    """A condition on the value of a setting.

    Parameters
    ----------
    setting : str
        Path of the attribute that holds the value.
    values : tuple
        The values to compare with; a single number for `ConditionOperator.ABOVE`.
    words : str
        Description of a violation; by default, it is derived from the name and the values.
    alternative : SettingCondition or None
        Another condition, which is also sufficient.
    """

    setting: str
    operator: ConditionOperator
    values: tuple[Any, ...] = ()
    words: str = ""
    alternative: SettingCondition | None = None

    def is_met(self, values: object) -> bool:
        """Return whether the condition holds for a spec or another object with settings."""
        value: Any = attrgetter(self.setting)(values)
        match self.operator:
            case ConditionOperator.IS:
                is_met = value in self.values
            case ConditionOperator.IS_NOT:
                is_met = value not in self.values
            case ConditionOperator.ABOVE:
                is_met = value > self.values[0]
            case ConditionOperator.GIVEN:
                is_met = value not in (None, ())
            case ConditionOperator.ABSENT:
                is_met = value in (None, ())
        return is_met or (self.alternative is not None and self.alternative.is_met(values))

    def describe_violation(self, wording: Wording) -> str:
        """Describe a violation of the condition, such as ``without --mask window``."""
        if self.words:
            return self.words
        is_negative = self.operator in {ConditionOperator.IS_NOT, ConditionOperator.ABSENT}
        said = f"{'with' if is_negative else 'without'} {self._format_setting(wording)}"
        return said + (
            f" or {self.alternative._format_setting(wording)}" if self.alternative else ""
        )

    def _format_setting(self, wording: Wording) -> str:
        if self.operator is ConditionOperator.ABOVE:
            return f"{wording(self.setting, None)} above {self.values[0]}"
        value = self.values[0] if self.values else None
        return wording(self.setting, value)


def when(setting: str, *values: object, words: str = "") -> SettingCondition:
    """Return the condition that a setting has one of the values."""
    return SettingCondition(setting, ConditionOperator.IS, values, words)


def unless(setting: str, *values: object, words: str = "") -> SettingCondition:
    """Return the condition that a setting has none of the values."""
    return SettingCondition(setting, ConditionOperator.IS_NOT, values, words)


def above(
    setting: str, number: float, alternative: SettingCondition | None = None
) -> SettingCondition:
    """Return the condition that a setting is greater than a number."""
    return SettingCondition(setting, ConditionOperator.ABOVE, (number,), alternative=alternative)


def given(setting: str, words: str = "") -> SettingCondition:
    """Return the condition that a custom matrix is given."""
    return SettingCondition(setting, ConditionOperator.GIVEN, words=words)


def absent(setting: str) -> SettingCondition:
    """Return the condition that no custom matrix is given."""
    return SettingCondition(setting, ConditionOperator.ABSENT)


HAS_SCORES = unless("normalisation", NormalisationKind.UNIFORM)
"""Condition for attention that computes scores, which a uniform average does not."""

HAS_WEIGHTS = unless("normalisation", NormalisationKind.LINEAR)
"""Condition for attention that uses weights, which linear attention only implies."""


class Setting(Struct, frozen=True):
    """One setting.

    Parameters
    ----------
    label : str
        Label of the setting's control.
    help : str
        Description, without a full stop.
    choices : tuple of (value, words)
        The choices, each with its label.
    top : float
        Maximum of the slider; larger values can be entered.
    zero_label : str
        Meaning of 0 in a count; empty if 0 is an ordinary number.
    noun : str
        Name of the setting in a sentence; by default, the label in lower case.
    minimum, above, maximum, below : float or None
        Valid range of the value.
    fallback : number or None
        Value that is suggested instead of an invalid one; by default, the nearest valid value.
    where : tuple of SettingCondition
        The conditions under which the setting has an effect; all of these must hold.
    caption : str
        Format of the value in the description of a computation, which states values other than the
        default; empty if the description formats the setting by other means.
    has_control : bool
        Whether the settings bar has a control for the setting.
    """

    name: str
    label: str
    kind: SettingKind
    help: str
    choices: tuple[tuple[Any, str], ...] = ()
    top: float = 0
    zero_label: str = ""
    noun: str = ""
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    fallback: float | None = None
    where: tuple[SettingCondition, ...] = ()
    group: SettingGroup = SettingGroup.MODULE
    caption: str = ""
    has_control: bool = True

    @property
    def default(self) -> Any:
        """Value of the setting in a default spec."""
        return setting_value(AttentionSpec(), self.name)

    def has_effect(self, values: object) -> bool:
        """Return whether the setting has an effect on a spec or another object with settings."""
        return all(condition.is_met(values) for condition in self.where)

    def first_unmet_condition(self, values: object) -> SettingCondition | None:
        """Return the first condition that does not hold, or None if all hold."""
        return next((each for each in self.where if not each.is_met(values)), None)

    @property
    def has_range(self) -> bool:
        """Whether only some numbers are valid."""
        return (self.minimum, self.above, self.maximum, self.below) != (None,) * 4

    @property
    def requirement(self) -> str:
        """The valid range, such as ``at least 0 and less than 1``; an empty string without one."""
        bounds = (
            ("at least", self.minimum),
            ("greater than", self.above),
            ("at most", self.maximum),
            ("less than", self.below),
        )
        return " and ".join(f"{words} {bound:,}" for words, bound in bounds if bound is not None)

    def range_violation(self, value: float) -> str:
        """Return the requirement that a number violates, or an empty string if it is valid."""
        # An integer may be too large for a float.
        is_real = type(value) is float
        if is_real and math.isnan(value):
            return "must be a number"
        is_inside = (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )
        if not is_inside:
            return f"must be {self.requirement}"
        return "must be finite" if is_real and math.isinf(value) else ""

    def range_error_message(self, value: float) -> str:
        """Return a sentence about a number outside the valid range, or an empty string."""
        violation = self.range_violation(value)
        noun = self.noun or self.label.lower()
        return f"The {noun} {violation}. It is {format_number(value)}." if violation else ""

    def suggest_valid_number(self, value: float) -> float:
        """Return a valid number to suggest instead of an invalid one."""
        if self.fallback is not None:
            return self.fallback
        if self.minimum is not None and not value >= self.minimum:
            return self.minimum
        assert self.maximum is not None
        return self.maximum

    def convert_value(self, value: object) -> Any:
        """Convert a value from Python or from a file to the type of the setting.

        The range is not checked, because a spec may be invalid while the user edits it.

        Raises
        ------
        InvalidValueError
            If the value has the wrong type or is not one of the choices.
        """
        is_number = not isinstance(value, bool)
        if self.kind is SettingKind.CHOICE:
            return self._convert_choice(value)
        if self.kind is SettingKind.SWITCH:
            if type(value).__name__ not in {"bool", "bool_"}:  # "bool_" is NumPy's
                raise InvalidValueError("must be true or false")
            return bool(value)
        if self.kind in _WHOLE:
            if not (isinstance(value, Integral) and is_number):
                raise InvalidValueError("must be a whole number")
            return int(value)
        if not (isinstance(value, Real) and is_number):
            raise InvalidValueError("must be a number")
        number: Any = value
        try:
            return float(number)
        except OverflowError:
            return math.inf if number > 0 else -math.inf

    def _convert_choice(self, value: object) -> Any:
        return find_choice([each for each, _ in self.choices], value)

    def parse(self, text: str) -> Any:
        """Convert text to a valid value.

        Raises
        ------
        InvalidValueError
            If the text is not a valid value.
        """
        if self.kind is SettingKind.CHOICE:
            return self._convert_choice(text)
        is_whole = self.kind in _WHOLE
        try:
            value = int(text) if is_whole else float(text)
        except ValueError:
            kind = "a whole number" if is_whole else "a number"
            raise InvalidValueError(f"must be {kind}") from None
        if violation := self.range_violation(value):
            raise InvalidValueError(violation)
        return value


def find_choice(values: Sequence[Choice], value: object) -> Choice:
    """Return the choice that equals a value.

    Raises
    ------
    InvalidValueError
        If the value is not one of the choices; the error contains the most similar choice.
    """
    if isinstance(value, str) and value in values:
        return values[values.index(value)]
    similar = get_close_matches(value, values, n=1) if isinstance(value, str) else []
    suggestion = str(similar[0]) if similar else ""
    raise InvalidValueError(f"must be one of {', '.join(values)}", suggestion)


def format_number(value: float) -> str:
    """Format a number for a sentence; a very long number is described instead."""
    if not isinstance(value, int):
        return f"{value:g}"
    if abs(value) < 2**64:
        return f"{value:,}"
    return f"a number of {math.floor(math.log10(abs(value))) + 1:,} digits"


_POSITIONS_ACT = (
    SettingCondition("position", ConditionOperator.IS, (PositionKind.NONE, *VECTOR_POSITIONS),
              "with equal weights, which have no scores", HAS_SCORES),
    SettingCondition("position", ConditionOperator.IS_NOT, (PositionKind.ALIBI,),
              "with linear attention, which has no scores", HAS_WEIGHTS),
)  # fmt: skip
_DROPS = above("dropout", 0, given("own_kept"))


def _choices_of_kind(kind: type[SettingChoice]) -> tuple[tuple[SettingChoice, str], ...]:
    return tuple((choice, choice.label) for choice in kind)


# fmt: off
SETTINGS: tuple[Setting, ...] = (
    Setting("mechanism", "Mechanism", SettingKind.CHOICE,
            "Kind of attention to start from; the other settings modify it",
            tuple(MECHANISM_TITLES.items())),
    Setting("d_in", "Embedding size", SettingKind.COUNT,
            "Dimension of the token vectors (d_in)", top=64,
            minimum=1, maximum=MAX_VALUES["d_in"]),
    Setting("d_out", "Output size", SettingKind.COUNT,
            "Total width of all heads, or of each stacked head (d_out)", top=64,
            minimum=1, maximum=MAX_VALUES["d_out"],
            where=(unless("projection", Projection.NONE),)),
    Setting("heads", "Heads", SettingKind.COUNT,
            "Number of attention heads", top=12, noun="number of heads",
            minimum=1, maximum=MAX_VALUES["heads"]),
    Setting("causal", "Causal mask", SettingKind.SWITCH,
            "Mask later tokens, so that no token attends to them", group=SettingGroup.MASK,
            has_control=False),  # it is one of the choices of the mask
    Setting("dropout", "Dropout", SettingKind.RATE,
            "Dropout rate for the attention weights; the remaining weights are scaled up",
            top=0.9, noun="dropout rate", minimum=0, below=1, fallback=0.5,
            where=(HAS_WEIGHTS,), group=SettingGroup.DROPOUT),
    Setting("device", "Device", SettingKind.CHOICE,
            "Device to compute on; by default, a GPU if one is available", _choices_of_kind(Device),
            group=SettingGroup.NUMBERS),

    Setting("mode", "Dropout acts", SettingKind.CHOICE,
            "Training mode, which applies dropout, or evaluation mode, which does not",
            _choices_of_kind(DropoutMode), where=(HAS_WEIGHTS, _DROPS), group=SettingGroup.DROPOUT),
    Setting("dropout_seed", "Dropout seed", SettingKind.SEED,
            "Random seed for dropout", minimum=0, maximum=MAX_SEED, fallback=0,
            where=(HAS_WEIGHTS, above("dropout", 0), when("mode", DropoutMode.TRAIN),
                   absent("own_kept")), group=SettingGroup.DROPOUT),
    Setting("seed", "Seed", SettingKind.SEED,
            "Random seed for the token vectors and the weights", noun="seed",
            minimum=0, maximum=MAX_SEED, fallback=0, group=SettingGroup.NUMBERS),
    Setting("own_input", "Custom vectors", SettingKind.OWN,
            "Token vectors to use instead of random ones",
            ((None, "None: random, generated from the seed"),), where=(given("own_input"),),
            group=SettingGroup.NUMBERS),
    Setting("own_weights", "Custom weights", SettingKind.OWN,
            "Weights of the module’s layers to use instead of random ones",
            (((), "None: random, generated from the seed"),),
            where=(given("used_custom_weights", "with a module that lacks these weights"),),
            group=SettingGroup.NUMBERS),
    Setting("projection", "Projection", SettingKind.CHOICE,
            "How queries, keys and values are computed from the input",
            _choices_of_kind(Projection)),
    Setting("bias", "Bias in Q, K, V", SettingKind.SWITCH,
            "Add a bias to the query, key and value layers (qkv_bias)",
            where=(when("projection", Projection.LINEAR),)),
    Setting("arrangement", "Heads are", SettingKind.CHOICE,
            "Split heads share the output size; each stacked head has the full size",
            _choices_of_kind(HeadArrangement), where=(above("heads", 1),)),
    Setting("key_value_heads", "Key-value heads", SettingKind.COUNT,
            "Number of heads for keys and values, each shared by a group of query heads; "
            "0 for one per query head", top=12, zero_label="All",
            noun="number of key-value heads", minimum=0, maximum=MAX_VALUES["key_value_heads"],
            where=(above("heads", 1), when("arrangement", HeadArrangement.SPLIT),
                   unless("projection", Projection.NONE))),
    Setting("output_projection", "Output projection", SettingKind.SWITCH,
            "Combine the heads with a final linear layer (W_O)"),
    Setting("block", "Block", SettingKind.CHOICE,
            "Attention only, or a transformer block with norms, residual stream and feed-forward",
            _choices_of_kind(TransformerBlockKind)),
    Setting("d_ff", "Feed-forward size", SettingKind.COUNT,
            "Hidden size of the block’s feed-forward network (d_ff); "
            f"0 for {FEED_FORWARD_FACTOR} times the embedding size", top=256,
            zero_label=f"{FEED_FORWARD_FACTOR} ×", minimum=0, maximum=MAX_VALUES["d_ff"],
            where=(when("block", TransformerBlockKind.PRE_NORM),)),
    Setting("activation", "Activation", SettingKind.CHOICE,
            "Activation function of the block’s feed-forward network", _choices_of_kind(Activation),
            where=(when("block", TransformerBlockKind.PRE_NORM),)),
    Setting("position", "Positions", SettingKind.CHOICE,
            "Positional encoding: vectors added to the embedding, or positions applied within "
            "attention",
            _choices_of_kind(PositionKind), where=_POSITIONS_ACT, caption="{} positions"),
    Setting("scale", "Scale", SettingKind.CHOICE,
            "Divisor of the scores: the square root of a size", _choices_of_kind(ScaleKind),
            where=(HAS_SCORES, HAS_WEIGHTS), group=SettingGroup.SCORES),
    Setting("temperature", "Temperature", SettingKind.NUMBER,
            "Additional divisor of the scores; values below 1 sharpen the weights, and values "
            "above 1 flatten them",
            above=0, fallback=1.0, where=(HAS_SCORES, HAS_WEIGHTS),
            group=SettingGroup.SCORES, caption="temperature {}"),
    Setting("normalisation", "Normalization", SettingKind.CHOICE,
            "How a row of scores becomes a row of weights", _choices_of_kind(NormalisationKind),
            group=SettingGroup.SCORES, caption="normalization: {}"),
    Setting("mask", "Mask", SettingKind.CHOICE, "Which keys a query may attend to",
            _choices_of_kind(MaskKind), group=SettingGroup.MASK),
    Setting("window", "Window", SettingKind.COUNT,
            "Number of tokens that each query attends to: the query itself and the tokens just "
            "before it",
            top=32,
            minimum=1, maximum=MAX_VALUES["window"], where=(when("mask", MaskKind.WINDOW),),
            group=SettingGroup.MASK),
    Setting("own_mask", "Custom matrix", SettingKind.MATRIX,
            "One row per query and one column per key; 1 allows a pair, and 0 forbids it",
            where=(when("mask", MaskKind.OWN),), group=SettingGroup.MASK),
    Setting("route", "Mask acts", SettingKind.CHOICE,
            "Whether the mask is applied to the scores before normalization or to the weights "
            "after it", _choices_of_kind(MaskPlacement),
            where=(unless("mask", MaskKind.NONE), HAS_WEIGHTS), group=SettingGroup.MASK),
    Setting("dtype", "Precision", SettingKind.CHOICE,
            "Floating-point type of all numbers", _choices_of_kind(Dtype),
            group=SettingGroup.NUMBERS),
)
"""The settings, in the order of their controls."""

KEEP_MASK_SETTING = Setting("own_kept", "Kept weights", SettingKind.MATRIX,
               "Dropout mask to use instead of a random one, with one row per query and one column "
               "per key; 1 keeps a weight, and 0 drops it",
               where=(HAS_WEIGHTS, when("mode", DropoutMode.TRAIN)), group=SettingGroup.DROPOUT,
               has_control=False)
"""The custom dropout mask."""
# fmt: on
SETTINGS_BY_NAME = {setting.name: setting for setting in (*SETTINGS, KEEP_MASK_SETTING)}


DERIVED_SETTINGS = ("mechanism", "causal")
"""The settings that are not fields of the spec but follow from its fields."""


def setting_value(spec: AttentionSpec, name: str) -> Any:
    """Return the value of a setting, which is either a field of the spec or derived from it."""
    if name == "mechanism":
        return mechanism_of(spec)
    return spec.mask is MaskKind.CAUSAL if name == "causal" else getattr(spec, name)


def with_setting(spec: AttentionSpec, name: str, value: Any) -> AttentionSpec:
    """Return a spec with one changed setting."""
    if name == "mechanism":
        return apply_mechanism(Mechanism(value), spec)
    if name == "causal":
        return replace(spec, mask=MaskKind.CAUSAL if value else MaskKind.NONE)
    if name == "d_in" and spec.has_transformer_block:
        return with_block_embedding_size(spec, value)
    return replace(spec, **{name: value})


def no_effect_reason(spec: AttentionSpec, name: str, wording: Wording) -> str:
    """Return the reason why a setting has no effect on a spec, or an empty string if it has one."""
    unmet = SETTINGS_BY_NAME[name].first_unmet_condition(spec)
    return (
        f"{wording(name, None)} has no effect {unmet.describe_violation(wording)}. "
        f"Remove {wording(name, None)}."
        if unmet
        else ""
    )


def first_unsettable(spec: AttentionSpec) -> Setting | None:
    """Return the first setting, used or not, with a value that its control cannot show.

    Command-line options can set numbers that are valid but too large for the control.
    """
    for setting in SETTINGS:
        if setting.kind in CONTROL_RANGES:
            low, high = CONTROL_RANGES[setting.kind]
            value = getattr(spec, setting.name)
            is_computable = setting.kind is SettingKind.NUMBER and 0 < value < math.inf
            if not (low <= value <= high or is_computable):
                return setting
    return None
