"""Controller of the mask editor: brushes, and strokes by mouse and keyboard in the heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent

from visualizer.attention.captured_attention import MAX_CUT_EDGES
from visualizer.attention.spec import BooleanMatrix
from visualizer.errors import InputError
from visualizer.features.mask_editor.brush_masks import (
    apply_stroke,
    cells_on_line,
    cut_other_cells,
    is_allowed,
    mask_of_brush,
    uncut_cells,
)
from visualizer.features.mask_editor.presenter import (
    MASK_EDIT_PANEL,
    MAX_EDITABLE_MASK_TOKENS,
    current_mask,
    is_same_text,
)
from visualizer.format import format_count
from visualizer.heatmap.board import stage_and_side
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import move_cursor, panel_of_cell
from visualizer.heatmap.cell_scroll_widget import ARROW_STEPS
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.view_options import MaskPattern
from visualizer.widgets.input_filters import has_command_modifier

if TYPE_CHECKING:
    from visualizer.features.mask_editor.brush_bar_widget import MaskEditBar
    from visualizer.features.mask_editor.brush_masks import QueryKeyIndex
    from visualizer.features.mask_editor.presenter import MaskEditPanel
    from visualizer.heatmap.board_layout import PanelSlot
    from visualizer.heatmap.cell_selection_controller import CellSelectionController
    from visualizer.heatmap.widget import BoardView
    from visualizer.session.cell_address import Cell
    from visualizer.session.view_options import MaskEditState
    from visualizer.session.workspace import Workspace

TOO_MANY_CUTS_ERROR = "At most {most} can be cut. Restore some edges before you cut more."


class MaskEditController(QObject):
    """Controller that edits the mask of a workspace; each stroke is one undo step."""

    def __init__(
        self, workspace: Workspace, cell_selection: CellSelectionController, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._cell_selection = workspace, cell_selection
        self._stroke: tuple[Cell, bool] | None = None
        """Last cell of the current stroke, and whether the stroke allows or forbids cells."""

    def connect_bar(self, strokes: MaskStrokeEventFilter, bar: MaskEditBar) -> None:
        """Connect the strokes in the heatmaps and the bar of brushes."""
        strokes.strokeBegun.connect(self.begin_stroke)
        strokes.strokeContinued.connect(self.continue_stroke)
        strokes.strokeEnded.connect(self.end_stroke)
        strokes.strokeExtended.connect(self.extend_stroke)
        strokes.finished.connect(self.stop_editing)
        bar.brushChosen.connect(self.apply_brush)
        bar.numberChosen.connect(self.set_brush_number)
        bar.settled.connect(self.end_stroke)
        bar.allHeadsToggled.connect(self.set_cuts_all_heads)
        bar.allEdgesRestored.connect(self.restore_all_edges)
        bar.finished.connect(self.stop_editing)

    @property
    def _edit_state(self) -> MaskEditState:
        return self._workspace.requested_view.painting

    def toggle_editing(self) -> None:
        self._update_edit_state(is_on=not self._edit_state.is_on)

    def stop_editing(self) -> None:
        self._update_edit_state(is_on=False)

    # ------------------------------------------------------------------ strokes

    def begin_stroke(self, cell: Cell, copies_first_value: bool) -> None:
        """Begin a stroke that inverts its first cell or, with `copies_first_value`, copies it."""
        mask = self._editable_mask(cell)
        if mask:
            self.end_stroke()
            place = self._pooling_block_start(cell)
            allow = is_allowed(mask, place, self._pooling_block_size(cell)) == copies_first_value
            self._stroke = cell, allow
            self._paint_cells([place])

    def continue_stroke(self, cell: Cell) -> None:
        """Continue the stroke to a cell, and paint all cells in between."""
        if self._stroke:
            before, allow = self._stroke
            self._stroke = cell, allow
            places = self._pooling_block_start(before), self._pooling_block_start(cell)
            self._paint_cells(cells_on_line(*places, self._pooling_block_size(cell)))

    def end_stroke(self) -> None:
        """End the stroke and its undo step."""
        self._stroke = None
        self._workspace.history.end_merged_edit()

    def toggle_pinned_cell(self) -> None:
        """Invert the pinned cell."""
        pinned = self._workspace.screen.panel(BOARD_CONTENTS).cursor.pinned
        if pinned:
            self.begin_stroke(pinned, False)
            self.end_stroke()

    def is_pair_allowed(self, cell: Cell) -> bool | None:
        """Return whether the mask allows a cell's query and key, or None if they cannot be masked.

        A pair can be masked outside the mask editor; edges of a model can be cut only within it.
        """
        mask = self._mask_of_pair(cell)
        return None if mask is None else is_allowed(mask, _query_and_key(cell))

    def toggle_pair(self, cell: Cell) -> None:
        """Mask or unmask the query and key of a cell."""
        mask = self._mask_of_pair(cell)
        if mask is not None:
            pair = _query_and_key(cell)
            painted = apply_stroke(mask, [pair], not is_allowed(mask, pair))
            self._workspace.change_setting("painted", painted)

    def _mask_of_pair(self, cell: Cell) -> BooleanMatrix | None:
        """Return the mask if the cell is a query–key pair of a module, or None otherwise."""
        workspace, run = self._workspace, self._workspace.run
        if run is None or not (run.trace.has_module and workspace.document.has_module):
            return None
        is_pair = cell.stage in run.trace and run.trace.stage(cell.stage).dims[-1] == "key"
        tokens = run.trace.query_count
        is_live = cell.part in {ComparisonSide.PLAIN, ComparisonSide.B}
        is_small = not run.trace.is_blockwise and tokens <= MAX_EDITABLE_MASK_TOKENS
        if not (is_pair and is_live and is_small and self._pooling_block_size(cell) == (1, 1)):
            return None
        if not is_same_text(workspace.document, workspace.computed):
            return None
        return current_mask(workspace.document, tokens)

    def extend_stroke(self, down: int, right: int) -> None:
        """Copy the pinned cell's value to the next cell, and pin the next cell."""
        screen = self._workspace.screen
        pinned = screen.panel(BOARD_CONTENTS).cursor.pinned
        following = move_cursor(screen.panel(BOARD_CONTENTS).board, pinned, down, right)
        if pinned is None or following is None or _panel_key(following) != _panel_key(pinned):
            return
        mask = self._editable_mask(pinned)
        if mask:
            self._stroke = (
                following,
                is_allowed(
                    mask, self._pooling_block_start(pinned), self._pooling_block_size(pinned)
                ),
            )
            self._cell_selection.move_pinned_cell(down, right)
            self._paint_cells([self._pooling_block_start(following)])

    def _editable_mask(self, cell: Cell) -> BooleanMatrix | None:
        """Return the mask, or the uncut cells of a model's head, or None if the cell has none."""
        panel = self._workspace.screen.panel(MASK_EDIT_PANEL)
        if panel is None or stage_and_side(cell) not in panel.targets:
            return None
        model = self._workspace.document.model
        if model and panel.layer is not None and panel.allowed is not None:
            if cell.head is None:
                return None
            cut = model.cut_cells_by_head.get((panel.layer, cell.head), ())
            return BooleanMatrix.from_array(uncut_cells(panel.allowed, cut))
        return current_mask(self._workspace.document, panel.tokens)

    def _pooling_block_size(self, cell: Cell) -> tuple[int, int]:
        panel = panel_of_cell(self._workspace.screen.panel(BOARD_CONTENTS).board, cell)
        return (panel.rows.block, panel.columns.block) if panel else (1, 1)

    def _pooling_block_start(self, cell: Cell) -> QueryKeyIndex:
        """Return the first query and key of the pooling block that contains a cell."""
        rows, columns = self._pooling_block_size(cell)
        return cell.place[-2] // rows * rows, cell.place[-1] // columns * columns

    def _paint_cells(self, places: list[QueryKeyIndex]) -> None:
        if self._stroke is None:
            return
        cell, allow = self._stroke
        mask = self._editable_mask(cell)
        if self._workspace.document.model:
            self._cut_edges(cell, places, allow)
            return
        painted = mask and apply_stroke(mask, places, allow, self._pooling_block_size(cell))
        if painted != mask:
            self._workspace.change_setting("painted", painted, is_continued_edit=True)

    # ------------------------------------------------------------------ edges of a model

    def _cut_edges(self, cell: Cell, places: list[QueryKeyIndex], allow: bool) -> None:
        """Cut or restore the edges of a stroke, in the cell's head or in all shown heads."""
        panel, model = self._workspace.screen.panel(MASK_EDIT_PANEL), self._workspace.document.model
        if panel is None or panel.layer is None or panel.allowed is None or model is None:
            return
        blocks, changed = self._pooling_block_size(cell), model
        for head in panel.heads if self._edit_state.is_of_all_heads else (cell.head,):
            if head is None:
                return
            place = panel.layer, head
            cells = uncut_cells(panel.allowed, model.cut_cells_by_head.get(place, ()))
            painted = apply_stroke(BooleanMatrix.from_array(cells), places, allow, blocks)
            changed = cut_other_cells(changed, place, panel.allowed, painted.to_array())
        if sum(len(cut.cells) for cut in changed.cuts) > MAX_CUT_EDGES:
            most = format_count(MAX_CUT_EDGES, "edge")
            self._workspace.show_error(InputError("cuts", TOO_MANY_CUTS_ERROR.format(most=most)))
        elif changed != model:
            self._workspace.change_setting("model", changed, is_continued_edit=True)

    def set_cuts_all_heads(self, cuts_all_heads: bool) -> None:
        """Choose whether strokes cut edges in all shown heads or only in the head of the stroke."""
        self._update_edit_state(is_of_all_heads=cuts_all_heads)

    def restore_all_edges(self) -> None:
        """Restore all cut edges."""
        model = self._workspace.document.model
        if model:
            self.end_stroke()
            self._workspace.change_setting("model", replace(model, cuts=()))

    # ------------------------------------------------------------------ brushes

    def apply_brush(self, name: str) -> None:
        """Replace the mask with the mask of a brush."""
        self.end_stroke()
        brush, document = MaskPattern(name), self._workspace.document
        tokens = document.max_text_tokens
        if tokens and document.has_module and not self._is_text_too_long:
            mask = mask_of_brush(brush, tokens, self._edit_state.brush_parameter(brush))
            if mask != current_mask(document, tokens):
                self._workspace.change_setting("painted", mask)

    def set_brush_number(self, name: str, number: int) -> None:
        """Set the parameter of a brush, and update the mask if it is the mask of that brush."""
        brush, document = MaskPattern(name), self._workspace.document
        tokens = document.max_text_tokens
        if self._is_text_too_long:
            return
        is_its = mask_of_brush(
            brush, tokens, self._edit_state.brush_parameter(brush)
        ) == current_mask(document, tokens)
        self._update_edit_state(**{brush.value: number})
        if tokens and is_its and document.has_module:
            self._workspace.change_setting(
                "painted", mask_of_brush(brush, tokens, number), is_continued_edit=True
            )

    @property
    def _is_text_too_long(self) -> bool:
        panel = self._workspace.screen.panel(MASK_EDIT_PANEL)
        return panel is not None and panel.is_too_long

    def _update_edit_state(self, **changes: Any) -> None:
        self._workspace.change_view(painting=replace(self._edit_state, **changes))


