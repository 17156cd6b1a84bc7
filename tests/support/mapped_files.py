"""Lists the files of a folder that a process has mapped or opened, including deleted ones."""

from __future__ import annotations

import os
from pathlib import Path


def mapped_of(folder: Path, process: int | str = "self") -> list[int]:
    """Return the size of each mapping of a file that is or was in a folder, in bytes."""
    found = []
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        if path.startswith(f"{folder}/"):
            start, stop = (int(each, 16) for each in span.split("-"))
            found.append(stop - start)
    return found


def opened_of(folder: Path) -> list[os.stat_result]:
    """Return the status of each file of a folder that this process has open, deleted or not."""
    return [
        one.stat()
        for one in Path("/proc/self/fd").iterdir()
        if os.path.lexists(one) and str(one.readlink()).startswith(f"{folder}/")
    ]
