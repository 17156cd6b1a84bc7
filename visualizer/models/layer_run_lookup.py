"""Looks up kinds of attention, layers and head measures in the runs of a model's layers."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from visualizer.attention.model_forward_pass import AttentionKind
from visualizer.attention.roles import Role
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from visualizer.models.recorded_runs import LayerGroupRun

HEAD_MEASURES = (
    "previous", "first", "own", "induction", "duplicate", "largest", "entropy", "distance",
    "value_weighting",
)  # fmt: skip
"""Names of the head measures, as in `HeadMeasures`."""


def attention_part_names(runs: Iterable[LayerGroupRun]) -> tuple[str, ...]:
    """Return the name of each kind of attention; all layers of a kind have the same name."""
    return tuple(dict.fromkeys(each.group.name for each in runs))


def attention_part_titles(runs: Iterable[LayerGroupRun]) -> tuple[tuple[str, str], ...]:
    """Return the kinds of attention, each with its display name, as in `attention_part_names`."""
    first = {each.group.name: each for each in reversed([*runs])}
    words = {name: _attention_part_title(each) for name, each in reversed(first.items())}
    are_apart = len({*words.values()}) == len(words)
    return tuple((name, title if are_apart else name) for name, title in words.items())


def _attention_part_title(run: LayerGroupRun) -> str:
    if run.group.is_cross:
        return AttentionKind.CROSS
    of_decoder = is_decoder_part(run.group.name)
    return AttentionKind.DECODER if of_decoder else AttentionKind.ENCODER


def is_decoder_part(part: str) -> bool:
    """Return whether the path of an attention module is that of a decoder's module."""
    return any(step.startswith("decoder") for step in part.split("."))


def find_runs_of_part(runs: Sequence[LayerGroupRun], name: str) -> tuple[LayerGroupRun, ...]:
    """Return the runs of a part, given its name, a component of its name or a unique substring.

    Raise an `InputError` with field ``part`` unless exactly one part matches.
    """
    names = attention_part_names(runs)
    matching = {name} if name in names else {each for each in names if name in each.split(".")}
    matching = matching or {each for each in names if name in each}
    if len(matching) != 1:
        sentence = f"“{name[:60]}” must match exactly one of {', '.join(names)}."
        raise InputError("part", sentence)
    return tuple(each for each in runs if each.group.name in matching)


def require_single_part(runs: Sequence[LayerGroupRun]) -> tuple[LayerGroupRun, ...]:
    """Return the runs; raise an `InputError` with field ``part`` if they have several parts."""
    names = attention_part_names(runs)
    if len(names) > 1:
        sentence = f"The model has several kinds of attention. Select one of {', '.join(names)}."
        raise InputError("part", sentence)
    return tuple(runs)


def layer_numbers(runs: Iterable[LayerGroupRun]) -> tuple[int, ...]:
    """Return the numbers of all layers in the model, in ascending order."""
    return tuple(sorted({layer for each in runs for layer in each.group.layers}))


def find_layer_run(runs: Iterable[LayerGroupRun], layer: int) -> tuple[LayerGroupRun, int] | None:
    """Return the run that contains a layer, and the layer's index in it; None if there is none."""
    for each in runs:
        if layer in each.group.layers:
            return each, each.group.layers.index(layer)
    return None


def list_head_measure_rows(runs: Iterable[LayerGroupRun]) -> list[dict[str, float]]:
    """Return one row per head: its layer and head numbers, from 0, and its `HEAD_MEASURES`.

    For a batch, there is one row per head and text, which begins with the number of the text.
    """
    rows = []
    for each in runs:
        run, trace = each.run, each.run.trace
        texts = () if each.group.is_cross else run.key_texts
        measures = trace.head_measures(Role.WEIGHTS, texts)
        for leading, head in product(trace.leading_indices(), range(trace.spec.heads)):
            row = {
                "layer": each.group.layers[trace.axis_position("layer", leading)],
                "head": head,
                **{name: float(getattr(measures, name)[*leading, head]) for name in HEAD_MEASURES},
            }
            is_batch = "text" in trace.axes
            rows.append({"text": trace.axis_position("text", leading), **row} if is_batch else row)
    return sorted(rows, key=lambda row: (row.get("text", 0), row["layer"], row["head"]))
