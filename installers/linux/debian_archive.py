"""Debian packages, downloaded and unpacked without being installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from installers.linux.commands import run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def unpack_debian_packages(packages: Iterable[str], folder: Path) -> None:
    """Unpack the newest versions of some packages into one folder, which may be there."""
    downloads = folder / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    # As root, apt downloads as a user of its own, who may not write here, and warns of that.
    download = ("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root")
    for package in packages:
        run([*download, package], folder=downloads)
        (file,) = downloads.glob(f"{package}_*.deb")
        run(["dpkg-deb", "--extract", file, folder])
