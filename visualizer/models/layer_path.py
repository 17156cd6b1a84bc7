"""The path of the layer that a part of a model is in."""

from __future__ import annotations

import re


def layer_path(module: str) -> str:
    """Return the path up to the layer's number: ``model.layers.3`` of ``model.layers.3.self_attn``.

    A module that is in no numbered layer is one itself.
    """
    found = re.match(r".*\.\d+(?=\.)", module)
    return found[0] if found else module
