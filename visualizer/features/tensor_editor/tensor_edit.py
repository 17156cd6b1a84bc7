"""Edits of tensors as changes to the document, and the reasons why edits are rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.custom_weights import check_weight_count, read_weights
from visualizer.attention.spec import (
    BIAS_SUFFIX,
    OWN_BIASES,
    OWN_LAYERS,
    WEIGHT_FIELDS,
    NumberMatrix,
)
from visualizer.attention.stages import Operation
from visualizer.errors import InputError

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.session.document import Document


def not_editable_reason(run: Run, name: str) -> str:
    """Return the reason why a tensor cannot be edited, or an empty string if it can."""
    trace = run.trace
    if not trace.has_module:
        return f"Numbers from {run.source_display_name} cannot be edited."
    if name.endswith(BIAS_SUFFIX):
        is_own = custom_values(trace.spec, run, name) is not None
        source = "custom values" if is_own else "random values generated from the seed"
        return f"Biases are {source} and cannot be edited here."
    if name not in trace:
        return ""
    stage, given = trace.stage(name), trace.stages[0]
    if stage == given:
        said = "With several texts, the input vectors are determined by the tokens."
        return f"{said} Use a single text to edit them." if trace.axes else ""
    if stage.operation is Operation.POSITION_VECTORS:
        return "Positional encodings are computed and cannot be edited."
    sources = [] if trace.axes else [f"the {given.title.lower()}"]
    sources += ["the weights"] if trace.spec.weight_names else []
    edit = f" Edit {' or '.join(sources)} instead." if sources else ""
    numbers = stage.title if stage.title.endswith("s") else f"{stage.title} values"
    return f"{numbers} are computed.{edit}"


def replace_block(
    document: Document, run: Run, name: str, row: int, column: int, values: np.ndarray
) -> Document:
    """Return a document in which the values replace a block of a tensor that begins at a cell.

    Parameters
    ----------
    run : Run
        The shown run, which supplies the other numbers if the tensor has not been edited yet.
    values : numpy.ndarray
        float64 [row, column].

    Raises
    ------
    InputError
        If the tensor cannot be edited, or the numbers do not fit its type or its shape.
    """
    if why := not_editable_reason(run, name):
        raise _edit_error(run, name, why)
    whole = _values_to_edit(document, run, name)
    height, width = values.shape
    rows, columns = whole.shape
    if row + height > rows or column + width > columns:
        size, room = f"{height} × {width}", f"{rows - row} × {columns - column}"
        sentence = f"A block of {size} does not fit here. The largest block that fits is {room}."
        raise _edit_error(run, name, sentence)
    with np.errstate(over="ignore"):
        held = values.astype(document.spec.dtype.value)
    if not np.isfinite(held).all():
        wrong = values[~np.isfinite(held)][0]
        raise _edit_error(run, name, f"{wrong:g} is out of range for {document.spec.dtype}.")
    whole = whole.astype(np.float64)
    whole[row : row + height, column : column + width] = values
    return _with_custom_values(document, run, name, NumberMatrix.from_array(whole))


def reset_to_random(document: Document, run: Run, name: str) -> Document:
    """Return a document in which the tensor again has random values generated from the seed."""
    return _with_custom_values(document, run, name, None)


def _edit_error(run: Run, name: str, sentence: str) -> InputError:
    return InputError("own_input" if name in run.trace else "own_weights", sentence)


def custom_values(spec: AttentionSpec, run: Run, name: str) -> NumberMatrix | None:
    """Return the custom values of a tensor, or None if the spec has none."""
    if not run.trace.has_module:
        return None
    if name == run.trace.stages[0].name:
        return spec.own_input
    return dict(spec.own_weights).get(name)


def _with_custom_values(
    document: Document, run: Run, name: str, own: NumberMatrix | None
) -> Document:
    if name in run.trace:
        return document.with_setting("own_input", own)
    weights = dict(document.spec.own_weights)
    weights.pop(name, None)
    if own:
        weights[name] = own
    names = sorted(weights, key=[*OWN_LAYERS, *OWN_BIASES].index)
    return document.with_setting("own_weights", tuple((each, weights[each]) for each in names))


def _values_to_edit(document: Document, run: Run, name: str) -> np.ndarray:
    """Return the values to edit: the custom values or, if there are none, the shown values."""
    own, shown = custom_values(document.spec, run, name), custom_values(run.trace.spec, run, name)
    is_input = name in run.trace
    sizes = run.trace.shape(name) if is_input else run.trace.spec.weight_sizes[name]
    if own and (own.rows, own.columns) == sizes:
        return own.to_array()
    if own != shown or not _matches_shown_values(document, run, name):
        raise _edit_error(
            run, name, "New numbers are being computed. You can edit them when they appear."
        )
    if is_input:
        return run.trace.read(name)
    check_weight_count(sizes[0] * sizes[1])
    return read_weights(run.trace, name)


def _matches_shown_values(document: Document, run: Run, name: str) -> bool:
    """Return whether the document yields the values that the run shows."""
    if name in run.trace:
        fields: tuple[str, ...] = ("d_in", "seed", "dtype")
        if document.tokens() != run.texts:
            return False
    else:
        fields = tuple(field for field in WEIGHT_FIELDS if field != "own_weights")
    return all(getattr(document.spec, each) == getattr(run.trace.spec, each) for each in fields)
