"""Measures how much computing in 16 bits changes the attention weights of one layer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct

from visualizer.format import format_number, format_percentage
from visualizer.models.float32_computation import compute_in_float32
from visualizer.models.layer_recorder import layer_path
from visualizer.models.recognition_errors import infer_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from torch import Tensor

    from visualizer.attention.spec import ModelDtype
    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.forward_runner import ForwardRunner

SMALL_WEIGHTS = 1e-4, 1e-2
"""Range of the weights for which the relative difference is reported."""
SIGNIFICANT_DIGITS = {"bfloat16": "2 to 3", "float16": "3 to 4"}
HALF_NOTICE = (
    "Computed in {dtype}, which has {digits} significant digits; the terms of an explanation sum "
    "to its value within this precision."
)
MEASURED_NOTICE = (
    "On this text, the weights of layer {layer} differ by up to {absolute} from those that float32 "
    "gives for the same input of the layer{small}."
)
SMALL_WEIGHTS_NOTICE = "; weights from {low:g} to {high:g} differ by up to {relative}"


class RoundingError(Struct, frozen=True):
    """Largest differences between the weights of a layer in 16 bits and in float32.

    Parameters
    ----------
    absolute : float
        Largest absolute difference.
    relative : float
        Largest difference relative to the weight, among `SMALL_WEIGHTS`; 0 without such weights.
    """

    absolute: float
    relative: float


class RoundingProbe:
    """Repeats one layer of a model in float32, with the inputs that it had in 16 bits.

    Parameters
    ----------
    layer : int
        Number of the layer.
    module : str
        Path of its attention module.
    """

    def __init__(self, model: Any, forward: ForwardRunner, layer: int, module: str) -> None:
        self._model, self._forward = model, forward
        self._number, self._attention = layer, module
        self._path = layer_path(module)
        self._inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    @contextmanager
    def record_inputs(self) -> Iterator[None]:
        """Record the inputs of the layer within the context."""

        def record(module: object, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            self._inputs = given, named

        layer = self._model.get_submodule(self._path)
        with layer.register_forward_pre_hook(record, with_kwargs=True):
            yield

    def describe(
        self,
        calls: Sequence[AttentionCall],
        dtype: ModelDtype,
        recording: Callable[[], AbstractContextManager[list[AttentionCall]]],
    ) -> str:
        """Return the notice about the rounding, given the calls of the pass in 16 bits.

        Parameters
        ----------
        recording : callable
            Records attention, with the edits and cut edges of the pass.
        """
        own = next((call for call in calls if call.module == self._attention), None)
        found = None
        if own is not None and self._inputs is not None:
            found = infer_or_none(
                f"the rounding in {self._path}", lambda: self._measure(own, recording)
            )
        self._inputs = None
        notice = half_precision_notice(dtype)
        if found is None:
            return notice
        low, high = SMALL_WEIGHTS
        small = SMALL_WEIGHTS_NOTICE.format(
            low=low, high=high, relative=format_percentage(found.relative)
        )
        measured = MEASURED_NOTICE.format(
            layer=self._number + 1,
            absolute=format_number(found.absolute),
            small=small if found.relative else "",
        )
        return f"{notice} {measured}"

    def _measure(
        self,
        call: AttentionCall,
        recording: Callable[[], AbstractContextManager[list[AttentionCall]]],
    ) -> RoundingError | None:
        assert self._inputs is not None
        given, named = self._inputs
        layer = self._model.get_submodule(self._path)
        with (
            torch.inference_mode(),
            self._forward.weights_in_memory(self._path),
            recording() as calls,
            compute_in_float32(layer),
        ):
            layer(*given, **named)
            own = [one for one in calls if one.module == self._attention]
            if len(own) != 1:
                return None
            exact = own[0].read_weights()[0]
        return _compare_weights(call.read_weights()[0], exact)


def _compare_weights(rounded: Tensor, exact: Tensor) -> RoundingError | None:
    """Compare weights [head, query, key], one head at a time."""
    if rounded.shape != exact.shape or exact.dtype is not torch.float32:
        return None
    absolute = relative = 0.0
    low, high = SMALL_WEIGHTS
    for one, other in zip(rounded, exact, strict=True):
        apart = (one.float() - other).abs()
        absolute = max(absolute, float(apart.max()))
        is_small = (other >= low) & (other <= high)
        shares = (apart / other)[is_small]
        relative = max(relative, float(shares.max()) if len(shares) else 0.0)
    return RoundingError(absolute, relative)


def half_precision_notice(dtype: ModelDtype) -> str:
    """Return the notice about a type of 16 bits."""
    return HALF_NOTICE.format(dtype=dtype, digits=SIGNIFICANT_DIGITS[dtype])
