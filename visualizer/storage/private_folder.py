"""Folders that are accessible to the user only."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = 0o700
"""Permissions for the user only; a file has at most those of its folder."""


def make_private_folder(path: Path) -> None:
    """Create a folder that is accessible to the user only, or restrict an existing one.

    A folder owned by another user is left unchanged; on Windows, permissions are inherited.
    """
    path.mkdir(PRIVATE, parents=True, exist_ok=True)
    if sys.platform != "win32" and path.stat().st_mode & 0o777 & ~PRIVATE:
        with suppress(PermissionError):
            path.chmod(PRIVATE)
