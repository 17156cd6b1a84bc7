"""Adds files to the site that stand beside `docs`, so that nothing is kept twice."""

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
    """Add how to contribute, whose links to pages lead within the site, and the icon."""
    text = (ROOT / PAGE).read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, PAGE, content=text))
    files.append(File.generated(config, "pictures/icon.svg", abs_src_path=str(ROOT / ICON)))
    return files
