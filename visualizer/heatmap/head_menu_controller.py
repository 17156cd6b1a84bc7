"""Context menu of a head in a table, a plot or an overview of heads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint

from visualizer.widgets.context_menu import MenuEntry, open_context_menu

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QMenu, QWidget

    from visualizer.session.workspace import Workspace


class HeadContextMenuController(QObject):
    """Opens the context menus of heads.

    Parameters
    ----------
    show_flow : callable
        Shows the flow board of a head, given the index of its layer in the run, and the head.
    toggle_ablation : callable
        Ablates a head, or removes its edit, given the number of its layer in the model, and the
        head.
    """

    def __init__(
        self,
        workspace: Workspace,
        show_flow: Callable[[int, int], object],
        toggle_ablation: Callable[[int, int], object],
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self._show_flow, self._toggle_ablation = show_flow, toggle_ablation
        self.menu: QMenu | None = None
        """The menu that is open."""

    def open_menu(self, layer: int | None, head: int, at: QPoint) -> None:
        """Open the menu of a head; `layer` is an index in the run, or None for the only layer."""
        resolved = self._workspace.resolved_requested_view
        if resolved is None or head >= resolved.run.trace.spec.heads:
            return
        index = layer or 0
        show = partial(self._show_flow, index, head)
        groups = [[MenuEntry("show_head", "Show the flow of this head", show)]]
        reading, model = resolved.run.reading, resolved.model_of_run
        if reading and reading.are_heads_switchable and model:
            key = resolved.layer_numbers[index], head
            is_edited = key in model.edits_by_head
            text = "Undo the edit of this head" if is_edited else "Ablate this head"
            toggle = partial(self._toggle_ablation, *key)
            groups.append([MenuEntry("toggle_ablation", text, toggle)])
        self.menu = open_context_menu(self._window, groups, at)
        if self.menu:
            self.menu.destroyed.connect(self._forget_menu)

    def _forget_menu(self) -> None:
        self.menu = None
