"""Both columns of tokens have room for their labels and for the words over them."""

from __future__ import annotations

import pytest

from visualizer.features.line_view.layout import GAP, lay_out
from visualizer.widgets.fonts import metrics


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("labels", [("a", "b"), ("journey", "storm")])
def test_the_words_over_the_columns_are_not_cut(labels: tuple[str, ...]) -> None:
    rows = lay_out(labels, 2, 300, 500)
    for text in (*labels, "query", "key"):
        assert metrics(12).horizontalAdvance(text) <= rows.left - GAP
        assert metrics(12).horizontalAdvance(text) <= 300 - rows.right - GAP
