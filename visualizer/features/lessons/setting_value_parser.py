"""Parser of a lesson's settings: converts TOML values to the values of document settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from visualizer.attention.settings import SETTINGS_BY_NAME, InvalidValueError, find_choice
from visualizer.attention.spec import (
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    BooleanMatrix,
    NumberMatrix,
)
from visualizer.features.lessons.claim_check import InvalidLessonValueError
from visualizer.format import shorten
from visualizer.language.tokenizers import Vocabulary
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

    from visualizer.features.lessons.claim_check import PrintedNumbers

TYPE_NAMES: dict[type, str] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
MAX_NUMBER = 2**63
ENCODING_NAMES = ("ids", "one-hot")
"""Names of the encodings that compute vectors from the tokens of the text."""
_DERIVED = ("mechanism", "causal", "text", "tokenizer", "lines")
SETTING_NAMES = (
    *_DERIVED,
    *(name for name in AttentionSpec.__struct_fields__ if name != "lengths"),
)


def is_of_type(value: object, kind: type) -> bool:
    """Whether a value of a file has a type; a boolean does not count as a number.

    An integer too large for a float does not count as a float.
    """
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < MAX_NUMBER
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def parse_setting_value(
    name: str, given: object, printed: PrintedNumbers, document: Document
) -> Any:
    """Convert a setting's TOML value to the value that `Document.set` expects.

    Parameters
    ----------
    document : Document
        The document so far; vectors can be computed from its text.

    Raises
    ------
    InvalidLessonValueError
        If the setting is unknown or does not accept the value.
    """
    if name not in SETTING_NAMES:
        raise InvalidLessonValueError(f"There is no setting “{name}”.")
    if name == "own_input" and isinstance(given, str):
        return _encode_tokens(given, document)
    if name in _MATRICES:
        return _MATRICES[name](given, printed)
    try:
        if name in SETTINGS_BY_NAME:
            return SETTINGS_BY_NAME[name].read(given)
        if name == "text":
            return _read_text(given)
        kind: type[StrEnum] = type(Document().get(name))
        return find_choice([*kind], given)
    except InvalidValueError as invalid:
        raise InvalidLessonValueError(invalid.sentence(f"“{name}”", _quote_value(given))) from None


def _read_text(given: object) -> str:
    if not isinstance(given, str):
        raise InvalidValueError(f"must be {TYPE_NAMES[str]}")
    return given


def _quote_value(given: object) -> str:
    return f"“{shorten(given)}”" if isinstance(given, str) else shorten(str(given).lower())


def _encode_tokens(encoding: str, document: Document) -> NumberMatrix:
    """Encode each token as its id in the sorted vocabulary of the text, or as a one-hot row."""
    if encoding not in ENCODING_NAMES:
        raise InvalidLessonValueError(
            f"“own_input” must be a matrix, or one of {', '.join(ENCODING_NAMES)}."
        )
    (tokens, *_) = document.tokens() or ((),)
    vocabulary = Vocabulary.of(tokens, document.tokenizer)
    ids = vocabulary.encode(tokens)
    return NumberMatrix.of(ids[:, None] if encoding == "ids" else np.eye(len(vocabulary))[ids])


def parse_matrix(given: object, printed: PrintedNumbers) -> np.ndarray:
    """Read a matrix: rows of numbers, or the section and name of printed numbers."""
    if isinstance(given, dict):
        if given.keys() != {"section", "name"}:
            raise InvalidLessonValueError("A printed matrix must have a “section” and a “name”.")
        *_, found = printed.find(str(given["section"]), str(given["name"]))
        if found.ndim != 2:
            raise InvalidLessonValueError(f"“{given['name']}” is not a matrix.")
        return found
    rows = given if isinstance(given, list) and all(isinstance(row, list) for row in given) else []
    widths = {len(row) for row in rows}
    is_all = all(is_of_type(cell, float) or is_of_type(cell, bool) for row in rows for cell in row)
    if len(widths) != 1 or 0 in widths or not is_all:
        raise InvalidLessonValueError(
            "A matrix must be a list of rows of numbers, all of the same length."
        )
    return np.array(rows, dtype=float)


def _boolean_matrix(given: object, printed: PrintedNumbers) -> BooleanMatrix:
    return BooleanMatrix.of(parse_matrix(given, printed) > 0)


def _number_matrix(given: object, printed: PrintedNumbers) -> NumberMatrix:
    return NumberMatrix.of(parse_matrix(given, printed))


def _weight_matrices(
    given: object, printed: PrintedNumbers
) -> tuple[tuple[str, NumberMatrix], ...]:
    names = (*OWN_LAYERS, *OWN_BIASES)
    if not isinstance(given, dict) or not given.keys() <= set(names):
        raise InvalidLessonValueError(
            f"“own_weights” must be a table with one or more of: {', '.join(names)}."
        )
    return tuple((name, _number_matrix(given[name], printed)) for name in names if name in given)


_MATRICES: dict[str, Callable[[object, PrintedNumbers], Any]] = {
    "own_mask": _boolean_matrix,
    "own_kept": _boolean_matrix,
    "own_input": _number_matrix,
    "own_weights": _weight_matrices,
}
