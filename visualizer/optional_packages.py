"""Optional packages, and messages about those that are missing; no optional package is imported.

The program is not on a package index, so the commands in messages install the packages themselves
rather than an extra of the program.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from visualizer.errors import InputError

REQUIREMENTS_OF_EXTRA = {
    "film": ("av>=14",),
    "models": ("transformers>=5", "accelerate>=1", "h11>=0.14"),
    "remote": ("keyring>=25",),
    "completion": ("shtab>=1.13",),
}
"""The requirements of each extra of this program, as in pyproject.toml."""
OPTIONAL_PACKAGES = {
    requirement.partition(">")[0]: requirements
    for requirements in REQUIREMENTS_OF_EXTRA.values()
    for requirement in requirements
}
"""The requirements that are installed together with each optional package."""
PACKAGE_FIELD = "package"
"""Error field for a package that is not installed."""
BUNDLE_INSTALLER = "attention-visualizer-bundle"
"""Content of the file ``INSTALLER`` in the metadata of a program that includes its interpreter."""
TITLES = {"av": "PyAV", "lightning": "Lightning"}
"""Names of projects that differ from the names of their packages."""
BUNDLE_NOTES = {
    "av": "because its video encoders have a different licence. Export GIF, APNG or WebP instead"
}
"""The reason why a bundle does not contain a package, and what to do instead."""


class Installation(StrEnum):
    """How the program was installed, which determines how packages are added to it."""

    PIP = "pip"
    NOTEBOOK = "notebook"
    UV = "uv"
    """A virtual environment of uv, which contains no pip; also that of ``uv tool``."""
    PIPX = "pipx"
    BUNDLE = "bundle"
    """The Debian package, the AppImage or an installer of Briefcase; it cannot be extended."""


@cache
def detect_installation(environment: Path | None = None) -> Installation:
    """Return how the program was installed.

    Parameters
    ----------
    environment : Path, optional
        Folder of the Python environment, by default that of this process.
    """
    folder = environment or Path(sys.prefix)
    if (folder / "pipx_metadata.json").is_file():
        return Installation.PIPX
    if _is_uv_environment(folder):
        return Installation.UV
    if _is_bundle():
        return Installation.BUNDLE
    return Installation.NOTEBOOK if "ipykernel" in sys.modules else Installation.PIP


def install_command(*requirements: str, installation: Installation | None = None) -> str:
    """Return the command that adds packages to the program; empty if that is not possible.

    Requirements are between double quotation marks, which all shells understand, including those
    of Windows; otherwise, ``>`` would redirect the output.
    """
    quoted = " ".join(f'"{each}"' if ">" in each else each for each in requirements)
    match installation or detect_installation():
        case Installation.BUNDLE:
            return ""
        case Installation.PIPX:
            return f"pipx inject {Path(sys.prefix).name} {quoted}"
        case Installation.UV:
            return f"uv pip install --python {_quote_path(sys.prefix)} {quoted}"
        case Installation.NOTEBOOK:
            return f"%pip install {quoted}"
        case Installation.PIP:
            return f"{_pip_command()} install {quoted}"


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return find_spec(package) is not None


def missing_package_message(
    package: str, feature: str, *, installation: Installation | None = None
) -> str:
    """Return a message that a feature requires a package, with the command that installs it."""
    title = TITLES.get(package, package)
    requirements = OPTIONAL_PACKAGES.get(package, (package,))
    if command := install_command(*requirements, installation=installation):
        return f"{feature} requires {title}, which is not installed. Install it with: {command}"
    note = BUNDLE_NOTES.get(package)
    return (
        f"{feature} requires {title}, which this package of the program does not contain"
        f"{f' {note}, or' if note else '. To use it,'} install the program with pipx or uv."
    )


def require_package(package: str, feature: str) -> None:
    """Raise an `InputError` with field ``package`` if the package cannot be imported."""
    if not is_installed(package):
        raise InputError(PACKAGE_FIELD, missing_package_message(package, feature))


def _is_uv_environment(folder: Path) -> bool:
    try:
        lines = (folder / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.startswith("uv =") for line in lines)


def _is_bundle() -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # not at startup

    for name in ("attention-visualizer", "visualizer"):  # Briefcase uses the name of the package
        with suppress(PackageNotFoundError):
            found = distribution(name)
            installer = (found.read_text("INSTALLER") or "").strip()
            if installer == BUNDLE_INSTALLER or "Briefcase-Version" in found.metadata:
                return True
    return False


def _pip_command() -> str:
    """Return the shortest command that runs the pip of this environment."""
    found = shutil.which("pip")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "pip"
    return f"{_quote_path(sys.executable)} -m pip"


def _quote_path(path: str) -> str:
    return f'"{path}"' if " " in path else path
