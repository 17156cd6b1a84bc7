"""The model of a document, with its edits and cut edges. Does not import torch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.captured_attention import MAX_CUT_EDGES, MAX_TOKENS
from visualizer.attention.spec import MAX_VALUES, ModelDtype
from visualizer.format import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LayerAndHead = tuple[int, int]
"""Numbers of a layer in its model and of a head in that layer, from 0."""


MAX_LISTED_HEADS = 6
"""Maximum number of layers or groups of heads that are listed; the others are counted."""
MAX_HEAD_SCALE = 100.0
"""Maximum absolute value of the factor that scales a head."""
MAX_SOURCE_LENGTH = 100_000
"""Maximum number of characters of a text from which heads are patched."""
MAX_SECOND_LENGTH = 100_000
"""Maximum number of characters of a second text."""
MAX_SHOWN_SOURCE = 40
"""Maximum number of characters of a source text that are shown in a list of edits."""


SERVER_SCHEME = "attention://"
"""Prefix of the location of a served model, which is stored in place of a folder."""


def parse_server_address(place: str) -> str:
    """Return the server address from the location of a served model; empty for a folder."""
    return place.removeprefix(SERVER_SCHEME) if place.startswith(SERVER_SCHEME) else ""


def describe_heads(heads: Sequence[LayerAndHead]) -> str:
    """List heads, counted from 1: ``layer 18, heads 4–6, 9; layer 19, head 7``."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head + 1)
    layers = [*by_layer.items()]
    named = [
        f"layer {layer + 1}, {_describe_heads_of_layer(own)}"
        for layer, own in layers[:MAX_LISTED_HEADS]
    ]
    rest = sum(len(own) for _, own in layers[MAX_LISTED_HEADS:])
    return "; ".join(named) + (f" and {rest:,} more" if rest else "")


def _describe_heads_of_layer(heads: Sequence[int]) -> str:
    """List heads of one layer, with ranges for consecutive numbers."""
    if len(heads) == 1:
        return f"head {heads[0]}"
    runs: list[list[int]] = []
    for head in sorted(heads):
        if runs and head == runs[-1][-1] + 1:
            runs[-1].append(head)
        else:
            runs.append([head])
    parts = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"heads {', '.join(parts)}"


class HeadEditKind(StrEnum):
    """Kind of edit of a head's context vectors, which are the head's output to the layer."""

    OFF = "off"
    MEAN = "mean"
    SCALED = "scaled"
    PATCHED = "patched"


class HeadEdit(Struct, frozen=True):
    """Edit of the context vectors of one head.

    Parameters
    ----------
    layer, head : int
        Numbers of the layer and the head in the model, from 0.
    kind : HeadEditKind
        Replacement for the context vectors: zeros, their mean over all queries of the text, a
        multiple of them, or the vectors for another text, token by token. The mean and the vectors
        for the other text are computed without edits.
    factor : float
        Factor of a scaled head; otherwise 0.
    text : str
        The other text of a patched head; otherwise empty.
    """

    layer: int
    head: int
    kind: HeadEditKind = HeadEditKind.OFF
    factor: float = 0.0
    text: str = ""

    @property
    def layer_and_head(self) -> LayerAndHead:
        """The numbers of the layer and the head."""
        return self.layer, self.head

    @property
    def short_description(self) -> str:
        """Short description of the edit."""
        if self.kind is HeadEditKind.SCALED:
            return f"× {self.factor:g}"
        if self.kind is HeadEditKind.PATCHED:
            text = " ".join(self.text.split())
            short = text if len(text) <= MAX_SHOWN_SOURCE else f"{text[:MAX_SHOWN_SOURCE]}…"
            return f"from “{short}”"
        return "off" if self.kind is HeadEditKind.OFF else "mean"


class CutEdges(Struct, frozen=True):
    """Cut edges of one head: their weights are 0, and the other weights of each row sum to 1.

    Parameters
    ----------
    cells : tuple of (query, key)
        The edges, in ascending order. Edges outside the text are ignored.
    """

    layer: int
    head: int
    cells: tuple[tuple[int, int], ...]

    @property
    def layer_and_head(self) -> LayerAndHead:
        """The numbers of the layer and the head."""
        return self.layer, self.head


def describe_edits(edits: Mapping[LayerAndHead, str]) -> str:
    """Describe edits, grouped by kind: ``layer 1, heads 3, 7: off``.

    Parameters
    ----------
    edits : mapping
        As in `ModelSource.edit_descriptions_by_head`.
    """
    alike: dict[str, list[LayerAndHead]] = {}
    for place, becomes in edits.items():
        alike.setdefault(becomes, []).append(place)
    named = [f"{describe_heads(heads)}: {becomes}" for becomes, heads in alike.items()]
    rest = len(named) - MAX_LISTED_HEADS
    return " · ".join(named[:MAX_LISTED_HEADS]) + (f" and {rest:,} more" if rest > 0 else "")


