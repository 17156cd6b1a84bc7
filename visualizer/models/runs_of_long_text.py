"""Builds runs from the recorded calls of a long text: one run per group of identical layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.blockwise_captured_run import LongAttention, blockwise_captured_run
from visualizer.models.run_from_attention_calls import (
    LayerGroup,
    LayerRun,
    layers_in_words,
    module_family,
    numbered_by_layer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.models.long_text_recorder import LongTextCall


def runs_of_long_text(
    calls: Sequence[LongTextCall], name: str, tokens: tuple[str, ...], device: str
) -> tuple[LayerRun, ...]:
    """Return the runs of one pass, in order of the first call of each group."""
    groups: dict[tuple[object, ...], list[tuple[int, LongTextCall]]] = {}
    for number, call in numbered_by_layer(calls):
        groups.setdefault((module_family(call.module), *_grouping_key(call)), []).append(
            (number, call)
        )
    found = []
    for members in groups.values():
        numbers, own = zip(*members, strict=True)
        one = own[0]
        attention = LongAttention(
            layers_in_words(numbers, name),
            tuple(call.vectors for call in own),
            tokens,
            one.scaling,
            one.softcap,
        )
        group = LayerGroup(module_family(one.module), numbers, (), ())
        found.append(LayerRun(group, blockwise_captured_run(attention, device)))
    return tuple(found)


def _grouping_key(call: LongTextCall) -> tuple[object, ...]:
    vectors = call.vectors
    shapes = (vectors.queries.shape, vectors.keys.shape, vectors.values.shape)
    return (*shapes, call.scaling, call.softcap, vectors.sinks is None)
