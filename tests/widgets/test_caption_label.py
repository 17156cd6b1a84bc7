"""The lines of a caption have one height; text that does not fit is elided by whole words."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtGui import QFont, QFontMetricsF

from visualizer.widgets.fonts import scaled_font
from visualizer.widgets.labels import ELLIPSIS, ElidedHtmlLabel, elide_html, html_to_text, wrap_html

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

pytestmark = pytest.mark.usefixtures("application")

PIXELS = 17
HTML = "<b>with</b> (query 4) attends to <b>a &lt;b&gt; c</b> (key 2) with weight 24%."


def width(html: str) -> float:
    """Return an upper bound for the width of a line: the width of the bold text."""
    metrics = QFontMetricsF(scaled_font(PIXELS, QFont.Weight.Bold))
    return metrics.horizontalAdvance(html_to_text(html))


def test_text_that_fits_is_unchanged() -> None:
    assert elide_html(HTML, width(HTML), PIXELS) == HTML
    assert elide_html("", 0, PIXELS) == ""


@given(
    st.lists(st.tuples(st.text("ab<>& ", min_size=1), st.booleans()), min_size=1),
    st.integers(0, 400),
)
def test_elided_text_ends_with_a_whole_word(parts: list[tuple[str, bool]], room: int) -> None:
    html = " ".join(
        f"<b>{escape(word)}</b>" if is_bold else escape(word) for word, is_bold in parts
    )
    shown = elide_html(html, room, PIXELS)
    if shown == html:
        return
    assert shown.count("<b>") == shown.count("</b>")
    start, whole = html_to_text(shown), html_to_text(html)
    assert start.endswith(ELLIPSIS)
    rest = whole[len(start) - 1 :]
    assert whole.startswith(start[:-1])
    assert start == ELLIPSIS or rest.startswith(" ")


@given(
    st.lists(st.tuples(st.sampled_from(["a", "bb", "c&d", "long"]), st.booleans()), min_size=1),
    st.integers(60, 400),
)
def test_words_that_do_not_fit_continue_on_the_next_line(
    parts: list[tuple[str, bool]], room: int
) -> None:
    html = " ".join(
        f"<b>{escape(word)} {escape(word)}</b>" if is_bold else escape(word)
        for word, is_bold in parts
    )
    shown, is_whole = wrap_html(html, room, PIXELS, 2)
    lines = shown.split("<br>")
    assert len(lines) <= 2
    assert all(line.count("<b>") == line.count("</b>") for line in lines)
    plain = QFontMetricsF(scaled_font(PIXELS))
    whole = [html_to_text(line) for line in lines if "<b>" not in line]
    assert all(plain.horizontalAdvance(line) <= room for line in whole)
    said = " ".join(map(html_to_text, lines))
    if is_whole:
        assert said == html_to_text(html)
    else:
        assert html_to_text(html).startswith(said.removesuffix(ELLIPSIS))
        assert len(lines) == 2
        assert elide_html(html, room, PIXELS) != html


def test_a_result_at_the_end_is_never_elided() -> None:
    shown, is_whole = wrap_html(HTML, width(HTML) / 2, PIXELS, 1, " = <b>0.24</b>")
    assert not is_whole
    assert shown.endswith(f"{ELLIPSIS} = <b>0.24</b>")
    plain = QFontMetricsF(scaled_font(PIXELS))
    assert plain.horizontalAdvance(html_to_text(shown)) <= width(HTML) / 2
    assert wrap_html(HTML, 2 * width(HTML), PIXELS, 1, " = 1") == (f"{HTML} = 1", True)


def test_a_bracket_that_is_open_where_words_are_omitted_is_closed() -> None:
    sum_ = "exp(0.4) ÷ (exp(0.6) + exp(0.5) + exp(0.4) + exp(0.1))"
    for share in (0.5, 0.7, 0.9):
        room = width(sum_) * share
        shown, _ = wrap_html(sum_, room, PIXELS, 1, " = 0.1277")
        assert shown.count("(") == shown.count(")")
        assert QFontMetricsF(scaled_font(PIXELS)).horizontalAdvance(shown) <= room


def test_a_smaller_font_is_used_before_words_are_omitted(qtbot: QtBot) -> None:
    label = ElidedHtmlLabel("What happens", (PIXELS, 10))
    qtbot.addWidget(label)
    label.resize(round(width(HTML) * 0.75), 30)
    label.show()
    label.show_html((HTML,))
    assert label.toolTip() == ""
    assert "10px" in label.text()


def test_the_height_does_not_depend_on_the_text(qtbot: QtBot) -> None:
    label = ElidedHtmlLabel("What happens", (PIXELS, 13), 2)
    qtbot.addWidget(label)
    heights = set()
    for text in ("", HTML, 20 * HTML):
        label.show_html((text,))
        heights.add((label.sizeHint().height(), label.minimumSizeHint().height()))
    assert len(heights) == 1


def test_the_whole_text_is_in_the_tooltip_if_it_is_elided(qtbot: QtBot) -> None:
    label = ElidedHtmlLabel("What happens", (PIXELS,))
    qtbot.addWidget(label)
    label.resize(round(width(HTML)) + 4, 30)
    label.show()
    label.show_html((HTML,))
    assert (label.toolTip(), label.full_text) == ("", html_to_text(HTML))
    label.resize(round(width(HTML) / 2), 30)
    assert "with weight" in label.toolTip()
    assert label.full_text == label.accessibleName() == html_to_text(HTML)


def test_the_longest_version_that_fits_is_shown(qtbot: QtBot) -> None:
    versions = ("a + b + c + d + e + f", "a + … + d", "a + …")
    label = ElidedHtmlLabel("Equation", (PIXELS,))
    qtbot.addWidget(label)
    label.show()
    for version in versions:
        label.resize(math.ceil(width(f"{version} = 1")) + 8, 30)
        label.show_html(versions, " = 1")
        assert html_to_text(label.text()) == f"{version} = 1"
    assert label.toolTip() == ""


def test_a_symbol_has_a_subscript_and_its_plain_name_for_screen_readers() -> None:
    label = ElidedHtmlLabel("caption", (PIXELS,))
    label.resize(400, 40)
    label.show_html(("the input times W_q",))
    assert "W<sub>q</sub>" in label.text()
    assert label.full_text == label.accessibleName() == "the input times W_q"
