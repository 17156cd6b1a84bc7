"""Builds a model without its numbers, and compares it with the tensors in its files.

A model's class allocates what its configuration describes, whatever its files hold. It is built on
torch's `meta` device first, where tensors have shapes and no memory, and transformers matches the
tensors of the files to it by the rules that it loads them by: other names, prefixes, tied weights,
and tensors that are split or joined.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from importlib.util import find_spec
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module

from visualizer.errors import InputError
from visualizer.models.attention_recorder import EAGER
from visualizer.models.model_folder import MISSING, tensors_in_files, weight_files
from visualizer.number_format import format_count, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from visualizer.models.model_folder import ModelFolder, TensorInFile

META = "meta"
MAX_PARTS = 5_000
"""Modules and parameters that any model may consist of; per tensor of its files
`PARTS_PER_TENSOR` more."""
PARTS_PER_TENSOR = 20
PARTS_BETWEEN_CHECKS = 500
MAX_BUILD_S = 120.0
MAX_BUFFER_BYTES = 2**28
"""Memory that numbers in no file may take, such as masks of all positions, in a small model."""
MAX_NUMBERS_PER_BYTE = 8
"""Numbers that a byte of quantized weights may hold."""
_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class _TooLargeError(Exception):
    """The configuration describes more than the files can hold."""


def meta_model(
    kind: type[Any], config: Any, folder: ModelFolder, dtype: torch.dtype, check: Callable[[], None]
) -> Any:
    """Build a model on the meta device, and reject files that do not hold all of its tensors.

    Parameters
    ----------
    kind : type
        The class of the model, of transformers.
    config
        Its configuration, of transformers.
    check : callable
        Called between modules; what it raises ends the work.

    Raises
    ------
    InputError
        Of ``model``, with the first tensor that is missing or of another shape.
    """
    if find_spec("accelerate") is None:  # transformers places models with it
        raise InputError("model", MISSING)
    tensors = tensors_in_files(weight_files(folder.path))
    most = MAX_PARTS + PARTS_PER_TENSOR * len(tensors)
    settings: dict[str, Any] = {
        "attn_implementation": EAGER,
        "dtype": dtype,
        "device_map": {"": META},
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
    }
    found: dict[str, Any] = {}
    try:
        with _bounded_build(most, check):
            if folder.is_quantised:  # its tensors are codes, and have other names and shapes
                with torch.device(META):
                    model = _without_init(kind)._from_config(
                        config, attn_implementation=EAGER, dtype=dtype
                    )
            else:
                model, found = _without_init(kind).from_pretrained(
                    None, config=config, state_dict=_on_meta(tensors), **settings
                )
    except _TooLargeError:
        sentence = (
            f"{folder.name}: its config.json describes more than {most:,} modules and tensors, and "
            f"its files hold {format_count(len(tensors), 'tensor')} of {folder.numbers:,} numbers."
        )
        raise InputError("model", sentence) from None
    if wrong := _mismatch(model, found):
        raise InputError("model", f"{folder.name}: its config.json and its files differ. {wrong}")
    _check_size(model, folder)
    return model


def bytes_of_model(model: Any) -> int:
    """Return the bytes that the tensors of a model take, on whichever device they are."""
    return _parameter_bytes(model) + sum(int(each.nbytes) for each in model.buffers())


def _parameter_bytes(model: Any) -> int:
    return sum(int(each.nbytes) for each in model.parameters())


def _without_init(kind: type[Any]) -> Any:
    """Return a class that leaves the numbers of its tensors as they are: it has none."""
    own = {"__module__": kind.__module__, "initialize_weights": lambda self: None}
    return type(kind.__name__, (kind,), own)


def _on_meta(tensors: Sequence[TensorInFile]) -> dict[str, torch.Tensor]:
    return {
        each.name: torch.empty(each.shape, dtype=_TYPES.get(each.type, torch.float32), device=META)
        for each in tensors
    }


def _mismatch(model: Any, found: dict[str, Any]) -> str:
    """Return the sentence for the first tensor that the files do not hold in its shape."""
    order = {name: at for at, name in enumerate(model.state_dict())}
    shapes = {name: (held, wanted) for name, held, wanted in found.get("mismatched_keys") or ()}
    missing = set(found.get("missing_keys") or ())
    if not (shapes or missing):
        return ""
    name = min(shapes.keys() | missing, key=lambda each: order.get(each, len(order)))
    if name in shapes:
        held, wanted = map(_shape_in_words, shapes[name])
        first = f"“{name[:80]}” is {held} in the files and {wanted} by the config.json."
    else:
        wanted = _shape_in_words(model.state_dict()[name].shape) if name in order else "needed"
        first = f"“{name[:80]}”, which is {wanted} by the config.json, is missing from the files."
    counts = Counter({"missing": len(missing), "of another shape": len(shapes)})
    said = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"{first} In all, {said} of {len(order):,} tensors."


def _shape_in_words(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape) or "a single number"


def _check_size(model: Any, folder: ModelFolder) -> None:
    """Reject tensors that the files do not account for: quantized weights, and buffers."""
    parameters = sum(each.numel() for each in model.parameters())
    if parameters > MAX_NUMBERS_PER_BYTE * folder.bytes:
        sentence = (
            f"{folder.name}: its config.json describes {parameters:,} numbers, and its files of "
            f"{format_size(folder.bytes)} cannot hold them."
        )
        raise InputError("model", sentence)
    buffers = {name: each.nbytes for name, each in model.named_buffers()}
    most = max(MAX_BUFFER_BYTES, _parameter_bytes(model))
    if sum(buffers.values()) > most:
        name = max(buffers, key=lambda each: buffers[each])
        shape = _shape_in_words(model.get_buffer(name).shape)
        sentence = (
            f"{folder.name}: by its config.json, “{name[:80]}”, which is in no file, is {shape}. "
            f"Such tensors take {format_size(sum(buffers.values()))}, more than the model."
        )
        raise InputError("model", sentence)


@contextmanager
def _bounded_build(most: int, check: Callable[[], None]) -> Iterator[None]:
    """Count the modules and parameters that this thread makes, and stop at too many."""
    here, end, count = get_ident(), monotonic() + MAX_BUILD_S, 0

    def add(module: object, name: str, part: object) -> None:
        nonlocal count
        if get_ident() != here:
            return
        count += 1
        if count > most or monotonic() > end:
            raise _TooLargeError
        if count % PARTS_BETWEEN_CHECKS == 0:
            check()

    hooks = (
        torch_module.register_module_module_registration_hook(add),
        torch_module.register_module_parameter_registration_hook(add),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
