"""Prepares an image file for a vision model, and names the tokens of the image."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.captured_attention import ImagePatches
from visualizer.errors import InputError
from visualizer.models.image_file import decode_image

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image
    from torch import Tensor, nn

_SPECIAL_TOKEN_NAMES = {
    "cls_token": "class",
    "class_embedding": "class",
    "distillation_token": "distillation",
    "register_tokens": "register",
}
"""Names of the tokens before the patches, keyed by the names of their parameters in the model."""


class PreparedImage(Struct, frozen=True, eq=False):
    """A preprocessed image with its tokens.

    Parameters
    ----------
    pixels : Tensor
        Resized, cropped and normalized according to the model's folder, [1, channel, row, column].
    names : tuple of str
        Names of the tokens: those that the model adds, followed by the patches, row by row.
    patches : ImagePatches or None
        The visible part of the image and the locations of its patches; None if unknown.
    key : str
        Hash of the pixel values, used as cache key.
    """

    pixels: Tensor
    names: tuple[str, ...]
    patches: ImagePatches | None
    key: str


def prepare_image(
    path: Path, processor: Any, model: nn.Module, expected_hash: str = ""
) -> PreparedImage:
    """Read an image file for a vision model.

    Parameters
    ----------
    processor
        The model's image processor from transformers.
    model : Module
        The vision part of the model.
    expected_hash : str
        As in `decode_image`.

    Raises
    ------
    InputError
        With field ``image`` if the file cannot be read.
    """
    image = decode_image(path, expected_hash)
    pixels = _preprocess_image(image, processor, path.name)
    special = _special_token_names(model)
    high, wide = _patch_size(model) or (0, 0)
    rows, columns = (pixels.shape[-2] // high, pixels.shape[-1] // wide) if high else (0, 0)
    places = [f"row {at + 1}, column {to + 1}" for at in range(rows) for to in range(columns)]
    names = (*special, *places)
    seen = _unnormalized_image(image, processor, pixels) if places else None
    patches = None
    if seen is not None:
        # The model ignores pixels after the last whole patch.
        read = seen[: rows * high, : columns * wide]
        height, width, _ = read.shape
        patches = ImagePatches(len(special), rows, columns, height, width, read.tobytes())
    return PreparedImage(pixels, names, patches, sha256(pixels.numpy().tobytes()).hexdigest())


def _preprocess_image(image: Image.Image, processor: Any, name: str) -> Tensor:
    try:
        pixels = processor(images=image, return_tensors="pt")["pixel_values"]
    except Exception as error:  # processors raise various errors
        sentence = f"Preprocessing “{name}” for this model failed: {error}"
        raise InputError("image", sentence[:300]) from error
    if not isinstance(pixels, torch.Tensor) or pixels.ndim != 4 or len(pixels) != 1:
        raise InputError(
            "image", "This model splits images into several parts, which is not supported."
        )
    return pixels


def _unnormalized_image(image: Image.Image, processor: Any, pixels: Tensor) -> np.ndarray | None:
    """Return the cropped and resized image without normalization, [row, column, colour].

    Returns None if the processor cannot prepare the image in this way.
    """
    plain = {"do_normalize": False, "do_rescale": False, "return_tensors": "pt"}
    try:
        seen = processor(images=image, **plain)["pixel_values"]
    except Exception:  # noqa: BLE001 - this image is only displayed; the model does not need it
        return None
    if not isinstance(seen, torch.Tensor) or seen.shape != pixels.shape or seen.shape[1] != 3:
        return None
    whole = to_float64_on_cpu(seen[0]).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(whole.permute(1, 2, 0).numpy())


def _special_token_names(model: nn.Module) -> list[str]:
    """Return names for the tokens that a model places before the patches."""
    names = []
    for path, vectors in model.named_parameters():
        name = _SPECIAL_TOKEN_NAMES.get(path.rpartition(".")[2])
        if name is not None:
            count = vectors.numel() // vectors.shape[-1]
            is_many = name == "register"
            names += [f"{name} {at + 1}" if is_many else name for at in range(count)]
    return names


def _patch_size(model: nn.Module) -> tuple[int, int] | None:
    """Return the height and width of a patch; None if unknown."""
    size: Any = getattr(model.config, "patch_size", None)
    high, wide = size if isinstance(size, tuple | list) and len(size) == 2 else (size, size)
    is_known = isinstance(high, int) and isinstance(wide, int) and min(high, wide) > 0
    return (high, wide) if is_known else None
