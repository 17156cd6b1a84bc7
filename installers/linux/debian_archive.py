"""Downloads and unpacks Debian packages without installing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from installers.linux.commands import run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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
