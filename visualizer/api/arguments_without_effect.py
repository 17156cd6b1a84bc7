"""Rejects arguments that would not affect the numbers or the figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.settings import BY_NAME, without_effect
from visualizer.attention.spec import (
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    Mask,
    Position,
)
from visualizer.attention.stages import stages
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Given = Mapping[str, Any]
    """The given arguments by name, converted to their types."""

OWN = {**OWN_LAYERS, **OWN_BIASES}
"""Names of weights and biases, with their layers."""
ARGUMENTS = {
    "d_in": "embedding_size",
    "d_out": "output_size",
    "d_ff": "feed_forward_size",
    "own_input": "vectors",
    "own_weights": "weights",
}
"""Arguments of settings that have a different name in a spec."""


def _uses_random_numbers(spec: AttentionSpec) -> bool:
    own = {name for name, _ in spec.own_weights}
    is_learned = spec.position is Position.LEARNED
    is_drawn = spec.own_input is None or is_learned or spec.has_block
    return is_drawn or not own.issuperset(read_weight_names(spec))


def read_weight_names(spec: AttentionSpec) -> tuple[str, ...]:
    """Return the names of the weights and biases that the spec's stages use."""
    layers = {layer for stage in stages(spec) for layer in stage.parameters}
    return tuple(name for name in spec.own_sizes if OWN[name] in layers)


def check_effects(
    spec: AttentionSpec,
    given: Given,
    spec_from: Callable[[Mechanism], AttentionSpec],
) -> None:
    """Reject the first argument that has no effect.

    Parameters
    ----------
    spec : AttentionSpec
        The spec built from the arguments.
    given : mapping
        The given arguments.
    spec_from : callable
        Builds the spec from the same arguments with another mechanism.

    Raises
    ------
    InputError
        With the name of the argument and the reason why it has no effect.
    """
    _check_conflicts(given)
    for name in BY_NAME:
        argument = argument_of(name)
        sentence = without_effect(spec, name, _word_argument) if argument in given else ""
        if sentence:
            raise InputError(argument, sentence)
    if "seed" in given and not _uses_random_numbers(spec):
        _reject("seed", "if all vectors and weights are given")
    if "tokenizer" in given and "text" not in given and "vectors" in given:
        _reject("tokenizer", "without a text")
    if "mechanism" in given and all(spec_from(each) == spec for each in Mechanism):
        _reject("mechanism", "if everything that it determines is given")
    _check_weights(spec)


def _check_conflicts(given: Given) -> None:
    """Reject arguments that determine the same setting."""
    if "own_mask" in given and given.get("mask", Mask.OWN) is not Mask.OWN:
        _reject_combination("mask", "own_mask")
    for other in ("own_mask", "mask"):
        if "causal" in given and other in given:
            _reject_combination("causal", other)


def _reject_combination(argument: str, other: str) -> None:
    raise InputError(argument, f"{argument} cannot be combined with {other}. Remove one of them.")


def _reject(argument: str, condition: str) -> None:
    raise InputError(argument, f"{argument} has no effect {condition}. Remove it.")


def argument_of(field: str) -> str:
    """Return the name of the argument for a field of a spec."""
    return ARGUMENTS.get(field, field)


def _word_argument(field: str, value: object) -> str:
    name = argument_of(field)
    return name if value is None else f'{name}="{value}"'


def _check_weights(spec: AttentionSpec) -> None:
    read = read_weight_names(spec)
    for name, _ in spec.own_weights:
        if name not in read:
            has = f"It uses {', '.join(read)}" if read else "It has no weights"
            sentence = f"weights contains “{name}”, which this module does not use. {has}."
            raise InputError("weights", sentence)


_ONE_HEAD = (FigureExtent.PANEL, FigureExtent.CELLS, FigureExtent.HEAD)


def check_layout(
    layout: FigureExtent, stages: frozenset[str] | None, heads: frozenset[int] | None
) -> None:
    """Reject stages or heads that a figure of this layout would not use.

    Raises
    ------
    InputError
        With the name of the argument and the layout.
    """
    everything = FigureExtent.ALL
    for name, given, whole, single in (
        ("stages", stages, FigureExtent.STAGES, (FigureExtent.PANEL, FigureExtent.CELLS)),
        ("heads", heads, FigureExtent.HEADS, _ONE_HEAD),
    ):
        if given and layout in {whole, everything}:
            sentence = (
                f'{name} has no effect with layout="{layout}", which shows all of them. Remove it.'
            )
            raise InputError(name, sentence)
        if given and len(given) > 1 and layout in single:
            sentence = f'layout="{layout}" shows only one of the {len(given)} {name}. Pass one.'
            raise InputError(name, sentence)
