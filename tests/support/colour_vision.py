"""Colour metrics: contrast, lightness and simulated colour blindness."""

from __future__ import annotations

import numpy as np

# Machado, Oliveira and Fernandes 2009, table 1, severity 1, for linear red, green and blue.
EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}

# Ottosson 2020, "A perceptual color space for image processing".
TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def rgb(*colours: str) -> np.ndarray:
    """Convert ``#rrggbb`` to values from 0 to 255 [colour, channel]."""
    return np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in colours])


def linear(channels: np.ndarray) -> np.ndarray:
    part = channels / 255
    return np.asarray(np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4))


def luminance(channels: np.ndarray) -> np.ndarray:
    """Return the relative luminance as defined by WCAG 2.2."""
    return np.asarray(linear(channels) @ np.array([0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio as defined by WCAG 2.2."""
    dark, light = sorted(luminance(rgb(one, other)).tolist())
    return float((light + 0.05) / (dark + 0.05))


def lightness(channels: np.ndarray) -> np.ndarray:
    """Return the CIE 1976 lightness L*."""
    y = luminance(channels)
    return np.asarray(np.where(y > (6 / 29) ** 3, 116 * np.cbrt(y) - 16, y * (29 / 3) ** 3))


def oklab(channels: np.ndarray, eyes: str = "usual") -> np.ndarray:
    """Return the Oklab lightness and the two colour axes for a type of vision [colour, axis]."""
    seen = np.clip(linear(channels) @ EYES[eyes].T, 0, 1)
    return np.asarray(np.cbrt(seen @ TO_CONES.T) @ TO_OKLAB.T)
