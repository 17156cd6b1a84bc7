"""The transformers model within an object that wraps it: an adapter, a pipeline, another module."""

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
"""Maximum number of objects that are looked into."""
DEEPEST = 3
"""Maximum number of objects other than modules and collections on the way to the model."""
MAX_LISTED_MODELS = 5
_PLAIN = (str, bytes, bytearray, int, float, complex, type, Tensor)


def transformers_model_within(given: object) -> nn.Module:
    """Return the only transformers model that an object is or contains.

    Models within a transformers model are parts of it. The contents of lists, tuples and mappings
    are searched as well.

    Raises
    ------
    InputError
        Of ``model``, when there is none or several, or when copies of it run on several devices; of
        ``package``, when transformers is not installed.
    """
    require_package("transformers", "Recording a model")
    from transformers import PreTrainedModel

    found: dict[int, tuple[str, nn.Module]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, Any, int]] = deque([("", given, DEEPEST)])
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
                "are not recorded. Pass its “.module”, and run that."
            )
            raise InputError("model", sentence)
        is_counted = not isinstance(each, nn.Module | list | tuple | Mapping)
        if depth >= is_counted:
            waiting += ((path + step, part, depth - is_counted) for step, part in _parts(each))
    if len(found) == 1:
        ((_, model),) = found.values()
        return model
    kind = type(given).__name__
    if not found:
        sentence = (
            f"There is no model of transformers (PreTrainedModel) in this object of type {kind}. "
            "Pass one, or an object that contains one."
        )
        raise InputError("model", sentence)
    paths = [f"model{path} ({type(each).__name__})" for path, each in found.values()]
    more = f" and {len(paths) - MAX_LISTED_MODELS:,} more" if len(paths) > MAX_LISTED_MODELS else ""
    named = ", ".join(paths[:MAX_LISTED_MODELS])
    sentence = (
        f"This {kind} contains several models of transformers: {named}{more}. Pass one of them."
    )
    raise InputError("model", sentence)


def _parts(whole: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object contains, each with the Python expression that leads to it."""
    if isinstance(whole, nn.Module):
        yield from _children(whole)
    if isinstance(whole, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in [*whole.items()])
    elif isinstance(whole, list | tuple):
        yield from ((f"[{at}]", part) for at, part in enumerate(whole))
    own = getattr(whole, "__dict__", {})
    yield from ((f".{name}", part) for name, part in [*own.items()] if name != "_modules")


def _children(module: nn.Module) -> Iterator[tuple[str, Any]]:
    is_numbered = isinstance(module, nn.Sequential | nn.ModuleList)
    for name, part in module._modules.items():
        yield f"[{name}]" if is_numbered and name.isdecimal() else f".{name}", part
