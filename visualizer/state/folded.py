"""What the Cell pane says of a cell of which all heads are folded into one, and seen by a lens."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.derived import Fold, Lens
from visualizer.language.tokenizers import visible
from visualizer.state.readout import SHOWN_TERMS, Piece, Readout, TermLine
from visualizer.state.view import Cell
from visualizer.state.words import number, share, shortened

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.resolve import Resolved


def folded_readout(resolved: Resolved, cell: Cell, is_pinned: bool) -> Readout | None:
    """Explain a cell of folded heads by the same cell of each head; None where there is none."""
    run, index, lens = resolved.run, resolved.index, resolved.view.lens
    if cell.fold is None:
        return None
    held = run.trace.seen(cell.stage, lens)
    numbers = held.read((*index, slice(None), *cell.place))  # head
    folded = run.trace.seen(cell.stage, lens, cell.fold)
    value = float(folded.read((*index, *cell.place)))
    is_mean, count = cell.fold is Fold.MEAN, len(numbers)
    chosen = int(np.nan_to_num(numbers, nan=-np.inf).argmax())
    order = sorted(np.argsort(-np.abs(np.nan_to_num(numbers)), kind="stable")[:SHOWN_TERMS])
    return Readout(
        heading=_heading(run, cell),
        sentence=_sentence(resolved, cell, value, chosen),
        value=number(value),
        formula=f"Σ over heads ÷ {count}" if is_mean else f"the largest of {count} heads",
        terms=tuple(_term(cell, head, numbers, not is_mean and head == chosen) for head in order),
        rest=_rest(numbers, order, is_mean),
        closing=f"{number(float(numbers.sum()))} ÷ {count} = {number(value)}"
        if is_mean
        else f"= {number(value)}",
        is_pinned=is_pinned,
    )


def _heading(run: Run, cell: Cell) -> str:
    stage = run.trace.stage(cell.stage)
    names = [name if name in {"query", "key"} else "column" for name in stage.dims[-2:]]
    if stage.dims[-2] == "token":
        names[0] = "place"
    places = ", ".join(f"{name} {at + 1}" for name, at in zip(names, cell.place, strict=True))
    whose = "mean of heads" if cell.fold is Fold.MEAN else "largest of heads"
    return f"{stage.title} · {whose}, {places}"


def _sentence(resolved: Resolved, cell: Cell, value: float, chosen: int) -> str:
    run, text, view = resolved.run, resolved.text, resolved.view
    stage = run.trace.stage(cell.stage)
    row = f"<b>{escape(shortened(visible(run.words(text)[cell.place[0]])))}</b>"
    heads = run.trace.spec.heads
    which = f"On average over {heads} heads" if cell.fold is Fold.MEAN else f"In head {chosen + 1}"
    most = "" if cell.fold is Fold.MEAN else ", more than in any other"
    if stage.dims[-1] != "key":
        return f"{which}, column {cell.place[1] + 1} of {row} is {number(value)}{most}."
    read = run.words(text, "key")[cell.place[1]]
    key = f"<b>{escape(shortened(visible(read)))}</b>"
    pair = f"{row} (query {cell.place[0] + 1})", f"{key} (key {cell.place[1] + 1})"
    if stage.is_weights and view.lens is Lens.WITHOUT_FIRST:
        if cell.place[1] == 0:
            return f"{key} is the first token, which is left out."
        most += ", the first token left out"
    lens = run.trace.possible(view.lens)
    if stage.is_weights and lens is not Lens.TIMES_VALUE and 0 <= value <= 1:
        return f"{which}, {pair[0]} reads {share(value)} from {pair[1]}{most}."
    return f"{which}, the number of {pair[0]} and {pair[1]} is {number(value)}{most}."


def _term(cell: Cell, head: int, numbers: np.ndarray, is_chosen: bool) -> TermLine:
    source = Cell(cell.stage, (int(head), *cell.place))
    written = number(float(numbers[head]))
    return TermLine(f"head {head + 1}", (Piece(written, source),), written, is_chosen)


def _rest(numbers: np.ndarray, order: list[int], is_mean: bool) -> str:
    left = np.delete(numbers, order)
    if not len(left):
        return ""
    if is_mean:
        return f"{len(left):,} heads with smaller ones: {number(float(left.sum()))}"
    return f"{len(left):,} heads with smaller ones"


def lens_line(resolved: Resolved, cell: Cell) -> tuple[str, ...]:
    """Say how the number that a lens shows comes from the weight of a cell."""
    run, view = resolved.run, resolved.view
    is_shown = run.trace.stage(cell.stage).is_weights and view.lens is not Lens.PLAIN
    if not is_shown or cell.head is None:
        return ()
    index = (*resolved.index, *cell.place)
    weight = float(run.trace.read(cell.stage, index))
    seen = number(float(run.trace.seen(cell.stage, view.lens).read(index)))
    if view.lens is Lens.TIMES_VALUE and "values" not in run.trace:
        return ("× ‖value‖: not known, as the file has no values.",)
    if view.lens is Lens.TIMES_VALUE:
        value = run.trace.read("values", (*index[:-2], index[-1]))  # d_head
        length = float(np.sqrt((value.astype(np.float64) ** 2).sum()))
        return (f"× ‖value‖: {number(weight)} × {number(length)} = {seen}",)
    if cell.place[-1] == 0:
        return ("Hidden: the first token.",)
    row = run.trace.read(cell.stage, index[:-1]).astype(np.float64)  # key
    return (f"Without the first token: {number(weight)} ÷ {number(float(row[1:].sum()))} = {seen}",)
