"""Memory settings of the process: blocks that the C library keeps, huge pages of torch."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_M_MMAP_THRESHOLD = -3


def return_freed_memory() -> None:
    """Have the C library return large freed blocks to the system, by a fixed mmap threshold.

    glibc raises its threshold to up to 32 MiB and then keeps blocks of that size: the memory of a
    long text would stay allocated. A model that read 768 tokens in Python took 1,100 MB in three of
    four processes, and 110 MB with the fixed threshold.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries neither have nor need this setting
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 2**20)


def trim_freed_memory() -> None:
    """Have the C library return small freed blocks to the system, which it else keeps.

    It takes milliseconds, in which other threads run Python.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def ask_for_large_pages() -> None:
    """Have torch allocate large tensors in huge pages where the system has them.

    To be called before torch is imported. Memory is mapped page by page at the first write, which
    takes longer than the computation itself.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
