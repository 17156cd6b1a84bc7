"""Motion of a playback step on the flow board: operands move, and a card shows the calculation.

Everything is a function of the time since the step began. Panels do not move: their cells are
dimmed, images of the operands' cells move over them, and the result appears last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QPainter, QRegion

from visualizer.heatmap import colour_mapping
from visualizer.heatmap.cell_cursor_paint import paint_frame
from visualizer.heatmap.flow_cursor_paint import (
    FRAME_PX,
    OTHER_RIBBON_ALPHA,
    RIBBON_ALPHA,
    FlowCursor,
    with_alpha,
)
from visualizer.heatmap.flow_placement import OPERATION_PX
from visualizer.heatmap.highlight_paint import is_block_shown, visible_block_area
from visualizer.heatmap.motion_card_paint import APPEARANCE_SHARE, ProductsCard, SoftmaxCard
from visualizer.heatmap.panel_margins_paint import ALIGN_LEFT
from visualizer.heatmap.step_motion_paint import (
    MovingCells,
    create_moving_cells,
    paint_empty_targets,
)
from visualizer.heatmap.step_motion_paths import motion_duration_ms
from visualizer.heatmap.step_motion_phases import MotionKind, MotionPhase, dimming, phase_progress
from visualizer.session.cell_address import Cell
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from PySide6.QtGui import QImage

    from visualizer.heatmap.board import Heatmap
    from visualizer.heatmap.board_layout import FlowPlacement, PanelSlot
    from visualizer.heatmap.flow_cursor_paint import WeightRibbon
    from visualizer.heatmap.highlights import BlockComputation, HighlightBlock, Highlights
    from visualizer.heatmap.motion_card_paint import CellColours, MotionCard
    from visualizer.widgets.theme import Theme

    class CopyCells(Protocol):
        """Returns an image of an area of the board, without highlights."""

        def __call__(self, area: QRectF, *, is_earlier: bool = False) -> QImage: ...


DIMMED_ALPHA = 173
"""Maximum opacity of the dimming, from 0 to 255."""
LIFT_PX = 4
MARGIN_PX = 12
"""Maximum distance by which lifted operands, frames and shadows extend beyond their areas."""
SPLIT_WIDTH_PX = 10
TAB_LABEL_PX = 24
"""Height of a head's name above its thumbnail."""
SPLIT_TEXT = "= 1 row"
TRAVEL_PHASES = {
    MotionKind.MOVE: MotionPhase.TRAVEL,
    MotionKind.SCORE: MotionPhase.TRAVEL,
    MotionKind.SOFTMAX: MotionPhase.EXPONENTIATE,
}
"""The phase in which the operands travel to the result."""
VANISHING_PHASES = {
    MotionKind.MOVE: MotionPhase.LAND,
    MotionKind.SCORE: MotionPhase.MEET,
    MotionKind.SOFTMAX: MotionPhase.EXPONENTIATE,
}
"""The phase in which the images of the operands fade out."""


