"""A table of the very numbers of a stage or of weights, of any size: read a block at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.choices import BIAS, LAYERS, OWN_LAYERS
from visualizer.attention.masks import Masking, allowed_by
from visualizer.attention.stages import is_hatched, parameter_names
from visualizer.language.tokenizers import all_visible
from visualizer.state.blocks import written
from visualizer.state.edits import own_of, why_not
from visualizer.state.panel import counted_from_one
from visualizer.state.panels import Axis
from visualizer.state.screen import PanelId
from visualizer.state.weights import weights_of

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.resolve import Resolved

COVERED = "Covered until the prediction is revealed."


@dataclass(frozen=True, slots=True, eq=False)
class NumberBlock:
    """Numbers of a part of a table, and which of them are none of its scale."""

    numbers: np.ndarray
    forbidden: np.ndarray | None = None
    dropped: np.ndarray | None = None

    def word(self, row: int, column: int) -> str:
        """Say what a cell is instead of a number; empty where it is one."""
        if self.forbidden is not None and self.forbidden[row, column]:
            return "forbidden"
        return "dropped" if self.dropped is not None and self.dropped[row, column] else ""


@dataclass(frozen=True, slots=True)
class NumberTable:
    """One tensor of a run, of one head and text, as rows and columns of numbers.

    Parameters
    ----------
    choices : tuple of (name, title)
        The tensors that can be looked at: stages, weights and biases.
    heads, head : int
        How many tables the tensor has, and which this is; no heads where it has but one.
    is_own : bool
        Whether its numbers are given instead of drawn.
    note : str
        Why it cannot be edited, or how it can.
    problem : str
        What is wrong with what was typed last.
    current : tuple of (row, column) or None
        The pinned cell, where it is one of this table's.
    """

    run: Run
    text: int
    name: str
    title: str
    choices: tuple[tuple[str, str], ...]
    heads: int
    head: int
    rows: Axis
    columns: Axis
    is_editable: bool
    is_own: bool
    is_covered: bool
    note: str
    problem: str
    current: tuple[int, int] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows.labels), len(self.columns.labels)

    @property
    def is_stage(self) -> bool:
        """Whether it is of a stage, whose cells can be pinned."""
        return self.name in self.run.trace

    @property
    def may_have_words(self) -> bool:
        """Whether some cells may be no numbers of its scale."""
        return self.name == "dropped" or is_hatched(self.run.trace.spec, self.name)

    def place(self, row: int, column: int) -> tuple[int, ...]:
        """Give the place of a cell within the stage's named dims."""
        return (self.head, row, column) if self.heads else (row, column)

    def block(self, rows: slice, columns: slice) -> NumberBlock:
        """Read a part of it."""
        if not self.is_stage:
            return NumberBlock(_parameter(self.run, self.name, rows, columns))
        trace = self.run.trace
        index = (*self.run.index(self.text), *((self.head,) if self.heads else ()), rows, columns)
        numbers = trace.read(self.name, index)
        forbidden = dropped = None
        if is_hatched(trace.spec, self.name):
            cells = allowed_by(Masking.of(trace.spec, self.name), trace.tokens)
            cells = cells[self.text, 0] if cells.ndim == 4 else cells
            forbidden = ~cells[rows, columns]
        if self.name == "dropped":
            dropped = (numbers == 0) & (trace.read("weights", index) != 0)
        return NumberBlock(numbers, forbidden, dropped)

    def full(self, row: int, column: int) -> str:
        """Write one number with all its digits."""
        block = self.block(slice(row, row + 1), slice(column, column + 1))
        return written(block.numbers[0, 0])


def _parameter(run: Run, name: str, rows: slice, columns: slice) -> np.ndarray:
    trace = run.trace
    if not name.endswith(BIAS):
        return weights_of(trace, name, rows, columns)
    layer = OWN_LAYERS[name.removesuffix(BIAS)]
    names = [each for each in parameter_names(trace.spec, layer) if each.endswith(BIAS)]
    return np.concatenate([trace.read(each) for each in names])[None][rows, columns]


# -------------------------------------------------------------------------------- presenting


TABLE: PanelId[NumberTable | None] = PanelId("Numbers")


def present_table(resolved: Resolved) -> NumberTable:
    """Show the tensor that is looked at, or the given vectors where the run has no such one."""
    run, document, look = resolved.run, resolved.document, resolved.view.table
    choices = _choices(run)
    name = look.name if look.name in dict(choices) else run.trace.stages[0].name
    text, is_covered = resolved.text, name in resolved.covered
    heads = run.trace.spec.heads if _has_heads(run, name) else 0
    cell = resolved.pinned  # one of heads folded into one is of no head's table
    pinned = cell.place if cell and cell.stage == name and cell.fold is None else ()
    head = (pinned[0] if len(pinned) == 3 else look.head) if heads else 0
    rows, columns = _axes(run, name, text)
    if is_covered:
        rows, columns = Axis(rows.name, (), 1), Axis(columns.name, (), 1)
    why = why_not(run, name)
    return NumberTable(
        run=run,
        text=text,
        name=name,
        title=dict(choices)[name],
        choices=choices,
        heads=heads,
        head=min(head, max(heads - 1, 0)),
        rows=rows,
        columns=columns,
        is_editable=not (why or is_covered),
        is_own=own_of(document.spec, run, name) is not None,
        is_covered=is_covered,
        note=COVERED if is_covered else why or "Type a number, or paste a block of them.",
        problem=look.problem if look.document == document else "",
        current=(pinned[-2], pinned[-1]) if pinned and not is_covered else None,
    )


def _choices(run: Run) -> tuple[tuple[str, str], ...]:
    spec, trace = run.trace.spec, run.trace
    stages = [(stage.name, stage.title) for stage in trace.stages]
    read = {layer for stage in trace.stages for layer in stage.parameters}
    weights = [(name, name) for name in spec.weight_names if OWN_LAYERS[name] in read]
    biases = [
        (f"{name}{BIAS}", f"{name}, bias")
        for name, _ in weights
        if any(each.endswith(BIAS) for each in parameter_names(spec, OWN_LAYERS[name]))
    ]
    return (*stages, *weights, *biases)


def _has_heads(run: Run, name: str) -> bool:
    return name in run.trace and "head" in run.trace.stage(name).dims


def _axes(run: Run, name: str, text: int) -> tuple[Axis, Axis]:
    if name in run.trace:
        row, column = run.trace.stage(name).dims[-2:]
        labels = all_visible(run.words(text))
        width = run.trace.tensor(name).shape[-1]
        is_key = column == "key"
        across = all_visible(run.words(text, "key")) if is_key else counted_from_one(width)
        return Axis(row, labels, 1), Axis(column, across, 1)
    width = run.trace.spec.width
    if name.endswith(BIAS):
        return Axis("bias", ("bias",), 1), Axis("width", counted_from_one(width), 1)
    height = run.trace.spec.weight_sizes[name][0]
    row = "d_in" if name in LAYERS else "concat"
    return Axis(row, counted_from_one(height), 1), Axis("width", counted_from_one(width), 1)
