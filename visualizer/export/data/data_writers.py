"""Writes a run as CSV (RFC 4180), Markdown (GFM, §4.10), JSON, safetensors or NPZ.

In CSV files, numbers have the minimum number of digits that restores the exact value in the spec's
data type: at most 9 for float32 and 17 for float64. −∞ is written as ``-inf``, ∞ as ``inf`` and NaN
as ``NaN``, which Python, NumPy, pandas and R can all read. The encoding is UTF-8 with a byte order
mark (``utf-8-sig`` in Python); without the mark, Excel assumes another encoding.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import re
import zipfile
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from msgspec.structs import replace
from safetensors.numpy import save

from visualizer.attention.importers.numpy_files import DOCUMENT_MEMBER
from visualizer.attention.masks import MaskingSpec, cached_allowed_cells
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import BooleanMatrix, MaskKind, NumberMatrix
from visualizer.documents.embedded_document import encode_png_text
from visualizer.errors import InputError
from visualizer.format import format_count, format_number, format_size
from visualizer.progress import REPORT_INTERVAL, Progress, ProgressCounter, ignore_progress
from visualizer.session.computation_caption import describe_value_origin
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.export.data.exported_matrices import ExportMatrix

CSV_COLUMNS = ("stage", "head", "row", "column", "row token", "column token", "value")
FORMULA_PREFIXES = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r")


def write_csv(
    run: Run, sheets: Sequence[ExportMatrix], file: BinaryIO, progress: Progress = ignore_progress
) -> None:
    """Write matrices of a run as CSV.

    A single whole matrix is a table with a header row of column labels and a first column of row
    labels. Several matrices, or a part of one, are written in tidy form: one line per number, with
    the columns of `CSV_COLUMNS` and, after the head, one column for each of the run's leading axes
    (``layer``, ``text``). Heads, texts, layers, rows and columns are numbered from 1, as in the
    window. Fields that a stage does not have are empty.
    """
    counter = ProgressCounter(
        progress, sum(sheet.row_count(run) for sheet in sheets), REPORT_INTERVAL
    )
    writer = csv.writer(codecs.getwriter("utf-8-sig")(file))
    lines = _csv_table_rows if is_single_table(sheets) else _tidy_csv_rows
    if not is_single_table(sheets):
        writer.writerow((*CSV_COLUMNS[:2], *run.trace.leading_axis_names, *CSV_COLUMNS[2:]))
    for sheet in sheets:
        writer.writerows(lines(run, sheet, counter))


def is_single_table(sheets: Sequence[ExportMatrix]) -> bool:
    """Return whether the matrices are written as a table instead of one line per number."""
    return len(sheets) == 1 and not sheets[0].is_partial


def _csv_table_rows(run: Run, sheet: ExportMatrix, counter: ProgressCounter) -> Iterator[list[str]]:
    row_labels, column_labels = sheet.row_and_column_labels(run)
    yield [sheet.axis_names(run)[0], *map(escape_formula, column_labels)]
    for label, numbers in zip(row_labels, sheet.iterate_rows(run), strict=True):
        yield [escape_formula(label), *format_exact_row(numbers)]
        counter()


def _tidy_csv_rows(
    run: Run, sheet: ExportMatrix, counter: ProgressCounter
) -> Iterator[tuple[str, ...]]:
    row_labels, column_labels = (
        list(map(escape_formula, labels)) for labels in sheet.row_and_column_labels(run)
    )
    tokens = column_labels if sheet.has_key_columns(run) else [""] * len(column_labels)
    head = sheet.fold or ("" if sheet.head is None else str(sheet.head + 1))
    position = (sheet.qualified_name(run), head, *map(str, sheet.layer_and_text_numbers(run)))
    rows, column_numbers = sheet.row_and_column_indices(run)
    columns = [str(column + 1) for column in column_numbers]
    for row, label, numbers in zip(rows, row_labels, sheet.iterate_rows(run), strict=True):
        for column, token, value in zip(columns, tokens, format_exact_row(numbers), strict=True):
            yield (*position, str(row + 1), column, label, token, value)
        counter()


def format_exact_row(numbers: np.ndarray) -> list[str]:
    """Format a row with enough digits to restore the values exactly."""
    texts: list[str] = numbers.astype(np.str_).tolist()
    return ["NaN" if text == "nan" else text for text in texts]


def escape_formula(label: str) -> str:
    """Put an apostrophe before a token that a spreadsheet would interpret as a formula.

    A single minus or equals sign is not a formula and stays unchanged.
    """
    return f"'{label}" if len(label) > 1 and label.startswith(FORMULA_PREFIXES) else label


_MARKDOWN_SPECIAL = re.compile(r"[\\`*_\[\]<>&|~$#]")


def write_markdown(
    run: Run, sheets: Sequence[ExportMatrix], file: BinaryIO, progress: Progress = ignore_progress
) -> None:
    """Write matrices of a run as Markdown tables; numbers are formatted as in the window.

    Each table has a title with the stage, the head and the text, and a caption that describes the
    computation.
    """
    counter = ProgressCounter(
        progress, sum(sheet.row_count(run) for sheet in sheets), REPORT_INTERVAL
    )
    for position, sheet in enumerate(sheets):
        if position:
            file.write(b"\n")
        for line in _markdown_lines(run, sheet, counter):
            file.write(f"{line}\n".encode())


def _markdown_lines(run: Run, sheet: ExportMatrix, counter: ProgressCounter) -> Iterator[str]:
    row_labels, column_labels = sheet.row_and_column_labels(run)
    rows, columns = sheet.axis_names(run)
    yield (
        f"**{escape_markdown(sheet.title(run))}** · {escape_markdown(describe_value_origin(run))}"
    )
    yield ""
    yield _format_markdown_row(
        (
            f"{escape_markdown(rows)} ↓ {escape_markdown(columns)} →",
            *map(escape_markdown, column_labels),
        )
    )
    yield _format_markdown_row(("---", *("---:" for _ in column_labels)))
    for label, numbers in zip(row_labels, sheet.iterate_rows(run), strict=True):
        yield _format_markdown_row((escape_markdown(label), *map(format_number, numbers.tolist())))
        counter()


def _format_markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape_markdown(text: str) -> str:
    """Escape Markdown's special characters."""
    return _MARKDOWN_SPECIAL.sub(r"\\\g<0>", text)


