"""Write a whole run as one JSON object (RFC 8259): spec, all stages and all weights.

The keys are ``format``, ``program``, ``version``, ``caption``, ``texts`` (lists of tokens),
``spec`` (see `spec_to_json`), ``captured``, ``document`` (the document file in base64, from which
the program opens the file again), ``stages`` in their order (``name``, ``title``,
``symbol``, ``dims``, ``shape``, ``values``) and ``parameters`` by the names of the book's
``state_dict`` (``shape``, ``values``). For captured attention ``spec`` is null, ``texts`` are the
queries of each layer, and ``captured`` has the ``file`` that it was read from and its
``key_tokens``; otherwise ``captured`` is null. Values are nested lists, one level per
dim; each number is exactly that of the trace. JSON has no −∞, ∞ and NaN, so they are written as
the strings ``"-Infinity"``, ``"Infinity"`` and ``"NaN"``, which ``float`` in Python and ``Number``
in JavaScript convert back. If a text is too long to keep its matrices in memory, only the stages
before the scores are written.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from visualizer.attention.spec import BooleanMatrix, NumberMatrix
from visualizer.documents.embedded_document import encode_png_text
from visualizer.progress import REPORT_INTERVAL, Progress, ProgressCounter, no_progress
from visualizer.session.computation_caption import caption

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage


def spec_to_json(spec: AttentionSpec) -> dict[str, object]:
    """Return the fields of a spec as JSON values, by name.

    Enum values are their names, the user's matrices are lists of rows (Booleans as 0 and 1), and
    the user's weights are such lists by name.
    """
    found = {name: _to_plain_value(getattr(spec, name)) for name in spec.__struct_fields__}
    found["own_weights"] = {name: _to_plain_value(matrix) for name, matrix in spec.own_weights}
    return found


def _to_plain_value(value: object) -> object:
    if isinstance(value, BooleanMatrix):
        return value.array().astype(int).tolist()
    if isinstance(value, NumberMatrix):
        return value.array().tolist()
    if isinstance(value, str):  # an enum member is a str with more attributes
        return str(value)
    return list(value) if isinstance(value, tuple) else value


FORMAT_VERSION = 1
PROGRAM_NAME = "Attention Visualizer"


def write_json(
    run: Run,
    version: str,
    file: BinaryIO,
    progress: Progress = no_progress,
    document: bytes = b"",
) -> None:
    """Write a run as ASCII, one row of numbers at a time, to avoid keeping the text in memory.

    Parameters
    ----------
    version : str
        The program's version.
    progress : callable, optional
        Called after each row with the number of row blocks written and their total.
    document : bytes, optional
        The document file.
    """
    trace = run.trace
    names = (*(stage.name for stage in run.trace.stored_stages), *trace.parameters)
    tell = ProgressCounter(
        progress, sum(math.prod(trace.shape(name)[:-1]) for name in names), REPORT_INTERVAL
    )
    for piece in _json_pieces(run, version, document):
        file.write(piece.encode("ascii"))
        if piece.startswith("[") and piece != "[":
            tell()


def _json_pieces(run: Run, version: str, document: bytes) -> Iterator[str]:
    head = {
        "format": FORMAT_VERSION,
        "program": PROGRAM_NAME,
        "version": version,
        "caption": caption(run),
        "texts": [run.words(leading) for leading in run.trace.leading_indices()],
        "spec": spec_to_json(run.trace.spec) if run.trace.has_module else None,
        "captured": _describe_capture(run),
        "document": encode_png_text(document) if document else None,
    }
    yield from ("{", json.dumps(head, allow_nan=False)[1:-1])
    yield ',\n"stages": ['
    for position, stage in enumerate(run.trace.stored_stages):
        yield ",\n" if position else "\n"
        yield from _object_pieces(_describe_stage(run, stage), run.trace.read(stage.name))
    yield '],\n"parameters": {'
    for position, name in enumerate(run.trace.parameters):
        yield ",\n" if position else "\n"
        yield f"{json.dumps(name)}: "
        yield from _object_pieces({}, run.trace.read(name))
    yield "}}\n"


def _describe_capture(run: Run) -> dict[str, object] | None:
    if run.trace.has_module:
        return None
    return {"file": run.source_file, "key_tokens": run.key_tokens}


def _describe_stage(run: Run, stage: Stage) -> dict[str, object]:
    dims = [*run.trace.axes, *stage.dims]
    return {"name": stage.name, "title": stage.title, "symbol": stage.symbol, "dims": dims}


def _object_pieces(described: dict[str, object], numbers: np.ndarray) -> Iterator[str]:
    head = json.dumps(described | {"shape": numbers.shape})
    yield f'{head[:-1]}, "values": '
    yield from _nested_list_pieces(numbers)
    yield "}"


def _nested_list_pieces(numbers: np.ndarray) -> Iterator[str]:
    """Yield [..., row, column] as nested lists, one row at a time."""
    if numbers.ndim == 1:
        yield format_json_row(numbers)
        return
    yield "["
    for position, part in enumerate(numbers):
        if position:
            yield ","
        yield from _nested_list_pieces(part)
    yield "]\n" if numbers.ndim == 2 else "]"


def format_json_row(numbers: np.ndarray) -> str:
    """Format a row as a JSON list."""
    values = numbers.tolist()
    if not np.isfinite(numbers).all():
        values = [value if math.isfinite(value) else _nonfinite_name(value) for value in values]
    return json.dumps(values, allow_nan=False)


def _nonfinite_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
