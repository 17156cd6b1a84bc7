"""A layer of a trained model as a document of the attention module that it computes; no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from visualizer.attention.spec import (
    OWN_BIASES,
    OWN_LAYERS,
    Arrangement,
    AttentionSpec,
    Device,
    Dtype,
    Mask,
    Mode,
    Normalisation,
    NumberMatrix,
    Position,
    Projection,
    Route,
    Scale,
)
from visualizer.documents.document_file import SavedDocument
from visualizer.language.tokenizers import Tokenizer, tokenize
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from visualizer.language.wire_format import Message

_KINDS = {
    "projection": Projection,
    "arrangement": Arrangement,
    "scale": Scale,
    "normalisation": Normalisation,
    "mask": Mask,
}


def spec_of_layer(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> AttentionSpec:
    """Make the spec that computes a layer's attention, with its input and weights as its own.

    Parameters
    ----------
    values, arrays : mapping
        As `visualizer.language.probe.layer` gives them; choices may be their names.
    """
    fields: dict[str, Any] = dict(values)
    fields.update({name: kind(values[name]) for name, kind in _KINDS.items()})
    weights = {name: NumberMatrix.of(array) for name, array in arrays.items() if name != "input"}
    return AttentionSpec(
        **fields,
        mode=Mode.EVAL,
        own_input=NumberMatrix.of(arrays["input"]),
        own_weights=tuple(weights.items()),
    )


_CHOICES = {
    "projection": Projection,
    "arrangement": Arrangement,
    "position": Position,
    "scale": Scale,
    "normalisation": Normalisation,
    "mask": Mask,
    "route": Route,
    "mode": Mode,
    "dtype": Dtype,
    "device": Device,
}
"""Of the fields of a spec that are named on the way."""


def saved_of(
    message: Message,
    tokenizer: Tokenizer,
    head: int = 0,
    cell: tuple[int, int] | None = None,
    run: str = "",
) -> SavedDocument:
    """Make a document of what a training answered to "layer", with a head of it in sight.

    Its text are the tokens that were read, its vectors and weights the model's.

    Parameters
    ----------
    cell : tuple of (query, key), optional
        Whose weight is pinned.
    run : str
        Whose layer it is: the document is called by its name, the layer and the step.
    """
    values: dict[str, Any] = {
        name: _CHOICES[name](value) if name in _CHOICES else value
        for name, value in message.values["spec"].items()
    }
    arrays = message.arrays
    weights = tuple(
        (name, NumberMatrix.of(_matrix(arrays[name])))
        for name in (*OWN_LAYERS, *OWN_BIASES)
        if name in arrays
    )
    given = NumberMatrix.of(arrays["input"])
    spec = replace(AttentionSpec(**values), own_input=given, own_weights=weights)
    text, tokenizer = _text(tuple(message.values["tokens"]), tokenizer)
    document = Document(text, tokenizer, spec=spec)
    alone = frozenset({head}) if spec.heads > 1 else None
    pinned = Cell("weights", (head, *cell)) if cell else None
    said = message.values
    title = f"{run}, layer {said['layer'] + 1}, step {said['step']:,}" if run else ""
    return SavedDocument(document, View(pinned=pinned, heads=alone), title=title)


def _matrix(array: np.ndarray) -> Any:
    return array.reshape(1, -1) if array.ndim == 1 else array


def _text(tokens: tuple[str, ...], tokenizer: Tokenizer) -> tuple[str, Tokenizer]:
    """Write tokens so that they are read again as they are."""
    text = (" " if tokenizer is Tokenizer.WORDS else "").join(tokens)
    assert tokenize(text, tokenizer) == tokens
    return text, tokenizer
