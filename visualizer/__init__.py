"""Attention Visualizer: compute attention modules and inspect them stage by stage.

In a notebook::

    import visualizer

    attention = visualizer.attend("The cat sat on the mat", embedding_size=8, heads=2)
    attention["weights"]  # [head, query, key]
    attention.figure(stages=["weights"])

    model = visualizer.open_model("models/SmolLM2-135M")
    model_attention = model.attend("The cat sat on the mat")  # displayed as an interactive view
    model_attention["weights"]  # [layer, head, query, key]

    visualizer.from_arrays(outputs.attentions, tokens)  # of a model that has already run

    with visualizer.record(model, texts=[text], tokenizer=tokenizer, to="run") as recorder:
        ...  # train the model, and call recorder.step(loss) after each step
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.version import __version__ as __version__

if TYPE_CHECKING:
    from visualizer.api.argument_conversion import AttendArguments, FigureArguments
    from visualizer.api.attention_api import Attention, attend
    from visualizer.api.given_arrays import from_arrays
    from visualizer.api.loading import load
    from visualizer.api.model_api import Model, open_model
    from visualizer.api.model_attention import ModelAttention, capture
    from visualizer.api.notebook_display import Figure
    from visualizer.api.recorder import Recorder, record
    from visualizer.api.recording import Recording
    from visualizer.api.trained_model import TrainedModel
    from visualizer.api.training_callbacks import lightning_callback, trainer_callback
    from visualizer.errors import InputError

__all__ = [
    "AttendArguments",
    "Attention",
    "Figure",
    "FigureArguments",
    "InputError",
    "Model",
    "ModelAttention",
    "Recorder",
    "Recording",
    "TrainedModel",
    "attend",
    "capture",
    "from_arrays",
    "lightning_callback",
    "load",
    "open_model",
    "record",
    "trainer_callback",
]
_MODULES = {
    "Model": "model_api",
    "open_model": "model_api",
    "ModelAttention": "model_attention",
    "capture": "model_attention",
    "from_arrays": "given_arrays",
    "Recorder": "recorder",
    "record": "recorder",
    "load": "loading",
    "TrainedModel": "trained_model",
    "Recording": "recording",
    "lightning_callback": "training_callbacks",
    "trainer_callback": "training_callbacks",
}
"""Modules that define the names; all other names are defined in `attention_api`."""


def __getattr__(name: str) -> Any:
    """Import a name of the notebook API when it is first used; the program itself needs none."""
    if name not in __all__:
        raise AttributeError(f"module 'visualizer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"visualizer.api.{_MODULES.get(name, 'attention_api')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
