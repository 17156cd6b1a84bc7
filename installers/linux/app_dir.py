"""Creates the folder from which appimagetool creates an AppImage."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from installers.linux.constants import NAME

if TYPE_CHECKING:
    from pathlib import Path


def build_app_dir(tree: Path, folder: Path) -> Path:
    """Copy a file tree as an AppDir and return the path of the AppDir.

    The AppDir contains the same files as the Debian package and, at its top level, a launcher, a
    menu entry and an icon.
    """
    app_dir = folder / "AttentionVisualizer.AppDir"
    app_dir.mkdir()
    shutil.copytree(tree / "usr", app_dir / "usr", symlinks=True)
    share = app_dir / "usr" / "share"
    (app_dir / "AppRun").symlink_to(f"usr/bin/{NAME}")
    shutil.copy2(share / "applications" / f"{NAME}.desktop", app_dir)
    icon = share / "icons" / "hicolor" / "256x256" / "apps" / f"{NAME}.png"
    shutil.copy2(icon, app_dir)
    (app_dir / ".DirIcon").symlink_to(icon.name)
    return app_dir
