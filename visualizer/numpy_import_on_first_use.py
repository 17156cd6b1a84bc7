"""Imports numpy when it is first used: the first window is painted without a number.

``lazy import`` does the same from Python 3.15 on. ``importlib.util.LazyLoader`` does not: it
imports with the second module that names numpy, and before Python 3.12 in two threads at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from types import ModuleType
from typing import Any

NAME = "numpy"
_THREADS = "OPENBLAS_NUM_THREADS"
_LOCK = Lock()


def import_numpy_on_first_use() -> None:
    """Have ``import numpy`` give a module that is filled at the first use of what is in it.

    Without effect where numpy is imported already, or missing.
    """
    if NAME not in sys.modules and find_spec(NAME):
        sys.modules[NAME] = _NumpyBeforeUse(NAME)


def import_numpy_now() -> None:
    """Import numpy on a thread, before what imports its submodules there.

    Of two threads, one that begins with a submodule and one with numpy wait for each other.
    """
    module = import_module(NAME)
    if isinstance(module, _NumpyBeforeUse):
        _fill(module)


class _NumpyBeforeUse(ModuleType):
    """What modules name before the first use; it holds all that the module holds from then on."""

    def __getattr__(self, name: str) -> Any:
        _fill(self)
        return getattr(self, name)


def _fill(module: ModuleType) -> None:
    """Import numpy, and make the module be it; no method, as another thread may do so meanwhile."""
    vars(module).update(vars(_imported(module)))
    module.__class__ = ModuleType


def _imported(before: ModuleType) -> ModuleType:
    """Import numpy, or wait while another thread does.

    It starts no thread of its matrix products for every core: that takes as long as all the rest,
    and large products are torch's, whose libraries find the environment as it was.
    """
    with _LOCK:
        is_first = sys.modules.get(NAME) is before
        if is_first:
            del sys.modules[NAME]
        is_to_set = is_first and _THREADS not in os.environ
        if is_to_set:
            os.environ[_THREADS] = "1"
    try:
        return import_module(NAME)
    finally:
        if is_to_set:
            del os.environ[_THREADS]
