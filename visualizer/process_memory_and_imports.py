"""Settings of the process: memory, huge pages and imports."""

from __future__ import annotations

import builtins
import ctypes
import os
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD = -3


def return_freed_memory() -> None:
    """Have the C library return large freed blocks to the system, by a fixed mmap threshold.

    glibc raises its threshold to up to 32 MiB and then keeps blocks of that size: the memory of a
    long text would stay allocated.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries neither have nor need this setting
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**20)


def ask_for_large_pages() -> None:
    """Have torch allocate large tensors in huge pages where the system has them.

    To be called before torch is imported. Memory is mapped page by page at the first write, which
    takes longer than the computation itself.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def import_plainly() -> None:
    """Restore Python's own ``__import__``, which PySide6 wraps.

    The wrapper serves modules that select ``snake_case`` names. No module here does, and torch's
    thousands of imports take a fifth longer with it.
    """
    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)
