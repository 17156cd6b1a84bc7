"""Reader and writer of number blocks in the clipboard format of spreadsheets.

Spreadsheets separate columns by tabs; number files use commas or semicolons. A comma is also read
as the decimal mark if the text is unambiguous.
"""

from __future__ import annotations

import csv
import re

import numpy as np

from visualizer.errors import InputError
from visualizer.format import format_count, shorten

MAX_CELLS = 20_000
"""Maximum number of cells that can be read or written without a noticeable delay."""

_MAX_NUMBER_LENGTH = 30
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+(?:e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_LIKE_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}", re.ASCII)


def parse_number(text: str) -> float:
    """Parse one number that the user entered, with a decimal point or a decimal comma.

    Raises
    ------
    InputError
        If the text is not a number; the message gives the reason.
    """
    return float(_parse_cells([[text]])[0, 0])


def parse_block(text: str) -> np.ndarray:
    """Parse a block of numbers.

    Returns
    -------
    numpy.ndarray
        float64 [row, column].

    Raises
    ------
    InputError
        If a cell is not a number, or rows differ in length; the message names the row.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    if not text.strip():
        raise _clipboard_error("The clipboard contains no numbers.")
    divider = (
        _detect_column_separator(text) if len(text) <= MAX_CELLS * _MAX_NUMBER_LENGTH else "\t"
    )
    if (
        len(text) > MAX_CELLS * _MAX_NUMBER_LENGTH
        or text.count(divider) + text.count("\n") >= MAX_CELLS
    ):
        raise _clipboard_error(f"Too many numbers. Paste at most {MAX_CELLS:,} at once.")
    lines = text.split("\n")
    try:
        rows = [row or [""] for row in csv.reader(lines, delimiter=divider)]
    except csv.Error as error:
        raise _clipboard_error("The clipboard contains text that is not a number.") from error
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            counts = (
                f"Row 1 has {format_count(len(rows[0]), 'cell')}, and row {number} has {len(row)}."
            )
            raise _clipboard_error(f"All rows must have the same number of cells. {counts}")
    return _parse_cells(rows)


def format_block(array: np.ndarray) -> str:
    """Format numbers [row, column] for spreadsheets, with tabs between columns.

    Raises
    ------
    InputError
        If there are more than `MAX_CELLS` numbers.
    """
    if array.size > MAX_CELLS:
        said = f"Cannot copy {array.size:,} numbers at once."
        raise _clipboard_error(f"{said} Select at most {MAX_CELLS:,}, or export the numbers.")
    return "\n".join("\t".join(map(str, row)) for row in array)


def _clipboard_error(sentence: str) -> InputError:
    return InputError("numbers", sentence)


# --------------------------------------------------------------------------- column separator


def _detect_column_separator(text: str) -> str:
    bare = re.sub(r'"[^"\n]*"', "quoted", text)
    for divider in "\t;":
        if divider in bare:
            return divider
    return "," if "," in bare and _are_commas_separators(bare) else "\t"


def _are_commas_separators(text: str) -> bool:
    """Return whether commas separate numbers rather than mark decimals."""
    lines = [_normalize_cell(line) for line in text.split("\n")]
    with_comma = [line for line in lines if "," in line]
    if not all(_WITH_COMMA.fullmatch(line) for line in with_comma):
        return True
    if any("." in line for line in lines):
        return True
    if len(with_comma) < len(lines) or any(re.search(r",0\d", line) for line in with_comma):
        return False
    said = f"“{shorten(with_comma[0])}” is ambiguous: it could be one number or two."
    raise _clipboard_error(f"{said} Use a decimal point, or separate numbers with “;”.")


# ---------------------------------------------------------------------------------------- cells


def _parse_cells(rows: list[list[str]]) -> np.ndarray:
    cells = [[_normalize_cell(cell) for cell in row] for row in rows]
    with_comma = [cell for row in cells for cell in row if _WITH_COMMA.fullmatch(cell)]
    has_point = any("." in cell for row in cells for cell in row)
    is_decimal = any(not _LIKE_THOUSANDS.fullmatch(cell) for cell in with_comma) and not has_point
    numbers = np.empty((len(cells), len(cells[0])))
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            pointed = cell.replace(",", ".") if is_decimal and cell in with_comma else cell
            numbers[row, column] = float(pointed) if _NUMBER.fullmatch(pointed) else np.nan
    wrong = np.argwhere(~np.isfinite(numbers))
    if len(wrong):
        row, column = wrong[0]
        said = _describe_cell_error(rows[row][column].strip())
        is_one = numbers.size == 1
        raise _clipboard_error(said if is_one else f"Row {row + 1}, column {column + 1}: {said}")
    return numbers


def _normalize_cell(cell: str) -> str:
    return cell.strip().replace("−", "-")


def _describe_cell_error(cell: str) -> str:
    said = f"“{shorten(cell)}”"
    plain = _normalize_cell(cell)
    if not cell:
        return "The cell is empty. Enter a number."
    if _NUMBER.fullmatch(plain):
        return f"{said} is out of range for a 64-bit float."
    if _LIKE_THOUSANDS.fullmatch(plain):
        return f"{said} is ambiguous. Use a decimal point and no thousands separator."
    return f"{said} is not a number."
