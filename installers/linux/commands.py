"""Runs the programs that the build requires, and downloads Debian packages with them."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

PACKAGES = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "patchelf": "patchelf",
    "strip": "binutils",
}
"""The Debian package of each program that the build runs."""


def require_programs() -> None:
    """Check that all programs in `PACKAGES` are installed.

    Raises
    ------
    InputError
        With the names of the packages to install.
    """
    missing = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if missing:
        raise InputError(
            "programs", f"Required programs are missing. Install {', '.join(missing)}."
        )


def run(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program and return its standard output.

    Raises
    ------
    InputError
        If the program fails, with the end of its output.
    """
    done = subprocess.run(
        [str(one) for one in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout)[-2000:]
        raise InputError(
            "programs", f"{command[0]} failed with exit status {done.returncode}:\n{said}"
        )
    return done.stdout


def unpack_debian_packages(packages: Iterable[str], folder: Path) -> None:
    """Unpack the newest versions of the given packages into one folder, which may exist."""
    downloads = folder / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    # If root runs apt, it downloads as another user, warns that this user cannot write here.
    download = ("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root")
    for package in packages:
        run([*download, package], folder=downloads)
        (file,) = downloads.glob(f"{package}_*.deb")
        run(["dpkg-deb", "--extract", file, folder])
