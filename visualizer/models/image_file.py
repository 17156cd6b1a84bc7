"""Reads an image file within limits, decodes it with Pillow, and identifies it by hash.

An image may come from an untrusted source: only a few formats are decoded, and its size is checked
first. Pillow is imported when an image is decoded; torch is not imported.
"""

from __future__ import annotations

import io
import warnings
from hashlib import sha256
from typing import TYPE_CHECKING

from visualizer.errors import InputError, system_error_reason
from visualizer.models.model_source import ImageFile
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from PIL import Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
MAX_FILE_BYTES = 64 * 2**20
MAX_ASPECT_RATIO = 10
"""Maximum ratio of the longer side to the shorter side. The shorter side is scaled to the model's
input size; otherwise, the scaled image could be very large.
"""
MAX_PIXELS = 50_000_000
IMAGE_CHANGED_ERROR = (
    "“{name}” has changed since it was chosen. Choose it again to use the current version."
)


def has_image_suffix(path: Path) -> bool:
    """Return whether a file name has the suffix of an image."""
    return path.suffix.lower() in IMAGE_SUFFIXES


def hash_image_file(path: Path) -> ImageFile:
    """Return the path and hash of an image file, after checking that it can be decoded.

    Raises
    ------
    InputError
        With field ``image`` if the file cannot be read.
    """
    content = _read_image_bytes(path)
    _decode_image(content, path.name)
    return ImageFile(str(path.absolute()), sha256(content).hexdigest())


def decode_image(path: Path, expected_hash: str = "") -> Image.Image:
    """Decode an image file as an upright RGB image.

    Parameters
    ----------
    expected_hash : str
        Expected hash of the file's content; empty to accept any.

    Raises
    ------
    InputError
        With field ``image``.
    """
    content = _read_image_bytes(path)
    if expected_hash and sha256(content).hexdigest() != expected_hash:
        raise InputError("image", IMAGE_CHANGED_ERROR.format(name=path.name))
    return _decode_image(content, path.name)


def _read_image_bytes(path: Path) -> bytes:
    try:
        with open_regular_file(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        sentence = f"Image not found: “{path.name}” in {path.absolute().parent}."
        raise InputError("image", sentence) from error
    except (OSError, MemoryError) as error:
        raise _unreadable_image_error(path.name, error) from error
    if len(content) > MAX_FILE_BYTES:
        sentence = f"“{path.name}” is too large. The limit is {MAX_FILE_BYTES // 2**20} MiB."
        raise InputError("image", sentence)
    return content


def _decode_image(content: bytes, name: str) -> Image.Image:
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Everything that Pillow warns about is rejected below or is irrelevant.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
                _check_image_size(*image.size, name)
                return ImageOps.exif_transpose(image).convert("RGB")
    except InputError:
        raise
    except Exception as error:  # decoders raise many kinds of errors for damaged files
        raise _unreadable_image_error(name, error) from error


def _check_image_size(width: int, height: int, name: str) -> None:
    size = f"“{name}” has {width:,} × {height:,} pixels"
    if width * height > MAX_PIXELS:
        raise InputError(
            "image", f"{size}. The limit is {MAX_PIXELS:,} pixels. Scale the image down."
        )
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        sentence = (
            f"{size}: the aspect ratio must be at most {MAX_ASPECT_RATIO:,}:1. Crop the image."
        )
        raise InputError("image", sentence)


def _unreadable_image_error(name: str, error: Exception) -> InputError:
    reason = f": {system_error_reason(error)}" if isinstance(error, OSError) and error.errno else ""
    kinds = ", ".join(IMAGE_FORMATS)
    return InputError(
        "image", f"Cannot open “{name}” as an image{reason}. Supported formats: {kinds}."
    )
