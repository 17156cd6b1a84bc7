"""Optional packages for some features, and how to install them; imports none of them."""

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
"""Extra of this program that installs each package."""
PACKAGE_FIELD = "package"
"""Field of an error about a package that is not installed."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(package) is not None


def missing_package_message(package: str, feature: str) -> str:
    """Return the message that a feature requires a package, with the command that installs it.

    All shells, including those of Windows, understand the double quotation marks.
    """
    command = f'pip install "attention-visualizer[{EXTRA_OF_PACKAGE[package]}]"'
    return f"{feature} requires {package}, which is not installed: {command}"


def require_package(package: str, feature: str) -> None:
    """Raise an `InputError` with the field ``package`` if a package cannot be imported."""
    if not is_installed(package):
        raise InputError(PACKAGE_FIELD, missing_package_message(package, feature))
