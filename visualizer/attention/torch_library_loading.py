"""Loads torch's largest library without the interpreter's lock, before torch is imported.

An import holds the lock while the system loads a library, which takes 0.2 s for this one: no other
thread runs Python meanwhile, and the window stands still.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = (("libtorch_global_deps.so", ctypes.RTLD_GLOBAL), ("libtorch_cpu.so", 0))
"""In the order and the scope in which torch itself loads them."""


@cache
def load_torch_library() -> None:
    """Load the library on Linux, where its name is known; elsewhere, the import does so.

    What fails here fails again at the import of torch, which says why.
    """
    if sys.platform != "linux" or "torch" in sys.modules:
        return
    found = find_spec("torch")
    for folder in found.submodule_search_locations or () if found else ():
        with suppress(AttributeError):  # a C library without this function
            load = ctypes.CDLL(None).dlopen  # called as any other function, without the lock
            load.restype, load.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
            for name, scope in LIBRARIES:
                load(os.fsencode(Path(folder, "lib", name)), os.RTLD_NOW | scope)
