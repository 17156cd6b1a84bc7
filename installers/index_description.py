"""Build hook: the description of the package is the README with links that also work elsewhere.

Package indexes show the README without the files of the repository. If ``project.urls`` in
``pyproject.toml`` has the address of the repository as ``Source``, pictures and links refer to the
files of the release there. Without an address, pictures are omitted, and links become plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)\n*")
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)([^)]+)\)")
PLACEHOLDER = "REPOSITORY_URL"
"""Stands for the address of the repository in the README."""


class DescriptionHook(MetadataHookInterface):
    """Sets the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the description to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Source", "")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": create_description(text, address, f"v{metadata['version']}"),
        }


def create_description(readme: str, address: str, tag: str) -> str:
    """Return the README with absolute links.

    Parameters
    ----------
    address : str
        Address of the repository, or an empty text.
    tag : str
        Tag of the release, such as ``v0.1.0``.
    """
    if not address:
        return LINK.sub(r"\1", IMAGE.sub("", readme))
    address = address.rstrip("/").removesuffix(".git")
    text = IMAGE.sub(
        lambda found: found[0].replace(f"]({found[1]}", f"]({address}/raw/{tag}/{found[1]}"), readme
    )
    text = LINK.sub(rf"[\1]({address}/blob/{tag}/\2)", text)
    return text.replace(
        f", where `{PLACEHOLDER}` is the address of\nthis repository:", ":"
    ).replace(PLACEHOLDER, address)
