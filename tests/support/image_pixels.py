"""Pixels of images as arrays."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QImage


def rgb_of(image: QImage) -> np.ndarray:
    """Return each pixel as one number, 0xRRGGBB."""
    opaque = image.convertToFormat(QImage.Format.Format_RGB32)
    lines = np.frombuffer(opaque.constBits(), np.uint32).reshape(opaque.height(), -1)
    return lines[:, : opaque.width()] & 0xFFFFFF
