"""What the experts of a layer make of each token, one by one, as their model computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct

from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.models.layer_numbers import vectors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from visualizer.models.layer_recorder import ModulePass

CLOSE = 1e-5
"""How far, as a share of the largest number, a sum of their results may be from the model's."""


class RoutedExperts(Struct, frozen=True, eq=False):
    """Experts, and what is added to their results.

    Parameters
    ----------
    path : str
        That of the module, in the model.
    module : nn.Module
        Adds up the results of the experts of each token, times their weights.
    shared : str
        The path of what all tokens share; empty where there is none.
    shared_gate : str
        The path of the logit, one a token, whose sigmoid multiplies that; empty without one.
    """

    path: str
    module: nn.Module
    shared: str = ""
    shared_gate: str = ""

    def of_text(self, passed: Mapping[str, ModulePass]) -> dict[str, Tensor]:
        """Return the experts of each token, their weights and results, by the name of a step.

        The module itself is asked for the result of each, with a weight of 1.
        """
        each = passed[self.path]
        assert each.routing is not None
        numbers, weights = each.routing
        results = [
            self.module(each.given, one[:, None], torch.ones_like(weights[:, :1]))
            for one in numbers.unbind(-1)
        ]
        found = {"numbers": numbers, "router_weights": weights, "results": torch.stack(results, 1)}
        shared = self._shared(passed)
        if shared is not None:
            found["shared"] = shared
        return {f"{self.path}.{name}": part.detach().cpu() for name, part in found.items()}

    def are_a_mixture(self, passed: Mapping[str, ModulePass]) -> bool:
        """Whether what the module gives is the sum of weights times results."""
        found = self.of_text(passed)
        weights, results = (
            float64_on_cpu(found[f"{self.path}.{name}"]) for name in ("router_weights", "results")
        )
        return _is_close((weights[..., None] * results).sum(1), passed[self.path].result)

    def are_whole(self, passed: Mapping[str, ModulePass], result: Tensor) -> bool:
        """Whether nothing but what is shared is added to what the module gives."""
        made, shared = float64_on_cpu(passed[self.path].result), self._shared(passed)
        return _is_close(made if shared is None else made + float64_on_cpu(shared), result)

    def _shared(self, passed: Mapping[str, ModulePass]) -> Tensor | None:
        if not self.shared:
            return None
        shared, gate = (
            vectors(passed[path].result) if path else None
            for path in (self.shared, self.shared_gate)
        )
        assert shared is not None
        return shared if gate is None else gate.sigmoid() * shared


def _is_close(made: Tensor, wanted: Tensor) -> bool:
    other = float64_on_cpu(wanted)
    return bool((made - other).abs().max() <= CLOSE * other.abs().max().clamp_min(1e-12))
