"""Folders that are the user's alone."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o700
"""Permissions of the user alone; a file has no more of them than its folder."""


def make_private_folder(path: Path) -> None:
    """Create a folder that is the user's alone, or make one so that is there.

    A folder that belongs to somebody else is left as it is; on Windows, its parents decide.
    """
    path.mkdir(PRIVATE, parents=True, exist_ok=True)
    if sys.platform != "win32" and path.stat().st_mode & 0o777 & ~PRIVATE:
        with suppress(PermissionError):
            path.chmod(PRIVATE)