class FlowMotion(Struct, frozen=True, eq=False):
    """Motion of one step on the flow board.

    Parameters
    ----------
    operands : tuple of MovingCells
        Images of the operands, which move from their cells to the result.
    result : MovingCells
        Image of the computed cells, which does not move.
    before : MovingCells or None
        Colours of the row of scores at the position of the result; they fade to the result's own.
    strips : tuple of MovingCells
        Images of the values, which move from their rows to their shares of the result.
    ribbons : tuple of WeightRibbon
        Ribbons of a row of weights.
    chosen : int
        Key of the ribbon that is drawn in the accent colour.
    step_ms : float or None
        How long the step is shown, in milliseconds; None if it is not played.
    """

    placement: FlowPlacement
    theme: Theme
    kind: MotionKind
    operands: tuple[MovingCells, ...]
    result: MovingCells
    card: MotionCard | None = None
    before: MovingCells | None = None
    strips: tuple[MovingCells, ...] = ()
    ribbons: tuple[WeightRibbon, ...] = ()
    chosen: int = 0
    step_ms: float | None = None

    @property
    def duration_ms(self) -> int:
        return motion_duration_ms(self.step_ms, self.kind)

    @property
    def dimmed_slots(self) -> list[PanelSlot]:
        """The panels that are dimmed while the operands move."""
        return [slot for slot in (*self.placement.slots, *self.placement.operands) if slot]

    def progress(self, share: float, phase: MotionPhase) -> float:
        """Return the progress of a phase after a fraction of the motion."""
        return phase_progress(self.kind, share, phase, self.duration_ms)

    def dimming(self, share: float) -> float:
        """Return how much the rest of the board is dimmed after a fraction of the motion."""
        return dimming(self.kind, share, self.duration_ms)

    def painted_region(self, share: float) -> QRegion:
        """Return the region of the panels, the space between them, and the card."""
        areas = [slot.cells for slot in self.dimmed_slots]
        if self.card:
            areas.append(self.card.area)
        whole = QRectF(self.result.end)
        for area in areas:
            whole = whole.united(area)
        margin = MARGIN_PX * text_scale()
        return QRegion(whole.adjusted(-margin, -margin, margin, margin).toAlignedRect())

    def paint(self, painter: QPainter, share: float, targets: Sequence[QRectF]) -> None:
        """Paint the motion at a fraction of its time; the result is empty until the last phase."""
        painter.save()
        shade = with_alpha(self.theme.paper, round(DIMMED_ALPHA * self.dimming(share)))
        for slot in self.dimmed_slots:
            painter.fillRect(slot.cells, shade)
        for one in self.operands:
            if one.is_copy:  # the operands stay bright, because the card quotes their numbers
                one.paint(painter, one.start)
        paint_empty_targets(painter, targets, self.theme)
        if self.kind is MotionKind.CONTEXT:
            self._paint_weight_ribbons(painter, share)
        else:
            self._paint_operands(painter, share)
        if landed := self.progress(share, MotionPhase.LAND):
            if self.before:
                painter.setOpacity(min(1.0, landed / APPEARANCE_SHARE))
                self.before.paint(painter, self.before.end)
            painter.setOpacity(landed)
            self.result.paint(painter, self.result.end)
        if self.card:
            self.card.paint(painter, lambda phase: self.progress(share, phase), self.theme)
        painter.restore()

    def operand_areas(self, share: float) -> tuple[QRectF, ...]:
        """Return the operands' areas after a fraction of the motion, without their lift."""
        way = self.progress(share, TRAVEL_PHASES[self.kind])
        return tuple(one.area_at(way) for one in self.operands)

    def _paint_operands(self, painter: QPainter, share: float) -> None:
        """Paint the operands while they lift and travel."""
        lift = LIFT_PX * text_scale() * self.dimming(share)
        painter.setOpacity(1 - self.progress(share, VANISHING_PHASES[self.kind]))
        for one, area in zip(self.operands, self.operand_areas(share), strict=True):
            lifted = area.translated(0, -lift)
            one.paint(painter, lifted)
            paint_frame(painter, lifted, FRAME_PX, self.theme)
        painter.setOpacity(1)

    def _paint_weight_ribbons(self, painter: QPainter, share: float) -> None:
        """Paint the shares of a row of weights while they travel, and the stack of values."""
        split, flow = (
            self.progress(share, MotionPhase.SPLIT),
            self.progress(share, MotionPhase.FLOW),
        )
        painter.setOpacity(1 - self.progress(share, MotionPhase.LAND))
        for one in self.operands:
            one.paint(painter, one.start)
            paint_frame(painter, one.start, FRAME_PX, self.theme)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for ribbon in self.ribbons:
            self._paint_ribbon(painter, ribbon, split, flow)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        if split and not flow:
            self._paint_split_text(painter)
        if stack := self.progress(share, MotionPhase.STACK):
            for one in self.strips:
                one.paint(painter, one.area_at(stack))
        painter.setOpacity(1)

    def _paint_ribbon(
        self, painter: QPainter, ribbon: WeightRibbon, split: float, flow: float
    ) -> None:
        """Paint a share: its part of the row's edge, and the ribbon up to its current length."""
        is_chosen = self.chosen in ribbon.keys
        ink = self.theme.accent if is_chosen else self.theme.quiet
        colour = with_alpha(ink, RIBBON_ALPHA if is_chosen else OTHER_RIBBON_ALPHA)
        start = ribbon.start
        if not flow:
            width = SPLIT_WIDTH_PX * text_scale() * split
            height = max(1.0, start.height() - 1)  # a gap between two shares
            painter.fillRect(QRectF(start.left() + 2, start.top(), width, height), colour)
            return
        painter.save()
        reach = flow * (ribbon.end.left() - start.left())
        top = min(ribbon.end.top(), start.top())
        bottom = max(ribbon.end.bottom(), start.bottom())
        painter.setClipRect(QRectF(start.left(), top, reach, bottom - top))
        painter.fillPath(ribbon.path, colour)
        painter.restore()

    def _paint_split_text(self, painter: QPainter) -> None:
        """Label the shares to show that they add up to the row's height, if the label fits."""
        first, last = self.ribbons[0], self.ribbons[-1].start
        scale, middle = text_scale(), (first.start.top() + last.bottom()) / 2
        left = first.start.left() + (SPLIT_WIDTH_PX + 6) * scale
        room = first.end.left() - left
        if font_metrics(OPERATION_PX).horizontalAdvance(SPLIT_TEXT) > room:
            return
        painter.setFont(scaled_font(OPERATION_PX))
        painter.setPen(QColor(self.theme.quiet))
        line = QRectF(left, middle - 10 * scale, room, 20 * scale)
        painter.drawText(line, ALIGN_LEFT, SPLIT_TEXT)