def spec_to_json(spec: AttentionSpec) -> dict[str, object]:
    """Return the fields of a spec as JSON values, keyed by name.

    Members of enumerations are written as their values. Custom matrices are lists of rows, with
    Booleans as 0 and 1. Custom weights are a dictionary of such lists, keyed by name.
    """
    fields = {name: _to_json_value(getattr(spec, name)) for name in spec.__struct_fields__}
    fields["own_weights"] = {name: _to_json_value(matrix) for name, matrix in spec.own_weights}
    return fields


def _to_json_value(value: object) -> object:
    if isinstance(value, BooleanMatrix):
        return value.to_array().astype(int).tolist()
    if isinstance(value, NumberMatrix):
        return value.to_array().tolist()
    if isinstance(value, str):  # an enum member is a str with more attributes
        return str(value)
    return list(value) if isinstance(value, tuple) else value


FORMAT_VERSION = 1
PROGRAM_NAME = "Attention Visualizer"


def array_names(run: Run) -> tuple[str, ...]:
    """Return the names of a run's stages and parameters that can be written completely."""
    return (*(stage.name for stage in run.trace.stored_stages), *run.trace.parameters)


def write_json(
    run: Run, file: BinaryIO, progress: Progress = ignore_progress, document: bytes = b""
) -> None:
    """Write a run as ASCII JSON, one row at a time to save memory.

    Parameters
    ----------
    progress : callable, optional
        Called after each block of rows with the written and the total number of blocks.
    document : bytes, optional
        The content of the document file.
    """
    rows = sum(math.prod(run.trace.shape(name)[:-1]) for name in array_names(run))
    counter = ProgressCounter(progress, rows, REPORT_INTERVAL)
    for piece in _json_pieces(run, document):
        file.write(piece.encode("ascii"))
        if piece.startswith("[") and piece != "[":
            counter()


