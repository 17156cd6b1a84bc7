"""Adds two files outside `docs` to the site: CONTRIBUTING.md and the icon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
PAGE = "CONTRIBUTING.md"
ICON = "resources/icons/app.svg"


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add CONTRIBUTING.md, with links to pages adapted to the site, and the icon."""
    text = (ROOT / PAGE).read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, PAGE, content=text))
    files.append(File.generated(config, "pictures/icon.svg", abs_src_path=str(ROOT / ICON)))
    return files
