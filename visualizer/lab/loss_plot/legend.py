"""The legend of the loss plot, and the readout of all lines at the hovered step."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from visualizer.lab.loss_plot.model import LossLineRole
from visualizer.widgets.fonts import metrics
from visualizer.widgets.theme import head_colour, mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.lab.loss_plot.model import LegendKey, LossPlot
    from visualizer.lab.loss_plot.presenter import PlotReadout
    from visualizer.widgets.theme import Theme

MAX_NAME_PX = 240
"""Maximum width of a run's name in pixels."""
APART = f"{'&nbsp;' * 5} "
"""Separator of two keys, the only possible line break."""
SIGNS = {
    None: "■",
    LossLineRole.TRAINING: "━━",
    LossLineRole.EACH: "──",
    LossLineRole.VALIDATION: "─●─",
}


def legend_html(plot: LossPlot, theme: Theme) -> str:
    """Format the legend and both axes' titles, or the plot's message."""
    if plot.message:
        return f'<span style="color: {theme.quiet}">{escape(plot.message)}</span>'
    titles = _without_breaks(f"{plot.y.title} by {plot.x.title}")
    keys = [_key_html(key, theme) for key in plot.keys]
    return APART.join([*keys, f'<span style="color: {theme.quiet}">{titles}</span>'])


def _key_html(key: LegendKey, theme: Theme) -> str:
    colour = theme.quiet if key.colour is None else head_colour(key.colour, theme)
    if key.role is LossLineRole.EACH:
        colour = mixed(colour, theme.paper)
    words = metrics(12).elidedText(key.words, Qt.TextElideMode.ElideMiddle, MAX_NAME_PX)
    sign = f'<span style="color: {colour}">{SIGNS[key.role]}</span>'
    return f'{sign}&nbsp;<span style="color: {theme.ink}">{_without_breaks(words)}</span>'


def _without_breaks(words: str) -> str:
    return escape(words).replace(" ", "&nbsp;")


MAX_TITLE_PX = 260.0
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
        title = escape(metrics(12).elidedText(row.title, middle, MAX_TITLE_PX))
        yield (
            f'<tr><td style="color: {colour}">■&nbsp;</td>'
            f'<td style="color: {theme.quiet}; padding-right: 16px">{title}</td>'
            f'<td align="right">{escape(row.value)}</td></tr>'
        )
