"""Builds the documentation site: ``python -m installers.website [--out FOLDER]``.

The site has the pages and the contents of the program's documentation window, and CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.resources import documentation_path, resource_path
from visualizer.widgets.documentation_pages import read_documentation_pages, read_lesson_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.widgets.documentation_pages import DocumentationPage

ROOT = Path(__file__).resolve().parents[1]
CONFIGURATION = Path(__file__).with_suffix(".toml")
CONTRIBUTING = "CONTRIBUTING.md"


def build_site(out: Path) -> None:
    """Build the site, and replace a folder with it."""
    pages = read_documentation_pages(documentation_path())
    lessons = read_lesson_pages(resource_path("lessons"))
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        shutil.copytree(documentation_path(), project / "docs")
        for lesson in lessons:
            page = project / "docs" / lesson.name
            page.parent.mkdir(exist_ok=True)
            page.write_text(lesson.markdown, encoding="utf-8")
        contributing = (ROOT / CONTRIBUTING).read_text(encoding="utf-8")
        (project / "docs" / CONTRIBUTING).write_text(
            contributing.replace("](docs/", "]("), encoding="utf-8"
        )
        shutil.copy(resource_path("icons", "app.svg"), project / "docs" / "pictures" / "icon.svg")
        text = CONFIGURATION.read_text(encoding="utf-8")
        contents = f"[project]\nnav = {_format_contents((*pages, *lessons))}\n"
        (project / "zensical.toml").write_text(
            text.replace("[project]\n", contents), encoding="utf-8"
        )
        command = [sys.executable, "-m", "zensical", "build", "--strict"]
        subprocess.run(command, cwd=project, check=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(project / "site", out)


def _format_contents(pages: Sequence[DocumentationPage]) -> str:
    """Return the contents in TOML: the index page, and one list of pages per group."""
    index, *others = pages
    groups = dict[str, list[str]]()
    for page in others:
        groups.setdefault(page.group, []).append(page.name)
    groups["Contributing"].append(CONTRIBUTING)
    entries = [(index.title, json.dumps(index.name))]
    entries += [(title, json.dumps(names)) for title, names in groups.items()]
    tables = (f"{{ {json.dumps(title)} = {value} }}" for title, value in entries)
    return f"[{', '.join(tables)}]"


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the site in the folder that is given as an argument."""
    parser = argparse.ArgumentParser(
        prog="python -m installers.website", description="Builds the documentation site."
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        default=ROOT / "build" / "site",
        help="the folder of the site, which is replaced; build/site by default",
    )
    build_site(parser.parse_args(arguments).out)


if __name__ == "__main__":
    main()
