"""Rejects arguments that would not affect the numbers or the figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import (
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    Mask,
    Mode,
    Normalisation,
    Position,
    Projection,
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


class _IneffectiveArgument(Struct, frozen=True):
    """Condition under which an argument has no effect, and the reason for the message."""

    argument: str
    when: Callable[[AttentionSpec, Given], bool]
    why: str


def _uses_scores(spec: AttentionSpec) -> bool:
    return spec.normalisation is not Normalisation.UNIFORM


def _has_own_keep_mask(spec: AttentionSpec) -> bool:
    return spec.own_kept is not None


_INEFFECTIVE_ARGUMENTS: tuple[_IneffectiveArgument, ...] = (
    _IneffectiveArgument(
        "causal", lambda spec, given: "own_mask" in given, "beside own_mask, which is the mask"
    ),
    _IneffectiveArgument(
        "causal", lambda spec, given: "mask" in given, "beside mask, which says the same"
    ),
    _IneffectiveArgument(
        "mask",
        lambda spec, given: "own_mask" in given and given["mask"] is not Mask.OWN,
        "beside own_mask, which is the mask",
    ),
    _IneffectiveArgument(
        "window",
        lambda spec, given: spec.mask is not Mask.WINDOW,
        'where mask is not "window"',
    ),
    _IneffectiveArgument("route", lambda spec, given: spec.mask is Mask.NONE, "without a mask"),
    _IneffectiveArgument(
        "output_size",
        lambda spec, given: spec.projection is Projection.NONE,
        'where projection is "none", as heads then share the embedding size',
    ),
    _IneffectiveArgument(
        "bias",
        lambda spec, given: spec.projection is not Projection.LINEAR,
        'where projection is not "linear"',
    ),
    _IneffectiveArgument(
        "feed_forward_size", lambda spec, given: not spec.has_block, "without a block"
    ),
    _IneffectiveArgument("activation", lambda spec, given: not spec.has_block, "without a block"),
    _IneffectiveArgument("arrangement", lambda spec, given: spec.heads == 1, "with one head"),
    _IneffectiveArgument(
        "scale", lambda spec, given: not _uses_scores(spec), 'where normalisation is "uniform"'
    ),
    _IneffectiveArgument(
        "temperature",
        lambda spec, given: not _uses_scores(spec),
        'where normalisation is "uniform"',
    ),
    _IneffectiveArgument(
        "mode",
        lambda spec, given: not spec.dropout and not _has_own_keep_mask(spec),
        "where dropout is 0",
    ),
    _IneffectiveArgument(
        "own_kept", lambda spec, given: spec.mode is Mode.EVAL, 'where mode is "eval"'
    ),
    _IneffectiveArgument(
        "dropout_seed", lambda spec, given: not spec.dropout, "where dropout is 0"
    ),
    _IneffectiveArgument(
        "dropout_seed", lambda spec, given: spec.mode is Mode.EVAL, 'where mode is "eval"'
    ),
    _IneffectiveArgument(
        "dropout_seed",
        lambda spec, given: _has_own_keep_mask(spec),
        "beside own_kept, which says what is kept",
    ),
    _IneffectiveArgument(
        "seed",
        lambda spec, given: not _uses_random_numbers(spec),
        "where neither vectors nor weights are drawn",
    ),
    _IneffectiveArgument(
        "tokenizer",
        lambda spec, given: "text" not in given and "vectors" in given,
        "on vectors without a text",
    ),
)


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
    for idle in _INEFFECTIVE_ARGUMENTS:
        if idle.argument in given and idle.when(spec, given):
            raise InputError(idle.argument, f"{idle.argument} has no effect {idle.why}.")
    if "mechanism" in given and all(spec_from(each) == spec for each in Mechanism):
        sentence = "mechanism has no effect where all that it decides is given."
        raise InputError("mechanism", sentence)
    _check_weights(spec)


def _check_weights(spec: AttentionSpec) -> None:
    read = read_weight_names(spec)
    for name, _ in spec.own_weights:
        if name not in read:
            has = f"It reads {', '.join(read)}" if read else "It reads no weights"
            sentence = f"weights has “{name}”, which this module does not read. {has}."
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
            sentence = f'{name} has no effect where layout is "{layout}", which shows all of them.'
            raise InputError(name, sentence)
        if given and len(given) > 1 and layout in single:
            sentence = f'Of {len(given)} {name} one has an effect where layout is "{layout}".'
            raise InputError(name, sentence)
