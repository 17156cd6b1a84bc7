"""Runs the programs that the build needs, and says which are missing."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PACKAGES = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "patchelf": "patchelf",
}
"""The Debian packages of the programs that the build runs."""


def require_programs() -> None:
    """Check that all programs of `PACKAGES` are there.

    Raises
    ------
    InputError
        With what is to be installed.
    """
    missing = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if missing:
        raise InputError("programs", f"Install what the build runs: {', '.join(missing)}.")


def run(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program and return what it prints.

    Raises
    ------
    InputError
        When it fails, with the end of what it said.
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
        raise InputError("programs", f"{command[0]} ended with {done.returncode}:\n{said}")
    return done.stdout
