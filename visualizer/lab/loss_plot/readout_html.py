"""Readout of the loss plot: the values of all lines at the hovered step."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from visualizer.widgets.fonts import metrics
from visualizer.widgets.theme import head_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.lab.loss_plot.presenter import PlotReadout
    from visualizer.widgets.theme import Theme

MAX_NAME_PX = 260.0
"""Maximum width of a line's name in pixels."""
AWAY = 14.0
"""Distance from the step in pixels."""


def readout_html(readout: PlotReadout, theme: Theme) -> str:
    """Format the values as a table, each next to its line's colour."""
    rows = "".join(_table_rows(readout, theme))
    return (
        f'<div style="color: {theme.ink}; white-space: nowrap"><b>Step {readout.step:,}</b>'
        f'<table cellspacing="0">{rows}</table></div>'
    )


def _table_rows(readout: PlotReadout, theme: Theme) -> Iterator[str]:
    middle = Qt.TextElideMode.ElideMiddle
    for row in readout.rows:
        colour = "transparent" if row.colour is None else head_colour(row.colour, theme)
        title = escape(metrics(12).elidedText(row.title, middle, MAX_NAME_PX))
        yield (
            f'<tr><td style="color: {colour}">■&nbsp;</td>'
            f'<td style="color: {theme.quiet}; padding-right: 16px">{title}</td>'
            f'<td align="right">{escape(row.value)}</td></tr>'
        )
