"""The documentation site is complete and loads nothing from other hosts."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from installers.website import build_site
from tests.architecture.project_graph import ROOT
from visualizer.widgets.documentation_pages import find_links, read_lesson_pages

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
BESIDE = ROOT / "CONTRIBUTING.md"
LESSONS = read_lesson_pages(ROOT / "resources" / "lessons")
NAMES = {
    *(path.relative_to(DOCS).with_suffix("").as_posix() for path in PAGES),
    BESIDE.stem,
    *(lesson.name.removesuffix(".md") for lesson in LESSONS),
}
"""Paths of the pages of the site, without suffix."""
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
    if find_spec("zensical") is None and "CI" not in os.environ:
        pytest.skip("the extra [docs] is not installed here")
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """Return the pages of the site by their path."""
    return {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
    }


@pytest.mark.slow
def test_every_page_is_built(pages: dict[str, Page]) -> None:
    assert set(pages) == {f"{name}.html" for name in NAMES} | {"404.html"}


@pytest.mark.slow
def test_every_page_is_in_the_contents(pages: dict[str, Page]) -> None:
    targets = {target for tag, target in pages["index.html"].targets if tag == "a"}
    assert {f"./{name}.html" for name in NAMES} - targets == {"./index.html"}


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
            found = ((site / name).parent / path if path else site / name).resolve()
            found = found / "index.html" if found.is_dir() else found
            assert found.is_file(), (name, target)
            if found.suffix == ".html":
                there = pages[found.relative_to(site).as_posix()]
                assert unquote(address.fragment) in there.places, (name, target)
            count += 1
    assert count > 500


@pytest.mark.slow
def test_only_links_of_the_text_lead_outside(pages: dict[str, Page]) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, BESIDE)]
    texts += [lesson.markdown for lesson in LESSONS]
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
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["items"]}
    assert found == {f"{name}.html" for name in NAMES}
