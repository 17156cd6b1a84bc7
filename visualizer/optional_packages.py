"""Optional packages, and messages about those that are missing; no optional package is imported."""

from __future__ import annotations

from importlib.util import find_spec

from visualizer.errors import InputError

EXTRA_OF_PACKAGE = {
    "av": "film",
    "transformers": "models",
    "accelerate": "models",
    "h11": "models",
    "keyring": "remote",
    "shtab": "completion",
}
"""The extra of this program that installs a package, keyed by package."""
PACKAGE_FIELD = "package"
"""Error field for a package that is not installed."""


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return find_spec(package) is not None


def missing_package_message(package: str, feature: str) -> str:
    """Return a message that a feature requires a package, with the command that installs it.

    The command contains double quotation marks, which all shells understand, including those of
    Windows.
    """
    command = f'pip install "attention-visualizer[{EXTRA_OF_PACKAGE[package]}]"'
    return f"{feature} requires {package}, which is not installed. Install it with: {command}"


def require_package(package: str, feature: str) -> None:
    """Raise an `InputError` with field ``package`` if the package cannot be imported."""
    if not is_installed(package):
        raise InputError(PACKAGE_FIELD, missing_package_message(package, feature))
