"""Converts an attention layer of a trained model, or a recorded snapshot, to a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.roles import Role
from visualizer.attention.settings import SETTINGS_BY_NAME
from visualizer.attention.spec import OWN_BIASES, OWN_LAYERS, AttentionSpec, NumberMatrix
from visualizer.documents.document_file import SavedDocument
from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.provenance import describe_lab_provenance
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.language.wire_format import Message


def create_layer_document(
    message: Message,
    tokenizer: TokenizerKind,
    head: int = 0,
    cell: tuple[int, int] | None = None,
    run: str = "",
) -> SavedDocument:
    """Create a document that shows one head, from a training process's response to "layer".

    Its text consists of the tokens of the probe; its vectors and weights are those of the model.

    Parameters
    ----------
    cell : tuple of (query, key), optional
        The pinned cell.
    run : str
        The run's name; the document's title consists of this name, the layer and the step.
    """
    values = {
        name: SETTINGS_BY_NAME[name].convert_value(value)
        for name, value in message.values["spec"].items()
    }
    fields, arrays = message.values, message.arrays
    weights = tuple(
        (name, NumberMatrix.from_array(arrays[name]))
        for name in (*OWN_LAYERS, *OWN_BIASES)
        if name in arrays
    )
    own_input = NumberMatrix.from_array(arrays[Role.INPUT])
    spec = replace(AttentionSpec(**values), own_input=own_input, own_weights=weights)
    text = Vocabulary((), tokenizer).join_tokens(fields["tokens"])
    assert tokenize(text, tokenizer) == tuple(fields["tokens"])
    shown = f"layer {fields['layer'] + 1}"
    source = describe_lab_provenance(fields["step"], run, shown)
    document = Document(text, tokenizer, spec=spec, weights_source=source)
    shown_heads = frozenset({head}) if spec.heads > 1 else None
    pinned = Cell(Role.WEIGHTS, (head, *cell)) if cell else None
    title = f"{run}, {shown}, step {fields['step']:,}" if run else ""
    return SavedDocument(document, View(pinned=pinned, heads=shown_heads), title=title)


def create_recorded_document(
    message: Message, head: int = 0, cell: tuple[int, int] | None = None, run: str = ""
) -> SavedDocument:
    """Create a document of all layers of a recorded snapshot, which shows one layer and head.

    Parameters
    ----------
    message : Message
        The response of a `RecordingServer` to "layer".
    cell : tuple of (query, key), optional
        The pinned cell.
    run : str
        The run's name, for the title.
    """
    fields, tokens = message.values, tuple(message.values["tokens"])
    name = f"{run}, step {fields['step']:,}"
    captured = CapturedAttention.from_array(name, message.arrays[Role.WEIGHTS], tokens, tokens)
    shown_heads = frozenset({head}) if captured.heads > 1 else None
    pinned = Cell(Role.WEIGHTS, (head, *cell)) if cell else None
    view = View(pinned=pinned, heads=shown_heads, layer=fields["layer"])
    return SavedDocument(Document().with_setting("captured", captured), view, title=name)
