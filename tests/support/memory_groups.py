"""Groups of processes with a joint memory limit, if the system allows tests to create them."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUPS = Path("/sys/fs/cgroup")
PROCESSES = "cgroup.procs"
LONGEST_S = 20
"""Maximum time, in seconds, for a process to end after the process that started it has ended."""


@contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """Create a group whose processes may together use this many bytes, including caches.

    A process enters the group by writing its id into the group's file of processes. If groups
    cannot be created, the test is skipped.
    """
    try:
        group = _made(limit)
    except OSError as error:
        pytest.skip(f"no group with a limit of memory can be made here: {error}")
    try:
        yield group
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Remove a group when its last process has ended."""
    for number in (group / PROCESSES).read_text(encoding="ascii").split():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(int(number)).wait(LONGEST_S)
    group.rmdir()


def _made(limit: int) -> Path:
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    own = {kinds: path.lstrip("/") for _, kinds, path in (line.split(":", 2) for line in lines)}
    name = f"attention-visualizer-test-{os.getpid()}"
    if "memory" in own:  # version 1
        group = GROUPS / "memory" / own["memory"] / name
        group.mkdir()
        limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        without_swap = str(limit)
    else:  # version 2, in which a group that contains processes cannot contain groups
        beside = GROUPS / own.get("", "")
        group = (beside if beside == GROUPS else beside.parent) / name
        group.mkdir()
        limits, without_swap = ("memory.max", "memory.swap.max"), "0"
    try:
        (group / limits[0]).write_text(str(limit), encoding="ascii")
        with suppress(OSError):  # swap is not counted on all systems
            (group / limits[1]).write_text(without_swap, encoding="ascii")
        held = int((group / limits[0]).read_text(encoding="ascii"))
        if held > limit:
            raise OSError(f"the limit is {held} and not {limit}")
    except (OSError, ValueError) as error:
        group.rmdir()
        raise OSError(str(error)) from error
    return group
