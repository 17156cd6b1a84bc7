"""Explainers of all operations, loaded from the module in `operations` of the same name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from visualizer.attention.stages import Operation

if TYPE_CHECKING:
    from visualizer.explanations.operation_explainer import OperationExplainer

TEXTS: dict[Operation, OperationExplainer] = {
    operation: getattr(
        import_module(f"visualizer.explanations.operations.{operation}"), operation.name
    )
    for operation in Operation
}
