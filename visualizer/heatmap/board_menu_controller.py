"""Context menus of the heatmaps, for cells, headings, heads and tokens.

A menu contains only the commands that apply to its place. The menu key opens the menu for the
pinned cell, or else for the cell under the pointer, or else for the whole board.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct
from PySide6.QtCore import QObject, QPoint
from PySide6.QtGui import QGuiApplication

from visualizer.attention.remote_numbers import NumbersPendingError, forbid_waiting_for_numbers
from visualizer.explanations.explain import explain
from visualizer.heatmap.board_layout import ContextMenuTarget
from visualizer.heatmap.cell_lookup import displayed_cell, source_cell
from visualizer.session.comparison import find_tensor_of_cell
from visualizer.widgets.context_menu import MenuEntry, open_context_menu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from PySide6.QtGui import QAction
    from PySide6.QtWidgets import QMenu

    from visualizer.heatmap.widget import BoardView
    from visualizer.session.cell_address import Cell
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.token_selection import TokenRole
    from visualizer.session.workspace import Workspace


class BoardMenuActions(Struct, frozen=True):
    """The functions that menu entries call.

    Parameters
    ----------
    is_pair_allowed : callable
        Returns whether the mask allows a cell's query and key; None if they cannot be masked.
    export_stage : callable
        Opens the export dialog for the panel of a stage.
    board_commands : sequence
        Groups of commands for the board as a whole, which are offered outside all other places.
    toggle_ablation : callable
        Ablates a head of a model, or removes its edit, by the numbers of its layer and head.
    """

    pin: Callable[[Cell], object]
    mark: Callable[[Cell], object]
    follow: Callable[[Cell], object]
    is_pair_allowed: Callable[[Cell], bool | None]
    toggle_pair: Callable[[Cell], object]
    explain: Callable[[], object]
    export_stage: Callable[[str], object]
    enlarge: Callable[[str], object]
    show_in_all_heads: Callable[[str], object]
    predict: Callable[[str], object]
    show_head: Callable[[int], object]
    show_only_head: Callable[[int], object]
    show_all_heads: Callable[[], object]
    toggle_ablation: Callable[[int, int], object]
    select_token: Callable[[int, TokenRole], object]
    board_commands: Sequence[Sequence[QAction]] = ()


class GroupedEntry(MenuEntry, frozen=True):
    """An entry, and the number of its group; a separator is shown between groups."""

    group: int = 0


class BoardContextMenuController(QObject):
    """Opens the context menus of a board."""

    def __init__(self, workspace: Workspace, board: BoardView, actions: BoardMenuActions) -> None:
        super().__init__(board)
        self._workspace, self._board, self._actions = workspace, board, actions
        self.menu: QMenu | None = None
        """The menu that is open."""
        board.menuRequested.connect(self.open_menu)

    def open_menu(self, place: ContextMenuTarget, at: QPoint) -> None:
        """Open the menu for a place; for a cell, pin it first, because the entries act on it."""
        resolved = self._workspace.resolved_requested_view
        if resolved is None:
            return
        cell = place.cell
        is_hidden = cell is not None and cell.stage in resolved.hidden_stages
        if cell is not None and not is_hidden:
            cell = displayed_cell(resolved, self._board.board, cell)
            if cell != resolved.pinned:
                self._actions.pin(cell)
        entries = list(self._menu_entries(resolved, place, cell, is_hidden=is_hidden))
        groups: list[Sequence[MenuEntry | QAction]] = [
            tuple(group) for _, group in groupby(entries, attrgetter("group"))
        ]
        if place == ContextMenuTarget():
            groups.extend(self._actions.board_commands)
        self.menu = open_context_menu(self._board, groups, at)
        if self.menu:
            self.menu.destroyed.connect(self._forget_menu)

    def _forget_menu(self) -> None:
        self.menu = None

    # ------------------------------------------------------------------ entries

    def _menu_entries(
        self,
        resolved: ResolvedView,
        place: ContextMenuTarget,
        cell: Cell | None,
        *,
        is_hidden: bool,
    ) -> Iterator[GroupedEntry]:
        to = self._actions
        if cell is not None and is_hidden:
            yield GroupedEntry("mark", "Mark this cell", partial(to.mark, cell))
        elif cell is not None:
            yield from self._cell_entries(resolved, cell)
        if place.stage:
            yield from self._stage_entries(resolved, place.stage)
        if place.token is not None:
            text = f"Show attention {'from' if place.role.value == 'query' else 'to'} this token"
            select = partial(to.select_token, place.token, place.role)
            yield GroupedEntry("select_token", text, select)
        if place.is_tab or place.head is not None:
            yield from self._head_entries(resolved, place)

    def _cell_entries(self, resolved: ResolvedView, cell: Cell) -> Iterator[GroupedEntry]:
        to = self._actions
        if not resolved.is_computed_later(cell):
            value, sources = _read_value_and_sources(resolved, cell)
            if value:
                copy = partial(QGuiApplication.clipboard().setText, value)
                yield GroupedEntry("copy_value", "Copy value", copy)
            yield GroupedEntry("explain", "Explain", to.explain)
            for source in sources:
                title = resolved.run.trace.stage(source.stage).title
                follow = partial(to.follow, source)
                yield GroupedEntry(f"follow {source.stage}", f"Trace back to {title}", follow, 1)
        is_allowed = to.is_pair_allowed(cell)
        if is_allowed is not None:
            text = "Mask this pair" if is_allowed else "Unmask this pair"
            yield GroupedEntry("toggle_pair", text, partial(to.toggle_pair, cell), 2)
        yield GroupedEntry(
            "export_stage", "Export this stage…", partial(to.export_stage, cell.stage), 3
        )

    def _stage_entries(self, resolved: ResolvedView, stage: str) -> Iterator[GroupedEntry]:
        to, trace, flow = self._actions, resolved.run.trace, resolved.flow
        if flow and flow.stages[flow.focus] != stage:
            yield GroupedEntry("enlarge", "Enlarge", partial(to.enlarge, stage))
        has_heads = "head" in trace.stage(stage).dims and trace.spec.heads > 1
        if has_heads and (resolved.stages != {stage} or len(resolved.heads) < trace.spec.heads):
            show = partial(to.show_in_all_heads, stage)
            yield GroupedEntry("show_in_all_heads", "Show for all heads", show)
        if resolved.prediction is None and trace.stage(stage).reads:
            yield GroupedEntry("predict", "Cover and predict", partial(to.predict, stage))
        if stage not in resolved.hidden_stages:
            export = partial(to.export_stage, stage)
            yield GroupedEntry("export_stage", "Export this stage…", export, 1)

    def _head_entries(
        self, resolved: ResolvedView, place: ContextMenuTarget
    ) -> Iterator[GroupedEntry]:
        to, flow, heads = self._actions, resolved.flow, resolved.run.trace.spec.heads
        if heads == 1:
            return
        if place.head is not None and not (flow and flow.head == place.head):
            text = "Show this head" if flow else "Show the flow of this head"
            yield GroupedEntry("show_head", text, partial(to.show_head, place.head), 1)
        if place.head is not None and (flow or resolved.heads != (place.head,)):
            text = "Show only this head in all stages"
            only = partial(to.show_only_head, place.head)
            yield GroupedEntry("show_only_head", text, only, 1)
        if flow or len(resolved.heads) < heads:
            yield GroupedEntry("show_all_heads", "Show all heads", to.show_all_heads, 1)
        reading, model = resolved.run.reading, resolved.model_of_run
        if place.head is not None and reading and reading.are_heads_switchable and model:
            key = resolved.layer_number, place.head
            text = (
                "Undo the edit of this head" if key in model.edits_by_head else "Ablate this head"
            )
            yield GroupedEntry("toggle_ablation", text, partial(to.toggle_ablation, *key), 2)


def _read_value_and_sources(resolved: ResolvedView, cell: Cell) -> tuple[str, tuple[Cell, ...]]:
    """Return a cell's number as text, and the cell of each stage that contributes most to it.

    Both are empty if the numbers of a served model have not arrived.
    """
    with suppress(NumbersPendingError), forbid_waiting_for_numbers():
        tensor, index = find_tensor_of_cell(resolved, cell)
        value = str(tensor.read((*index, *cell.place[-2:])))
        return value, tuple(_source_cells(resolved, cell))
    return "", ()


def _source_cells(resolved: ResolvedView, cell: Cell) -> Iterator[Cell]:
    trace = resolved.run.trace
    if cell.fold or resolved.comparison or trace.is_blockwise:
        return
    found = explain(trace, cell.stage, (*resolved.leading, *cell.place))
    seen = set()
    for group in found.groups:
        if not len(group.products):
            continue
        largest = int(abs(group.products).argmax())
        for factor in group.factors:
            source = source_cell(trace, resolved.leading, cell.stage, factor, largest)
            if source and source.stage not in seen:
                seen.add(source.stage)
                yield source
