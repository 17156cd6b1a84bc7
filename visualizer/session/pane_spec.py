"""Specifications of panes and panels; the pane of a feature is specified in its `pane_spec.py`."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import PanelId, Screen, ScreenInputs

Panel = TypeVar("Panel")


class PaneArea(Enum):
    """Where a pane is placed: to the left or right of the heatmaps, or instead of them."""

    LEFT = "left"
    RIGHT = "right"
    CENTRE = "centre"


def _return_none(*given: object) -> None:
    return None


class PanelSpec(Struct, Generic[Panel], frozen=True):
    """The specification of a panel: how it is created, and what it needs.

    Parameters
    ----------
    present : callable
        Creates the panel from the resolved view, the screen inputs and the previous panel.
    empty : object
        The panel that is shown without a run or while the pane is closed.
    pane : str
        The id of the closable pane that shows the panel; while it is closed, the panel is not
        created.
    prefetch_key : callable
        Returns a key that identifies the parts of large tensors that the panel needs.
    prefetch : callable
        Reads these parts, and returns the panel if it was created in the process. Its arguments are
        the resolved view, the panels specified before this one, and the previous panel.
    is_refined : bool
        Whether the panel changes while the images of long texts are refined.
    needs_retrieval : bool
        Whether the panel shows the retrieval measure of a long text's heads.
    """

    id: PanelId[Panel]
    present: Callable[[ResolvedView, ScreenInputs, Panel], Panel]
    empty: Panel
    pane: str = ""
    prefetch_key: Callable[[ResolvedView], Hashable] = _return_none
    prefetch: Callable[[ResolvedView, Mapping[str, object], Any], Panel | None] = _return_none
    is_refined: bool = False
    needs_retrieval: bool = False

    def is_pane_visible(self, resolved: ResolvedView) -> bool:
        """Return whether the panel's pane is visible."""
        return not self.pane or self.pane in resolved.view.panes


def prefetch_without_panel(
    read: Callable[[ResolvedView], object], resolved: ResolvedView, *given: object
) -> None:
    """Prefetch without creating the panel."""
    read(resolved)


class PaneSpec(Struct, frozen=True):
    """Specification of a pane; the widget is in a module of its own and is imported when needed.

    Parameters
    ----------
    id : str
        The id in saved window states and views; it does not depend on the title.
    tip : str
        Tooltip of the pane's button; it describes what the pane shows.
    widget : str
        ``module:Class`` of its widget, which has ``show_screen(screen, theme)``. The module is
        imported when the pane is first shown.
    connect : callable
        Connects the widget's signals to the shared controllers or to the pane's own controller.
    is_open : bool
        Whether the pane has a tab in a new window.
    panel : PanelSpec, optional
        The specification of the panel that it shows.
    is_created_with_window : bool
        Whether the widget is created together with the window instead of when it is first shown.
    is_painted_first : bool
        Whether the pane is painted together with the heatmaps, before the other panes.
    opens_with : callable, optional
        Returns whether a screen has content for the pane; without content, the pane is closed.
    opens_for_model : bool
        Whether the pane opens when a new model starts to run.
    subject : callable, optional
        For a pane in the centre: returns a name for what the pane shows of a screen, or an empty
        string if it shows nothing. The pane opens when the name changes, and when Esc is pressed
        while the heatmaps have nothing to undo. Its widget has a signal `heatmapsRequested`.
    opened_by : tuple of str
        Ids of the commands that open the pane to show their results.
    commands : mapping
        Commands for the pane's widget: by command id, the action that runs once the pane is open.
    """

    id: str
    title: str
    tip: str
    widget: str
    connect: Callable[[Any, Any], None]
    area: PaneArea = PaneArea.RIGHT
    is_open: bool = False
    panel: PanelSpec[Any] | None = None
    is_created_with_window: bool = False
    is_painted_first: bool = False
    opens_with: Callable[[Screen], bool] | None = None
    opens_for_model: bool = False
    subject: Callable[[Screen], str] | None = None
    opened_by: tuple[str, ...] = ()
    commands: Mapping[str, Callable[[Any], object]] = {}

    def create_widget(self) -> Any:
        """Create the pane's widget."""
        module, _, name = self.widget.partition(":")
        return getattr(import_module(module), name)()
