"""What the computation of one row does, in one plain sentence with the row's words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Mask, Normalisation
from visualizer.attention.stages import Operation
from visualizer.explanations.phrases import (
    KINDS,
    SHARES,
    all_heads,
    changed,
    divided_by,
    factor_of,
    mixed_by,
    part_of,
    projected_by,
    shared_out,
    softmax,
    taken_over,
)
from visualizer.explanations.step_values import (
    LargestValue,
    StepValues,
    all_of,
    others,
    trimmed,
    vector,
)
from visualizer.number_format import format_count, format_number, format_share

if TYPE_CHECKING:
    from collections.abc import Callable


def _given(block: StepValues) -> str:
    size = format_count(block.spec.d_in, "number")
    name = ", its embedding" if block.stage.name == "embedding" else ""
    return f"{block.query} becomes a vector of {size}{name}: {vector(block.row())}"


def _position(block: StepValues) -> str:
    place = f"place {block.at + 1}, where {block.word(block.at)} stands"
    return f"{place}, has the position vector {vector(block.row())}"


def _add(block: StepValues) -> str:
    place = f"the position vector of place {block.at + 1}"
    return f"the embedding of {block.word(block.at)} plus {place} gives its input: {_made(block)}"


def _made(block: StepValues) -> str:
    return vector(block.row())


def _project(block: StepValues) -> str:
    kind = KINDS[block.stage.name]
    made = f"the input vector of {block.query} times {projected_by(block)}"
    return f"{made} gives its {kind}: {_made(block)}"


def _split(block: StepValues) -> str:
    kind = KINDS[block.stage.name]
    taken = f"the {kind} of {block.query} is {taken_over(block)}"
    return f"with no projection, {taken}: {_made(block)}"


def _dot(block: StepValues) -> str:
    scores = block.row()
    count, top = len(scores), LargestValue.of(scores)
    query = f"the query of {block.word(block.at)} (query {block.at + 1})"
    if count == 1:
        return f"{query} meets the only key, its own: the score is {format_number(scores[0])}"
    meets = f"{query} meets {all_of(count, 'key')}"
    if top is None:
        return f"{meets}, but not every score is a finite number"
    if top.is_everywhere:
        return f"{meets}: {all_of(count, 'score')} are alike, {format_number(top.value)}"
    verb = "agrees most" if top.value >= 0 else "disagrees least"
    key = f"{block.word(top.at)} (key {top.at + 1})"
    alike = f" and {others(top.times - 1)} alike" if top.is_shared else ""
    return f"{meets}: it {verb} with {key}{alike}, {format_number(top.value)}"


def _scale(block: StepValues) -> str:
    scores, scaled = block.row("scores"), block.row()
    one = len(scores) == 1
    divided = f"the score{' of' if one else 's of'} {block.query}"
    divided += f" {'is' if one else 'are'} divided by {divided_by(block.spec)}"
    top = LargestValue.of(scaled)
    if top is None:
        return f"{divided}, but not every result is a finite number"
    if block.spec.divisor == 1:
        score = f"the {'' if one else 'largest '}score of {block.query}"
        divided, which = f"dividing by {divided_by(block.spec)} changes nothing", score
    else:
        which = "it" if one else "the largest"
    return f"{divided}: {which} {changed(scores[top.at], top.value)}"


def _may_read(block: StepValues) -> tuple[str, str]:
    """Say how many keys a query may read, and which cells the mask acts on."""
    allowed = block.allowed()[block.at]
    count, may = len(allowed), int(allowed.sum())
    left = count - may
    if may == 0:
        return f"{block.query} may read nothing", all_of(count, "{}")
    if left == 0:
        return f"{block.query} may read {all_of(count, 'key')}", ""
    rest = "the other {}" if left == 1 else f"the other {left:,} {{}}s"
    return f"{block.query} may read {may:,} of {count:,} keys", rest


def _forbid(block: StepValues) -> str:
    may, rest = _may_read(block)
    is_one = not rest.endswith("s")
    if not rest:
        return f"{may}: {'its score' if block.tokens == 1 else 'every score'} stays"
    becomes = "becomes −∞" if is_one else "become −∞"
    if block.masking.mask is Mask.NONE and rest.startswith("the other"):
        is_padding = "is padding, and its score" if is_one else "are padding, and their scores"
        rest = rest.replace(" {}s", "").replace(" {}", "")
        return f"{may}: {rest} {is_padding} {becomes}"
    return f"{may}: {rest.format('score')} {becomes}"


def _zero(block: StepValues) -> str:
    may, rest = _may_read(block)
    weights = block.row()
    total = trimmed(float(weights.sum()))
    sums = f"the row now sums to {total}" if np.isfinite(weights).all() else "the row has no sum"
    if not rest:
        stays = "its weight stays" if block.tokens == 1 else "every weight stays"
        return f"{may}: {stays}" if np.isfinite(weights).all() else f"{may}, but {sums}"
    becomes = f"{rest.format('weight')} {'are' if rest.endswith('s') else 'is'} set to 0"
    return f"{may}: {becomes}" if not weights.any() else f"{may}: {becomes}, and {sums}"


def _normalise(block: StepValues) -> str:
    before = "before the mask, " if block.is_before else ""
    weights = block.row()
    if block.reads == "masked" and not block.allowed()[block.at].any():
        return _nothing(block)
    if not np.isfinite(weights).all():
        return f"{before}{block.query} has no weights: its row cannot be worked out"
    if block.spec.normalisation is Normalisation.SUM:
        total = trimmed(float(block.row(block.reads).sum()))
        shared = f"each score of {block.query} is divided by the row’s sum, {total}"
    elif len(weights) == 1:
        shared = f"{softmax(block.spec)} turns the score of {block.query} into a share of 1"
    else:
        shares = f"the scores of {block.query} into {SHARES}"
        shared = f"{softmax(block.spec)} turns {shares}"
    return f"{before}{shared}: {shared_out(block, weights)}"


def _nothing(block: StepValues) -> str:
    weights = "its weight is 0" if block.tokens == 1 else "its weights are all 0"
    return f"{block.query} may read nothing: {weights}"


def _average(block: StepValues) -> str:
    weights = block.row()
    keys = np.flatnonzero(weights)
    if len(keys) == 0:
        return _nothing(block)
    before, reads = ("before the mask, ", "would read") if block.is_before else ("", "reads")
    part = format_share(float(weights[keys[0]]))
    if len(keys) == 1:
        return f"{before}{block.query} {reads} {part} from {block.key(int(keys[0]))}, its only key"
    if len(keys) == len(weights):
        return f"{before}{block.query} {reads} {all_of(len(keys), 'key')} alike, {part} from each"
    if block.is_before:
        return f"{before}{block.query} {reads} {len(keys):,} keys alike, {part} from each"
    return f"{block.query} may read {len(keys):,} keys, and reads {part} from each"


def _renormalise(block: StepValues) -> str:
    weights, zeroed = block.row(), block.row("zeroed")
    if not block.allowed()[block.at].any():
        return _nothing(block)
    if not np.isfinite(weights).all():
        return f"{block.query} has no weights: its row cannot be worked out"
    if not zeroed.any():
        return f"the weights of {block.query} are all 0, so there is nothing to share out"
    total = trimmed(float(zeroed.sum()))
    divided = f"the weights of {block.query} are divided by their sum, {total}"
    return f"{divided}: {shared_out(block, weights)}"


def _drop(block: StepValues) -> str:
    weights, dropped = block.row("weights"), block.row()
    count = int(np.count_nonzero(weights))
    lost = int(((weights != 0) & (dropped == 0)).sum())
    if count == 0:
        return f"{block.query} has no weights that dropout could take: its row stays 0"
    kind = "weight" if count == block.allowed()[block.at].sum() else "nonzero weight"
    total = float(dropped.sum())
    sums = f"the row now sums to {trimmed(total)}" if np.isfinite(total) else "the row has no sum"
    if lost == count:
        return f"dropout takes {all_of(count, kind)} of {block.query}: nothing is left to read"
    kept = factor_of(block.spec)
    if lost == 0:
        each = "it" if count == 1 else "each"
        return f"dropout keeps {all_of(count, kind)} of {block.query}; {each} {kept}, and {sums}"
    takes = f"dropout takes {lost:,} of the {count:,} {kind}s of {block.query}"
    return f"{takes}; the rest {kept}, and {sums}"


def _mix(block: StepValues) -> str:
    weights = block.row(block.reads)
    mixed = block.row()
    keys = np.flatnonzero(weights)
    vector_of = f"the context vector of {block.query}"
    if not (np.isfinite(weights).all() and np.isfinite(mixed).all()):
        return f"{vector_of} cannot be worked out: not every number is finite"
    if len(keys) == 0:
        return f"{block.query} reads nothing: its context vector is all 0"
    if len(keys) == 1:
        part = part_of(weights, float(weights[keys[0]]))
        return f"{vector_of} is {part} the value of {block.key(int(keys[0]))}: {vector(mixed)}"
    parts = mixed_by(block, weights, keys)
    return f"{block.query} mixes {parts}, into its context vector: {vector(mixed)}"


def _join(block: StepValues) -> str:
    if block.spec.heads == 1:
        return (
            f"with one head, the context vector of {block.query} goes on as it is: {_made(block)}"
        )
    heads = all_heads(block.spec)
    return f"the context vectors of {block.query} from {heads} are set side by side: {_made(block)}"


def _project_out(block: StepValues) -> str:
    size = format_count(block.spec.width, "number")
    mixes = f"the output projection {'turns' if block.spec.width == 1 else 'mixes'} the {size}"
    return f"{mixes} of {block.query} into its output: {_made(block)}"


def _captured(block: StepValues) -> str:
    name, kind = block.stage.title.lower(), block.stage.title.lower().removesuffix("s")
    read = f"the {name} of {block.query} were read from a file"
    top = LargestValue.of(block.row())
    if top is None:
        return f"{read}; not every number is finite"
    if top.is_shared:
        return f"{read}; the largest, {format_number(top.value)}, appears {top.times:,} times"
    return f"{read}; the largest {kind}, {format_number(top.value)}, is that of {block.key(top.at)}"


ROWS: dict[Operation, Callable[[StepValues], str]] = {
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
