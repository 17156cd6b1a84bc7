"""Collects the licences of all included packages, and lists them in ``copyright``."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from installers.linux.constants import NAME, PROGRAM, ROOT
from visualizer.errors import InputError
from visualizer.version import __version__

COMMON = Path("/usr/share/common-licenses")
"""The folder of licence texts on Debian."""
TEXTS = {
    "pyside6-essentials": ("LGPL-3", "GPL-3"),
    "shiboken6": ("LGPL-3", "GPL-3"),
    "tokenizers": ("Apache-2.0",),
}
"""Names of texts in `COMMON` for the packages that do not include their licence."""

_STATEMENTS = ("License-Expression", "License")


def write_licences(packages: Path, copyrights: Path, documents: Path) -> None:
    """Collect the licence texts that the packages do not include, and write ``copyright``.

    Parameters
    ----------
    packages : Path
        The folder of the installed packages.
    copyrights : Path
        A folder with a file ``PACKAGE/copyright`` for each Debian package; it may be empty.
    documents : Path
        The folder in which the documents are written.

    Raises
    ------
    InputError
        If the licence of a package is unknown.
    """
    texts = documents / "licences"
    texts.mkdir(parents=True)
    for text in sorted({each for row in TEXTS.values() for each in row}):
        shutil.copyfile(COMMON / text, texts / text)
    for file in sorted(copyrights.glob("*/copyright")):
        shutil.copyfile(file, texts / f"debian-{file.parent.name}")
    template = (Path(__file__).with_name("files") / "copyright").read_text(encoding="utf-8")
    page = template.format(
        version=__version__,
        licence=(ROOT / "LICENSE").read_text(encoding="utf-8"),
        folder=f"usr/{PROGRAM.as_posix()}",
        documents=f"/usr/share/doc/{NAME}/licences",
        parts="\n".join(_licence_line(one) for one in _installed(packages)),
    )
    (documents / "copyright").write_text(page, encoding="utf-8")


def _installed(packages: Path) -> list[Distribution]:
    return [PathDistribution(folder) for folder in sorted(packages.glob("*.dist-info"))]


def _licence_line(one: Distribution) -> str:
    name = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
    licence = _declared_licence(one)
    if not licence or not (name in TEXTS or _has_licence_file(one)):
        raise InputError(
            "licences",
            f"{name} does not include its licence. Add its licence to TEXTS in "
            "installers/linux/licences.py.",
        )
    files = f" ({', '.join(TEXTS[name])})" if name in TEXTS else ""
    return f"- {name} {one.version}: {licence}{files}"


def _declared_licence(one: Distribution) -> str:
    """Return the licence that a package declares, in one line."""
    metadata = one.metadata
    stated = next((metadata[key] for key in _STATEMENTS if key in metadata), "")
    if stated and "\n" not in stated:
        return stated
    named = [
        text.rpartition(" :: ")[2]
        for text in metadata.get_all("Classifier") or ()
        if text.startswith("License :: ")
    ]
    return ", ".join(named) or stated.partition("\n")[0]


def _has_licence_file(one: Distribution) -> bool:
    folder: Path = one._path  # type: ignore[attr-defined]
    return any(
        re.search("licen[cs]e|copying", file.name, re.IGNORECASE)
        for file in folder.rglob("*")
        if file.is_file()
    )
