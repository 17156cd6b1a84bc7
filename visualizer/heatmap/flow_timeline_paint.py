"""The timeline of the flow board: the lines below its headings, with a knob during playback.

Each line is divided equally among the stages of its column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from visualizer.heatmap.flow_layout import HEADING_PX
from visualizer.widgets.fonts import text_scale

if TYPE_CHECKING:
    from visualizer.heatmap.board_layout import FlowPlacement
    from visualizer.heatmap.highlights import Highlights
    from visualizer.widgets.theme import Theme

LINE_PX, MIN_LINE_WIDTH_PX = 3, 6
KNOB_PX = 10


def heading_line(placement: FlowPlacement, at: int) -> QRectF:
    """Return the line below the heading of a column."""
    box = placement.layout.columns[at].heading
    top = (HEADING_PX - 6) * text_scale()
    return QRectF(box.left, top, max(box.width, MIN_LINE_WIDTH_PX), LINE_PX)


class FlowTimeline(Struct, frozen=True):
    """Positions of the stages on the lines of a board."""

    placement: FlowPlacement

    def stages_of(self, at: int) -> tuple[str, ...]:
        """Return the stages of a line: those of its column and of the hidden columns after it."""
        columns, layout = self.placement.panels.columns, self.placement.layout.columns
        states, last = [*columns[at].states], at + 1
        while last < len(columns) and layout[last].is_hidden:
            states += columns[last].states
            last += 1
        return tuple(states)

    @property
    def lines(self) -> dict[int, QRectF]:
        """The line of each visible column."""
        layout = self.placement.layout.columns
        return {
            at: heading_line(self.placement, at)
            for at, column in enumerate(layout)
            if not column.is_hidden
        }

    def x_of_stage(self, stage: str, share: float) -> float | None:
        """Return the x coordinate of a fraction of a stage, or None if the stage is not shown."""
        for at, line in self.lines.items():
            stages = self.stages_of(at)
            if stage in stages:
                return line.left() + line.width() * (stages.index(stage) + share) / len(stages)
        return None

    def stage_and_share_at(self, x: float) -> tuple[str, float]:
        """Return the stage nearest to a position, and its fraction at that position."""
        at, line = min(
            self.lines.items(), key=lambda one: max(one[1].left() - x, x - one[1].right(), 0)
        )
        stages = self.stages_of(at)
        place = min(1.0, max(0.0, (x - line.left()) / line.width())) * len(stages)
        number = min(len(stages) - 1, int(place))
        return stages[number], place - number


def computed_share(placement: FlowPlacement, highlights: Highlights, stage: str) -> float:
    """Return how much of a stage is computed, from 0 to 1."""
    columns = placement.panels.columns
    panels = zip(columns, placement.panels.panels, strict=True)
    panel = next((panel for column, panel in panels if stage in column.states), None)
    for extent in highlights.computed_extents:
        if extent.stage == stage and panel:
            rows, across = len(panel.rows.labels), len(panel.columns.labels)
            return min(1.0, (extent.rows + extent.columns / across) / rows)
    return 1.0


def paint_flow_timeline(
    painter: QPainter, placement: FlowPlacement, highlights: Highlights, theme: Theme
) -> None:
    """Paint the progress of playback and the knob, or nothing if no steps are played."""
    if not highlights.step:
        return
    timeline = FlowTimeline(placement)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    for at, line in timeline.lines.items():
        stages = timeline.stages_of(at)
        done = sum(computed_share(placement, highlights, stage) for stage in stages) / len(stages)
        for width, ink in ((line.width(), theme.hairline), (done * line.width(), theme.ink)):
            painter.setBrush(QColor(ink))
            painter.drawRoundedRect(
                QRectF(line.left(), line.top(), width, line.height()), LINE_PX / 2, LINE_PX / 2
            )
    stage = highlights.step.computations[0].result.stage
    x = timeline.x_of_stage(stage, computed_share(placement, highlights, stage))
    if x is not None:
        middle = next(iter(timeline.lines.values())).center().y()
        radius = KNOB_PX / 2 * text_scale()
        painter.setPen(QPen(QColor(theme.paper), 1.5))
        painter.setBrush(QColor(theme.ink))
        painter.drawEllipse(QPointF(x, middle), radius, radius)
    painter.restore()
