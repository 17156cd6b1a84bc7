"""What a vision model is given of an image file, and the names of its tokens: patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.captured_attention import ImagePatches
from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.errors import InputError
from visualizer.models.image_file import opened_image

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image
    from torch import Tensor, nn

_SPECIAL = {
    "cls_token": "class",
    "class_embedding": "class",
    "distillation_token": "distillation",
    "register_tokens": "register",
}
"""What tokens before the patches are called, by the names of their vectors in the model."""


class ImageTokens(Struct, frozen=True, eq=False):
    """An image as a model reads it.

    Parameters
    ----------
    pixels : Tensor
        Resized, cut and normalised as the model's folder says, [1, channel, row, column].
    names : tuple of str
        Of the tokens: those that the model adds, and the patches, row by row.
    patches : ImagePatches or None
        What it sees of the image, and where its patches lie; None where that is not known.
    """

    pixels: Tensor
    names: tuple[str, ...]
    patches: ImagePatches | None


def image_tokens(path: Path, processor: Any, model: nn.Module, known: str = "") -> ImageTokens:
    """Read an image file for a vision model.

    Parameters
    ----------
    processor
        The model's image processor, of transformers.
    model : Module
        The part of the model that reads images.
    known : str
        As `opened_image` takes it.

    Raises
    ------
    InputError
        Of ``image``, when the file is none that can be read.
    """
    image = opened_image(path, known)
    pixels = _prepared(image, processor, path.name)
    special = _special_names(model)
    high, wide = _patch_size(model) or (0, 0)
    rows, columns = (pixels.shape[-2] // high, pixels.shape[-1] // wide) if high else (0, 0)
    places = [f"row {at + 1}, column {to + 1}" for at in range(rows) for to in range(columns)]
    names = (*special, *places)
    seen = _seen(image, processor, pixels) if places else None
    patches = None
    if seen is not None:
        # What is beyond the last whole patch is not read.
        read = seen[: rows * high, : columns * wide]
        height, width, _ = read.shape
        patches = ImagePatches(len(special), rows, columns, height, width, read.tobytes())
    return ImageTokens(pixels, names, patches)


def _prepared(image: Image.Image, processor: Any, name: str) -> Tensor:
    try:
        pixels = processor(images=image, return_tensors="pt")["pixel_values"]
    except Exception as error:  # every processor fails in its own way
        sentence = f"“{name}” cannot be prepared for this model: {error}"
        raise InputError("image", sentence[:300]) from error
    if not isinstance(pixels, torch.Tensor) or pixels.ndim != 4 or len(pixels) != 1:
        raise InputError("image", "This model reads an image in several parts, which is not shown.")
    return pixels


def _seen(image: Image.Image, processor: Any, pixels: Tensor) -> np.ndarray | None:
    """Return the image as it is cut and resized, before it is normalised, [row, column, colour].

    None where the processor does not prepare it without that.
    """
    plain = {"do_normalize": False, "do_rescale": False, "return_tensors": "pt"}
    try:
        seen = processor(images=image, **plain)["pixel_values"]
    except Exception:  # noqa: BLE001 - of a picture to look at, which the model does not need
        return None
    if not isinstance(seen, torch.Tensor) or seen.shape != pixels.shape or seen.shape[1] != 3:
        return None
    whole = float64_on_cpu(seen[0]).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(whole.permute(1, 2, 0).numpy())


def _special_names(model: nn.Module) -> list[str]:
    """Name the tokens that a model puts before the patches."""
    names = []
    for path, vectors in model.named_parameters():
        name = _SPECIAL.get(path.rpartition(".")[2])
        if name is not None:
            count = vectors.numel() // vectors.shape[-1]
            is_many = name == "register"
            names += [f"{name} {at + 1}" if is_many else name for at in range(count)]
    return names


def _patch_size(model: nn.Module) -> tuple[int, int] | None:
    """Return the height and width of a patch; None where they are not known."""
    size: Any = getattr(model.config, "patch_size", None)
    high, wide = size if isinstance(size, tuple | list) and len(size) == 2 else (size, size)
    is_known = isinstance(high, int) and isinstance(wide, int) and min(high, wide) > 0
    return (high, wide) if is_known else None
