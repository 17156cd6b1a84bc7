"""A run in one line: what stands under an exported picture, so that it can be made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.mechanisms import TITLES, mechanism_of
from visualizer.attention.spec import Mask, Normalisation, Position, Projection, Route, Scale
from visualizer.state.words import counted

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec

_MASKS = {Mask.CAUSAL: "causal mask", Mask.OWN: "own mask", Mask.NONE: "no mask"}
_SCALES = {
    Scale.NONE: "not scaled",
    Scale.D_HEAD: "÷ √head size",
    Scale.D_MODEL: "÷ √embedding size",
}
_ROUTES = {Route.AFTER: "after softmax", Route.AFTER_RENORMALISED: "after softmax, renormalised"}


def caption(run: Run) -> str:
    """Describe how a run's numbers came about."""
    spec = run.trace.spec
    parts = [
        TITLES[mechanism_of(spec)],
        counted(run.trace.tokens, "token"),
        _sizes(spec),
        _mask(spec),
        *_extras(spec),
        f"seed {spec.seed}",
        f"{spec.dtype}, {run.device}",
    ]
    return " · ".join(parts)


def _sizes(spec: AttentionSpec) -> str:
    heads = f"{counted(spec.heads, 'head')} of {spec.d_head}"
    return f"embedding {spec.d_in}, {heads}"


def _mask(spec: AttentionSpec) -> str:
    mask = f"window of {spec.window}" if spec.mask is Mask.WINDOW else _MASKS[spec.mask]
    route = f" {_ROUTES[spec.route]}" if spec.is_masked and spec.route in _ROUTES else ""
    return mask + route


def _extras(spec: AttentionSpec) -> list[str]:
    extras = []
    if spec.drops:
        extras.append(f"dropout {spec.dropout:g} (seed {spec.dropout_seed})")
    if spec.projection is Projection.UNIFORM:
        extras.append("uniform weights")
    if spec.position is not Position.NONE:
        extras.append(f"{spec.position} positions")
    if spec.normalisation is not Normalisation.SOFTMAX:
        extras.append(f"normalisation: {spec.normalisation}")
    if spec.scale is not Scale.D_HEAD and spec.normalisation is not Normalisation.UNIFORM:
        extras.append(_SCALES[spec.scale])
    if spec.temperature != 1:
        extras.append(f"temperature {spec.temperature:g}")
    return extras
