"""Computes the separate results of a layer's routed experts for each token."""

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
"""Maximum difference from the model's result, relative to its largest absolute value."""


class RoutedExperts(Struct, frozen=True, eq=False):
    """Routed experts, with an optional shared expert.

    Parameters
    ----------
    path : str
        Path of the module in the model.
    module : nn.Module
        Computes the weighted sum of the results of each token's experts.
    shared : str
        Path of the expert shared by all tokens; empty if there is none.
    shared_gate : str
        Path of the shared expert's gate logit, one per token, which is applied through a sigmoid;
        empty if there is none.
    """

    path: str
    module: nn.Module
    shared: str = ""
    shared_gate: str = ""

    def of_text(self, passed: Mapping[str, ModulePass]) -> dict[str, Tensor]:
        """Return each token's experts, their weights and their results, by step name.

        The result of each expert is computed by the module itself, with a weight of 1.
        """
        each = passed[self.path]
        assert each.routing is not None
        numbers, weights = each.routing
        results = [
            self.module(each.given, one[:, None], torch.ones_like(weights[:, :1]))
            for one in numbers.unbind(-1)
        ]
        found = {"numbers": numbers, "router_weights": weights, "results": torch.stack(results, 1)}
        shared = self._shared_result(passed)
        if shared is not None:
            found["shared"] = shared
        return {f"{self.path}.{name}": part.detach().cpu() for name, part in found.items()}

    def are_a_mixture(self, passed: Mapping[str, ModulePass]) -> bool:
        """Whether the module's output is the weighted sum of the results."""
        found = self.of_text(passed)
        weights, results = (
            float64_on_cpu(found[f"{self.path}.{name}"]) for name in ("router_weights", "results")
        )
        return _is_close((weights[..., None] * results).sum(1), passed[self.path].result)

    def are_whole(self, passed: Mapping[str, ModulePass], result: Tensor) -> bool:
        """Whether only the shared expert is added to the module's output."""
        made, shared = float64_on_cpu(passed[self.path].result), self._shared_result(passed)
        return _is_close(made if shared is None else made + float64_on_cpu(shared), result)

    def _shared_result(self, passed: Mapping[str, ModulePass]) -> Tensor | None:
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
