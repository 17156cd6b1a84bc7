"""Markdown pages are split into sections, with their links and anchors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.widgets.documentation_pages import (
    find_links,
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
    page = read_documentation_page(tmp_path / "a.md")
    assert page.title == "The page"
    assert [section.title for section in page.sections] == ["The page", "With code and Keys, too"]
    first, second = page.sections
    assert "See another and !a picture." in first.text
    assert "Press F1, or --option." in second.text
    assert "# no heading" in second.text
    assert "Smaller" in second.text


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
    ("words", "is_found"),
    [("press OPTION", True), ("press picture", False), ("", True), ("kbd", False)],
)
def test_a_section_is_found_by_all_words(words: str, is_found: bool, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(PAGE, encoding="utf-8")
    assert read_documentation_page(tmp_path / "a.md").sections[1].contains_words(words) is is_found


def test_pages_are_ordered_by_the_links_of_the_index(tmp_path: Path) -> None:
    index = (
        "# All\n\n[z](z.md) [b](b.md#there) [z](z.md) [self](index.md) [web](https://a.org/c.md)"
    )
    (tmp_path / "index.md").write_text(index, encoding="utf-8")
    for name in ("z.md", "b.md"):
        (tmp_path / name).write_text(f"# {name}\n", encoding="utf-8")
    assert [page.name for page in read_documentation_pages(tmp_path)] == [
        "index.md",
        "z.md",
        "b.md",
    ]


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
    assert (first.name, first.title) == ("a.md", "Lesson 1: Sums")
    assert [section.title for section in first.sections[1:]] == ["One", "Two"]
    assert first.sections[1].contains_words("two numbers")
    assert first.sections[0].contains_words("section 3.1")
    assert not second.sections[0].contains_words("section")
