"""Memory limits of this process: resource limits and control groups.

Sources: getrlimit(2), RLIMIT_AS and RLIMIT_DATA; the kernel's "Control Group v2" and "Memory
Resource Controller" (version 1).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import resource

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
UNLIMITED_BYTES = 2**50
"""Version 1 groups without a limit report a larger number."""
_LAYOUTS = {
    "": ("", ("memory.max", "memory.current", "inactive_file")),
    "memory": (
        "memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ),
}
"""File layout of control groups by controller name; the empty name is version 2. Each entry has the
root folder, the files with the limit and the usage, and the statistic of reclaimable cache."""


def bytes_within_limits() -> float:
    """Return the bytes that can be allocated before a limit is reached; infinite without limits."""
    return max(0, min((*_within_own_limits(), *_within_groups()), default=float("inf")))


def _within_own_limits() -> Iterator[int]:
    """Yield the remaining address space and data segment, if they are limited."""
    if sys.platform == "linux":
        for limit, taken in ((resource.RLIMIT_AS, "vms"), (resource.RLIMIT_DATA, "data")):
            most, _ = resource.getrlimit(limit)
            if most != resource.RLIM_INFINITY:
                yield most - getattr(psutil.Process().memory_info(), taken)


def _within_groups() -> Iterator[int]:
    """Yield the remaining memory of each control group of this process, not counting caches."""
    with suppress(OSError):
        for line in OWN_GROUP.read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            root, names = _LAYOUTS.get(kinds, (None, ("", "", "")))
            if root is not None:
                group = GROUPS / root / path.lstrip("/")
                for folder in (group, *group.parents):
                    yield from _within_group(folder, names)
                    if folder == GROUPS / root:
                        break


def _within_group(folder: Path, names: tuple[str, str, str]) -> Iterator[int]:
    limit, used, cache = names
    with suppress(OSError, ValueError):  # the root has no files, and "max" means no limit
        most = int((folder / limit).read_text(encoding="ascii"))
        if most > UNLIMITED_BYTES:
            return
        taken = int((folder / used).read_text(encoding="ascii"))
        rows = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        stat = {name: int(size) for name, _, size in (row.partition(" ") for row in rows)}
        yield most - taken + stat.get(cache, 0)
