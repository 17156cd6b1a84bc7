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
        Tool tip of its button: what it shows.
    make : callable
        Creates its widget, which has ``show_screen(screen, theme)``. Called when the pane is first
        shown; imports the modules that only this pane needs.
    connect : callable
        Connects the widget's signals to the shared controllers or to its own.
    keys : str
        The shortcut that toggles it.
    height : int
        Height relative to the other panes on its side.
    beside : str
        The id of the pane it is tabbed with; initially closed.
    width : int
        Width of its own column next to the heatmaps; initially closed.
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


def _make_lesson() -> QWidget:
    from visualizer.features.lessons.widget import LessonPane

    return LessonPane()


def _make_lines() -> QWidget:
    from visualizer.features.line_view.widget import LinePane

    return LinePane()


def _make_colours() -> QWidget:
    from visualizer.features.view_bar.colours_widget import ColoursPane

    return ColoursPane()


def _make_numbers() -> QWidget:
    from visualizer.features.tensor_editor.widget import NumberTablePane

    return NumberTablePane()


def _make_shapes() -> QWidget:
    from visualizer.features.shapes.widget import ShapesPane

    return ShapesPane()


def _make_heads() -> QWidget:
    from visualizer.features.head_table.widget import HeadTablePane

    return HeadTablePane()


def _make_layers() -> QWidget:
    from visualizer.features.layer_overview.widget import LayerOverviewPane

    return LayerOverviewPane()


def _make_next_token() -> QWidget:
    from visualizer.features.next_token.widget import NextTokenPane

    return NextTokenPane()


def _make_lens() -> QWidget:
    from visualizer.features.logit_lens.widget import LensPane

    return LensPane()


def _make_attribution() -> QWidget:
    from visualizer.features.logit_attribution.widget import AttributionPane

    return AttributionPane()


def _make_scatter() -> QWidget:
    from visualizer.features.head_scatter.widget import HeadScatterPane

    return HeadScatterPane()


def _make_generation() -> QWidget:
    from visualizer.features.model_generation.widget import ModelGenerationPane

    return ModelGenerationPane()


# fmt: off
PANES: tuple[Pane, ...] = (
    Pane("Lesson", "Lesson", "The current lesson page",
         _make_lesson, connect_lesson, "F6", LEFT, 430),
    Pane("Setup", "Setup", "The sentence and the settings of the module",
         SetupPane, connect_setup, "F2", LEFT, 220),
    Pane("Lines", "Lines", "Lines from queries to keys; their width shows the weights",
         _make_lines, connect_lines, "F9", RIGHT, 0, width=300),
    Pane("Layers", "Layers", "All heads of all layers as small heatmaps",
         _make_layers, connect_layers, "Shift+F8", RIGHT, 0, width=300),
    Pane("Lens", "Lens", "Logit lens: next-token predictions of each layer at every token",
         _make_lens, connect_lens, "Shift+F2", RIGHT, 0, beside="Layers"),
    Pane("Attribution", "Attribution", "How each head contributes to a logit, and ablations",
         _make_attribution, connect_attribution, "Shift+F3", RIGHT, 0, beside="Layers"),
    Pane("Scatter", "Scatter", "All heads as points, plotted by two measures",
         _make_scatter, connect_scatter, "Shift+F7", RIGHT, 0, beside="Layers"),
    Pane("Cell", "Cell", "How the value of a cell is computed",
         CellPane, connect_cell, "F3", RIGHT, 360),
    Pane("Code", "Code", "The same computation as code",
         CodePane, connect_code, "F4", RIGHT, 280),
    Pane("Colours", "Colours", "Colour maps, scale and range",
         _make_colours, connect_colours, "F11", RIGHT, 280, beside="Code"),
    Pane("Numbers", "Numbers", "One tensor as an editable table",
         _make_numbers, connect_numbers, "F7", RIGHT, 280, beside="Code"),
    Pane("Shapes", "Shapes", "Shapes of all tensors, and how heads split the columns",
         _make_shapes, connect_shapes, "Shift+F4", RIGHT, 280, beside="Code"),
    Pane("Heads", "Heads", "Measures of all heads, to compare and sort",
         _make_heads, connect_heads, "F8", RIGHT, 280, beside="Code"),
    Pane("Next token", "Next token", "Next-token predictions and head edits",
         _make_next_token, connect_next_token, "Shift+F9", RIGHT, 280, beside="Code"),
    Pane("Continue", "Continue", "Generate text from the model, token by token",
         _make_generation, connect_continue, "Shift+F6", RIGHT, 280, beside="Layers"),
)
# fmt: on
MADE_AT_ONCE = frozenset({"Lesson", "Setup", "Cell", "Code"})
"""Panes created with the window; the others are created when they are first shown."""
