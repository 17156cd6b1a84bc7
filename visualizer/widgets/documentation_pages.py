"""Reads documentation and lesson pages, and searches their sections."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INDEX_PAGE = "index.md"
"""First page; its links determine the order of the other pages."""
NOTES_SECTION = "notes"
"""Value of `section` in lessons that are based on the lecture notes, not on the book."""
CODE_FENCE = "```"
LINK_PATTERN = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")
HEADING_PATTERN = re.compile(r"(#{1,2}) +(.*)")
"""Matches the heading of a page or section; lower-level headings are part of their section."""
MARKUP_PATTERN = re.compile(r"</?kbd>|[`*|\\]")
"""Markdown syntax that is removed from searchable text."""


class PageSection(Struct, frozen=True):
    """A section of a page.

    Parameters
    ----------
    anchor : str
        URL fragment of the section.
    text : str
        Heading and body without Markdown syntax.
    """

    title: str
    anchor: str
    text: str

    def contains_words(self, words: str) -> bool:
        """Return whether the section contains every word of a text, ignoring case."""
        text = self.text.casefold()
        return all(word in text for word in words.casefold().split())


class DocumentationPage(Struct, frozen=True):
    """A page in Markdown.

    Parameters
    ----------
    name : str
        File name.
    sections : tuple of PageSection
        The first section begins with the page title.
    """

    name: str
    markdown: str
    sections: tuple[PageSection, ...]

    @property
    def title(self) -> str:
        return self.sections[0].title


def read_documentation_pages(folder: Path) -> tuple[DocumentationPage, ...]:
    """Read the index page, then the pages in the order of its links."""
    index = read_documentation_page(folder / INDEX_PAGE)
    targets = (target.partition("#")[0] for _, target in find_links(index.markdown))
    names = dict.fromkeys(
        each for each in targets if each.endswith(".md") and "/" not in each and each != INDEX_PAGE
    )
    return (index, *(read_documentation_page(folder / name) for name in names))


def read_lesson_pages(folder: Path) -> tuple[DocumentationPage, ...]:
    """Read the lessons in a folder: one page per lesson, one section per lesson page."""
    return tuple(
        _create_lesson_page(number, path)
        for number, path in enumerate(sorted(folder.glob("*.toml")), 1)
    )


def _create_lesson_page(number: int, path: Path) -> DocumentationPage:
    lesson = tomllib.loads(path.read_text(encoding="utf-8"))
    title = lesson["title"]
    about = (
        f"Section {lesson['section']} of the book. " if lesson["section"] != NOTES_SECTION else ""
    )
    parts = [f"# Lesson {number}: {title}", f"{about}To follow this lesson in the window, choose "
             f"*Lessons > {number} {title}*."]  # fmt: skip
    for page in lesson["page"]:
        parts += [f"## {page['title']}", page["says"].strip()]
    markdown = "\n\n".join(parts) + "\n"
    return DocumentationPage(f"{path.stem}.md", markdown, tuple(_split_sections(markdown)))


def read_documentation_page(path: Path) -> DocumentationPage:
    """Read a page."""
    markdown = path.read_text(encoding="utf-8")
    return DocumentationPage(path.name, markdown, tuple(_split_sections(markdown)))


def find_links(markdown: str) -> list[tuple[str, str]]:
    """List the texts and targets of links and images outside code."""
    text = "\n".join(line for line, is_text in _classify_lines(markdown) if is_text)
    return LINK_PATTERN.findall(re.sub(r"`[^`]*`", "", text))


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, in GitHub's format."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _split_sections(markdown: str) -> Iterator[PageSection]:
    title, lines = "", list[str]()
    for line, is_text in _classify_lines(markdown):
        heading = HEADING_PATTERN.fullmatch(line) if is_text else None
        if heading:
            if title:
                yield _make_section(title, lines)
            title, lines = MARKUP_PATTERN.sub("", heading[2]), []
        else:
            lines.append(line)
    yield _make_section(title, lines)


def _make_section(title: str, lines: list[str]) -> PageSection:
    text = MARKUP_PATTERN.sub("", LINK_PATTERN.sub(r"\1", "\n".join(lines)))
    return PageSection(title, heading_anchor(title), f"{title}\n{text}")


def _classify_lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is text rather than code, omitting the fences."""
    is_text = True
    for line in markdown.splitlines():
        if line.startswith(CODE_FENCE):
            is_text = not is_text
        else:
            yield line, is_text
