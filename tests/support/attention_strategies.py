"""Hypothesis strategies for specifications and texts that are small enough to check every cell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from visualizer.attention.run import Run, run
from visualizer.attention.spec import (
    PROJECTION_LAYERS,
    Activation,
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.session.timeline import Step, StepSize, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.spec import Texts
    from visualizer.attention.trace import Trace

WORDS = (
    *("Your", "journey", "starts", "with", "one", "step"),
    *("猫", "は", "سلام", "кот", "नमस्ते", "שלום", "ﬁ", "e\u0301", "é"),
    *("🙂", "👩\u200d👩\u200d👧", " ", "\t", "\n", "<|endoftext|>", "0"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A computable specification and texts for it."""

    texts: Texts
    spec: AttentionSpec

    def run(self) -> Run:
        return run(self.texts, self.spec)

    def trace(self) -> Trace:
        return self.run().trace


def tokens() -> st.SearchStrategy[str]:
    """Draw words in several scripts and arbitrary characters, including lone surrogates."""
    anything = st.text(st.characters(exclude_categories=()), max_size=3)
    return st.sampled_from(WORDS) | anything


def texts(least: int = 1, most: int = 5) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(tokens(), min_size=least, max_size=most).map(tuple)


class Batch(Enum):
    """Number of texts in a batch, and whether the texts have the same length."""

    ANY = auto()
    EVEN = auto()
    RAGGED = auto()

    def sizes(self, most_tokens: int) -> st.SearchStrategy[list[int]]:
        size = st.integers(1, most_tokens)
        if self is Batch.EVEN:
            return st.builds(lambda count, tokens: count * [tokens], st.integers(2, 3), size)
        if self is Batch.RAGGED:
            return st.lists(size, min_size=2, max_size=3, unique=True)
        return st.lists(size, min_size=1, max_size=2)


@st.composite
def matrices(draw: st.DrawFn, size: int) -> BooleanMatrix:
    """Draw square matrices, often with a row in which everything is forbidden."""
    row = st.lists(st.booleans(), min_size=size, max_size=size)
    rows = st.just([False] * size) | row
    return BooleanMatrix.from_array(np.array(draw(st.lists(rows, min_size=size, max_size=size))))


@st.composite
def numbers(draw: st.DrawFn, rows: int, columns: int) -> NumberMatrix:
    """Draw multiples of 0.25, often with zeros and equal rows."""
    row = st.lists(st.integers(-12, 12), min_size=columns, max_size=columns)
    drawn = draw(st.lists(row, min_size=rows, max_size=rows))
    return NumberMatrix.from_array(np.array(drawn) / 4)


