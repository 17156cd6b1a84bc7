"""Both columns of tokens have enough space for their labels and titles."""

from __future__ import annotations

import pytest

from visualizer.features.line_view.paint import LABEL_GAP_PX, lay_out_lines
from visualizer.widgets.fonts import font_metrics


@pytest.mark.usefixtures("application")
@pytest.mark.parametrize("labels", [("a", "b"), ("journey", "storm")])
def test_the_words_over_the_columns_are_not_cut(labels: tuple[str, ...]) -> None:
    rows = lay_out_lines(labels, 2, 300, 500)
    for text in (*labels, "query", "key"):
        assert font_metrics(12).horizontalAdvance(text) <= rows.left - LABEL_GAP_PX
        assert font_metrics(12).horizontalAdvance(text) <= 300 - rows.right - LABEL_GAP_PX
