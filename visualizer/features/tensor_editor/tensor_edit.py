"""The change of a document that an edit in the table of numbers makes, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.run_parameters_as_spec_weights import check_count, weights_of
from visualizer.attention.spec import BIAS, DRAWN_FROM, OWN_BIASES, OWN_LAYERS, NumberMatrix
from visualizer.attention.stages import Operation
from visualizer.errors import InputError

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.session.document import Document


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
    sizes = run.trace.shape(name) if is_input else run.trace.spec.weight_sizes[name]
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
