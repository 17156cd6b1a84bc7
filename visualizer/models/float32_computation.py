"""Runs modules with 16-bit weights in float32, without a float32 copy of the whole model.

The weights of a layer, or of a module outside the layers, are converted when it is called, and the
converted weights are released when it returns.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

HALF_DTYPES = (torch.bfloat16, torch.float16)
"""Floating-point types of 16 bits."""
_LAYER = re.compile(r"(?:[^.\d][^.]*\.)*\d+")
"""Matches the paths of numbered layers, but not of numbered modules in layers."""
_IN_LAYER = re.compile(r"(?:[^.\d][^.]*\.)*\d+\.")


def has_half_precision(model: nn.Module) -> bool:
    """Return whether a model computes in a 16-bit type."""
    return getattr(model, "dtype", None) in HALF_DTYPES


@contextmanager
def compute_in_float32(module: nn.Module, *, with_logits: bool = False) -> Iterator[None]:
    """Let a module and the modules in it compute in float32 within the context.

    16-bit inputs are converted.

    Parameters
    ----------
    with_logits : bool
        Whether the output embedding, which is large, also computes in float32.
    """
    find_output = getattr(module, "get_output_embeddings", None)
    output = None if with_logits or find_output is None else find_output()
    is_layer = not hasattr(module, "config") or not hasattr(module, "main_input_name")
    with ExitStack() as hooks:
        for path, part in module.named_modules():
            if output is not None and part is output:
                converter: _Converter = _InputRounding(output.weight.dtype)
            elif _LAYER.fullmatch(path) or (is_layer and not path):
                converter = _Float32Weights([*part.modules()])
            else:
                # In layers, the whole layer is converted, because modules in it may use each other.
                is_inside = is_layer or _IN_LAYER.match(path)
                converter = _Float32Weights([] if is_inside else [part])
            hooks.enter_context(
                part.register_forward_pre_hook(converter.enter, with_kwargs=True, prepend=True)
            )
            hooks.enter_context(part.register_forward_hook(converter.leave, always_call=True))
        yield


class _Converter(Protocol):
    """Hooks before and after the call of a module."""

    def enter(self, module: nn.Module, given: Any, named: Any) -> tuple[Any, Any]:
        """Return the converted inputs."""
        ...

    def leave(self, module: nn.Module, given: object, result: object) -> None:
        """Restore the module."""
        ...


class _Float32Weights:
    """Converts the weights of some modules to float32 while one module runs."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = modules
        self._original: list[tuple[dict[str, Any], str, Tensor]] = []

    def enter(self, module: nn.Module, given: Any, named: Any) -> tuple[Any, Any]:
        if not self._original:  # otherwise, the module calls itself
            groups: list[dict[str, Any]] = [
                group for each in self._modules for group in (each._parameters, each._buffers)
            ]
            self._original += [
                (group, name, part)
                for group in groups
                for name, part in group.items()
                if part is not None and part.dtype in HALF_DTYPES
            ]
            for group, name, part in self._original:
                group[name] = part.detach().float()
        return _convert(given, torch.float32), _convert(named, torch.float32)

    def leave(self, module: nn.Module, given: object, result: object) -> None:
        for group, name, part in self._original:
            group[name] = part
        self._original.clear()


class _InputRounding:
    """Converts the inputs of one module to the type of its weights."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype

    def enter(self, module: nn.Module, given: Any, named: Any) -> tuple[Any, Any]:
        return _convert(given, self._dtype), _convert(named, self._dtype)

    def leave(self, module: nn.Module, given: object, result: object) -> None:
        return None


def _convert(given: Any, dtype: torch.dtype) -> Any:
    """Convert the floating-point tensors in arguments."""
    if isinstance(given, torch.Tensor):
        is_converted = given.dtype in (*HALF_DTYPES, torch.float32)
        return given.to(dtype) if is_converted else given
    if isinstance(given, tuple) and type(given) is tuple:
        return tuple(_convert(each, dtype) for each in given)
    if isinstance(given, dict) and type(given) is dict:
        return {name: _convert(each, dtype) for name, each in given.items()}
    return given
