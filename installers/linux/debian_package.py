"""Builds the Debian package from a complete file tree."""

from __future__ import annotations

import hashlib
import os
from email.utils import formatdate
from typing import TYPE_CHECKING

from installers.linux.commands import run
from installers.linux.constants import NAME
from installers.linux.desktop_files import FILES
from installers.linux.file_tree import make_uniform, write_gzip
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAINTAINER = "Attention Visualizer contributors <packages@attention-visualizer.invalid>"
"""The project has no email address; the domain .invalid never exists."""
COMPRESSION = ("-Zzstd", "-z18")
"""Options of dpkg-deb. Level 18 is the lowest with which the package is smaller than 220 MB.

xz takes longer to create and to unpack the package. dpkg reads zstd since version 1.21.18.
"""
CONTROL = """\
Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}
Recommends: ca-certificates
Section: education
Priority: optional
Description: shows how attention is computed, value by value
 Type a sentence to see the scores, weights and context vectors of every head
 of an attention module, and how each value is calculated. Train small language
 models and watch their heads form, or open a real model and inspect all of its
 heads on your own text.
 .
 The package includes Python and all dependencies, with PyTorch for the CPU. It
 neither uses nor changes the system's Python.
"""


def build_debian_package(tree: Path, packages: Sequence[str], folder: Path, moment: int) -> Path:
    """Build a package from a tree with the layout of a file system; return the package's path.

    Parameters
    ----------
    packages : sequence of str
        The packages on which this package depends.
    moment : int
        The modification time of all files, in seconds since 1970.
    """
    architecture = run(["dpkg", "--print-architecture"]).strip()
    control = tree / "DEBIAN"
    control.mkdir()
    _write_debian_documents(tree / "usr" / "share", moment)
    make_uniform(tree / "usr" / "share", moment)
    files = sorted(path for path in (tree / "usr").rglob("*"))
    sums = [_sum_line(tree, path) for path in files if path.is_file() and not path.is_symlink()]
    (control / "md5sums").write_text("".join(sums), encoding="utf-8")
    # Like dpkg, count whole KiB for each file, and 1 KiB for each folder and link.
    size = sum(-(-path.stat().st_size // 1024) if _is_plain(path) else 1 for path in files)
    fields = {"name": NAME, "version": __version__, "maintainer": MAINTAINER, "size": size}
    text = CONTROL.format(**fields, architecture=architecture, depends=", ".join(packages))
    (control / "control").write_text(text, encoding="utf-8")
    make_uniform(control, moment)
    package = folder / f"{NAME}_{__version__}_{architecture}.deb"
    run(
        ["dpkg-deb", "--root-owner-group", *COMPRESSION, "--build", tree, package],
        environment={**os.environ, "SOURCE_DATE_EPOCH": str(moment)},
    )
    return package


def _write_debian_documents(share: Path, moment: int) -> None:
    overrides = share / "lintian" / "overrides" / NAME
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text((FILES / "lintian-overrides").read_text("utf-8"), encoding="utf-8")
    text = (FILES / "changelog").read_text(encoding="utf-8")
    date = formatdate(moment)
    text = text.format(version=__version__, maintainer=MAINTAINER, date=date)
    write_gzip(share / "doc" / NAME / "changelog.gz", text.encode())


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _sum_line(tree: Path, path: Path) -> str:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    return f"{digest}  {path.relative_to(tree).as_posix()}\n"
