"""What the computation of a whole stage does, in one plain sentence with a fact of its matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Mask, Normalisation, Position
from visualizer.attention.stages import Operation
from visualizer.explanations.phrases import (
    KINDS,
    SHARES,
    all_heads,
    changed,
    divided_by,
    factor_of,
    projected_by,
    softmax,
    taken_over,
)
from visualizer.explanations.step_values import LargestValue, StepValues, all_of, others, trimmed
from visualizer.number_format import format_count, format_number, format_share

if TYPE_CHECKING:
    from collections.abc import Callable

UNFINISHED = "not every number is finite"
NOTHING = "no token may read anything: all weights are 0"


def _largest_number(block: StepValues, name: str = "the largest number") -> str:
    """Say where the largest number of a stage of vectors is."""
    numbers = block.matrix()
    top = LargestValue.of(numbers)
    if top is None:
        return UNFINISHED
    if top.is_everywhere:
        return f"all numbers are {format_number(top.value)}"
    if top.is_shared:
        return f"{name}, {format_number(top.value)}, appears {top.times:,} times"
    row, column = divmod(top.at, numbers.shape[1])
    is_place = block.stage.operation is Operation.POSITION
    whose = f"place {row + 1}" if is_place else block.key(row).replace("(key ", "(place ")
    where = f"in column {column + 1} of {whose}" if numbers.shape[1] > 1 else f"that of {whose}"
    return f"{name}, {format_number(top.value)}, is {where}"


def _given(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    each = f"each of {block.tokens:,} tokens becomes a vector of {size}{name}"
    return f"{each}; {_largest_number(block)}"


def _position(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    made = "learned" if block.spec.position is Position.LEARNED else "made of sines and cosines"
    each = f"each of {block.tokens:,} places has a vector of {size}, {made}"
    return f"{each}; {_largest_number(block, 'the largest')}"


def _add(block: StepValues) -> str:
    return f"embedding and position are added, number by number; {_largest_number(block)}"


def _project(block: StepValues) -> str:
    size = format_count(block.spec.d_head, "number")
    gives = f"gives a {KINDS[block.stage.name]} of {size}"
    largest = _largest_number(block, "the largest")
    return f"each input vector times {projected_by(block)} {gives}; {largest}"


def _split(block: StepValues) -> str:
    taken = f"each token’s {KINDS[block.stage.name]} is {taken_over(block)}"
    return f"with no projection, {taken}; {_largest_number(block)}"


def _dot(block: StepValues) -> str:
    top = LargestValue.of(block.matrix())
    meet = "each query meets each key in a dot product"
    if top is None:
        return f"{meet}; not every score is finite"
    score = format_number(top.value)
    if top.is_everywhere:
        return f"{meet}; all {top.count:,} scores are alike, {score}"
    largest = f"{meet}; of {top.count:,} scores the largest, {score},"
    if top.is_shared:
        return f"{largest} appears {top.times:,} times"
    query, key = divmod(top.at, block.tokens)
    return f"{largest} is where {block.named(query, 'query')} meets {block.key(key)}"


def _scale(block: StepValues) -> str:
    divided = f"every score is divided by {divided_by(block.spec)}"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{divided}; {UNFINISHED}"
    score = float(block.matrix("scores").flat[top.at])
    if block.spec.divisor == 1:
        divided = f"dividing by {divided_by(block.spec)} changes no score"
    return f"{divided}; the largest {changed(score, top.value)}"


def _rule(block: StepValues) -> str:
    """Say what is forbidden, and whether it is the mask or the padding."""
    masking, before = block.masking, block.masking.window - 1
    window = (
        "itself and the one before it" if before == 1 else f"itself and the {before:,} before it"
    )
    rules = {
        Mask.NONE: "padding may not be read" if block.is_padded else "this text has no padding",
        Mask.CAUSAL: "no token may read what comes after it",
        Mask.WINDOW: f"each token may read {window if before else 'only itself'}",
        Mask.OWN: "the mask you gave says what may be read",
    }
    padding = masking.mask is not Mask.NONE and block.is_padded
    return rules[masking.mask] + ", and none may read padding" * padding


def _forbidden(block: StepValues, noun: str, one: str, many: str) -> str:
    allowed = block.allowed()
    count, left = allowed.size, allowed.size - int(allowed.sum())
    if left == 0:
        return f"{_rule(block)}: all {count:,} {noun}s stay"
    if left == count:
        return f"{_rule(block)}: all {count:,} {noun}s {many}"
    return f"{_rule(block)}: {left:,} of {count:,} {noun}s {one if left == 1 else many}"


def _forbid(block: StepValues) -> str:
    return _forbidden(block, "score", "becomes −∞", "become −∞")


def _zero(block: StepValues) -> str:
    return _forbidden(block, "weight", "is set to 0", "are set to 0")


def _most_read(block: StepValues) -> str:
    """Say which token is read most on average over all queries."""
    weights = block.matrix()
    low, high = float(weights.min()), float(weights.max())
    if not np.isfinite([low, high]).all():
        rows = int((~np.isfinite(weights).all(axis=1)).sum())
        return f"but {rows:,} of {len(weights):,} rows cannot be worked out"
    if low < 0 or high > 1:
        return f"the weights run from {format_number(low)} to {format_number(high)}"
    top = LargestValue.of(weights.mean(axis=0, dtype=np.float64))
    if top is None or top.value == 0:
        return "all weights are 0"
    part, tense = format_share(top.value), "would be" if block.is_before else "are"
    if top.is_everywhere:
        return f"on average all keys {tense} read alike, {part} each"
    if top.is_shared:
        more = others(top.times - 1)
        return f"on average {block.key(top.at)} and {more} {tense} read most, {part} each"
    tense = "would be" if block.is_before else "is"
    return f"on average {block.key(top.at)} {tense} read most, {part}"


def _empty_rows(cells: np.ndarray) -> str:
    """Say how many rows have nothing to share out: nothing allowed, or nothing but zeros."""
    count = len(cells) - int(np.count_nonzero(cells.any(axis=1)))
    if count == 0:
        return ""
    return (
        f", but {format_count(count, 'row')} {'has' if count == 1 else 'have'} nothing to share out"
    )


def _normalise(block: StepValues) -> str:
    before = "before the mask, " if block.is_before else ""
    if block.reads == "masked" and not block.allowed().any():
        return NOTHING
    made = f"{softmax(block.spec)} turns each row of scores into {SHARES}"
    if block.spec.normalisation is Normalisation.SUM:
        made = "each score is divided by its row’s sum"
    empty = _empty_rows(block.allowed()) if block.reads == "masked" else ""
    return f"{before}{made}{empty or '; ' + _most_read(block)}"


def _average(block: StepValues) -> str:
    allowed = block.allowed()
    before, would = ("before the mask, ", True) if block.is_before else ("", False)
    each = f"{before}each of {block.tokens:,} tokens {'would read' if would else 'reads'}"
    if not allowed.any():
        return NOTHING
    if allowed.all():
        return f"{each} all keys alike, {format_share(1 / block.tokens)} from each"
    some = f"{each} equal parts of the keys it may read"
    return some + (_empty_rows(allowed) or f"; {_most_read(block)}")


def _renormalise(block: StepValues) -> str:
    zeroed = block.matrix("zeroed")
    if not zeroed.any():
        return "all weights are 0, so there is nothing to share out"
    return "each row is divided by its sum" + (_empty_rows(zeroed) or f"; {_most_read(block)}")


def _drop(block: StepValues) -> str:
    weights, dropped = block.matrix("weights"), block.matrix()
    count = int(np.count_nonzero(weights))
    lost = int(((weights != 0) & (dropped == 0)).sum())
    if count == 0:
        return "there are no weights that dropout could take: all stay 0"
    sums = dropped.sum(axis=1, dtype=np.float64)
    low, high = trimmed(float(sums.min())), trimmed(float(sums.max()))
    lie = f"row sums now lie between {low} and {high}"
    run = f"every row now sums to {low}" if low == high else lie
    run = run if np.isfinite(sums).all() else "not every row has a sum"
    kind = "weight" if count == block.allowed().sum() else "nonzero weight"
    if lost == count:
        return f"dropout takes {all_of(count, kind)}: nothing is left to read"
    kept = factor_of(block.spec)
    if lost == 0:
        each = "it" if count == 1 else "each"
        return f"dropout keeps {all_of(count, kind)}; {each} {kept}, and {run}"
    return f"dropout takes {lost:,} of the {count:,} {kind}s; the rest {kept}, and {run}"


def _mix(block: StepValues) -> str:
    made = "each token’s weights mix the values into its context vector"
    return f"{made}; {_largest_number(block)}"


def _join(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    if block.spec.heads == 1:
        return f"with one head, the context vectors go on as they are; {_largest_number(block)}"
    heads = all_heads(block.spec)
    joined = f"the context vectors from {heads} are set side by side, {size} a token"
    return f"{joined}; {_largest_number(block)}"


def _project_out(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    verb = "turns" if block.spec.width == 1 else "mixes"
    mixes = f"the output projection {verb} the {size} of each token into its output"
    return f"{mixes}; {_largest_number(block)}"


def _captured(block: StepValues) -> str:
    name, kind = block.stage.title.lower(), block.stage.title.lower().removesuffix("s")
    read = f"all {name} were read from a file"
    top = LargestValue.of(block.matrix())
    if top is None:
        return f"{read}; {UNFINISHED}"
    if top.is_shared:
        return (
            f"{read}; the largest {kind}, {format_number(top.value)}, appears {top.times:,} times"
        )
    query, key = divmod(top.at, block.matrix().shape[1])
    pair = f"{block.named(query, 'query')} and {block.key(key)}"
    return f"{read}; the largest {kind}, {format_number(top.value)}, is that of {pair}"


STAGES: dict[Operation, Callable[[StepValues], str]] = {
    Operation.GIVEN: _given,
    Operation.POSITION: _position,
    Operation.ADD: _add,
    Operation.PROJECT: _project,
    Operation.SPLIT: _split,
    Operation.DOT: _dot,
    Operation.SCALE: _scale,
    Operation.FORBID: _forbid,
    Operation.NORMALISE: _normalise,
    Operation.AVERAGE: _average,
    Operation.ZERO: _zero,
    Operation.RENORMALISE: _renormalise,
    Operation.DROP: _drop,
    Operation.MIX: _mix,
    Operation.JOIN: _join,
    Operation.PROJECT_OUT: _project_out,
    Operation.CAPTURED: _captured,
}
