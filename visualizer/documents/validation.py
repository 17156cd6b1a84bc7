"""Validates saved documents and views beyond their types: names, signs and sizes.

A valid document may still be impossible to compute, for example while the user is entering a text.
Only values that the program cannot produce and that its code does not expect are rejected.
"""

from __future__ import annotations

import math
import os
import re
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.captured_attention import (
    MAX_LAYERS,
    has_valid_packed_bits,
    header_checks,
    value_checks,
)
from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.attention.settings import first_unsettable, format_number
from visualizer.attention.spec import MAX_VALUES, OWN_BIASES, OWN_LAYERS
from visualizer.models.model_source import ImageFile, check_edits_and_cuts, parse_server_address
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import MAX_SAMPLES
from visualizer.session.timeline import PLAYBACK_SPEEDS
from visualizer.session.view_changes import MAX_PINNED_HISTORY
from visualizer.session.view_options import (
    FOLLOW_PINNED,
    MAX_LINES_PER_QUERY,
    ColourMapKind,
    colour_maps_of_kind,
)
from visualizer.storage.json_codec import RANGE_LIMIT, DamagedFileError, format_short_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from visualizer.attention.captured_attention import NumberCheck
    from visualizer.attention.spec import NumberMatrix
    from visualizer.models.model_source import ModelSource
    from visualizer.session.cell_address import Cell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.document import Document
    from visualizer.session.view import View
    from visualizer.session.view_options import ColourOptions

MAX_PATH_LENGTH = 4096
_SHA256 = "[0-9a-f]{64}"
_HOST_AND_PORT = r"[A-Za-z0-9.-]{1,253}:[0-9]{1,5}"


def check_document(document: Document, view: View) -> None:
    """Reject a document or a view that the program cannot produce.

    Raises
    ------
    DamagedFileError
        With a description of the first invalid value.
    """
    compared = view.comparison and view.comparison.document
    for one in (document, compared) if compared else (document,):
        _raise_if_check_fails(_matrix_checks(one))
        _raise_if_check_fails(_setting_checks(one))
        if one.captured:
            _raise_if_check_fails(header_checks(one.captured))
            _raise_if_check_fails(value_checks(one.captured))
        if one.model:
            _raise_if_check_fails(_model_checks(one.model))
    _raise_if_check_fails(_view_checks(view))
    _raise_if_check_fails(_colour_checks(view.colouring))
    if view.comparison:
        _raise_if_check_fails(_comparison_checks(view.comparison))


def _raise_if_check_fails(claims: Iterator[NumberCheck]) -> None:
    for holds, what in claims:
        if not holds:
            raise DamagedFileError(f"contains an invalid value: {what}.")


def _matrix_checks(document: Document) -> Iterator[NumberCheck]:
    spec = document.spec
    for cells in (spec.own_mask, spec.own_kept):
        if cells:
            yield has_valid_packed_bits(cells), "a matrix of zeros and ones"
    inputs = (spec.own_input,) if spec.own_input else ()
    for numbers in (*inputs, *(matrix for _, matrix in spec.own_weights)):
        yield _is_valid_matrix(numbers), "a matrix of numbers"


def _setting_checks(document: Document) -> Iterator[NumberCheck]:
    spec = document.spec
    yield len(document.weights_source) <= MAX_PATH_LENGTH, "a source of weights"
    names = [name for name, _ in spec.own_weights]
    are_known = set(names) <= OWN_LAYERS.keys() | OWN_BIASES.keys()
    yield are_known and len(set(names)) == len(names), "a set of custom weights"
    if wrong := first_unsettable(spec):
        value = format_number(getattr(spec, wrong.name))
        yield False, f"“{wrong.label}” of {value}"


def _is_valid_matrix(matrix: NumberMatrix) -> bool:
    rows, columns = matrix.rows, matrix.columns
    if min(rows, columns) < 0 or len(matrix.numbers) != 8 * rows * columns:
        return False
    return bool(np.isfinite(matrix.to_array()).all())


def _model_checks(model: ModelSource) -> Iterator[NumberCheck]:
    is_server = re.fullmatch(_HOST_AND_PORT, parse_server_address(model.folder)) is not None
    yield is_server or _is_local_path(model.folder), "a model's folder"
    yield len(model.name) <= MAX_PATH_LENGTH, "a model's name"
    yield re.fullmatch(_SHA256, model.fingerprint) is not None, "a model's fingerprint"
    if model.image and model.image != ImageFile():
        yield _is_local_path(model.image.path), "an image's path"
        yield re.fullmatch(_SHA256, model.image.sha256) is not None, "an image's hash"
    yield from check_edits_and_cuts(model)
    yield len(model.part) <= MAX_PATH_LENGTH, "a model's part"
    yield model.half_dtype is None or model.half_dtype.is_half, "a model's data type"
    count = len(model.layers)
    are_layers = all(0 <= layer < MAX_VALUES["heads"] for layer in model.layers)
    yield are_layers and count <= MAX_LAYERS, "a list of model layers"


