"""Builds a model without weights, and compares it with the tensors in its files.

A model class allocates what its configuration describes, whatever the files contain. The model is
therefore first built on torch's `meta` device, where tensors have shapes but no memory.
transformers assigns the tensors of the files to this model by its loading rules: renamed tensors,
prefixes, tied weights, and tensors that are split or merged.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as torch_module

from visualizer.errors import InputError
from visualizer.format import format_count, format_size
from visualizer.models.attention_recorder import EAGER_ATTENTION
from visualizer.models.model_folder import find_weight_files, read_tensor_headers
from visualizer.optional_packages import missing_package_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from visualizer.models.model_folder import ModelFolder, TensorHeader

META_DEVICE = "meta"
MAX_PARTS = 5_000
"""Maximum number of modules and parameters of a model, in addition to `PARTS_PER_TENSOR` for each
tensor in its files."""
PARTS_PER_TENSOR = 20
PARTS_BETWEEN_CHECKS = 500
MAX_BUILD_S = 120.0
MAX_BUFFER_BYTES = 2**28
"""Maximum size, in bytes, of a small model's buffers, such as causal masks."""
MAX_NUMBERS_PER_BYTE = 8
"""Maximum number of quantized parameters per byte of the weights files."""
_TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class _ModelTooLargeError(Exception):
    """The configuration describes more than the files can contain."""


def build_meta_model(
    kind: type[Any], config: Any, folder: ModelFolder, dtype: torch.dtype, check: Callable[[], None]
) -> Any:
    """Build a model on the meta device, and reject files that lack any of its tensors.

    Parameters
    ----------
    check : callable
        Called between modules; an exception that it raises ends the work.

    Raises
    ------
    InputError
        With field ``model``, naming the first tensor that is missing or has another shape.
    """
    if find_spec("accelerate") is None:  # transformers needs it for device_map
        raise InputError("model", missing_package_message("accelerate", "Opening models"))
    tensors = read_tensor_headers(find_weight_files(folder.path))
    limit = MAX_PARTS + PARTS_PER_TENSOR * len(tensors)
    settings: dict[str, Any] = {
        "attn_implementation": EAGER_ATTENTION,
        "dtype": dtype,
        "device_map": {"": META_DEVICE},
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
    }
    found: dict[str, Any] = {}
    try:
        with _limit_module_creation(limit, check):
            if folder.is_quantised:  # quantized tensors have other names and shapes
                with torch.device(META_DEVICE):
                    model = _without_initialization(kind)._from_config(
                        config, attn_implementation=EAGER_ATTENTION, dtype=dtype
                    )
            else:
                model, found = _without_initialization(kind).from_pretrained(
                    None, config=config, state_dict=_create_meta_tensors(tensors), **settings
                )
    except _ModelTooLargeError:
        sentence = (
            f"The config.json in {folder.name} does not match the other files in the folder: it "
            f"describes more than {limit:,} modules and tensors, but the files contain "
            f"{format_count(len(tensors), 'tensor')} with {folder.parameters:,} elements."
        )
        raise InputError("model", sentence) from None
    if wrong := _describe_mismatch(model, found):
        raise InputError(
            "model",
            f"The config.json in {folder.name} does not match the other files in the folder. "
            f"{wrong}",
        )
    _check_model_size(model, folder)
    return model


def model_bytes(model: Any) -> int:
    """Return the size of a model's tensors in bytes, on any device."""
    return _parameter_bytes(model) + sum(int(each.nbytes) for each in model.buffers())


def _parameter_bytes(model: Any) -> int:
    return sum(int(each.nbytes) for each in model.parameters())


def _without_initialization(kind: type[Any]) -> Any:
    """Return a subclass that does not initialize weights, since meta tensors have no values."""
    own = {"__module__": kind.__module__, "initialize_weights": lambda self: None}
    return type(kind.__name__, (kind,), own)


def _create_meta_tensors(tensors: Sequence[TensorHeader]) -> dict[str, torch.Tensor]:
    return {
        each.name: torch.empty(
            each.shape, dtype=_TYPES.get(each.type, torch.float32), device=META_DEVICE
        )
        for each in tensors
    }


def _describe_mismatch(model: Any, found: dict[str, Any]) -> str:
    """Return a message about missing tensors and mismatched shapes; empty if all tensors match."""
    order = {name: at for at, name in enumerate(model.state_dict())}
    shapes = {name: (held, wanted) for name, held, wanted in found.get("mismatched_keys") or ()}
    missing = set(found.get("missing_keys") or ())
    if not (shapes or missing):
        return ""
    name = min(shapes.keys() | missing, key=lambda each: order.get(each, len(order)))
    if name in shapes:
        held, wanted = map(_format_shape, shapes[name])
        first = f"“{name[:80]}” is {held} in the files, but {wanted} according to config.json."
    else:
        wanted = f" ({_format_shape(model.state_dict()[name].shape)})" if name in order else ""
        first = f"“{name[:80]}”{wanted} is missing from the files."
    wrong = f"{len(shapes.keys() | missing):,} of {len(order):,} tensors"
    return f"{first} Number of missing and mismatched tensors: {wrong}."


def _format_shape(shape: Sequence[int]) -> str:
    return " × ".join(f"{size:,}" for size in shape) or "a scalar"


def _check_model_size(model: Any, folder: ModelFolder) -> None:
    """Reject quantized weights and buffers that are too large for the files."""
    parameters = sum(each.numel() for each in model.parameters())
    if parameters > MAX_NUMBERS_PER_BYTE * folder.bytes:
        sentence = (
            f"The config.json in {folder.name} does not match the other files in the folder: it "
            f"describes {parameters:,} parameters, but the files contain only "
            f"{format_size(folder.bytes)}."
        )
        raise InputError("model", sentence)
    buffers = {name: each.nbytes for name, each in model.named_buffers()}
    limit = max(MAX_BUFFER_BYTES, _parameter_bytes(model))
    if sum(buffers.values()) > limit:
        name = max(buffers, key=lambda each: buffers[each])
        shape = _format_shape(model.get_buffer(name).shape)
        sentence = (
            f"{folder.name} needs {format_size(sum(buffers.values()))} for tensors that are not in "
            f"its files, which is more than its weights require. The largest is “{name[:80]}” "
            f"({shape}). Check the sizes in config.json."
        )
        raise InputError("model", sentence)


@contextmanager
def _limit_module_creation(limit: int, check: Callable[[], None]) -> Iterator[None]:
    """Limit the number of modules and parameters created by this thread, and the time."""
    here, end, count = get_ident(), monotonic() + MAX_BUILD_S, 0

    def add(module: object, name: str, part: object) -> None:
        nonlocal count
        if get_ident() != here:
            return
        count += 1
        if count > limit or monotonic() > end:
            raise _ModelTooLargeError
        if count % PARTS_BETWEEN_CHECKS == 0:
            check()

    with (
        torch_module.register_module_module_registration_hook(add),
        torch_module.register_module_parameter_registration_hook(add),
    ):
        yield