def create_flow_motion(
    placement: FlowPlacement, highlights: Highlights, theme: Theme, seen: QRectF, copy: CopyCells
) -> FlowMotion | None:
    """Create the motion of the highlighted step if its result and its inputs are shown."""
    step, slots = highlights.step, tuple(slot for slot in placement.slots if slot)
    assert step is not None
    shown = ((slot, each) for slot in slots for each in step.computations)
    found = next((pair for pair in shown if is_block_shown(pair[0], pair[1].result)), None)
    target = visible_block_area(found[0], found[1].result) if found else None
    if found is None or target is None:
        return None
    slot, computation = found
    result = MovingCells(copy(target), target, target, is_copy=True)
    motion = FlowMotion(placement, theme, MotionKind.MOVE, (), result, step_ms=step.ms)
    build = {
        MotionKind.SCORE: _create_score_motion,
        MotionKind.SOFTMAX: _create_softmax_motion,
        MotionKind.CONTEXT: _create_context_motion,
    }.get(step.kind)
    built = build(motion, slot, computation, highlights, seen, copy) if build else None
    if built:
        return built
    if placement.has_earlier_state(slot):  # the numbers change in place
        return replace(
            motion,
            operands=(MovingCells(copy(target, is_earlier=True), target, target, is_copy=True),),
        )
    operands = create_moving_cells(slots, step, theme, seen)
    if len(operands) == 1:  # it has room to keep its size, so that its numbers can be read
        (row,) = operands
        operands = (
            MovingCells(
                copy(row.start), row.start, _centre_area_on(row.start, row.end), is_copy=True
            ),
        )
    above = _moving_layer_columns(placement, slot, computation.result, copy, target)
    return replace(motion, operands=(*operands, *above)) if operands else None


def _create_score_motion(
    motion: FlowMotion,
    slot: PanelSlot,
    computation: BlockComputation,
    highlights: Highlights,
    seen: QRectF,
    copy: CopyCells,
) -> FlowMotion | None:
    """Create the motion of a score: a query and a key move to it and are multiplied."""
    step = highlights.step
    at = motion.placement.slots.index(slot)
    operand, column = motion.placement.operands[at], motion.placement.panels.columns[at]
    target = motion.result.end
    if operand is None or step is None or step.terms is None:
        return None
    if _visible_cell_area(slot, highlights.leading) is None:
        return None
    keys = QRectF(target.left(), operand.cells.top(), target.width(), operand.cells.height())
    rows = [
        area
        for block in computation.inputs
        if block.stage != column.operand and (area := _visible_block_area(motion.placement, block))
    ]
    operands = tuple(
        MovingCells(copy(area), area, _centre_area_on(area, target), is_copy=True)
        for area in (*rows, keys)
    )
    motion = replace(motion, kind=MotionKind.SCORE, operands=operands)
    return _add_products_card(motion, slot, computation, highlights, seen)