@st.composite
def own_weights(draw: st.DrawFn, spec: AttentionSpec) -> tuple[tuple[str, NumberMatrix], ...]:
    """Draw custom weights that fit a specification, for some layers in any order."""
    width, hidden = spec.concatenated_head_width, spec.d_ff or 4 * spec.d_in
    is_free = spec.projection is Projection.NONE
    sizes = {} if is_free else dict.fromkeys(PROJECTION_LAYERS, (spec.d_in, width))
    if sizes and spec.arrangement is HeadArrangement.SPLIT and spec.key_value_heads:
        shared = (spec.d_in, width // spec.heads * spec.key_value_heads)
        sizes |= {"W_key": shared, "W_value": shared}
    if spec.output_projection:
        sizes["W_output"] = (width, width)
    if spec.block is TransformerBlockKind.PRE_NORM:
        sizes |= {"ln1": (1, spec.d_in), "ln2.bias": (1, spec.d_in)}
        sizes |= {"linear1": (spec.d_in, hidden), "linear2": (hidden, spec.d_in)}
    named = draw(st.lists(st.sampled_from([*sizes]), min_size=1, unique=True))
    return tuple((name, draw(numbers(*sizes[name]))) for name in named)


SEEDS = st.integers(0, 2**31 - 1)

# Fields whose values are valid with any values of the other fields.
FREE: dict[str, st.SearchStrategy[Any]] = {
    "bias": st.booleans(),
    "d_ff": st.integers(0, 5),
    "activation": st.sampled_from(Activation),
    "output_projection": st.booleans(),
    "position": st.sampled_from(PositionKind),
    "scale": st.sampled_from(ScaleKind),
    "temperature": st.just(1.0) | st.floats(0.05, 20),
    "mask": st.sampled_from(MaskKind),
    "window": st.integers(1, 4),
    "dropout": st.just(0.0) | st.floats(0, 0.9),
    "dropout_seed": SEEDS,
    "mode": st.sampled_from(DropoutMode),
    "seed": SEEDS,
    "dtype": st.sampled_from(Dtype),
    "device": st.just(Device.CPU),
}


@st.composite
def specs(
    draw: st.DrawFn, /, size: int, padded: bool = False, texts: int = 1, **fixed: Any
) -> AttentionSpec:
    """Draw a specification for texts with this number of tokens; some fields can be fixed."""
    drawn = dict(fixed)

    def pick(field: str, strategy: st.SearchStrategy[Any]) -> Any:
        if field not in drawn:
            drawn[field] = draw(strategy)
        return drawn[field]

    in_block = "d_in" not in drawn and "d_out" not in drawn
    blocks = st.sampled_from(
        [TransformerBlockKind.NONE, TransformerBlockKind.NONE, TransformerBlockKind.PRE_NORM]
        if in_block
        else [TransformerBlockKind.NONE]
    )
    has_block = pick("block", blocks) is TransformerBlockKind.PRE_NORM
    for field, strategy in FREE.items():
        pick(field, strategy)
    pick("own_mask", matrices(size))
    pick("own_kept", st.none() | matrices(size))
    heads = pick("heads", st.integers(1, 4))
    pick(
        "key_value_heads", st.sampled_from([0, *(n for n in range(1, heads + 1) if heads % n == 0)])
    )
    columns = st.integers(1, 3)
    if pick("arrangement", st.sampled_from(HeadArrangement)) is HeadArrangement.SPLIT:
        columns = columns.map(lambda each: each * heads)
    is_free = pick("projection", st.sampled_from(Projection)) is Projection.NONE
    if has_block:
        _pick_block_sizes(pick, drawn, columns, is_free=is_free)
    pick("d_in", columns if is_free else st.integers(1, 4))
    pick("d_out", st.integers(1, 4) if is_free else columns)
    sums = [] if padded else [NormalisationKind.SUM]
    others = [kind for kind in NormalisationKind if kind is not NormalisationKind.SUM]
    divides = pick("normalisation", st.sampled_from(others + sums)) is NormalisationKind.SUM
    is_late = divides and drawn["mask"] is not MaskKind.NONE
    pick("route", st.sampled_from([*MaskPlacement][is_late:]))
    spec = AttentionSpec(**drawn)
    if spec.d_head % 2 and spec.position is PositionKind.ROTARY:
        spec = replace(spec, position=PositionKind.NONE)
    if texts == 1 and "own_input" not in drawn and is_rare(draw):
        spec = replace(spec, own_input=draw(numbers(size, spec.d_in)))
    has_weights = not is_free or spec.output_projection
    if has_weights and "own_weights" not in drawn and is_rare(draw):
        spec = replace(spec, own_weights=draw(own_weights(spec)))
    return spec


def _pick_block_sizes(
    pick: Callable[[str, st.SearchStrategy[Any]], Any],
    drawn: dict[str, Any],
    columns: st.SearchStrategy[int],
    *,
    is_free: bool,
) -> None:
    """Draw sizes that are valid for a block: all heads together are as wide as the input."""
    if is_free and drawn["heads"] > 1:
        drawn["arrangement"] = HeadArrangement.SPLIT
        pick("d_in", st.integers(1, 2).map(lambda each: each * drawn["heads"]))
    elif drawn["arrangement"] is HeadArrangement.STACKED:
        d_out = pick("d_out", columns)
        drawn["d_in"] = d_out * drawn["heads"]
    else:
        drawn["d_in"] = pick("d_out", columns)


def is_rare(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 3)) == 3


@st.composite
def cases(draw: st.DrawFn, /, batch: Batch = Batch.ANY, most_tokens: int = 5, **fixed: Any) -> Case:
    """Draw texts and a specification for them; some fields can be fixed."""
    sizes = draw(batch.sizes(most_tokens))
    drawn = tuple(draw(texts(size, size)) for size in sizes)
    return Case(drawn, draw(specs(max(sizes), len(set(sizes)) > 1, len(sizes), **fixed)))


def drawn_step(data: st.DataObject, run: Run, grain: StepSize) -> tuple[int, Step]:
    """Draw a text of a run and a playback step."""
    line = Timeline.from_trace(run.trace, grain)
    place = line.position_of_step(data.draw(st.integers(0, len(line) - 1)))
    assert place is not None
    return data.draw(st.integers(0, len(run.texts) - 1)), line.step_at(place)
