"""The table of panes around the heatmaps: titles, widgets, connections, shortcuts and places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PySide6.QtCore import Qt

from visualizer.features.cell.widget import CellPane
from visualizer.features.code.widget import CodePane
from visualizer.features.setup.widget import SetupPane
from visualizer.shell.pane_connections import (
    connect_attribution,
    connect_cell,
    connect_code,
    connect_colours,
    connect_continue,
    connect_heads,
    connect_layers,
    connect_lens,
    connect_lesson,
    connect_lines,
    connect_next_token,
    connect_numbers,
    connect_scatter,
    connect_setup,
    connect_shapes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.shell.pane_connections import PaneControllers

LEFT, RIGHT = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea


class Pane(Struct, frozen=True):
    """One pane.

    Parameters
    ----------
    id : str
        The id in saved window states and views, independent of its title.
    tip : str
        What it shows, for the tool tip of its button.
    make : callable
        Makes its widget, which has ``show_screen(screen, theme)``; called when the pane is first
        shown, and loads the modules that only this pane needs.
    connect : callable
        Leads the widget's signals to what the panes share, or to a controller of its own.
    keys : str
        The shortcut that opens and closes it.
    height : int
        Its height relative to the other panes of its side.
    beside : str
        The id of the pane that it is tabbed with; it is closed at first.
    width : int
        The width of its own column next to the heatmaps; it is closed at first.
    """

    id: str
    title: str
    tip: str
    make: Callable[[], QWidget]
    connect: Callable[[Any, PaneControllers], None]
    keys: str
    side: Qt.DockWidgetArea
    height: int
    beside: str = ""
    width: int = 0

    @property
    def is_closed_at_first(self) -> bool:
        """Whether it is closed until the user opens it."""
        return bool(self.beside or self.width)


def _lesson() -> QWidget:
    from visualizer.features.lessons.widget import LessonPane

    return LessonPane()


def _lines() -> QWidget:
    from visualizer.features.line_view.widget import LinePane

    return LinePane()


def _colours() -> QWidget:
    from visualizer.features.view_bar.colours_widget import ColoursPane

    return ColoursPane()


def _numbers() -> QWidget:
    from visualizer.features.tensor_editor.widget import NumberTablePane

    return NumberTablePane()


def _shapes() -> QWidget:
    from visualizer.features.shapes.widget import ShapesPane

    return ShapesPane()


def _heads() -> QWidget:
    from visualizer.features.head_table.widget import HeadTablePane

    return HeadTablePane()


def _layers() -> QWidget:
    from visualizer.features.layer_overview.widget import LayerOverviewPane

    return LayerOverviewPane()


def _next_token() -> QWidget:
    from visualizer.features.next_token.widget import NextTokenPane

    return NextTokenPane()


def _lens() -> QWidget:
    from visualizer.features.logit_lens.widget import LensPane

    return LensPane()


def _attribution() -> QWidget:
    from visualizer.features.logit_attribution.widget import AttributionPane

    return AttributionPane()


def _scatter() -> QWidget:
    from visualizer.features.head_scatter.widget import HeadScatterPane

    return HeadScatterPane()


def _continue() -> QWidget:
    from visualizer.features.model_generation.widget import ModelGenerationPane

    return ModelGenerationPane()


# fmt: off
PANES: tuple[Pane, ...] = (
    Pane("Lesson", "Lesson", "The current lesson page",
         _lesson, connect_lesson, "F6", LEFT, 430),
    Pane("Setup", "Setup", "The sentence and the settings of the module",
         SetupPane, connect_setup, "F2", LEFT, 220),
    Pane("Lines", "Lines", "Lines from queries to keys; their width shows the weights",
         _lines, connect_lines, "F9", RIGHT, 0, width=300),
    Pane("Layers", "Layers", "All heads of all layers as small heatmaps",
         _layers, connect_layers, "Shift+F8", RIGHT, 0, width=300),
    Pane("Lens", "Lens", "Logit lens: next-token predictions of each layer at every token",
         _lens, connect_lens, "Shift+F2", RIGHT, 0, beside="Layers"),
    Pane("Attribution", "Attribution", "How each head contributes to a logit, and ablations",
         _attribution, connect_attribution, "Shift+F3", RIGHT, 0, beside="Layers"),
    Pane("Scatter", "Scatter", "All heads as points, plotted by two measures",
         _scatter, connect_scatter, "Shift+F7", RIGHT, 0, beside="Layers"),
    Pane("Cell", "Cell", "How the value of a cell is computed",
         CellPane, connect_cell, "F3", RIGHT, 360),
    Pane("Code", "Code", "The same computation as code",
         CodePane, connect_code, "F4", RIGHT, 280),
    Pane("Colours", "Colours", "Colour maps, scale and range",
         _colours, connect_colours, "F11", RIGHT, 280, beside="Code"),
    Pane("Numbers", "Numbers", "One tensor as an editable table",
         _numbers, connect_numbers, "F7", RIGHT, 280, beside="Code"),
    Pane("Shapes", "Shapes", "Shapes of all tensors, and how heads split the columns",
         _shapes, connect_shapes, "Shift+F4", RIGHT, 280, beside="Code"),
    Pane("Heads", "Heads", "Measures of all heads, to compare and sort",
         _heads, connect_heads, "F8", RIGHT, 280, beside="Code"),
    Pane("Next token", "Next token", "Next-token predictions and head edits",
         _next_token, connect_next_token, "Shift+F9", RIGHT, 280, beside="Code"),
    Pane("Continue", "Continue", "Generate text from the model, token by token",
         _continue, connect_continue, "Shift+F6", RIGHT, 280, beside="Layers"),
)
# fmt: on
MADE_AT_ONCE = frozenset({"Lesson", "Setup", "Cell", "Code"})
"""Panes of the first window and of its lessons; the others are made when they are first shown."""
