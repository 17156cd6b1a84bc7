"""Presenter of the Numbers pane: one tensor of a run as a table, read in blocks.

Only input vectors and weights can be edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.custom_weights import read_weights
from visualizer.attention.roles import Role
from visualizer.attention.spec import BIAS_SUFFIX, NORM_LAYERS, OWN_LAYERS, layer_symbol
from visualizer.attention.stages import has_forbidden_cells, parameter_names
from visualizer.features.tensor_editor.tensor_edit import custom_values, not_editable_reason
from visualizer.heatmap.board import HeatmapAxis, numbered_labels
from visualizer.language.tokenizers import visible_tokens
from visualizer.session.model_pane_options import HIDDEN_MESSAGE
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import ResolvedView


class NumberBlock(Struct, frozen=True, eq=False):
    """A block of a table: its numbers, and masks of forbidden and dropped cells."""

    numbers: np.ndarray
    forbidden: np.ndarray | None = None
    dropped: np.ndarray | None = None

    def replacement_text(self, row: int, column: int) -> str:
        """Return the word shown instead of a number, or "" if the number is shown."""
        if self.forbidden is not None and self.forbidden[row, column]:
            return "masked"
        return "dropped" if self.dropped is not None and self.dropped[row, column] else ""


class NumberTablePanel(Struct, frozen=True):
    """Contents of the Numbers pane: a tensor of a run, for one head and text, as a table.

    Parameters
    ----------
    choices : tuple of (name, title)
        The tensors to choose from: stages, weights and biases.
    heads, head : int
        Number of heads, and index of the shown head; 0 heads if the tensor has no head axis.
    is_custom : bool
        Whether the values are custom values, not random values generated from the seed.
    note : str
        The reason why the tensor cannot be edited, or instructions for editing it.
    problem : str
        Error message for the last input; empty if there is none.
    current : tuple of (row, column) or None
        The pinned cell, if it is in this table.
    """

    run: Run
    leading: LeadingIndex
    name: str
    title: str
    choices: tuple[tuple[str, str], ...]
    heads: int
    head: int
    rows: HeatmapAxis
    columns: HeatmapAxis
    is_editable: bool
    is_custom: bool
    note: str
    problem: str
    current: tuple[int, int] | None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows.labels), len(self.columns.labels)

    @property
    def is_stage(self) -> bool:
        """Whether the tensor is a stage, whose cells can be pinned."""
        return self.name in self.run.trace

    @property
    def can_show_replacement_text(self) -> bool:
        """Whether cells may show a word instead of a number."""
        trace = self.run.trace
        return self.name == trace.dropout_stage_name or has_forbidden_cells(
            trace.spec_at(self.leading), self.name
        )

    def cell_indices(self, row: int, column: int) -> tuple[int, ...]:
        """Return the indices of a cell within the named axes of the stage."""
        return (self.head, row, column) if self.heads else (row, column)

    def read_block(self, rows: slice, columns: slice) -> NumberBlock:
        if not self.is_stage:
            return NumberBlock(_read_parameter_block(self.run, self.name, rows, columns))
        trace = self.run.trace
        index = (*self.leading, *((self.head,) if self.heads else ()), rows, columns)
        numbers = trace.read(self.name, index)
        forbidden = dropped = None
        if has_forbidden_cells(trace.spec_at(self.leading), self.name):
            forbidden = ~trace.allowed_mask(self.name, self.leading, None, rows, columns)
        before = trace.stage_name_before_dropout(self.name)
        if before:
            dropped = (numbers == 0) & (trace.read(before, index) != 0)
        return NumberBlock(numbers, forbidden, dropped)

    def format_exactly(self, row: int, column: int) -> str:
        """Format a number with the fewest digits that read back as the same number."""
        block = self.read_block(slice(row, row + 1), slice(column, column + 1))
        return str(block.numbers[0, 0])


def _read_parameter_block(run: Run, name: str, rows: slice, columns: slice) -> np.ndarray:
    trace = run.trace
    if not name.endswith(BIAS_SUFFIX):
        return read_weights(trace, name, rows, columns)
    layer = OWN_LAYERS[name.removesuffix(BIAS_SUFFIX)]
    names = [each for each in parameter_names(trace.spec, layer) if each.endswith(BIAS_SUFFIX)]
    return np.concatenate([trace.read(each) for each in names])[None][rows, columns]


# -------------------------------------------------------------------------------- presenting


NUMBER_TABLE_PANEL: PanelId[NumberTablePanel | None] = PanelId("Numbers")


def present_number_table(resolved: ResolvedView) -> NumberTablePanel:
    """Present the chosen tensor, or the input vectors if the run does not contain it."""
    run, document, look = resolved.run, resolved.document, resolved.view.table
    choices = _list_tensors(run)
    name = look.name if look.name in dict(choices) else run.trace.stages[0].name
    leading, is_covered = resolved.leading, name in resolved.hidden_stages
    has_heads = name in run.trace and "head" in run.trace.stage(name).dims
    heads = run.trace.spec.heads if has_heads else 0
    cell = resolved.pinned  # a cell of a head aggregate is not in the table of a head
    pinned = cell.place if cell and cell.stage == name and cell.fold is None else ()
    head = (pinned[0] if len(pinned) == 3 else look.head) if heads else 0
    rows, columns = _table_axes(run, name, leading)
    if is_covered:
        rows, columns = HeatmapAxis(rows.name, (), 1), HeatmapAxis(columns.name, (), 1)
    why = not_editable_reason(run, name)
    return NumberTablePanel(
        run=run,
        leading=leading,
        name=name,
        title=dict(choices)[name],
        choices=choices,
        heads=heads,
        head=min(head, max(heads - 1, 0)),
        rows=rows,
        columns=columns,
        is_editable=not (why or is_covered),
        is_custom=custom_values(document.spec, run, name) is not None,
        note=HIDDEN_MESSAGE if is_covered else why or "Type a number, or paste a block of numbers.",
        problem=look.problem if look.document == document else "",
        current=(pinned[-2], pinned[-1]) if pinned and not is_covered else None,
    )


def _list_tensors(run: Run) -> tuple[tuple[str, str], ...]:
    spec, trace = run.trace.spec, run.trace
    stages = [(stage.name, stage.title) for stage in trace.stages]
    read = {layer for stage in trace.stages for layer in stage.parameters}
    names = [name for name in spec.weight_names if OWN_LAYERS[name] in read]
    weights = [(name, layer_symbol(OWN_LAYERS[name])) for name in names]
    biases = [
        (f"{name}{BIAS_SUFFIX}", f"{symbol}, bias")
        for name, symbol in weights
        if any(each.endswith(BIAS_SUFFIX) for each in parameter_names(spec, OWN_LAYERS[name]))
    ]
    return (*stages, *weights, *biases)


def _table_axes(run: Run, name: str, leading: LeadingIndex) -> tuple[HeatmapAxis, HeatmapAxis]:
    if name in run.trace:
        row, column = run.trace.stage(name).dims[-2:]
        labels = visible_tokens(run.token_labels(leading, row))
        width = run.trace.shape(name)[-1]
        is_key = column == "key"
        across = (
            visible_tokens(run.token_labels(leading, "key")) if is_key else numbered_labels(width)
        )
        return HeatmapAxis(row, labels, 1), HeatmapAxis(column, across, 1)
    height, width = run.trace.spec.custom_weight_sizes[name]
    row, column = _WEIGHT_AXES.get(name.removesuffix(BIAS_SUFFIX), ("d_in", "width"))
    columns = HeatmapAxis(column, numbered_labels(width), 1)
    if name.endswith(BIAS_SUFFIX):
        return HeatmapAxis("bias", ("bias",), 1), columns
    return HeatmapAxis(row, (row,) if name in NORM_LAYERS else numbered_labels(height), 1), columns


_WEIGHT_AXES = {
    "W_output": (Role.CONCAT, "width"),
    **dict.fromkeys(NORM_LAYERS, ("weight", "d_model")),
    "linear1": ("d_model", "d_ff"),
    "linear2": ("d_ff", "d_model"),
}
"""Axes of weights other than the query, key and value projections."""


PANEL = PanelSpec(
    NUMBER_TABLE_PANEL,
    lambda resolved, inputs, previous: present_number_table(resolved),
    None,
    NUMBER_TABLE_PANEL.name,
)
