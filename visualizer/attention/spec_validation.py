"""Validates an attention spec: the ranges of numbers, and the consistency of settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.attention.settings import (
    HAS_SCORES,
    SETTINGS,
    SETTINGS_BY_NAME,
    format_number,
)
from visualizer.attention.spec import (
    MAX_VALUES,
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
)
from visualizer.errors import InputError, Problem

if TYPE_CHECKING:
    from visualizer.errors import Remedy

_SIZES = ("d_in", "d_out", "heads")
_SETTINGS_WITH_RANGE = tuple(setting for setting in SETTINGS if setting.has_range)


def spec_problems(spec: AttentionSpec) -> tuple[Problem, ...]:
    """Return the problems of a spec, field by field; empty if the spec can be computed."""
    ranges = _range_problems(spec)
    sizes = [problem for problem in ranges if problem.field in _SIZES] + _head_problems(spec)
    others = [problem for problem in ranges if problem.field not in _SIZES]
    own = [] if sizes else _custom_matrix_problems(spec)
    block = _block_problems(spec) if spec.has_transformer_block and not sizes else []
    sizes += [] if sizes else _group_problems(spec)
    rotary = [] if sizes else _rotary_problems(spec)
    return tuple(sizes + others + _mask_problems(spec) + own + block + rotary)


def check_spec(spec: AttentionSpec) -> None:
    """Raise `InputError` for the first problem of a spec."""
    for problem in spec_problems(spec):
        raise InputError(problem.field, problem.sentence, problem.remedy)


def _range_problems(spec: AttentionSpec) -> list[Problem]:
    """Return a problem for each number outside the range of its setting."""
    found = []
    for setting in _SETTINGS_WITH_RANGE:
        value = getattr(spec, setting.name)
        if sentence := setting.range_error_message(value):
            valid = setting.suggest_valid_number(value)
            if setting.name == "heads" and value > valid:
                valid = _largest_valid_head_count(spec, int(valid))
            found.append(Problem(setting.name, sentence, (setting.name, valid)))
    return found


def _block_problems(spec: AttentionSpec) -> list[Problem]:
    if spec.concatenated_head_width == spec.d_in:
        return []
    sentence = "A block adds the output of attention to its input, so both must have the same "
    sentence += f"size: {spec.d_in:,}, not {spec.concatenated_head_width:,}."
    parts = spec.heads if spec.arrangement is HeadArrangement.STACKED else 1
    if not spec.has_projection or spec.d_in % parts:
        return [Problem("arrangement", sentence, ("arrangement", HeadArrangement.SPLIT))]
    return [Problem("d_out", sentence, ("d_out", spec.d_in // parts))]


def _rotary_problems(spec: AttentionSpec) -> list[Problem]:
    is_rotated = spec.position is PositionKind.ROTARY and HAS_SCORES.is_met(spec)
    if not is_rotated or spec.d_head % 2 == 0:
        return []
    sentence = "Rotary positions rotate pairs of columns, so the head size must be even. "
    sentence += f"It is {spec.d_head:,}."
    field = _field_of_divided_size(spec)
    parts = spec.heads if spec.arrangement is HeadArrangement.SPLIT else 1
    wider = (spec.d_head + 1) * parts
    is_fixed = bool(spec.own_weights) or (field == "d_in" and spec.own_input is not None)
    if is_fixed or wider > MAX_VALUES[field]:
        return [Problem("position", sentence, ("position", PositionKind.NONE))]
    if (
        spec.has_transformer_block and spec.d_in == spec.d_out
    ):  # a block's output size changes with it
        field = "d_in"
    return [Problem("position", sentence, (field, wider))]


def _field_of_divided_size(spec: AttentionSpec) -> str:
    return "d_out" if spec.has_projection else "d_in"


def _largest_valid_head_count(spec: AttentionSpec, most: int) -> int:
    """Return the largest number of heads, up to ``most``, that divides the size."""
    total = (
        0
        if spec.arrangement is HeadArrangement.STACKED
        else getattr(spec, _field_of_divided_size(spec))
    )
    return next(heads for heads in range(most, 0, -1) if total % heads == 0)


def _head_problems(spec: AttentionSpec) -> list[Problem]:
    field, heads = _field_of_divided_size(spec), spec.heads
    if (
        spec.has_transformer_block and spec.d_in == spec.d_out
    ):  # a block's output size changes with it
        field = "d_in"
    total = getattr(spec, field)
    usable = 0 < total <= MAX_VALUES[field] and 0 < heads <= MAX_VALUES["heads"]
    if spec.arrangement is HeadArrangement.STACKED or not usable or total % heads == 0:
        return []
    size = "embedding size" if field == "d_in" else "output size"
    below = _largest_valid_head_count(spec, min(heads, total))
    near = range(heads + 1, min(total, MAX_VALUES["heads"]) + 1)
    above = next((more for more in near if total % more == 0), 0)
    nearest = f"{below} or {above} heads" if above else f"{below} head{'s' * (below > 1)}"
    wider = min(math.ceil(total / heads), MAX_VALUES[field] // heads) * heads
    if spec.own_weights or (field == "d_in" and spec.own_input):  # custom numbers have fixed sizes
        sentence = f"The {size} {total} cannot be split into {heads} heads. Use {nearest}."
        return [Problem("heads", sentence, ("heads", above or below))]
    sentence = f"The {size} {total} cannot be split into {heads} heads. "
    sentence += f"Use {nearest}, or the {size} {wider}."
    return [Problem("heads", sentence, (field, wider))]


def _group_problems(spec: AttentionSpec) -> list[Problem]:
    heads, groups = spec.heads, spec.key_value_heads
    if (
        not SETTINGS_BY_NAME["key_value_heads"].has_effect(spec)
        or groups < 1
        or heads % groups == 0
    ):
        return []
    nearest = next(fewer for fewer in range(min(groups, heads), 0, -1) if heads % fewer == 0)
    shown = format_number(groups)
    sentence = f"{heads:,} heads cannot share {shown} key-value heads equally. Use {nearest:,}."
    return [Problem("key_value_heads", sentence, ("key_value_heads", nearest))]


def _mask_problems(spec: AttentionSpec) -> list[Problem]:
    found = []
    if spec.mask is MaskKind.OWN and spec.own_mask is None:
        sentence = "The matrix is empty. Enter one row of 0s and 1s for each query."
        found.append(Problem("own_mask", sentence))
    if spec.normalisation is NormalisationKind.SUM and spec.lengths:
        sentence = "Padding sets scores to −∞, so padded rows have no finite sum. Use softmax."
        remedy: Remedy = ("normalisation", NormalisationKind.SOFTMAX)
        found.append(Problem("normalisation", sentence, remedy))
    elif (
        spec.normalisation is NormalisationKind.SUM
        and spec.is_masked
        and spec.route is MaskPlacement.BEFORE
    ):
        sentence = "A row that contains −∞ has no finite sum to divide by. Mask after normalizing."
        remedy = ("route", MaskPlacement.AFTER_RENORMALISED)
        found.append(Problem("normalisation", sentence, remedy))
    return found


def _custom_matrix_problems(spec: AttentionSpec) -> list[Problem]:
    found, given = [], spec.own_input
    if given and given.columns != spec.d_in:
        sentence = f"The vectors are {given.rows} × {given.columns}, but the embedding size is "
        found.append(Problem("own_input", f"{sentence}{spec.d_in}.", ("own_input", None)))
    fitting = tuple(own for own in spec.own_weights if not _size_mismatch_message(spec, *own))
    wrong = [own for own in spec.own_weights if own not in fitting][:1]
    remedy = ("own_weights", fitting)
    return found + [
        Problem("own_weights", _size_mismatch_message(spec, *own), remedy) for own in wrong
    ]


def _size_mismatch_message(spec: AttentionSpec, name: str, own: NumberMatrix) -> str:
    """Return why custom weights have the wrong name or size, or an empty string if they do not."""
    if name not in OWN_LAYERS and name not in OWN_BIASES:
        return f"Unknown weights “{name}”. Use one of: {', '.join(OWN_LAYERS)}."
    rows, columns = spec.custom_weight_sizes.get(name, (own.rows, own.columns))
    sentence = f"{name} is {own.rows} × {own.columns}, but the settings need {rows} × {columns}."
    return "" if (own.rows, own.columns) == (rows, columns) else sentence
