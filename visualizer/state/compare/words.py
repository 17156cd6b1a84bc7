"""What is compared, in words: how A and B came about, where they differ most, a cell's numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from visualizer.attention.masks import allowed
from visualizer.attention.stages import is_hatched
from visualizer.language.tokenizers import visible
from visualizer.state.colouring import ROUNDING
from visualizer.state.compare.comparison import Against, held_of, mismatch
from visualizer.state.setup import SETTINGS, Kind
from visualizer.state.view import Cell, Part
from visualizer.state.words import number, shortened

if TYPE_CHECKING:
    from visualizer.attention.held import Held
    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.state.compare.comparison import Comparison
    from visualizer.state.document import Document
    from visualizer.state.resolve import Resolved
    from visualizer.state.setup import Setting

DERIVED = {"mechanism", "causal", "device"}
"""Settings that are told by others, or that change no number."""


def signed(value: float) -> str:
    """Write a difference, with its sign."""
    written = number(value)
    return written if written.startswith("−") or value == 0 else f"+{written}"


@dataclass(frozen=True, slots=True)
class Change:
    """The largest difference there is, and where: within what an index left."""

    value: float
    place: tuple[int, ...]


def largest_change(held: Held, index: tuple[int, ...], size: float) -> Change | None:
    """Find the largest difference; None where it is no more than what rounding leaves."""
    place = held.farthest(index)
    value = float(held.read((*index, *place)))
    is_change = math.isfinite(value) and abs(value) > ROUNDING * size
    return Change(value, place) if is_change else None


def whose(run: Run, text: int, stage: Stage, place: tuple[int, ...]) -> str:
    """Name the tokens of a cell, or the token and the column; its head, where the place has one."""
    row, column = place[-2:]
    joined = shortened(visible(run.words(text)[row]))
    if stage.dims[-1] == "key":
        key = run.words(text, "key")[column]
        joined += f" → {shortened(visible(key))}"
    else:
        joined += f", column {column + 1}"
    has_head = len(place) == 3 and run.trace.spec.heads > 1
    return f"{joined} in head {place[0] + 1}" if has_head else joined


def differences(one: Document, other: Document) -> tuple[str, ...]:
    """Say in which settings two documents differ, the first's value first."""
    if one.captured != other.captured:
        return ("the captured attention",)
    if one.captured:
        return ("the typed tokens",) * (one.labels != other.labels)
    said = ["the text"] * (one.text != other.text)
    said += [
        f"{name}: {getattr(one, name)} → {getattr(other, name)}"
        for name in ("tokenizer", "lines")
        if getattr(one, name) != getattr(other, name)
    ]
    for setting in SETTINGS:
        values = [document.get(setting.name) for document in (one, other)]
        counts = any(setting.counts(document.spec) for document in (one, other))
        if setting.name not in DERIVED and counts and values[0] != values[1]:
            said.append(_difference(setting, *values))
    return tuple(said)


def _difference(setting: Setting, *values: Any) -> str:
    label = setting.label[0].lower() + setting.label[1:]
    if setting.kind in {Kind.MATRIX, Kind.OWN}:
        return label
    return f"{label}: {' → '.join(_value(setting, value) for value in values)}"


def _value(setting: Setting, value: Any) -> str:
    if setting.kind is Kind.SWITCH:
        return "on" if value else "off"
    words = dict(setting.choices).get(value)
    return words[0].lower() + words[1:] if words else f"{value:g}"


# --------------------------------------------------------------------------------------- a cell


def beside(resolved: Resolved, cell: Cell) -> tuple[str, ...]:
    """Say what the cell's number is on each side, and what the difference is."""
    comparison, run = resolved.comparison, resolved.run
    if comparison is None:
        return ()
    if comparison.against is Against.SAMPLES:
        return _sampled(resolved, comparison, cell)
    if comparison.against is Against.HEAD:
        return _in_heads(resolved, comparison, cell)
    kept, stage = comparison.kept, run.trace.stage(cell.stage)
    if kept is None or mismatch(kept, run, stage):
        return ()
    a = _written(resolved, kept, cell, Part.A)
    b = _written(resolved, run, cell, Part.B)
    return (f"A {a}", f"B {b}", *_minus(resolved, cell, "B − A", f"{a}{b}"))


def _written(resolved: Resolved, whose: Run, cell: Cell, part: Part) -> str:
    """Write a number of either side, or say that it is forbidden there."""
    spec = whose.trace.spec
    if is_hatched(spec, cell.stage):
        cells = allowed(spec, whose.trace.tokens, cell.stage)
        cells = cells[whose.nearest(resolved.text), 0] if cells.ndim > 2 else cells
        if not cells[cell.place[-2:]]:
            return "forbidden"
    return number(_value_of(resolved, cell, part))


def _value_of(resolved: Resolved, cell: Cell, part: Part) -> float:
    held, index = held_of(resolved, replace(cell, part=part))
    return float(held.read((*index, *cell.place[-2:])))


def _minus(resolved: Resolved, cell: Cell, name: str, sides: str) -> tuple[str, ...]:
    """Write the difference, where there is one: a score that is forbidden has none."""
    is_share = resolved.run.trace.stage(cell.stage).is_weights
    if "forbidden" in sides and not is_share:
        return ()
    return (f"{name} = {signed(_value_of(resolved, cell, Part.CHANGE))}",)


def _in_heads(resolved: Resolved, comparison: Comparison, cell: Cell) -> tuple[str, ...]:
    if cell.head not in comparison.heads:
        return ()
    one, other = comparison.heads
    places = [(head, *cell.place[-2:]) for head in (one, other)]
    cells = [Cell(cell.stage, place) for place in places]
    sides = [_written(resolved, resolved.run, each, Part.PLAIN) for each in cells]
    name = f"head {other + 1} − head {one + 1}"
    said = [f"Head {head + 1}: {side}" for head, side in zip((one, other), sides, strict=True)]
    return (*said, *_minus(resolved, cell, name, "".join(sides)))


def _sampled(resolved: Resolved, comparison: Comparison, cell: Cell) -> tuple[str, ...]:
    if cell.stage not in {"weights", "dropped"} or cell.fold:
        return ()
    weight, sample, mean, change = (
        _value_of(resolved, Cell(stage, cell.place), part)
        for stage, part in (
            ("weights", Part.PLAIN),
            ("dropped", Part.PLAIN),
            ("dropped", Part.MEAN),
            ("dropped", Part.CHANGE),
        )
    )
    return (
        f"Weight {number(weight)}",
        f"One sample {number(sample)}",
        f"Mean of {comparison.count:,}: {number(mean)}",
        f"Mean − weight = {signed(change)}",
    )