def _is_local_path(path: str) -> bool:
    """Return whether a path is absolute and on this machine.

    A path that starts with two slashes is on another machine, and opening it would contact that
    machine.
    """
    path = path.replace(os.sep, "/")  # on systems other than Windows, a backslash is part of a name
    is_absolute = path.startswith("/") or re.match(r"[A-Za-z]:[/\\]", path) is not None
    is_local = is_absolute and not path.startswith(("//", "/??/")) and "\0" not in path
    return is_local and len(path) <= MAX_PATH_LENGTH


def _view_checks(view: View) -> Iterator[NumberCheck]:
    playhead, guess, zoom = view.playhead, view.guess, view.zoom
    places = [place for place in (playhead.place, playhead.span and playhead.span[0]) if place]
    yield _are_known_stages(view.stages), "a stage"
    yield _are_known_stages(place.stage for place in places), "a step's stage"
    yield all(_are_valid_counts(place.row, place.column) for place in places), "a step's position"
    yield playhead.span is None or playhead.span[1] in STAGE_ORDER, "a span's stage"
    yield playhead.speed in PLAYBACK_SPEEDS, "a speed"
    shown = (view.text, view.layer, *(view.heads or ()), view.table.head)
    yield _are_valid_counts(*shown), "a text, layer or head"
    yield zoom is None or min(len(zoom.queries), len(zoom.keys)) > 0, "a zoom"
    pinned = (view.pinned,) if view.pinned else ()
    marks = guess.marks if guess else ()
    yield guess is None or guess.stage in STAGE_ORDER, "a prediction's stage"
    yield all(guess and mark.stage == guess.stage and not mark.fold for mark in marks), "a mark"
    for cell in (*pinned, *view.past, *view.future, *marks, *view.lines.by_key):
        yield _is_valid_cell(cell), "a cell"
    yield (
        all(cell.layer is None for cell in (*pinned, *marks, *view.lines.by_key)),
        "a cell's layer",
    )
    yield max(len(view.past), len(view.future)) <= MAX_PINNED_HISTORY, "a cell history"
    yield _are_valid_counts(*view.tokens.chosen, view.tokens.match or 0), "a selected token"
    yield 0 <= view.lines.threshold <= 1, "a threshold"
    solo = 0 if view.lines.solo in (None, FOLLOW_PINNED) else view.lines.solo
    is_choice = (
        _are_valid_counts(view.lines.top, solo or 0) and view.lines.top <= MAX_LINES_PER_QUERY
    )
    yield is_choice, "a selection of lines"
    painting = view.painting
    yield _are_valid_counts(painting.window, painting.prefix, painting.padding), "a brush"


def _colour_checks(colouring: ColourOptions) -> Iterator[NumberCheck]:
    for kind, id_ in (
        (ColourMapKind.SEQUENTIAL, colouring.sequential),
        (ColourMapKind.DIVERGING, colouring.diverging),
    ):
        yield (
            id_ in {each.id for each in colour_maps_of_kind(kind)},
            f"a colour map “{format_short_value(id_)}”",
        )
    yield (
        _are_known_stages(stage for stage, _, _ in colouring.typed),
        "a stage with a custom colour range",
    )
    yield (
        all(-math.inf < low < high < math.inf for _, low, high in colouring.typed),
        "a colour range",
    )


def _comparison_checks(comparison: Comparison) -> Iterator[NumberCheck]:
    is_kept = comparison.against is ComparisonKind.KEPT
    yield not is_kept or comparison.document is not None, "a comparison without side A"
    yield _are_valid_counts(*comparison.heads), "a pair of heads to compare"
    yield 1 <= comparison.count <= MAX_SAMPLES, "a sample count"
    yield _are_known_stages(comparison.alone | comparison.before), "a stage to compare"


def _is_valid_cell(cell: Cell) -> bool:
    counts = _are_valid_counts(*cell.place, cell.layer or 0)
    return cell.stage in STAGE_ORDER and len(cell.place) in (2, 3) and counts


def _are_known_stages(names: Iterable[str]) -> bool:
    return all(name in STAGE_ORDER for name in names)


def _are_valid_counts(*numbers: int) -> bool:
    """Return whether all numbers are valid counts or indices: at least 0, below `RANGE_LIMIT`."""
    return all(0 <= number < RANGE_LIMIT for number in numbers)