def _json_pieces(run: Run, document: bytes) -> Iterator[str]:
    header = {
        "format": FORMAT_VERSION,
        "program": PROGRAM_NAME,
        "version": __version__,
        "caption": describe_value_origin(run),
        "texts": [run.axis_tokens(leading) for leading in run.trace.leading_indices()],
        "spec": spec_to_json(run.trace.spec) if run.trace.has_module else None,
        "captured": None
        if run.trace.has_module
        else {"file": run.source_full_name, "key_tokens": run.key_tokens},
        "document": encode_png_text(document) if document else None,
    }
    yield from ("{", json.dumps(header, allow_nan=False)[1:-1])
    yield ',\n"stages": ['
    for position, stage in enumerate(run.trace.stored_stages):
        yield ",\n" if position else "\n"
        yield from _json_object_pieces(_describe_stage(run, stage), run.trace.read(stage.name))
    yield '],\n"parameters": {'
    for position, name in enumerate(run.trace.parameters):
        yield ",\n" if position else "\n"
        yield f"{json.dumps(name)}: "
        yield from _json_object_pieces({}, run.trace.read(name))
    yield "}}\n"


def _describe_stage(run: Run, stage: Stage) -> dict[str, object]:
    dims = [*run.trace.axes, *stage.dims]
    return {"name": stage.name, "title": stage.title, "symbol": stage.symbol, "dims": dims}


def _json_object_pieces(description: dict[str, object], numbers: np.ndarray) -> Iterator[str]:
    header = json.dumps(description | {"shape": numbers.shape})
    yield f'{header[:-1]}, "values": '
    yield from _json_list_pieces(numbers)
    yield "}"


def _json_list_pieces(numbers: np.ndarray) -> Iterator[str]:
    """Yield [..., row, column] as nested lists, one row at a time."""
    if numbers.ndim == 1:
        yield format_json_row(numbers)
        return
    yield "["
    for position, part in enumerate(numbers):
        if position:
            yield ","
        yield from _json_list_pieces(part)
    yield "]\n" if numbers.ndim == 2 else "]"


def format_json_row(numbers: np.ndarray) -> str:
    """Format a row as a JSON list."""
    values = numbers.tolist()
    if not np.isfinite(numbers).all():
        # json writes NaN, Infinity and -Infinity, which are strings here because JSON lacks them.
        values = [value if math.isfinite(value) else json.dumps(value) for value in values]
    return json.dumps(values, allow_nan=False)


MASK_CELL_BYTES = 4
"""Size of one cell of a mask, in bytes."""
MAX_MASK_BYTES = 2**29


def write_safetensors(run: Run, file: BinaryIO) -> None:
    """Write the weights and masks under the names of the book's ``state_dict``.

    The book's class for the mechanism loads the file with ``load_state_dict(strict=True)``, if it
    is created with the sizes of the spec and a ``context_length`` equal to the number of tokens.
    The metadata are ``program``, ``version``, ``caption`` and ``spec``, which is JSON (see
    `spec_to_json`).

    Raises
    ------
    InputError
        If the module has no weights, or its masks are too large.
    """
    trace = run.trace
    names = mask_names(run)
    _check_mask_size(run, len(names))
    # safetensors writes memory in storage order, which would scramble transposed views.
    arrays = {name: np.ascontiguousarray(trace.read(name)) for name in weight_names(run)}
    if names:
        arrays |= dict.fromkeys(names, create_mask_buffer(run))
    metadata = {
        "program": PROGRAM_NAME,
        "version": __version__,
        "caption": describe_value_origin(run),
        "spec": json.dumps(spec_to_json(trace.spec), allow_nan=False),
    }
    file.write(save(arrays, metadata))


