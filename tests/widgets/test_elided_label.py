"""Labels that are elided to their width, with one or more lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.widgets.labels import ElidedLabel

TEXT = "Now, step 1,366: training loss 0.827, validation loss 0.911 at step 1,300"
NARROW = 40
"""Width, in pixels, that is enough for an ellipsis."""
WORD = st.sampled_from(["a", "loss", "1,366:", "🦊", "<b>", "validation" * 3])


@pytest.mark.usefixtures("qapp")
@given(st.lists(WORD, max_size=12), st.integers(1, 3), st.integers(NARROW, 700))
def test_every_line_fits_and_the_text_continues_on_the_next(
    words: list[str], lines: int, width: int
) -> None:
    label, text = ElidedLabel(lines=lines), " ".join(words)
    label.resize(width, 60)
    label.show_text(text)
    shown = label.text().split("\n")
    room = width - 2 * label.indent()
    assert len(shown) <= lines
    assert all(label.fontMetrics().horizontalAdvance(line) <= room for line in shown)
    if "…" not in label.text():
        assert " ".join(shown) == text
    assert label.accessibleName() == text


@pytest.mark.usefixtures("qapp")
def test_text_that_fits_into_two_lines_is_complete() -> None:
    label = ElidedLabel(lines=2)
    label.resize(label.fontMetrics().horizontalAdvance(TEXT) * 2 // 3, 60)
    label.show_text(TEXT)
    assert label.text().replace("\n", " ") == TEXT
    assert "\n" in label.text()
    label.resize(label.width() // 2, 60)
    label.show()
    assert label.text().endswith("…")
    assert label.text().count("\n") == 1


@pytest.mark.usefixtures("qapp")
def test_a_larger_font_is_elided_again() -> None:
    label = ElidedLabel(lines=2)
    label.resize(label.fontMetrics().horizontalAdvance(TEXT) * 2 // 3, 60)
    label.show_text(TEXT)
    larger = label.font()
    larger.setPixelSize(2 * label.fontInfo().pixelSize())
    label.setFont(larger)
    assert label.text().endswith("…")
