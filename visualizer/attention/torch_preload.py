"""Loads torch's largest library without holding the GIL, before torch is imported.

An import holds the GIL while the system loads a library, which takes 0.2 s for this library. In the
meantime, no other thread runs Python code, and the window freezes.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

TORCH_LIBRARIES = (("libtorch_global_deps.so", ctypes.RTLD_GLOBAL), ("libtorch_cpu.so", 0))
"""Libraries and their flags, in the order in which torch loads the libraries."""


@cache
def load_torch_library() -> None:
    """Load the library on Linux, where its name is known; on other systems, the import loads it.

    If the library cannot be loaded, the import of torch also fails and reports the reason.
    """
    if sys.platform != "linux" or "torch" in sys.modules:
        return
    found = find_spec("torch")
    for folder in found.submodule_search_locations or () if found else ():
        with suppress(AttributeError):  # a C library without this function
            load = ctypes.CDLL(None).dlopen  # ctypes releases the GIL during the call
            load.restype, load.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
            for name, scope in TORCH_LIBRARIES:
                load(os.fsencode(Path(folder, "lib", name)), os.RTLD_NOW | scope)
