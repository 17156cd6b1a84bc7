"""Builds the Debian package and the AppDir: ``python -m installers.linux --out FOLDER``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from installers.linux.commands import require_programs
from installers.linux.constants import NAME, ROOT
from installers.linux.debian_package import build_debian_package
from installers.linux.file_tree import build_tree, make_uniform, remove
from installers.linux.shared_libraries import system_packages
from visualizer.errors import InputError


def main() -> int:
    """Build the package and the AppDir, and return the exit status."""
    options = build_parser().parse_args()
    try:
        require_programs()
        build(options)
    except InputError as refused:
        print(refused.sentence, file=sys.stderr)
        return 1
    return 0


def build(options: argparse.Namespace) -> None:
    """Build the package and the AppDir in the output folder."""
    moment = source_timestamp()
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    remove(out / "AttentionVisualizer.AppDir")
    with tempfile.TemporaryDirectory(dir=out, prefix="build-") as work:
        built = datetime.fromtimestamp(moment, UTC)
        tree = build_tree(
            Path(work), options.interpreter, options.pip, built, options.pictures, report_progress
        )
        packages = system_packages(tree)
        report_progress("Creating the AppDir…")
        app_dir = build_app_dir(tree, out)
        make_uniform(app_dir, moment)
        report_progress("Building the Debian package…")
        package = build_debian_package(tree, packages, out, moment)
    report_progress(f"{package}: {package.stat().st_size / 1e6:.1f} MB")
    report_progress(f"{app_dir}: use appimagetool to create an AppImage")


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


def source_timestamp() -> int:
    """Return the timestamp of the sources: ``SOURCE_DATE_EPOCH``, or the time of the last commit.

    Raises
    ------
    InputError
        If neither is available.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = ("git", "-C", ROOT, "log", "-1", "--format=%ct")
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(
            "SOURCE_DATE_EPOCH",
            "The sources are not a Git checkout. Set SOURCE_DATE_EPOCH to the modification time "
            "of the packaged files, in seconds since 1970.",
        )
    return int(done.stdout)


def report_progress(message: str) -> None:
    """Print a progress message."""
    print(message, flush=True)


def build_parser() -> argparse.ArgumentParser:
    """Create the argument parser."""
    made = argparse.ArgumentParser(
        prog="python -m installers.linux",
        description="Build a Debian package and an AppDir that include a Python interpreter.",
    )
    made.add_argument(
        "--out",
        type=Path,
        default=ROOT / "dist",
        metavar="FOLDER",
        help="output folder (default: dist)",
    )
    made.add_argument(
        "--interpreter",
        type=Path,
        metavar="FOLDER",
        help="folder of the interpreter to include, with bin/python3.X and lib/python3.X, such "
        "as one from python-build-standalone (default: download Debian 12's with apt-get)",
    )
    made.add_argument(
        "--pictures",
        default="",
        metavar="URL",
        help="address of the folder docs/pictures on the web, from which software centres load "
        "screenshots (default: no screenshots)",
    )
    made.add_argument("pip", nargs="*", help="additional arguments of pip, after --")
    return made


if __name__ == "__main__":
    raise SystemExit(main())
