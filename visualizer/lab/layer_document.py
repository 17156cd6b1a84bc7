"""Converts a layer of a trained model to a document of its attention module; no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.roles import Role
from visualizer.attention.settings import SETTINGS_BY_NAME
from visualizer.attention.spec import OWN_BIASES, OWN_LAYERS, AttentionSpec, NumberMatrix
from visualizer.documents.document_file import SavedDocument
from visualizer.language.tokenizers import TokenizerKind, tokenize
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.provenance import describe_lab_provenance
from visualizer.session.view import View

if TYPE_CHECKING:
    import numpy as np

    from visualizer.language.wire_format import Message


def create_layer_document(
    message: Message,
    tokenizer: TokenizerKind,
    head: int = 0,
    cell: tuple[int, int] | None = None,
    run: str = "",
) -> SavedDocument:
    """Create a document from a training process's answer to "layer", showing one head.

    Its text consists of the tokens of the probe; its vectors and weights are the model's.

    Parameters
    ----------
    cell : tuple of (query, key), optional
        The pinned cell.
    run : str
        The run's name; the document's title consists of it, the layer and the step.
    """
    values = {
        name: SETTINGS_BY_NAME[name].read(value) for name, value in message.values["spec"].items()
    }
    arrays = message.arrays
    weights = tuple(
        (name, NumberMatrix.of(_as_matrix(arrays[name])))
        for name in (*OWN_LAYERS, *OWN_BIASES)
        if name in arrays
    )
    given = NumberMatrix.of(arrays[Role.INPUT])
    spec = replace(AttentionSpec(**values), own_input=given, own_weights=weights)
    text, tokenizer = _join_tokens(tuple(message.values["tokens"]), tokenizer)
    fields = message.values
    shown = f"layer {fields['layer'] + 1}"
    source = describe_lab_provenance(fields["step"], run, shown)
    document = Document(text, tokenizer, spec=spec, weights_source=source)
    shown_heads = frozenset({head}) if spec.heads > 1 else None
    pinned = Cell(Role.WEIGHTS, (head, *cell)) if cell else None
    title = f"{run}, {shown}, step {fields['step']:,}" if run else ""
    return SavedDocument(document, View(pinned=pinned, heads=shown_heads), title=title)


def _as_matrix(array: np.ndarray) -> Any:
    return array.reshape(1, -1) if array.ndim == 1 else array


def _join_tokens(tokens: tuple[str, ...], tokenizer: TokenizerKind) -> tuple[str, TokenizerKind]:
    """Join tokens so that the tokenizer splits the text into the same tokens."""
    text = (" " if tokenizer is TokenizerKind.WORDS else "").join(tokens)
    assert tokenize(text, tokenizer) == tokens
    return text, tokenizer
