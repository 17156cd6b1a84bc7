"""Converts notebook arguments to documents and figure settings."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from visualizer.api.keyword_argument_types import Choice, Look, Settings
from visualizer.attention.spec import (
    OWN_LAYERS,
    Arrangement,
    AttentionSpec,
    BooleanMatrix,
    NumberMatrix,
)
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.option_parsing import figure_settings
from visualizer.session.document import Document
from visualizer.session.document_from_texts_and_settings import document_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from visualizer.export.figure_settings import FigureSettings


_NAMES = {"embedding_size": "d_in", "output_size": "d_out", "own_mask": "painted"}
"""Settings with another name in a document."""


def figure_settings_of(look: Look) -> FigureSettings:
    """Return the settings of a figure.

    Raises
    ------
    InputError
        When such a figure is impossible.
    """
    unknown = sorted(look.keys() - Look.__annotations__.keys())
    if unknown:
        known = ", ".join(Look.__annotations__)
        raise InputError(unknown[0], f"A figure has no “{unknown[0]}”. It has {known}.")
    return figure_settings(
        look.get("width"),
        layout=_choice("layout", FigureExtent, look.get("layout", FigureExtent.SHOWN)),
        theme=_choice("theme", FigurePaper, look["theme"]) if "theme" in look else None,
        dpi=look.get("dpi"),
        title=look.get("title", ""),
        has_caption=look.get("caption", True),
    )


def _choice(field: str, kind: type[Choice], value: str) -> Choice:
    if value not in list(kind):
        raise InputError(field, f"{field} is one of {', '.join(kind)}, and not {value!r}.")
    return kind(value)


def attention_document_of(
    text: str | Sequence[str] | None,
    vectors: ArrayLike | None,
    weights: Mapping[str, ArrayLike],
    settings: Settings,
) -> Document:
    """Make the document of the arguments of `visualizer.attend`.

    Raises
    ------
    InputError
        When an argument is invalid.
    """
    chosen = dict(_setting(name, each) for name, each in settings.items() if each is not None)
    texts = [text] if isinstance(text, str) else list(text or ())
    own = {name: _matrix("own_weights", name, each) for name, each in weights.items()}
    if vectors is not None:
        chosen["own_input"] = given = _matrix("own_input", "vectors", vectors)
        chosen.setdefault("d_in", given.columns)
        texts = texts or [" ".join(str(place + 1) for place in range(given.rows))]
    document = document_of([text_of(each) for each in texts], chosen)
    return replace(document, spec=_with_own(document.spec, own, chosen))


def _setting(name: str, value: Any) -> tuple[str, object]:
    """Return a setting's name in a document, and its value in its type."""
    if name not in Settings.__annotations__:
        known = ", ".join(Settings.__annotations__)
        raise InputError(name, f"There is no setting “{name}”. There are {known}.")
    own = _NAMES.get(name, name)
    if name in {"own_mask", "own_kept"}:
        return own, BooleanMatrix.of(_array(name, name, value, np.bool_))
    kind = type(Document().get(own))
    try:
        return own, _typed(kind, value)
    except (TypeError, ValueError) as error:
        takes = {bool: "True or False", int: "a whole number", float: "a number"}.get(kind)
        takes = takes or f"one of {', '.join(each.value for each in kind)}"
        raise InputError(own, f"{name} is {takes}, and not {value!r}.") from error


def _typed(kind: type, value: Any) -> object:
    if issubclass(kind, bool):
        if value not in (False, True):
            raise ValueError
        return bool(value)
    if issubclass(kind, Enum):
        return kind(value)
    return index(value) if issubclass(kind, int) else float(value)


def _matrix(field: str, name: str, values: ArrayLike) -> NumberMatrix:
    numbers = _array(field, name, values, np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(field, f"“{name}” has numbers that are not finite.")
    return NumberMatrix.of(numbers)


def _array(field: str, name: str, values: Any, dtype: type[np.generic]) -> np.ndarray:
    if hasattr(values, "detach"):  # may require grad or be on a GPU
        values = values.detach().cpu()
    try:
        array = np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(field, f"“{name}” is no matrix of numbers: {error}.") from error
    if array.ndim != 2 or not array.size:
        shape = " × ".join(map(str, array.shape)) or "a single number"
        raise InputError(field, f"“{name}” takes a matrix of rows and columns, and is {shape}.")
    return array


def _with_own(
    spec: AttentionSpec, own: Mapping[str, NumberMatrix], chosen: Mapping[str, object]
) -> AttentionSpec:
    """Add own weights to a spec, in their order, with their sizes where none are given."""
    unknown = [name for name in own if name not in OWN_LAYERS]
    if unknown:
        sentence = f"There are no weights “{unknown[0]}”, only {', '.join(OWN_LAYERS)}."
        raise InputError("own_weights", sentence)
    spec = replace(spec, own_weights=tuple((name, own[name]) for name in OWN_LAYERS if name in own))
    for name, matrix in own.items():
        share = spec.heads if spec.arrangement is Arrangement.STACKED else 1
        if "d_out" not in chosen:
            spec = replace(spec, d_out=matrix.columns // share)
        if "d_in" not in chosen and name != "W_output":
            spec = replace(spec, d_in=matrix.rows)
    return spec
