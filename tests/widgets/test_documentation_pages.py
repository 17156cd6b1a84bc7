"""Markdown pages are split into sections, with their links and anchors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.widgets.documentation_pages import (
    find_links,
    find_sections,
    heading_anchor,
    read_documentation_page,
    read_documentation_pages,
    read_lesson_pages,
)

if TYPE_CHECKING:
    from pathlib import Path

PAGE = """# The page

See [another](b.md#there) and ![a picture](pictures/a.png).

## With `code` and *Keys*, too

Press <kbd>F1</kbd>, or `--option`.

```python
# no heading
[no](link.md)
```

### Smaller

| a | b |
"""


def test_a_page_is_split_into_sections(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE, encoding="utf-8")
    page = read_documentation_page(tmp_path, "a.md")
    assert page.title == "The page"
    first, second, third = page.sections
    assert [section.title for section in page.sections] == [
        "The page",
        "With code and Keys, too",
        "Smaller",
    ]
    assert [section.level for section in page.sections] == [1, 2, 3]
    assert "See another and !a picture." in first.text
    assert "Press F1, or --option." in second.text
    assert "# no heading" in second.text
    assert "Smaller" not in second.text
    assert third.text.startswith("Smaller")


def test_links_in_code_are_ignored() -> None:
    assert find_links(PAGE) == [("another", "b.md#there"), ("a picture", "pictures/a.png")]
    assert find_links("`[no](a.md)` [yes](b.md)") == [("yes", "b.md")]


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What is where", "what-is-where"),
        ("Many heads, long texts", "many-heads-long-texts"),
        ("From A to B: a-b", "from-a-to-b-a-b"),
    ],
)
def test_anchors_match_those_of_github(heading: str, anchor: str) -> None:
    assert heading_anchor(heading) == anchor


@pytest.mark.parametrize(
    ("words", "titles"),
    [
        ("press OPTION", ["With code and Keys, too"]),
        ("How do I press options?", ["With code and Keys, too"]),
        ("page", ["The page", "With code and Keys, too", "Smaller"]),
        ("press picture", ["The page", "With code and Keys, too"]),  # no section has both words
        ("", []),
        ("kbd", []),
    ],
)
def test_sections_with_most_words_are_found(words: str, titles: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE, encoding="utf-8")
    found = find_sections([read_documentation_page(tmp_path, "a.md")], words)
    assert [section.title for _, section in found] == titles


def test_titles_come_before_texts(tmp_path: Path) -> None:
    text = "# A\n\nMasks, masks.\n\n## B\n\n## The mask\n\nText.\n"
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    found = find_sections([read_documentation_page(tmp_path, "a.md")], "masks")
    assert [section.title for _, section in found] == ["The mask", "A"]


def test_pages_are_grouped_and_ordered_by_the_sections_of_the_index(tmp_path: Path) -> None:
    index = (
        "# All\n\n[b](b.md)\n\n## First\n\n[z](z.md) [b](f/b.md#there) [z](z.md)\n\n"
        "## Second\n\n[self](index.md) [z](z.md) [c](f/c.md) [web](https://a.org/c.md)"
    )
    (tmp_path / "index.md").write_text(index, encoding="utf-8")
    (tmp_path / "f").mkdir()
    for name in ("z.md", "f/b.md", "f/c.md"):
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    assert [(page.name, page.group) for page in read_documentation_pages(tmp_path)] == [
        ("index.md", ""), ("z.md", "First"), ("f/b.md", "First"), ("f/c.md", "Second"),
    ]  # fmt: skip


LESSON = """
title = "Sums"
section = "3.1"
[[page]]
title = "One"
says = '''
Add **two** `numbers`.
'''
stages = ["input"]
[[page]]
title = "Two"
says = "Add three."
stages = ["input"]
"""


def test_a_lesson_is_a_page_with_one_section_per_lesson_page(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(LESSON.replace("3.1", "notes"), encoding="utf-8")
    (tmp_path / "a.toml").write_text(LESSON, encoding="utf-8")
    first, second = read_lesson_pages(tmp_path)
    assert (first.name, first.title) == ("lessons/a.md", "Lesson 1: Sums")
    assert [section.title for section in first.sections[1:]] == ["One", "Two"]
    assert "Add two numbers." in first.sections[1].text
    assert "Section 3.1 of the book" in first.sections[0].text
    assert "Section" not in second.sections[0].text
