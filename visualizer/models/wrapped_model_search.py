"""Finds the transformers model in an adapter, a pipeline or another wrapper."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from visualizer.errors import InputError
from visualizer.optional_packages import require_package

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SEARCHED_OBJECTS = 20_000
"""Maximum number of objects that are searched."""
MAX_DEPTH = 3
"""Maximum depth of nested objects; modules and collections are not counted."""
MAX_LISTED_MODELS = 5
_PLAIN = (str, bytes, bytearray, int, float, complex, type, Tensor)


def find_transformers_model(given: object) -> nn.Module:
    """Return the only transformers model that an object is or contains.

    Models within a transformers model are not counted. The contents of lists, tuples and mappings
    are searched as well.

    Raises
    ------
    InputError
        With field ``model`` if the object contains no model or several, or if copies of the model
        run on several devices; with field ``package`` if transformers is not installed.
    """
    require_package("transformers", "Recording a model")
    from transformers import PreTrainedModel

    found: dict[int, tuple[str, nn.Module]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any, int]] = deque([("", given, MAX_DEPTH)])
    while waiting and len(seen) < MAX_SEARCHED_OBJECTS:
        path, each, depth = waiting.popleft()
        if id(each) in seen or each is None or isinstance(each, _PLAIN):
            continue
        seen.add(id(each))
        if isinstance(each, PreTrainedModel):
            found[id(each)] = path, each
            continue
        if isinstance(each, nn.DataParallel) and len(each.device_ids) > 1:
            sentence = (
                f"DataParallel runs copies of the model on {len(each.device_ids)} devices, which "
                "cannot be recorded. Pass and run its “.module” instead."
            )
            raise InputError("model", sentence)
        is_counted = not isinstance(each, nn.Module | list | tuple | Mapping)
        if depth >= is_counted:
            waiting += (
                (path + step, part, depth - is_counted) for step, part in _contained_objects(each)
            )
    if len(found) == 1:
        ((_, model),) = found.values()
        return model
    kind = type(given).__name__
    if not found:
        sentence = (
            f"No transformers model (PreTrainedModel) found in this object of type {kind}. Pass a "
            "model, or an object that contains one."
        )
        raise InputError("model", sentence)
    paths = [f"model{path} ({type(each).__name__})" for path, each in found.values()]
    more = f" and {len(paths) - MAX_LISTED_MODELS:,} more" if len(paths) > MAX_LISTED_MODELS else ""
    named = ", ".join(paths[:MAX_LISTED_MODELS])
    sentence = f"This {kind} contains several transformers models: {named}{more}. Pass one of them."
    raise InputError("model", sentence)


def _contained_objects(whole: Any) -> Iterator[tuple[str, Any]]:
    """Yield the contents of an object, with the Python expressions that access them."""
    if isinstance(whole, nn.Module):
        yield from _child_modules(whole)
    if isinstance(whole, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in [*whole.items()])
    elif isinstance(whole, list | tuple):
        yield from ((f"[{at}]", part) for at, part in enumerate(whole))
    own = getattr(whole, "__dict__", {})
    yield from ((f".{name}", part) for name, part in [*own.items()] if name != "_modules")


def _child_modules(module: nn.Module) -> Iterator[tuple[str, Any]]:
    is_numbered = isinstance(module, nn.Sequential | nn.ModuleList)
    for name, part in module._modules.items():
        yield f"[{name}]" if is_numbered and name.isdecimal() else f".{name}", part
