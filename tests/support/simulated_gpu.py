"""A simulated GPU that does not support float64, like Apple GPUs; its tensors are in CPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable

NO_FLOAT64 = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support it."
"""The error that torch raises on Apple GPUs."""
OTHER_DEVICE = "Expected all tensors to be on the same device."
NOT_NUMPY = "Cannot convert a tensor on a GPU to numpy. Use Tensor.cpu() first."
GPU, CPU = torch.device("mps"), torch.device("cpu")
_TO_NUMPY: tuple[Any, ...] = (torch.Tensor.numpy, torch.Tensor.__array__)
_BETWEEN_DEVICES: frozenset[Any] = frozenset({
    torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_, torch.Tensor.type_as,
})  # fmt: skip
"""Functions that accept tensors on several devices."""
_DEVICE, _GRADIENT = (getattr(torch.Tensor, name).__get__ for name in ("device", "grad"))


class TensorOnGpu(torch.Tensor):
    """A tensor on the simulated GPU; all results computed from it are also on the simulated GPU."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, given: Any = (), named: Any = None
    ) -> Any:
        if function == _DEVICE:
            return GPU
        named = named or {}
        tensors = [one for one in tree_leaves((given, named)) if isinstance(one, torch.Tensor)]
        others = [one for one in tensors if not isinstance(one, cls) and one.ndim]
        if function is torch.Tensor.cpu or (function is torch.Tensor.to and _is_to_cpu(given)):
            return given[0].as_subclass(torch.Tensor)
        if function in _TO_NUMPY:
            raise TypeError(NOT_NUMPY)
        if others and function not in _BETWEEN_DEVICES:
            raise RuntimeError(f"{OTHER_DEVICE} {function} was given {others[0].shape}")
        base: Any = super()
        result = base.__torch_function__(function, types, given, named)
        if function is torch.Tensor.copy_ and not isinstance(given[0], cls):
            return given[0]  # the tensor on the CPU that was changed in place
        if function == _GRADIENT and result is not None:  # torch does not convert it
            return result.as_subclass(cls)
        if any(isinstance(one, cls) and one.dtype is torch.float64 for one in tree_leaves(result)):
            raise TypeError(NO_FLOAT64)
        return result


def _is_to_cpu(given: Any) -> bool:
    return any(one in (CPU, "cpu") for one in given[1:] if isinstance(one, torch.device | str))


def _is_gpu(one: object) -> bool:
    return isinstance(one, torch.device) and one == GPU


class GpuWithoutFloat64(TorchFunctionMode):
    """A context in which tensors can be created on, and moved to, the simulated GPU."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, given: Any = (), named: Any = None
    ) -> Any:
        is_there = any(map(_is_gpu, tree_leaves((given, named))))
        given, named = tree_map(lambda one: CPU if _is_gpu(one) else one, (given, named or {}))
        # The CPU, which replaced the GPU, is not the requested device.
        if is_there and function is torch.Tensor.to:
            given = tuple(one for one in given if one is not CPU)
            named.pop("device", None)
            result = function(*given, **named) if len(given) > 1 or named else given[0]
        else:
            result = function(*given, **named)
        if not is_there or not isinstance(result, torch.Tensor):
            return result
        if result.dtype is torch.float64:
            raise TypeError(NO_FLOAT64)
        return result.as_subclass(TensorOnGpu)


def move_to_gpu(model: nn.Module) -> None:
    """Move the parameters and buffers of a model to the simulated GPU."""
    moved: dict[int, Any] = {}
    for module in model.modules():
        weights = module.named_parameters(recurse=False, remove_duplicate=False)
        buffers = module.named_buffers(recurse=False, remove_duplicate=False)
        for name, each in [*weights, *buffers]:
            if id(each) not in moved:
                there = each.detach().as_subclass(TensorOnGpu)
                is_weight = isinstance(each, nn.Parameter)
                moved[id(each)] = nn.Parameter(there) if is_weight else there
            setattr(module, name, moved[id(each)])
