"""The documentation site is complete and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.widgets.documentation_pages import find_links

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION = ROOT / "docs" / "site" / "mkdocs.yml"
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = ROOT / "CONTRIBUTING.md"
LOADED = {"link", "script", "img", "source", "iframe"}
"""Tags whose URL a browser loads without a click."""


class Page(HTMLParser):
    """References on a page of the site, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[tuple[str, str]] = []
        self.places = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places |= {found[name] or "" for name in ("id", "name") if name in found}
        self.targets += [(tag, found[name] or "") for name in ("href", "src") if name in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with warnings as errors, and return its folder."""
    if find_spec("mkdocs") is None and "CI" not in os.environ:
        pytest.skip("the extra [docs] is not installed here")
    folder = tmp_path_factory.mktemp("site")
    command = ("-m", "mkdocs", "build", "--strict", "--config-file", CONFIGURATION)
    done = subprocess.run(
        [sys.executable, *command, "--site-dir", folder],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Return the pages of the site by file name."""
    return {path.name: Page(path.read_text(encoding="utf-8")) for path in site.glob("*.html")}


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = CONFIGURATION.read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", contents)
    assert sorted(named) == sorted(
        [*(path.relative_to(DOCS).as_posix() for path in PAGES), BESIDE.name]
    )


@pytest.mark.slow
def test_every_page_is_built(pages: dict[str, Page]) -> None:
    assert set(pages) == {f"{path.stem}.html" for path in (*PAGES, BESIDE)} | {"404.html"}


@pytest.mark.slow
def test_every_reference_within_the_site_leads_somewhere(
    site: Path, pages: dict[str, Page]
) -> None:
    count = 0
    for name, page in pages.items():
        for _, target in page.targets:
            address = urlsplit(target)
            if address.scheme or address.netloc:
                continue
            path = unquote(address.path).lstrip("/" if name == "404.html" else "")
            found = site / (path or name)
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), (name, target)
            if found.suffix == ".html":
                assert unquote(address.fragment) in pages[found.name].places, (name, target)
            count += 1
    assert count > 500


@pytest.mark.slow
def test_only_links_of_the_text_lead_outside(pages: dict[str, Page]) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, BESIDE)]
    written = {target for text in texts for _, target in find_links(text)}
    for name, page in pages.items():
        outside = {each for each in page.targets if urlsplit(each[1]).netloc}
        assert not [tag for tag, _ in outside if tag in LOADED], name
        assert {target for _, target in outside} <= written, name


@pytest.mark.slow
def test_styles_load_nothing_from_another_host(site: Path) -> None:
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    for style in styles:
        loaded = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style)
        for target in filter(None, (one or other for one, other in loaded)):
            assert target.startswith("data:") or not urlsplit(target).netloc, target


@pytest.mark.slow
def test_the_search_has_every_page(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    for path in (*PAGES, BESIDE):
        assert f'"{path.stem}.html"' in index