def _check_mask_size(run: Run, count: int) -> None:
    tokens = run.trace.query_count
    size = count * tokens**2 * MASK_CELL_BYTES
    if size > MAX_MASK_BYTES:
        sentence = (
            f"The book’s module contains {format_count(count, 'mask')} of {tokens:,} "
            f"× {tokens:,} cells, which take {format_size(size)}. Use a shorter text, "
            "or export as NPZ, which contains the weights without masks."
        )
        raise InputError("export", sentence)


def weight_names(run: Run) -> tuple[str, ...]:
    """Return the names of the weights.

    Raises
    ------
    InputError
        If the module has no weights.
    """
    if not run.trace.has_module:
        sentence = (
            f"{run.source_display_name} contains attention "
            "weights but no module weights. Export it as NPZ."
        )
        raise InputError("export", sentence)
    if not run.trace.parameters:
        sentence = "This module has no trainable weights. Choose another mechanism."
        raise InputError("export", sentence)
    return tuple(run.trace.parameters)


_MASKED = frozenset({Mechanism.STACKED, Mechanism.MULTI_HEAD})
"""Mechanisms whose classes in the book always have a mask."""


def mask_names(run: Run) -> tuple[str, ...]:
    """Return the names of the mask buffers in the book's class: one buffer, or one per head."""
    spec = run.trace.spec
    if spec.mask is MaskKind.NONE and mechanism_of(spec) not in _MASKED:
        return ()
    modules = (name.partition("W_query")[0] for name in weight_names(run) if "W_query" in name)
    return tuple(f"{module}mask" for module in dict.fromkeys(modules)) or ("mask",)


def create_mask_buffer(run: Run) -> np.ndarray:
    """Return the mask in the format of the book's buffer: float32 [query, key], 1 if masked."""
    unpadded = replace(run.trace.spec, lengths=())
    return (~cached_allowed_cells(MaskingSpec.from_spec(unpadded), run.trace.query_count)).astype(
        np.float32
    )


def write_npz(
    run: Run, file: BinaryIO, progress: Progress = ignore_progress, document: bytes = b""
) -> None:
    """Write a run as NPZ: an array for each stage, the tokens, the weights and the spec.

    The array of a stage has the name of the stage. In a batch, the first axis of the stages is the
    text. Tokens are [token] or [text, token]; for captured attention, they are [query], and
    ``key_tokens`` is added if the keys are from another text. If the queries are the last tokens of
    the keys, all tokens of the text are written. A NUL in a token is written as ␀, because NumPy
    drops a NUL at the end of a string. The name of a weight is ``parameters/`` followed by its name
    in the book's ``state_dict``. The spec is a JSON string.

    The first entry, ``document``, contains the bytes of the document file, so that the export can
    be reopened. Captured attention has no such entry and is reopened from its arrays. If a text is
    too long to keep its matrices in memory, only the stages before the scores are written.
    """
    counter = ProgressCounter(progress, len(array_names(run)))
    with zipfile.ZipFile(file, "w") as archive:
        if document:
            _write_npy_array(archive, DOCUMENT_MEMBER, np.frombuffer(document, np.uint8))
        for stage in run.trace.stored_stages:  # copies one stage at a time from the GPU
            _write_npy_array(archive, stage.name, run.trace.read(stage.name))
            counter()
        texts = run.key_texts if run.is_continuation else run.texts
        rows = [_replace_nul(text) for text in texts]
        _write_npy_array(archive, "tokens", np.array(rows if len(rows) > 1 else rows[0]))
        if run.key_tokens and run.key_tokens != texts[0]:
            _write_npy_array(archive, "key_tokens", np.array(_replace_nul(run.key_tokens)))
        for name in run.trace.parameters:
            _write_npy_array(archive, f"parameters/{name}", run.trace.read(name))
            counter()
        if run.trace.has_module:
            spec = json.dumps(spec_to_json(run.trace.spec), allow_nan=False)
            _write_npy_array(archive, "spec", np.array(spec))


def _replace_nul(tokens: tuple[str, ...]) -> list[str]:
    return [token.replace("\0", "␀") for token in tokens]


def _write_npy_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
