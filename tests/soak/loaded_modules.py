"""Loads all that the program may load later, so that what it holds then is no growth of memory."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import visualizer

LATER = ("transformers.models.llama.modeling_llama", "transformers.models.auto.tokenization_auto")
"""Of others: what a model needs that is opened."""


def load_all() -> None:
    """Import every module of the program that is not itself a program."""
    for found in walk_packages(visualizer.__path__, "visualizer."):
        if not found.name.endswith("_main") and found.name != "visualizer.__main__":
            import_module(found.name)
    for name in LATER:
        import_module(name)
