"""The number table as a value: one tensor of a run, read a block at a time, and edits of it.

Input vectors, weights and biases can be edited; everything else is computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.copy_computed_weights_into_spec import check_count, weights_of
from visualizer.attention.spec import BIAS, DRAWN_FROM, LAYERS, OWN_BIASES, OWN_LAYERS, NumberMatrix
from visualizer.attention.stages import Operation, is_hatched, parameter_names
from visualizer.errors import InputError
from visualizer.features.tensor_editor.spreadsheet_clipboard import format_number_plain
from visualizer.heatmap.board_presenter import counted_from_one
from visualizer.heatmap.panel_and_board_types import Axis
from visualizer.language.tokenizers import all_visible
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import Resolved

COVERED = "Covered until the prediction is revealed."


@dataclass(frozen=True, slots=True, eq=False)
class NumberBlock:
    """A block of a table's numbers, and which of its cells are forbidden or dropped."""

    numbers: np.ndarray
    forbidden: np.ndarray | None = None
    dropped: np.ndarray | None = None

    def word(self, row: int, column: int) -> str:
        """The word shown in place of a number; empty where the number is shown."""
        if self.forbidden is not None and self.forbidden[row, column]:
            return "forbidden"
        return "dropped" if self.dropped is not None and self.dropped[row, column] else ""


@dataclass(frozen=True, slots=True)
class NumberTablePanel:
    """The Numbers pane: one tensor of a run, of one head and text, as rows and columns.

    Parameters
    ----------
    choices : tuple of (name, title)
        The tensors to choose from: stages, weights and biases.
    heads, head : int
        The number of heads and the index of this one; 0 heads where the tensor has no such axis.
    is_own : bool
        Whether its numbers are custom and not drawn from the seed.
    note : str
        Why it cannot be edited, or how to edit it.
    problem : str
        The error of the last input.
    current : tuple of (row, column) or None
        The pinned cell, where it lies in this table.
    """

    run: Run
    leading: LeadingIndex
    name: str
    title: str
    choices: tuple[tuple[str, str], ...]
    heads: int
    head: int
    rows: Axis
    columns: Axis
    is_editable: bool
    is_own: bool
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
    def may_have_words(self) -> bool:
        """Whether some cells may show a word in place of a number."""
        trace = self.run.trace
        return self.name == trace.dropout_stage or is_hatched(trace.spec, self.name)

    def place(self, row: int, column: int) -> tuple[int, ...]:
        """The indices of a cell within the stage's named axes."""
        return (self.head, row, column) if self.heads else (row, column)

    def block(self, rows: slice, columns: slice) -> NumberBlock:
        if not self.is_stage:
            return NumberBlock(_parameter(self.run, self.name, rows, columns))
        trace = self.run.trace
        index = (*self.leading, *((self.head,) if self.heads else ()), rows, columns)
        numbers = trace.read(self.name, index)
        forbidden = dropped = None
        if is_hatched(trace.spec, self.name):
            forbidden = ~trace.allowed(self.name, self.leading)[rows, columns]
        before = trace.before_dropout(self.name)
        if before:
            dropped = (numbers == 0) & (trace.read(before, index) != 0)
        return NumberBlock(numbers, forbidden, dropped)

    def full(self, row: int, column: int) -> str:
        """Format one number with all its digits."""
        block = self.block(slice(row, row + 1), slice(column, column + 1))
        return format_number_plain(block.numbers[0, 0])


def _parameter(run: Run, name: str, rows: slice, columns: slice) -> np.ndarray:
    trace = run.trace
    if not name.endswith(BIAS):
        return weights_of(trace, name, rows, columns)
    layer = OWN_LAYERS[name.removesuffix(BIAS)]
    names = [each for each in parameter_names(trace.spec, layer) if each.endswith(BIAS)]
    return np.concatenate([trace.read(each) for each in names])[None][rows, columns]


# -------------------------------------------------------------------------------- presenting


TABLE: PanelId[NumberTablePanel | None] = PanelId("Numbers")


def present_table(resolved: Resolved) -> NumberTablePanel:
    """Present the chosen tensor, or the input vectors where the run lacks it."""
    run, document, look = resolved.run, resolved.document, resolved.view.table
    choices = _choices(run)
    name = look.name if look.name in dict(choices) else run.trace.stages[0].name
    leading, is_covered = resolved.leading, name in resolved.covered
    heads = run.trace.spec.heads if _has_heads(run, name) else 0
    cell = resolved.pinned  # a cell of aggregated heads lies in no head's table
    pinned = cell.place if cell and cell.stage == name and cell.fold is None else ()
    head = (pinned[0] if len(pinned) == 3 else look.head) if heads else 0
    rows, columns = _axes(run, name, leading)
    if is_covered:
        rows, columns = Axis(rows.name, (), 1), Axis(columns.name, (), 1)
    why = why_not(run, name)
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
        is_own=own_of(document.spec, run, name) is not None,
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


