"""The path of the layer that contains a module."""

from __future__ import annotations

import re


def layer_path(module: str) -> str:
    """Return the path up to the layer's number: ``model.layers.3`` of ``model.layers.3.self_attn``.

    For a module outside numbered layers, return its own path.
    """
    match = re.match(r".*\.\d+(?=\.)", module)
    return match[0] if match else module