def _add_products_card(
    motion: FlowMotion,
    slot: PanelSlot,
    computation: BlockComputation,
    highlights: Highlights,
    seen: QRectF,
    occupied: Sequence[QRectF] = (),
) -> FlowMotion:
    """Add the card of the explained cell to a motion, if the cell is visible."""
    step, leading = highlights.step, highlights.leading
    cell = _visible_cell_area(slot, leading)
    if cell is None or step is None or step.terms is None:
        return motion
    at = motion.placement.slots.index(slot)
    colours = _factor_colours(motion.placement, at, computation, leading, motion.theme)
    if {len(one) for one in colours} != {len(step.terms.terms)}:
        colours = ()  # pooled cells show other numbers
    occupied = [*_occupied_areas(motion.placement, highlights), *occupied]
    card = ProductsCard.of(motion.kind, step.terms, cell, seen, occupied, colours)
    return replace(motion, card=card)


def _factor_colours(
    placement: FlowPlacement,
    at: int,
    computation: BlockComputation,
    cell: Cell | None,
    theme: Theme,
) -> tuple[tuple[CellColours, ...], ...]:
    """Return the colours of the row and of the column above that are multiplied."""
    operand, column = placement.operands[at], placement.panels.columns[at]
    slots = (
        slot
        for block in computation.inputs
        for slot in placement.slots
        if slot and block.stage != column.operand and is_block_shown(slot, block)
    )
    left = next(slots, None)
    if left is None or operand is None or cell is None:
        return ()
    row, above = (
        left.heatmap.rows.cell_index_of(cell.place[-2]),
        operand.heatmap.columns.cell_index_of(cell.place[-1]),
    )
    return (
        _cell_colours(left.heatmap, colour_mapping.colour_indices(left.heatmap)[row], theme),
        _cell_colours(
            operand.heatmap, colour_mapping.colour_indices(operand.heatmap)[:, above], theme
        ),
    )


def _cell_colours(panel: Heatmap, indices: np.ndarray, theme: Theme) -> tuple[CellColours, ...]:
    words = colour_mapping.colour_table(panel.colour.map, theme)[indices] & 0xFFFFFF
    is_light = colour_mapping.dark_text_mask(panel.colour.map, theme)[indices]
    return tuple(
        (f"#{word:06x}", "#000000" if light else "#FFFFFF")
        for word, light in zip(words.tolist(), is_light.tolist(), strict=True)
    )


def _create_softmax_motion(
    motion: FlowMotion,
    slot: PanelSlot,
    computation: BlockComputation,
    highlights: Highlights,
    seen: QRectF,
    copy: CopyCells,
) -> FlowMotion | None:
    """Create the motion of a softmax: the scores become bars, which are divided by their sum."""
    step = highlights.step
    areas = [_visible_block_area(motion.placement, block) for block in computation.inputs]
    target = motion.result.end
    operands = tuple(MovingCells(copy(area), area, target, is_copy=True) for area in areas if area)
    if not operands or step is None or step.terms is None:
        return None
    card = SoftmaxCard.of(step.terms, target, seen, _occupied_areas(motion.placement, highlights))
    before = _score_row_cells(motion, slot, computation, target)
    return replace(motion, kind=MotionKind.SOFTMAX, operands=operands, card=card, before=before)


def _score_row_cells(
    motion: FlowMotion, slot: PanelSlot, computation: BlockComputation, target: QRectF
) -> MovingCells | None:
    """Return the colours of a row of scores at the position of its weights."""
    slots = (one for one in motion.placement.slots if one)
    (block, *_), row = computation.inputs, computation.result.rows[0]
    scores = next((one for one in slots if is_block_shown(one, block)), None)
    if scores is None or len(computation.result.columns) < len(slot.heatmap.columns.labels):
        return None
    colours = colour_mapping.colour_indices(scores.heatmap)[scores.heatmap.rows.cell_index_of(row)][
        None, :
    ]
    picture = colour_mapping.create_colour_image(colours, scores.heatmap.colour.map, motion.theme)
    return MovingCells(picture, target, target)


