"""Reads documentation and lesson pages, and searches their sections."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

INDEX_PAGE = "index.md"
"""First page; each of its sections lists the pages of one group."""
LESSONS_FOLDER = "lessons"
"""Folder in the names of pages that are made from lessons; it does not exist as a folder."""
LESSONS_GROUP = "Lessons"
"""Title of the page about the lessons, which precedes them in the contents."""
NOTES_SECTION = "notes"
"""Value of `section` in lessons that are based on the lecture notes, not on the book."""
CODE_FENCE = "```"
LINK_PATTERN = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")
HEADING_PATTERN = re.compile(r"(#{1,3}) +(.*)")
"""Matches the heading of a page or section; lower-level headings are part of their section."""
QUESTION_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "are",
            "can",
            "do",
            "does",
            "for",
            "from",
            "how",
            "i",
            "if",
            "in",
            "is",
        ),
        *("it", "my", "of", "on", "or", "the", "to", "use", "what", "why", "with"),
    )
)
"""Words that the search ignores if a text also contains other words."""
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
    level : int
        Level of the heading: 1 for the title of the page, up to 3.
    """

    title: str
    anchor: str
    text: str
    level: int = 1


class DocumentationPage(Struct, frozen=True):
    """A page in Markdown.

    Parameters
    ----------
    name : str
        Path relative to the folder of the documentation, such as ``reference/window.md``.
    sections : tuple of PageSection
        The first section begins with the page title.
    group : str
        Title of the section of the index that lists the page.
    """

    name: str
    markdown: str
    sections: tuple[PageSection, ...]
    group: str = ""

    @property
    def title(self) -> str:
        return self.sections[0].title


def read_documentation_pages(folder: Path) -> Iterator[DocumentationPage]:
    """Read the index page, then the pages that its sections list, in the order of the links.

    Each page is read when it is requested; together, they take longer than the window may be
    blocked.
    """
    index = read_documentation_page(folder, INDEX_PAGE)
    groups = dict[str, str]()
    for section in re.split(r"^## +", index.markdown, flags=re.MULTILINE)[1:]:
        for _, target in find_links(section):
            name = target.partition("#")[0]
            if name.endswith(".md") and "://" not in name and name != INDEX_PAGE:
                groups.setdefault(name, section.partition("\n")[0])
    yield index
    for name, group in groups.items():
        yield read_documentation_page(folder, name, group)


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
        f"Section {lesson['section']} of [the book](../explanation/background.md#sources). "
        if lesson["section"] != NOTES_SECTION
        else ""
    )
    parts = [f"# Lesson {number}: {title}", f"{about}To follow this lesson in the window, choose "
             f"*Lessons > {number} {title}*."]  # fmt: skip
    for page in lesson["page"]:
        parts += [f"## {page['title']}", page["says"].strip()]
    markdown = "\n\n".join(parts) + "\n"
    sections = tuple(_split_sections(markdown))
    return DocumentationPage(f"{LESSONS_FOLDER}/{path.stem}.md", markdown, sections, LESSONS_GROUP)


@cache
def read_documentation_page(folder: Path, name: str, group: str = "") -> DocumentationPage:
    """Read a page, given its path relative to the folder of the documentation."""
    markdown = (folder / name).read_text(encoding="utf-8")
    return DocumentationPage(name, markdown, tuple(_split_sections(markdown)), group)


def search_words(text: str) -> list[str]:
    """Return the words to search for: in lower case, without question words and plural endings."""
    words = text.casefold().replace("?", " ").split()
    words = [word for word in words if word not in QUESTION_WORDS] or words
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words]


def find_sections(
    pages: Iterable[DocumentationPage], text: str
) -> list[tuple[DocumentationPage, PageSection]]:
    """List the sections that contain all words of a text, or else most of them, the best first.

    Sections with the words in their title or in that of their page come first; otherwise, the order
    is that of the pages.
    """
    words = search_words(text)
    found = list[tuple[int, int, int, DocumentationPage, PageSection]]()
    for page in pages:
        for section in page.sections:
            body, titles = section.text.casefold(), f"{section.title} {page.title}".casefold()
            matched = sum(word in body or word in titles for word in words)
            in_titles = sum(word in titles for word in words)
            found.append((-matched, -in_titles, len(found), page, section))
    most = min((each[0] for each in found), default=0)
    return [(page, section) for count, *_, page, section in sorted(found) if count == most < 0]


def find_links(markdown: str) -> list[tuple[str, str]]:
    """List the texts and targets of links and images outside code."""
    text = "\n".join(line for line, is_text in _classify_lines(markdown) if is_text)
    return LINK_PATTERN.findall(re.sub(r"`[^`]*`", "", text))


def heading_anchor(heading: str) -> str:
    """Return the anchor of a heading, in GitHub's format."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _split_sections(markdown: str) -> Iterator[PageSection]:
    title, level, lines = "", 1, list[str]()
    for line, is_text in _classify_lines(markdown):
        heading = HEADING_PATTERN.fullmatch(line) if is_text else None
        if heading:
            if title:
                yield _make_section(title, level, lines)
            title, level, lines = MARKUP_PATTERN.sub("", heading[2]), len(heading[1]), []
        else:
            lines.append(line)
    yield _make_section(title, level, lines)


def _make_section(title: str, level: int, lines: list[str]) -> PageSection:
    text = MARKUP_PATTERN.sub("", LINK_PATTERN.sub(r"\1", "\n".join(lines)))
    return PageSection(title, heading_anchor(title), f"{title}\n{text}", level)


def _classify_lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it is text rather than code, omitting the fences."""
    is_text = True
    for line in markdown.splitlines():
        if line.startswith(CODE_FENCE):
            is_text = not is_text
        else:
            yield line, is_text
