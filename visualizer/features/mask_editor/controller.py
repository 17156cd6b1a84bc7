"""Controller of the mask editor: strokes in the heatmaps, and brushes to start from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.attention.captured_attention import MAX_CUT_EDGES
from visualizer.attention.spec import BooleanMatrix
from visualizer.errors import InputError
from visualizer.features.mask_editor.brush_masks import between, is_open, mask_of_brush, with_stroke
from visualizer.features.mask_editor.edge_cuts import open_cells, with_open_cells
from visualizer.features.mask_editor.presenter import MASK_EDIT, longest, mask_of
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_keyboard_navigation import moved_cursor
from visualizer.heatmap.panel_and_board_types import target_of
from visualizer.heatmap.panel_cell_lookup import panel_of
from visualizer.number_format import format_count
from visualizer.session.mask_editing_mode_and_brushes import MaskBrush

if TYPE_CHECKING:
    from visualizer.features.mask_editor.brush_masks import Place
    from visualizer.heatmap.cell_selection_controller import CellSelectionController
    from visualizer.session.cell_address import Cell
    from visualizer.session.mask_editing_mode_and_brushes import MaskEditState
    from visualizer.session.workspace import Workspace

TOO_MANY = "No more than {most} can be cut. Join some before you cut others."


class MaskEditController(QObject):
    """Edits the mask of a workspace; each stroke is one undo step."""

    def __init__(
        self, workspace: Workspace, cell_selection: CellSelectionController, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace, self._cell_selection = workspace, cell_selection
        self._stroke: tuple[Cell, bool] | None = None
        """The last cell of the current stroke, and whether it allows or forbids."""

    @property
    def _state(self) -> MaskEditState:
        return self._workspace.wanted.painting

    def toggle(self) -> None:
        self._change(is_on=not self._state.is_on)

    def stop(self) -> None:
        self._change(is_on=False)

    # ------------------------------------------------------------------ strokes

    def begin(self, cell: Cell, spreads: bool) -> None:
        """Begin a stroke that inverts its first cell, or that spreads the first cell's value."""
        mask = self._mask(cell)
        if mask:
            self.end()
            place = self._place(cell)
            allow = is_open(mask, place, self._blocks(cell)) == spreads
            self._stroke = cell, allow
            self._paint([place])

    def sweep(self, cell: Cell) -> None:
        """Continue the stroke to a cell, over all cells in between."""
        if self._stroke:
            before, allow = self._stroke
            self._stroke = cell, allow
            places = self._place(before), self._place(cell)
            self._paint(between(*places, self._blocks(cell)))

    def end(self) -> None:
        """End the stroke, and with it the undo step."""
        self._stroke = None
        self._workspace.seal()

    def paint_pinned(self) -> None:
        """Invert the pinned cell."""
        pinned = self._workspace.screen.panel(BOARD_CONTENTS).cursor.pinned
        if pinned:
            self.begin(pinned, False)
            self.end()

    def extend(self, down: int, right: int) -> None:
        """Copy the pinned cell's value to the next cell, and pin that one."""
        screen = self._workspace.screen
        pinned = screen.panel(BOARD_CONTENTS).cursor.pinned
        following = moved_cursor(screen.panel(BOARD_CONTENTS).board, pinned, down, right)
        if pinned is None or following is None or _panel(following) != _panel(pinned):
            return
        mask = self._mask(pinned)
        if mask:
            self._stroke = following, is_open(mask, self._place(pinned), self._blocks(pinned))
            self._cell_selection.walk(down, right)
            self._paint([self._place(following)])

    def _mask(self, cell: Cell) -> BooleanMatrix | None:
        """The mask, or the open cells of a model's head; None where it does not apply."""
        panel = self._workspace.screen.panel(MASK_EDIT)
        if panel is None or target_of(cell) not in panel.targets:
            return None
        model = self._workspace.document.model
        if model and panel.layer is not None and panel.allowed is not None:
            if cell.head is None:
                return None
            cut = model.cut_cells.get((panel.layer, cell.head), ())
            return BooleanMatrix.of(open_cells(panel.allowed, cut))
        return mask_of(self._workspace.document, panel.tokens)

    def _blocks(self, cell: Cell) -> tuple[int, int]:
        panel = panel_of(self._workspace.screen.panel(BOARD_CONTENTS).board, cell)
        return (panel.rows.block, panel.columns.block) if panel else (1, 1)

    def _place(self, cell: Cell) -> Place:
        """The first query and key of a cell's pooling block, in which the cell can be anywhere."""
        rows, columns = self._blocks(cell)
        return cell.place[-2] // rows * rows, cell.place[-1] // columns * columns

    def _paint(self, places: list[Place]) -> None:
        if self._stroke is None:
            return
        cell, allow = self._stroke
        mask = self._mask(cell)
        if self._workspace.document.model:
            self._cut(cell, places, allow)
            return
        painted = mask and with_stroke(mask, places, allow, self._blocks(cell))
        if painted != mask:
            self._workspace.set("painted", painted, going_on=True)

    # ------------------------------------------------------------------ edges of a model

    def _cut(self, cell: Cell, places: list[Place], allow: bool) -> None:
        """Cut or join the edges of a stroke, in the head of a cell or in all that are shown."""
        panel, model = self._workspace.screen.panel(MASK_EDIT), self._workspace.document.model
        if panel is None or panel.layer is None or panel.allowed is None or model is None:
            return
        blocks, changed = self._blocks(cell), model
        for head in panel.heads if self._state.is_of_all_heads else (cell.head,):
            if head is None:
                return
            place = panel.layer, head
            cells = open_cells(panel.allowed, model.cut_cells.get(place, ()))
            painted = with_stroke(BooleanMatrix.of(cells), places, allow, blocks)
            changed = with_open_cells(changed, place, panel.allowed, painted.array())
        if sum(len(cut.cells) for cut in changed.cuts) > MAX_CUT_EDGES:
            most = format_count(MAX_CUT_EDGES, "edge")
            self._workspace.refuse(InputError("cuts", TOO_MANY.format(most=most)))
        elif changed != model:
            self._workspace.set("model", changed, going_on=True)

    def set_all_heads(self, is_of_all: bool) -> None:
        """Have strokes cut edges of all heads of the model that are shown, or of their own."""
        self._change(is_of_all_heads=is_of_all)

    def join_all(self) -> None:
        """Take back all cut edges."""
        model = self._workspace.document.model
        if model:
            self.end()
            self._workspace.set("model", replace(model, cuts=()))

    # ------------------------------------------------------------------ brushes

    def start_from(self, name: str) -> None:
        """Replace the mask by a brush's."""
        self.end()
        brush, document = MaskBrush(name), self._workspace.document
        tokens = longest(document)
        if tokens and document.has_module and not self._is_too_long:
            mask = mask_of_brush(brush, tokens, self._state.number(brush))
            if mask != mask_of(document, tokens):
                self._workspace.set("painted", mask)

    def set_number(self, name: str, number: int) -> None:
        """Set the parameter of a brush, and update the mask where it is that brush's."""
        brush, document = MaskBrush(name), self._workspace.document
        tokens = longest(document)
        if self._is_too_long:
            return
        is_its = mask_of_brush(brush, tokens, self._state.number(brush)) == mask_of(
            document, tokens
        )
        self._change(**{brush.value: number})
        if tokens and is_its and document.has_module:
            self._workspace.set("painted", mask_of_brush(brush, tokens, number), going_on=True)

    @property
    def _is_too_long(self) -> bool:
        panel = self._workspace.screen.panel(MASK_EDIT)
        return panel is not None and panel.is_too_long

    def _change(self, **changes: Any) -> None:
        self._workspace.look(painting=replace(self._state, **changes))


def _panel(cell: Cell) -> tuple[object, ...]:
    return cell.stage, cell.head, cell.fold, cell.part