def _create_context_motion(
    motion: FlowMotion,
    slot: PanelSlot,
    computation: BlockComputation,
    highlights: Highlights,
    seen: QRectF,
    copy: CopyCells,
) -> FlowMotion | None:
    """Create the motion of a weighted sum: each share of a row moves its value to the result."""
    step, result, target = highlights.step, computation.result, motion.result.end
    operand = motion.placement.operands[motion.placement.slots.index(slot)]
    head = () if result.head is None else (result.head,)
    cursor = FlowCursor(
        motion.placement, Cell(result.stage, (*head, result.rows[0], result.columns[0]))
    )
    ribbons = tuple(cursor.weight_ribbons())
    areas = [_visible_block_area(motion.placement, block) for block in computation.inputs]
    weights = [area for area in areas if area and area.top() == target.top()]
    if operand is None or not ribbons or not weights or step is None or step.terms is None:
        return None
    values = operand.heatmap
    colours = colour_mapping.colour_indices(values)
    columns = slice(
        *(values.columns.cell_index_of(at) for at in (result.columns[0], result.columns[-1]))
    )
    strips = []
    for ribbon in ribbons:
        row = values.rows.cell_index_of(ribbon.keys.start)
        cells = colours[row : row + 1, columns.start : columns.stop + 1]
        picture = colour_mapping.create_colour_image(cells, values.colour.map, motion.theme)
        start = QRectF(target.left(), ribbon.end.top(), target.width(), ribbon.end.height())
        end = QRectF(target.left(), ribbon.start.top(), target.width(), ribbon.start.height())
        strips.append(MovingCells(picture, start, end))
    ends = ribbons[0].end.united(ribbons[-1].end)
    stack = QRectF(target.left(), ends.top(), target.width(), ends.height())
    motion = replace(
        motion,
        kind=MotionKind.CONTEXT,
        operands=tuple(
            MovingCells(copy(area), area, area, is_copy=True) for area in (*weights, stack)
        ),
        strips=tuple(strips),
        ribbons=ribbons,
        chosen=step.terms.chosen,
    )
    lane = ribbons[0].start.united(ribbons[-1].start).united(ends)
    return _add_products_card(motion, slot, computation, highlights, seen, [lane])


def _moving_layer_columns(
    placement: FlowPlacement,
    slot: PanelSlot,
    result: HighlightBlock,
    copy: CopyCells,
    target: QRectF,
) -> tuple[MovingCells, ...]:
    """Return the columns of a layer's weights that move down to the result."""
    at = placement.slots.index(slot)
    operand, column = placement.operands[at], placement.panels.columns[at]
    if operand is None or column.layer_stage != result.stage:
        return ()
    area = QRectF(target.left(), operand.cells.top(), target.width(), operand.cells.height())
    return (MovingCells(copy(area), area, _centre_area_on(area, target), is_copy=True),)


def _occupied_areas(placement: FlowPlacement, highlights: Highlights) -> list[QRectF]:
    """Return the areas of computed cells and of the head tabs."""
    rows = {extent.stage: extent.rows for extent in highlights.computed_extents}
    tab = TAB_LABEL_PX * text_scale()
    areas = [slot.cells.adjusted(0, -tab, 0, 0) for slot in placement.thumbnails]
    areas += [slot.cells for slot in placement.operands if slot]
    for slot in filter(None, placement.slots):
        shown, cells = slot.heatmap.rows.visible_range, QRectF(slot.cells)
        last = min(rows.get(slot.heatmap.stage, shown.stop), shown.stop) - 1
        if last >= shown.start:
            cells.setBottom(slot.cell_area(last, slot.heatmap.columns.visible_range.start).bottom())
            areas.append(cells)
    return areas


def _visible_block_area(placement: FlowPlacement, block: HighlightBlock) -> QRectF | None:
    """Return the area of a block in its column, or None if it is not visible."""
    slots = (slot for slot in placement.slots if slot and is_block_shown(slot, block))
    slot = next(slots, None)
    return visible_block_area(slot, block) if slot else None


def _visible_cell_area(slot: PanelSlot, cell: Cell | None) -> QRectF | None:
    if cell is None or cell.place[-2] not in slot.heatmap.rows.visible_range:
        return None
    if cell.place[-1] not in slot.heatmap.columns.visible_range:
        return None
    return slot.cell_area(*cell.place[-2:])


def _centre_area_on(area: QRectF, target: QRectF) -> QRectF:
    """Return an area moved to the middle of a target."""
    return area.translated(target.center() - area.center())
