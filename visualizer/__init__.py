"""Attention Visualizer: compute attention modules and inspect them stage by stage.

In a notebook::

    import visualizer

    attention = visualizer.attend("The cat sat on the mat", embedding_size=8, heads=2)
    attention["weights"]  # [head, query, key]
    attention.figure(stages=["weights"])

    model = visualizer.open_model("models/SmolLM2-135M")
    model.attend("The cat sat on the mat")["weights"]  # [layer, head, query, key]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.version import __version__ as __version__

if TYPE_CHECKING:
    from visualizer.api.attention_api import Attention, attend, load
    from visualizer.api.keyword_argument_types import Look, Settings
    from visualizer.api.model_api import Model, ModelAttention, capture, open_model
    from visualizer.api.notebook_values import Figure
    from visualizer.api.trained_model import TrainedModel
    from visualizer.errors import InputError

__all__ = [
    "Attention",
    "Figure",
    "InputError",
    "Look",
    "Model",
    "ModelAttention",
    "Settings",
    "TrainedModel",
    "attend",
    "capture",
    "load",
    "open_model",
]
_MODEL_NAMES = frozenset({"Model", "ModelAttention", "capture", "open_model"})


def __getattr__(name: str) -> Any:
    """Import the notebook API on first use; the program itself does not need it."""
    if name not in __all__:
        raise AttributeError(f"module 'visualizer' has no attribute {name!r}")
    from visualizer.api import attention_api, model_api

    return getattr(model_api if name in _MODEL_NAMES else attention_api, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
