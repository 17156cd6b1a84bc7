"""Hovers, pins and marks cells, and moves the pinned cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_lookup import displayed_cell, move_cursor
from visualizer.session.resolved_view import existing_cell
from visualizer.session.user_prediction import toggle_mark
from visualizer.session.view_changes import (
    pin_cell,
    pin_next_cell,
    pin_parameter,
    pin_previous_cell,
)
from visualizer.session.zoom_ranges import pan_to_show

if TYPE_CHECKING:
    from visualizer.session.cell_address import Cell, ParameterCell
    from visualizer.session.view import View
    from visualizer.session.workspace import Workspace


class CellSelectionController(QObject):
    """Selects cells of a workspace; one method per user action."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._hovered: Cell | None = None
        """The last hovered cell that this controller reported."""

    def hover_cell(self, cell: Cell | None) -> None:
        """Set the hovered cell; None clears it unless another pane has set one since."""
        if cell is None and self._workspace.requested_view.hovered != self._hovered:
            return
        self._hovered = self._to_drawn_cell(cell)
        self._workspace.change_view(hovered=self._hovered)

    def pin_cell(self, cell: Cell | None) -> None:
        """Pin or unpin a cell; if its stage is covered, mark the cell instead.

        If a link led to the flow board, unpinning its target returns to the origin of the link.
        """
        wanted, resolved = self._workspace.requested_view, self._workspace.resolved_requested_view
        if (
            cell is None
            and resolved
            and resolved.is_led_to_flow
            and -1 in resolved.history_directions
        ):
            self.go_through_history(-1)
        elif cell and self._is_hidden_for_prediction(cell):
            self.toggle_prediction_mark(cell)
        else:
            cell = self._to_drawn_cell(cell)
            self._workspace.request_view(pin_cell(wanted, None if cell == wanted.pinned else cell))

    def hover_parameter(self, parameter: ParameterCell | None) -> None:
        """Set the hovered weight of a layer; None clears it."""
        if parameter != self._workspace.requested_view.hovered_parameter:
            self._workspace.change_view(hovered_parameter=parameter)

    def pin_parameter(self, parameter: ParameterCell) -> None:
        """Pin a weight of a layer, or unpin it if it is pinned."""
        wanted = self._workspace.requested_view
        is_pinned = parameter == wanted.pinned_parameter
        self._workspace.request_view(pin_parameter(wanted, None if is_pinned else parameter))

    def unpin_cell(self) -> None:
        """Unpin the cell."""
        self.pin_cell(None)

    def follow_link(self, cell: Cell) -> None:
        """Pin the target of a link, and add the current cell to the history."""
        self._workspace.request_view(
            self._with_pinned_cell_visible(
                replace(pin_cell(self._workspace.requested_view, cell), hovered=None)
            )
        )

    def go_through_history(self, steps: int) -> None:
        """Go back or forward in the history of followed links."""
        run, wanted = self._workspace.run, self._workspace.requested_view
        if run:
            self._workspace.request_view(
                self._with_pinned_cell_visible(
                    (pin_previous_cell if steps < 0 else pin_next_cell)(run, wanted)
                )
            )

    def toggle_prediction_mark(self, cell: Cell | None = None) -> None:
        """Mark or unmark a cell, by default the pinned cell, as a prediction."""
        wanted = self._workspace.requested_view
        guess, cell = wanted.guess, cell or wanted.pinned
        if guess and cell and not cell.fold:
            self._workspace.change_view(guess=toggle_mark(guess, cell))

    def move_pinned_cell(self, down: int, right: int) -> None:
        """Move the pinned cell by a number of drawn cells, or pin the first cell."""
        screen, wanted = self._workspace.screen, self._workspace.requested_view
        picture = screen.panel(BOARD_CONTENTS)
        asked = screen.resolved.hidden_stages if screen.resolved else frozenset()
        cell = self._to_drawn_cell(
            move_cursor(picture.board, picture.cursor.pinned, down, right, asked)
        )
        self._workspace.request_view(
            self._with_pinned_cell_visible(replace(wanted, hovered=None, pinned=cell))
        )

    def _with_pinned_cell_visible(self, view: View) -> View:
        """Move the zoom so that the pinned cell is visible."""
        run, cell = self._workspace.run, view.pinned
        if run is None or cell is None or existing_cell(run, cell) is None:
            return view
        stage = run.trace.stage(cell.stage)
        seen = pan_to_show(view.zoom, run.trace.query_key_counts, stage, *cell.place[-2:])
        return replace(view, zoom=seen)

    def _is_hidden_for_prediction(self, cell: Cell) -> bool:
        resolved = self._workspace.screen.resolved
        return resolved is not None and cell.stage in resolved.hidden_stages

    def _to_drawn_cell(self, cell: Cell | None) -> Cell | None:
        screen = self._workspace.screen
        if cell is None or screen.resolved is None or self._is_hidden_for_prediction(cell):
            return cell
        return displayed_cell(screen.resolved, screen.panel(BOARD_CONTENTS).board, cell)