def _axes(run: Run, name: str, leading: LeadingIndex) -> tuple[Axis, Axis]:
    if name in run.trace:
        row, column = run.trace.stage(name).dims[-2:]
        labels = all_visible(run.words(leading))
        width = run.trace.tensor(name).shape[-1]
        is_key = column == "key"
        across = all_visible(run.words(leading, "key")) if is_key else counted_from_one(width)
        return Axis(row, labels, 1), Axis(column, across, 1)
    width = run.trace.spec.width
    if name.endswith(BIAS):
        return Axis("bias", ("bias",), 1), Axis("width", counted_from_one(width), 1)
    height = run.trace.spec.weight_sizes[name][0]
    row = "d_in" if name in LAYERS else "concat"
    return Axis(row, counted_from_one(height), 1), Axis("width", counted_from_one(width), 1)


def why_not(run: Run, name: str) -> str:
    """The reason why a tensor cannot be edited; empty where it can."""
    trace = run.trace
    if not trace.has_module:
        return f"These numbers are as {run.source} has them, and are not edited."
    if name.endswith(BIAS):
        is_own = own_of(trace.spec, run, name) is not None
        return "Biases are given." if is_own else "Biases are drawn from the seed."
    if name not in trace:
        return ""
    stage, given = trace.stage(name), trace.stages[0]
    if stage == given:
        said = "The vectors of several texts are those of their tokens."
        return f"{said} Own ones can be given to one text only." if trace.axes else ""
    if stage.operation is Operation.POSITION_VECTORS:
        return "Positions are made by a rule or from the seed."
    sources = [] if trace.axes else [f"the {given.title.lower()}"]
    sources += ["the weights"] if trace.spec.weight_names else []
    edit = f": edit {' or '.join(sources)} they come from" if sources else ""
    numbers = stage.title if stage.title.endswith("s") else f"{stage.title} numbers"
    return f"{numbers} are computed{edit}."


def edited(
    document: Document, run: Run, name: str, row: int, column: int, values: np.ndarray
) -> Document:
    """Set a block of a tensor's numbers, its upper left corner at a cell; the others stay as shown.

    Parameters
    ----------
    run : Run
        The shown run: it supplies the other numbers where the tensor was not edited before.
    values : numpy.ndarray
        float64 [row, column].

    Raises
    ------
    InputError
        When the tensor cannot be edited, or the numbers exceed its type or its size.
    """
    if why := why_not(run, name):
        raise _refused(run, name, why)
    whole = _present(document, run, name)
    height, width = values.shape
    rows, columns = whole.shape
    if row + height > rows or column + width > columns:
        size, room = f"{height} × {width}", f"{rows - row} × {columns - column}"
        raise _refused(run, name, f"A block of {size} does not fit: there is room for {room}.")
    with np.errstate(over="ignore"):
        held = values.astype(document.spec.dtype.value)
    if not np.isfinite(held).all():
        wrong = values[~np.isfinite(held)][0]
        raise _refused(run, name, f"{wrong:g} is no number that {document.spec.dtype} can hold.")
    whole = whole.astype(np.float64)
    whole[row : row + height, column : column + width] = values
    return _with(document, run, name, NumberMatrix.of(whole))


def as_drawn(document: Document, run: Run, name: str) -> Document:
    """A document in which a tensor's numbers are drawn from the seed again."""
    return _with(document, run, name, None)


def _refused(run: Run, name: str, sentence: str) -> InputError:
    return InputError("own_input" if name in run.trace else "own_weights", sentence)


def own_of(spec: AttentionSpec, run: Run, name: str) -> NumberMatrix | None:
    """The custom numbers of a tensor; None where the spec has none."""
    if not run.trace.has_module:
        return None
    if name == run.trace.stages[0].name:
        return spec.own_input
    return dict(spec.own_weights).get(name)


def _with(document: Document, run: Run, name: str, own: NumberMatrix | None) -> Document:
    if name in run.trace:
        return document.set("own_input", own)
    weights = dict(document.spec.own_weights)
    weights.pop(name, None)
    if own:
        weights[name] = own
    return document.set("own_weights", tuple((each, weights[each]) for each in _order(weights)))


def _order(weights: dict[str, NumberMatrix]) -> list[str]:
    return sorted(weights, key=[*OWN_LAYERS, *OWN_BIASES].index)


def _present(document: Document, run: Run, name: str) -> np.ndarray:
    """The numbers to edit: the custom ones, else those shown."""
    own, shown = own_of(document.spec, run, name), own_of(run.trace.spec, run, name)
    is_input = name in run.trace
    sizes = run.trace.tensor(name).shape if is_input else run.trace.spec.weight_sizes[name]
    if own and (own.rows, own.columns) == sizes:
        return own.array()
    if own != shown or not _is_shown(document, run, name):
        raise _refused(run, name, "Newer numbers are on their way. Edit them when they are there.")
    if is_input:
        return run.trace.read(name)
    check_count(sizes[0] * sizes[1])
    return weights_of(run.trace, name)


def _is_shown(document: Document, run: Run, name: str) -> bool:
    """Whether a document draws the same numbers as the run shows."""
    if name in run.trace:
        fields: tuple[str, ...] = ("d_in", "seed", "dtype")
        if document.tokens() != run.texts:
            return False
    else:
        fields = tuple(field for field in DRAWN_FROM if field != "own_weights")
    return all(getattr(document.spec, each) == getattr(run.trace.spec, each) for each in fields)
