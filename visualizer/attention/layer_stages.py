"""Stages of a model's layer around its attention, such as norms; imports no torch.

The computation of a layer is inferred from the model instead of from a spec. Each stage has a
description of its step, from which its cells are explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.layer_operations import (
    ExpertMixture,
    HiddenActivation,
    JoinedHeads,
    LatentKeys,
    LateSink,
    LayerStep,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    ResidualStream,
    RotaryPosition,
    ScaledVector,
    ScoreBias,
    ScoreCap,
    SinkSoftmax,
)
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.stages import (
    LAYER_STAGES,
    STAGE_TABLE,
    Operation,
    Stage,
    is_always_present,
    layer_stage_symbol,
    layer_stage_title,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class LayerStageSpec(Struct, frozen=True):
    """How a layer computes a stage.

    Parameters
    ----------
    step : LayerStep or None
        The operation; None if the computation in the model is unknown.
    reads : tuple of str
        Input stages in the same layer.
    by_layer : tuple of LayerStageSpec
        How each layer computes the stage, if the layers differ; otherwise empty.
    """

    step: LayerStep | None = None
    reads: tuple[str, ...] = ()
    by_layer: tuple[LayerStageSpec, ...] = ()


SURROUNDING_STAGES = frozenset(LAYER_STAGES) - {
    *VECTOR_ROLES, Role.WEIGHTS, Role.CONCAT, Role.OUTPUT
}  # fmt: skip
"""Stages that exist only in some layers, not in every attention module."""

STEP_OPERATIONS = {
    ResidualStream: Operation.RESIDUAL_STREAM,
    NormLayer: Operation.NORM_LAYER,
    LinearLayer: Operation.LINEAR_LAYER,
    RotaryPosition: Operation.ROTARY_POSITION,
    ExpertMixture: Operation.EXPERT_MIXTURE,
    HiddenActivation: Operation.HIDDEN_ACTIVATION,
    LatentKeys: Operation.LATENT_KEYS,
    ScaledVector: Operation.SCALE_VECTOR,
    LateSink: Operation.LATE_SINK,
    JoinedHeads: Operation.CONCAT_HEADS,
    ResidualAddition: Operation.RESIDUAL_ADDITION,
    ScoreCap: Operation.CAP_SCORES,
    ScoreBias: Operation.ADD_SCORE_BIAS,
    SinkSoftmax: Operation.SOFTMAX_WITH_SINK,
}
"""Operation of each type of step."""


def _list_stage_names() -> tuple[str, ...]:
    """Return the names of all stages of modules and layers, in the order of computation."""
    own = list(dict.fromkeys(row.name for row in STAGE_TABLE))
    names = [*LAYER_STAGES]
    order: list[str] = []
    for name in own:
        if name in names:
            at = names.index(name)
            order += names[:at]
            del names[: at + 1]
        order.append(name)
    return (*order, *names)


STAGE_ORDER = _list_stage_names()

DESCRIPTIONS = {row.name: row.description for row in reversed(STAGE_TABLE)}
"""Description of each stage, by name; descriptions of module stages take precedence."""
DESCRIPTIONS |= {
    name: says for name, (_, _, says) in LAYER_STAGES.items() if name in SURROUNDING_STAGES
}


def create_layer_stages(steps: Mapping[str, LayerStageSpec]) -> tuple[Stage, ...]:
    """Return a row of the stage table for each step of a layer, in the order of computation."""
    return tuple(_create_stage(name, steps[name]) for name in LAYER_STAGES if name in steps)


def _create_stage(name: str, how: LayerStageSpec) -> Stage:
    dims, symbol, says = LAYER_STAGES[name]
    operation = STEP_OPERATIONS[type(how.step)] if how.step else Operation.CAPTURED
    if how.step is None:
        symbol = "given"
    return Stage(
        name,
        layer_stage_title(name),
        layer_stage_symbol(how.step, how.reads) or symbol,
        dims,
        operation,
        how.reads,
        (),
        (),
        says,
        is_always_present,
        step=how.step,
        by_layer=tuple(_create_stage(name, each) for each in how.by_layer),
    )
