"""Loads all modules that the program may load later, so that they do not count as memory growth."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import visualizer

LATER = ("transformers.models.llama.modeling_llama", "transformers.models.auto.tokenization_auto")
"""Third-party modules that an opened model requires."""


def load_all() -> None:
    """Import every module of the program that is not itself a program."""
    for found in walk_packages(visualizer.__path__, "visualizer."):
        if not found.name.endswith("_main") and found.name != "visualizer.__main__":
            import_module(found.name)
    for name in LATER:
        import_module(name)
