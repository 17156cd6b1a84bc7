"""The widgets of the setup pane apart from a window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from visualizer.features.setup.widget import has_longer_word


@given(st.text("ab \n\t\u00a0\u2028", max_size=40), st.integers(1, 9))
def test_a_long_word_is_found_wherever_it_stands(text: str, length: int) -> None:
    assert has_longer_word(text, length) == any(len(word) > length for word in text.split())
