"""Records what passes through the modules of a model's layers, whole and as it is."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from torch import nn

from visualizer.models.inference_boundary import inferred

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from torch import Tensor

_IN_LAYER = re.compile(r".*\.\d+(\.|$)")
"""What the path of a layer has, or of a part of one: its number."""


class ModulePass(Struct, frozen=True, eq=False):
    """What passed through a module once.

    Parameters
    ----------
    given, result : Tensor
        Its first input and its first result.
    rotation : tuple of Tensor or None
        The cosines and sines that it was given, [1, token, column]; of the last tokens, where
        there are less.
    routing : tuple of Tensor or None
        The numbers of the experts of each token that it was given, and the weights of these,
        [token, expert].
    """

    given: Tensor
    result: Tensor
    rotation: tuple[Tensor, Tensor] | None = None
    routing: tuple[Tensor, Tensor] | None = None


NOTHING_PASSED: dict[str, ModulePass] = {}


class LayerInput(Struct, frozen=True, eq=False):
    """The arguments that a layer was called with."""

    given: tuple[Any, ...]
    named: dict[str, Any]


@contextmanager
def record_layer_inputs(
    model: nn.Module, layers: Collection[str]
) -> Iterator[tuple[dict[str, ModulePass], dict[str, LayerInput]]]:
    """Keep the arguments of some layers, by their paths, and the sizes of what passes through.

    Yields
    ------
    dict of ModulePass and dict of LayerInput
        As `record_layers` keeps it, with vectors that have sizes and no numbers (on the device
        ``meta``); and the arguments, as they are and not copied.
    """
    inputs: dict[str, LayerInput] = {}

    def keep(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        inputs[name] = LayerInput(given, named)

    hooks = [
        model.get_submodule(name).register_forward_pre_hook(
            lambda _, given, named, name=name: keep(name, given, named), with_kwargs=True
        )
        for name in layers
    ]
    try:
        with record_layers(model, sizes_only=True) as passed:
            yield passed, inputs
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def record_layers(
    model: nn.Module, within: str = "", *, sizes_only: bool = False
) -> Iterator[dict[str, ModulePass]]:
    """Keep what passes through the tables of tokens and the modules of the layers, by their paths.

    Tensors are kept as they are, and not copied. Of modules that run several times none is kept.

    Parameters
    ----------
    within : str
        How the paths begin of the modules that are recorded.
    sizes_only : bool
        Whether of vectors the sizes are kept, and not the numbers, except for tables of embeddings.
    """
    passed: dict[str, ModulePass] = {}
    met: set[str] = set()

    def keep(
        module: nn.Module,
        name: str,
        inputs: tuple[Any, ...],
        named: Mapping[str, Any],
        result: Any,
    ) -> None:
        if name in met:
            passed.pop(name, None)
            return
        met.add(name)
        given: Any = inputs[0] if inputs else next(iter(named.values()), None)
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(given, torch.Tensor) and isinstance(first, torch.Tensor):
            every = (*inputs, *named.values())
            is_whole = not sizes_only or isinstance(module, nn.Embedding)
            both = (given, first) if is_whole else (_sizes(given), _sizes(first))
            each = inferred(
                f"what {name} was given",
                lambda: ModulePass(*both, _rotation(every), _routing(every)),
            )
            passed[name] = each or ModulePass(*both)

    hooks = [
        module.register_forward_hook(
            lambda module, inputs, named, result, name=name: keep(
                module, name, inputs, named, result
            ),
            with_kwargs=True,
        )
        for name, module in model.named_modules()
        if name.startswith(within)
        and (isinstance(module, nn.Embedding) or _IN_LAYER.match(name) or not [*module.children()])
    ]
    try:
        yield passed
    finally:
        for hook in hooks:
            hook.remove()


def _sizes(numbers: Tensor) -> Tensor:
    return numbers.to("meta") if numbers.is_floating_point() else numbers


def _routing(given: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Return the numbers of experts and their weights among what a module was given."""
    if len(given) != 3 or not all(isinstance(one, torch.Tensor) for one in given):
        return None
    _, numbers, weights = given
    is_routing = numbers.ndim == 2 and numbers.shape == weights.shape
    kinds = (numbers.is_floating_point(), weights.is_floating_point())
    return (numbers, weights) if is_routing and kinds == (False, True) else None


def _rotation(given: tuple[Any, ...]) -> tuple[Tensor, Tensor] | None:
    """Return cosines and sines among what a module was given."""
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
