"""Records the inputs and results of the modules in a model's layers without copying them."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from torch import nn

from visualizer.models.attention_recorder import keep_every_module
from visualizer.models.recognition_errors import infer_or_none

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from torch import Tensor

    from visualizer.models.attention_recorder import ModuleFilter

_IN_LAYER = re.compile(r".*\.\d+(\.|$)")
"""Matches the paths of layers and of modules in layers, which contain the number of a layer."""


class ModuleCall(Struct, frozen=True, eq=False):
    """Input and result of one call of a module.

    Parameters
    ----------
    given, result : Tensor
        The first input and the first result of the call.
    rotation : tuple of Tensor or None
        The cosines and sines among the inputs, [1, token, column]; if there are fewer rows than
        tokens, the rows belong to the last tokens.
    routing : tuple of Tensor or None
        The ids and the weights of each token's experts among the inputs, [token, expert].
    """

    given: Tensor
    result: Tensor
    rotation: tuple[Tensor, Tensor] | None = None
    routing: tuple[Tensor, Tensor] | None = None


class LayerArguments(Struct, frozen=True, eq=False):
    """The arguments with which a layer was called."""

    given: tuple[Any, ...]
    named: dict[str, Any]


@contextmanager
def record_layer_inputs(
    model: nn.Module, layers: Collection[str], keeps_module: ModuleFilter = keep_every_module
) -> Iterator[tuple[dict[str, ModuleCall], dict[str, LayerArguments]]]:
    """Record the arguments of the given layers, and the shapes of all vectors.

    Yields
    ------
    dict of ModuleCall and dict of LayerArguments
        The calls of all modules as in `record_module_calls`, but with vectors on the device
        ``meta``, which have shapes and no values; and the uncopied arguments of the layers. Both
        are keyed by path.
    """
    inputs: dict[str, LayerArguments] = {}

    def record(path: str, layer: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        inputs[path] = LayerArguments(given, named)

    with ExitStack() as hooks:
        for path in layers:
            layer = model.get_submodule(path)
            hooks.enter_context(
                layer.register_forward_pre_hook(partial(record, path), with_kwargs=True)
            )
        module_calls = hooks.enter_context(
            record_module_calls(model, keeps_module=keeps_module, sizes_only=True)
        )
        yield module_calls, inputs


@contextmanager
def record_module_calls(
    model: nn.Module,
    within: str = "",
    *,
    keeps_module: ModuleFilter = keep_every_module,
    sizes_only: bool = False,
) -> Iterator[dict[str, ModuleCall]]:
    """Record the calls of embeddings and of the modules in layers, keyed by path.

    Tensors are not copied. Modules that are called several times are left out.

    Parameters
    ----------
    within : str
        Prefix of the paths of recorded modules.
    keeps_module : callable
        Returns whether a module is recorded, given its path.
    sizes_only : bool
        Whether only the shapes of vectors are stored, except for embeddings.
    """
    module_calls: dict[str, ModuleCall] = {}
    called: set[str] = set()

    def record(
        name: str, module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any], result: Any
    ) -> None:
        if name in called:
            module_calls.pop(name, None)
            return
        called.add(name)
        given, first = first_input(inputs, named), first_output(result)
        if isinstance(given, torch.Tensor) and isinstance(first, torch.Tensor):
            every = (*inputs, *named.values())
            is_whole = not sizes_only or isinstance(module, nn.Embedding)
            both = (given, first) if is_whole else (_to_meta_tensor(given), _to_meta_tensor(first))
            each = infer_or_none(
                f"the inputs of {name}",
                lambda: ModuleCall(
                    *both, _find_cosines_and_sines(every), _find_expert_routing(every)
                ),
            )
            module_calls[name] = each or ModuleCall(*both)

    with ExitStack() as hooks:
        for name, module in model.named_modules():
            is_embedding, is_leaf = isinstance(module, nn.Embedding), not [*module.children()]
            if not (name.startswith(within) and keeps_module(name)):
                continue
            if is_embedding or is_leaf or _IN_LAYER.match(name):
                hook = module.register_forward_hook(partial(record, name), with_kwargs=True)
                hooks.enter_context(hook)
        yield module_calls


def first_input(inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return the first argument of a call, positional or named; None if there are no arguments."""
    return next(iter((*inputs, *named.values())), None)


def first_output(result: Any) -> Any:
    """Return the result of a call, or its first element if it is a tuple."""
    return result[0] if isinstance(result, tuple) and result else result


def _to_meta_tensor(numbers: Tensor) -> Tensor:
    return numbers.to("meta") if numbers.is_floating_point() else numbers


def _find_expert_routing(given: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Return the ids of experts and their weights among a module's inputs."""
    if len(given) != 3 or not all(isinstance(one, torch.Tensor) for one in given):
        return None
    _, numbers, weights = given
    is_routing = numbers.ndim == 2 and numbers.shape == weights.shape
    kinds = (numbers.is_floating_point(), weights.is_floating_point())
    return (numbers, weights) if is_routing and kinds == (False, True) else None


def _find_cosines_and_sines(given: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Return cosines and sines among a module's inputs."""
    for one in given:
        if isinstance(one, torch.Tensor) and one.is_complex() and one.ndim == 3:
            return one.real, one.imag
        is_pair = isinstance(one, tuple) and len(one) == 2
        if is_pair and all(isinstance(part, torch.Tensor) for part in one):
            cosines, sines = (part[None] if part.ndim == 2 else part for part in one)
            is_alike = cosines.shape == sines.shape and cosines.ndim == 3
            if is_alike and cosines.is_floating_point():
                return cosines, sines
    return None


def layer_path(module: str) -> str:
    """Return the path of a module up to the layer's number.

    For ``model.layers.3.self_attn``, this is ``model.layers.3``. For a module outside numbered
    layers, return its own path.
    """
    match = re.match(r".*\.\d+(?=\.)", module)
    return match[0] if match else module
