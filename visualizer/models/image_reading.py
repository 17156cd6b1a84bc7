"""What a vision model is given of an image file, and the names of its tokens: patches.

An image may come from anywhere: it is decoded by Pillow alone, in a few formats, and its size is
checked before that.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from PIL import Image, ImageOps

from visualizer.errors import InputError, reason_of
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MOST_BYTES = 64 * 2**20
LONGEST_SIDES = 10
"""At most so many times the other may a side be: the shorter one is enlarged to a model's size."""
MOST_PIXELS = 50_000_000
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
    """

    pixels: Tensor
    names: tuple[str, ...]


def image_tokens(path: Path, processor: Any, model: nn.Module) -> ImageTokens:
    """Read an image file for a vision model.

    Parameters
    ----------
    processor
        The model's image processor, of transformers.
    model : Module
        The part of the model that reads images.

    Raises
    ------
    InputError
        Of ``image``, when the file is none that can be read.
    """
    try:
        pixels = processor(images=opened_image(path), return_tensors="pt")["pixel_values"]
    except InputError:
        raise
    except Exception as error:  # every processor fails in its own way
        sentence = f"“{path.name}” cannot be prepared for this model: {error}"
        raise InputError("image", sentence[:300]) from error
    if not isinstance(pixels, torch.Tensor) or pixels.ndim != 4 or len(pixels) != 1:
        raise InputError("image", "This model reads an image in several parts, which is not shown.")
    return ImageTokens(pixels, (*_special_names(model), *_patch_names(model, pixels)))


def opened_image(path: Path) -> Image.Image:
    """Decode an image file, upright, as red, green and blue.

    Raises
    ------
    InputError
        Of ``image``.
    """
    try:
        with open_regular_file(path) as file, warnings.catch_warnings():
            # Whatever Pillow warns of is refused below, or is of no account.
            warnings.simplefilter("ignore")
            size = file.seek(0, 2)
            file.seek(0)
            if size > MOST_BYTES:
                sentence = f"“{path.name}” is larger than {MOST_BYTES // 2**20} MiB."
                raise InputError("image", sentence)
            with Image.open(file, formats=FORMATS) as image:
                width, height = image.size
                if width * height > MOST_PIXELS:
                    most = f"{MOST_PIXELS:,} can be read"
                    sentence = f"“{path.name}” has {width:,} × {height:,} pixels, and {most}."
                    raise InputError("image", sentence)
                if max(width, height) > LONGEST_SIDES * min(width, height):
                    sentence = (
                        f"“{path.name}” has {width:,} × {height:,} pixels: one side is more than "
                        f"{LONGEST_SIDES:,} times the other. Cut a part out of it."
                    )
                    raise InputError("image", sentence)
                return ImageOps.exif_transpose(image).convert("RGB")
    except FileNotFoundError as error:
        sentence = f"There is no file “{path.name}” in {path.absolute().parent}."
        raise InputError("image", sentence) from error
    except InputError:
        raise
    except Exception as error:  # decoders raise errors of every kind on damaged files
        said = f": {reason_of(error)}" if isinstance(error, OSError) and error.errno else ""
        kinds = ", ".join(FORMATS)
        sentence = f"“{path.name}” is no image that can be read{said}. Use one of {kinds}."
        raise InputError("image", sentence) from error


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


def _patch_names(model: nn.Module, pixels: Tensor) -> list[str]:
    """Name the patches of an image by their places, counted from 1."""
    size: Any = getattr(model.config, "patch_size", None)
    high, wide = size if isinstance(size, tuple | list) and len(size) == 2 else (size, size)
    if not isinstance(high, int) or not isinstance(wide, int) or min(high, wide) < 1:
        return []
    rows, columns = pixels.shape[-2] // high, pixels.shape[-1] // wide
    return [
        f"row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)
    ]
