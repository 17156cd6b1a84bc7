"""Presenter of the Lesson pane: the current page and its checked claims."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.spec import Device
from visualizer.features.lessons.claim_check import check_claim
from visualizer.features.lessons.lesson import advance_page
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.features.lessons.claim_check import CheckedClaim
    from visualizer.features.lessons.lesson import LessonsById
    from visualizer.session.document import Document
    from visualizer.session.view import LessonPosition


class LessonPanel(Struct, frozen=True):
    """The Lesson pane: one page with its checked claims.

    Parameters
    ----------
    number : int
        The page's number, from 1.
    text : str
        The page's text as HTML.
    is_changed : bool
        Whether the reader has changed settings of the page.
    next_lesson : str
        The title of the next lesson if this page is the last; empty if there is none.
    """

    lesson: str
    section: str
    number: int
    count: int
    title: str
    text: str
    checks: tuple[CheckedClaim, ...] = ()
    is_changed: bool = False
    next_lesson: str = ""

    @property
    def description(self) -> str:
        """The lesson, the page's number and its title."""
        return f"{self.lesson}, page {self.number} of {self.count}: {self.title}"

    @property
    def has_next(self) -> bool:
        """Whether this lesson has another page, or another lesson follows."""
        return self.number < self.count or bool(self.next_lesson)


LESSON_PANEL: PanelId[LessonPanel | None] = PanelId("Lesson")


def present_lesson_page(
    lessons: LessonsById,
    position: LessonPosition,
    document: Document,
    run: Run | None,
    computed: Document | None,
    is_working: bool = True,
) -> LessonPanel:
    """Present the page at a position, with the results of checking its claims.

    Parameters
    ----------
    document : Document
        The current document, which may differ from the page's.
    computed : Document or None
        The document that the run was computed from.
    is_working : bool
        Whether a computation is pending.
    """
    lesson, following = lessons[position.lesson_id], advance_page(lessons, position, 1)
    page = lesson.pages[position.page]
    is_changed = _without_device(document) != _without_device(page.document)
    current = run if computed == document else None
    is_last = following is not None and following.lesson_id != position.lesson_id
    return LessonPanel(
        lesson.title,
        lesson.section,
        position.page + 1,
        len(lesson.pages),
        page.title,
        markup_to_html(page.markup),
        tuple(check_claim(claim, current, is_changed, is_working) for claim in page.claims),
        is_changed,
        lessons[following.lesson_id].title if following and is_last else "",
    )


def _without_device(document: Document) -> Document:
    """Return the document without its device, which the reader chooses."""
    return replace(document, spec=replace(document.spec, device=Device.AUTO))


def markup_to_html(markup: str) -> str:
    """Convert a page's markup to HTML."""
    safe = escape(markup.strip(), quote=False)
    marked = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", safe)
    marked = re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", marked)
    return "".join(f"<p>{part}</p>" for part in re.split(r"\n\s*\n", marked))