def _query_and_key(cell: Cell) -> QueryKeyIndex:
    query, key = cell.place[-2:]
    return query, key


def _panel_key(cell: Cell) -> tuple[object, ...]:
    return cell.stage, cell.head, cell.fold, cell.part


SHIFT = Qt.KeyboardModifier.ShiftModifier
PRESS_EVENTS = {QEvent.Type.MouseButtonPress, QEvent.Type.MouseButtonDblClick}


class MaskStrokeEventFilter(QObject):
    """Event filter that turns mouse and key events in the heatmaps into strokes."""

    strokeBegun = Signal(object, bool)
    """Emitted with the first cell and whether the stroke copies its value."""
    strokeContinued = Signal(object)
    strokeEnded = Signal()
    strokeExtended = Signal(int, int)
    finished = Signal()

    def __init__(self, board: BoardView) -> None:
        super().__init__(board)
        self._board = board
        self._panel: MaskEditPanel | None = None
        self._slot: PanelSlot | None = None

    def show_mask_edit(self, panel: MaskEditPanel | None) -> None:
        """Install the event filter, or remove it if the panel is None."""
        before, self._panel = self._panel, panel
        self._board.show_mask_changes(panel.pending_cells if panel else {})
        if bool(panel) == bool(before):
            return
        for widget in (self._board, self._board.viewport()):
            if panel:
                widget.installEventFilter(self)
            else:
                widget.removeEventFilter(self)
        if panel:
            self._board.viewport().setCursor(Qt.CursorShape.CrossCursor)
        else:
            self._end_stroke()
            self._board.viewport().unsetCursor()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent):
            return watched is self._board.viewport() and self._handle_mouse(event)
        if isinstance(event, QKeyEvent):
            return watched is self._board and self._handle_key(event)
        if event.type() == QEvent.Type.Wheel:
            self._end_stroke()  # other cells may scroll under the pointer
        return event.type() == QEvent.Type.ContextMenu

    # ------------------------------------------------------------------ mouse

    def _handle_mouse(self, event: QMouseEvent) -> bool:
        if event.type() in PRESS_EVENTS:
            return self._handle_press(event)
        if self._slot is None:
            return False
        if event.type() == QEvent.Type.MouseMove:
            self.strokeContinued.emit(self._board.nearest_cell(self._slot, event.position()))
            return False  # hovering continues
        self._end_stroke()
        return True

    def _handle_press(self, event: QMouseEvent) -> bool:
        slot = self._board.slot_at(event.position())
        targets = self._panel.targets if self._panel else frozenset()
        is_right = event.button() == Qt.MouseButton.RightButton
        if slot is None or stage_and_side(slot.heatmap) not in targets:
            return False
        if self._slot is None and (is_right or event.button() == Qt.MouseButton.LeftButton):
            self._slot = slot  # with its current rectangle, as a pending result may move it
            copies_first_value = is_right or bool(event.modifiers() & SHIFT)
            self.strokeBegun.emit(
                self._board.nearest_cell(slot, event.position()), copies_first_value
            )
        return True

    def _end_stroke(self) -> None:
        if self._slot is not None:
            self._slot = None
            self.strokeEnded.emit()

    # ------------------------------------------------------------------ keyboard

    def _handle_key(self, event: QKeyEvent) -> bool:
        if event.type() == QEvent.Type.KeyRelease and event.key() == Qt.Key.Key_Shift:
            self.strokeEnded.emit()
        if event.type() != QEvent.Type.KeyPress or has_command_modifier(event):
            return False
        step = ARROW_STEPS.get(Qt.Key(event.key()))
        if step and event.modifiers() & SHIFT:
            self.strokeExtended.emit(*step)
            return True
        if event.key() == Qt.Key.Key_Escape:
            self.finished.emit()
            return True
        return False
