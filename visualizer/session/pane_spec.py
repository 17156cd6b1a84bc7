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


class Area(Enum):
    """Where a pane is placed: on a side of the heatmaps, or in their place."""

    LEFT = "left"
    RIGHT = "right"
    CENTRE = "centre"


def _return_none(*given: object) -> None:
    return None


class PanelPresenter(Struct, Generic[Panel], frozen=True):
    """Describes how one panel is created.

    Parameters
    ----------
    present : callable
        Creates the panel from the screen inputs, the other panels and the previous panel.
    empty : object
        The panel if there are no numbers or its pane is closed.
    pane : str
        The pane that shows the panel, if it can be closed; the panel is not created while it is
        closed.
    prefetch_key : callable
        Returns a key of the parts of large tensors that the panel needs.
    prefetch : callable
        Reads the parts of large tensors, and returns the panel if it was created in the process;
        receives the panels of the rows above and the previous panel.
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

    def is_visible_pane(self, resolved: ResolvedView) -> bool:
        """Return whether the pane of the panel is visible."""
        return not self.pane or self.pane in resolved.view.panes


def prefetch_only(
    read: Callable[[ResolvedView], object], resolved: ResolvedView, *given: object
) -> None:
    """Prefetch without creating the panel."""
    read(resolved)


class PaneSpec(Struct, frozen=True):
    """Specification of a pane; the widget is in a module of its own and is imported when needed.

    Parameters
    ----------
    id : str
        The id in saved window states and views, independent of the title.
    tip : str
        Tooltip of its button, which describes what the pane shows.
    widget : str
        ``module:Class`` of its widget, which has ``show_screen(screen, theme)``; imported when
        the pane is first shown.
    connect : callable
        Connects the widget's signals to the shared controllers or to its own.
    shortcut : str
        The shortcut that toggles it.
    is_open : bool
        Whether it has a tab in a new window.
    panel : PanelPresenter, optional
        How its content is created.
    is_made_at_once : bool
        Whether it is created with the window instead of when it is first shown.
    is_painted_first : bool
        Whether it is painted together with the heatmaps, before the other panes.
    opens_with : callable, optional
        Whether a screen has content for it; the pane is open only then.
    opens_for_model : bool
        Whether it opens when a new model starts to run.
    subject : callable, optional
        For a pane in the centre: names what it shows of a screen, empty if nothing. It opens when
        the name changes, and when Esc has nothing left to undo in the heatmaps. Its widget has a
        signal `heatmapsRequested`.
    opened_by : tuple of str
        Ids of the commands that open it to show their results.
    commands : mapping
        Ids of commands that act on its widget, with the action, which runs once the pane is open.
    """

    id: str
    title: str
    tip: str
    widget: str
    connect: Callable[[Any, Any], None]
    shortcut: str
    area: Area
    is_open: bool = False
    panel: PanelPresenter[Any] | None = None
    is_made_at_once: bool = False
    is_painted_first: bool = False
    opens_with: Callable[[Screen], bool] | None = None
    opens_for_model: bool = False
    subject: Callable[[Screen], str] | None = None
    opened_by: tuple[str, ...] = ()
    commands: Mapping[str, Callable[[Any], object]] = {}

    def create_widget(self) -> Any:
        """Create its widget."""
        module, _, name = self.widget.partition(":")
        return getattr(import_module(module), name)()