def describe_cuts(cuts: Mapping[LayerAndHead, Sequence[object]]) -> str:
    """Describe cut edges: ``3 edges of layer 18, head 6``."""
    return f"{format_count(sum(map(len, cuts.values())), 'edge')} of {describe_heads([*cuts])}"


class ImageFile(Struct, frozen=True):
    """The image file that a document passes to a vision model.

    Parameters
    ----------
    path : str
        Absolute path on this machine; empty until a file is chosen.
    sha256 : str
        Hexadecimal hash of the file's content when it was chosen; empty until then.
    """

    path: str = ""
    sha256: str = ""

    @property
    def name(self) -> str:
        """Name of the file."""
        return Path(self.path).name


class ModelSource(Struct, frozen=True):
    """Location of a document's model, with the document's edits and additional inputs.

    Parameters
    ----------
    folder : str
        Absolute path of the model's folder on this machine; ``attention://`` with the address
        of the server for a served model.
    fingerprint : str
        Fingerprint of the model's files when the document first used them; see `ModelFolder`.
    edits : tuple of HeadEdit
        Edits, one per head, in ascending order of layer and head.
    cuts : tuple of CutEdges
        Cut edges by head, in ascending order.
    layers : tuple of int
        Numbers, in the model, of the layers with values in the saved document; may be empty.
    second : str
        The second text of a pair, or the decoder's text; empty for none.
    is_chat : bool
        Whether the text is a user message that is put into the tokenizer's chat template.
    part : str
        Path of the shown attention module, if the model has several kinds of attention; empty for
        the first kind, or for that of the decoder if there is a second text.
    image : ImageFile or None
        Input of a vision model, in place of the text; None for text models.
    half_dtype : ModelDtype or None
        The 16-bit type in which the model computes; None for the data type of the document.
    """

    folder: str
    name: str
    fingerprint: str
    edits: tuple[HeadEdit, ...] = ()
    cuts: tuple[CutEdges, ...] = ()
    layers: tuple[int, ...] = ()
    second: str = ""
    is_chat: bool = False
    part: str = ""
    image: ImageFile | None = None
    half_dtype: ModelDtype | None = None

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return Path(self.folder)

    @property
    def is_edited(self) -> bool:
        """Whether there are edits or cut edges."""
        return bool(self.edits or self.cuts)

    @property
    def edits_by_head(self) -> dict[LayerAndHead, HeadEdit]:
        """Edits by layer and head."""
        return {edit.layer_and_head: edit for edit in self.edits}

    @property
    def edit_descriptions_by_head(self) -> dict[LayerAndHead, str]:
        """Short descriptions of the edits, by layer and head."""
        return {edit.layer_and_head: edit.short_description for edit in self.edits}

    @property
    def cut_cells_by_head(self) -> dict[LayerAndHead, tuple[tuple[int, int], ...]]:
        """Queries and keys of cut edges, by layer and head."""
        return {cut.layer_and_head: cut.cells for cut in self.cuts}


def check_edits_and_cuts(source: ModelSource) -> Iterator[tuple[bool, str]]:
    """Check the edits and cut edges of a source from an untrusted file or client.

    Yields
    ------
    tuple of bool and str
        Whether a condition is met, and the subject of the error message if it is not.
    """
    for which, each in (("edits", source.edits), ("cut edges", source.cuts)):
        places = [one.layer_and_head for one in each]
        are_heads = all(0 <= at < MAX_VALUES["heads"] for place in places for at in place)
        yield are_heads and places == sorted({*places}), f"{which} of a model"
    yield all(map(_is_valid_edit, source.edits)), "an edit of a head"
    yield all(map(_has_valid_cells, source.cuts)), "cut edges of a head"
    yield (
        sum(len(cut.cells) for cut in source.cuts) <= MAX_CUT_EDGES,
        f"number of cut edges (at most {MAX_CUT_EDGES:,})",
    )
    yield len(source.second) <= MAX_SECOND_LENGTH, "a second text"


def _is_valid_edit(edit: HeadEdit) -> bool:
    is_scaled, is_patched = (
        edit.kind is kind for kind in (HeadEditKind.SCALED, HeadEditKind.PATCHED)
    )
    is_factor = abs(edit.factor) <= MAX_HEAD_SCALE and (is_scaled or edit.factor == 0)
    return is_factor and len(edit.text) <= MAX_SOURCE_LENGTH and (is_patched or not edit.text)


def _has_valid_cells(cut: CutEdges) -> bool:
    are_places = all(0 <= at < MAX_TOKENS for cell in cut.cells for at in cell)
    return are_places and bool(cut.cells) and [*cut.cells] == sorted({*cut.cells})
