"""Which model reads the text of a document, and what is edited in it. No torch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.captured_attention import MAX_CUT_EDGES, MAX_TOKENS
from visualizer.attention.spec import MAX_VALUES
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

LayerAndHead = tuple[int, int]
"""The number of a layer in its model, and that of a head in it, from 0."""


MAX_LISTED_HEADS = 6
"""At most so many heads are named; of more, how many."""
MAX_HEAD_SCALE = 100.0
"""The largest factor, of either sign, that a head is scaled by."""
MAX_SOURCE_LENGTH = 100_000
"""The most letters of a text that heads are patched from."""
MAX_SECOND_LENGTH = 100_000
"""The most letters of a second text."""
SHORT_SOURCE = 40
"""So many letters of a text that heads are patched from are shown where edits are named."""


SERVER_SCHEME = "attention://"
"""How the place of a model begins that is on a server, in place of a folder."""


def server_of(place: str) -> str:
    """Return the host and the port of a server, of the place of a model that is on one; else ""."""
    return place.removeprefix(SERVER_SCHEME) if place.startswith(SERVER_SCHEME) else ""


def heads_in_words(heads: Sequence[LayerAndHead]) -> str:
    """Name heads, counted from 1: ``layer 18, heads 4–6, 9; layer 19, head 7``."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head + 1)
    layers = [*by_layer.items()]
    named = [
        f"layer {layer + 1}, {_numbers_in_words(own)}" for layer, own in layers[:MAX_LISTED_HEADS]
    ]
    rest = sum(len(own) for _, own in layers[MAX_LISTED_HEADS:])
    return "; ".join(named) + (f" and {rest:,} more" if rest else "")


def _numbers_in_words(heads: Sequence[int]) -> str:
    """Name heads of one layer by their numbers, those that follow one another together."""
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
    """What becomes of a head's context vectors: what it hands on to its layer."""

    OFF = "off"
    MEAN = "mean"
    SCALED = "scaled"
    PATCHED = "patched"


class HeadEdit(Struct, frozen=True):
    """What becomes of the context vectors of one head.

    Parameters
    ----------
    layer, head : int
        Their numbers in the model, from 0.
    kind : HeadEditKind
        Zeros, the mean over all queries of the text, a multiple, or those of another text, token by
        token. Mean and those of another text are of the model without edits.
    factor : float
        What they are multiplied with, of a scaled head; else 0.
    text : str
        The other text, of a patched head; else empty.
    """

    layer: int
    head: int
    kind: HeadEditKind = HeadEditKind.OFF
    factor: float = 0.0
    text: str = ""

    @property
    def place(self) -> LayerAndHead:
        """The numbers of the layer and the head."""
        return self.layer, self.head

    @property
    def becomes(self) -> str:
        """What becomes of the head, in words."""
        if self.kind is HeadEditKind.SCALED:
            return f"× {self.factor:g}"
        if self.kind is HeadEditKind.PATCHED:
            text = " ".join(self.text.split())
            short = text if len(text) <= SHORT_SOURCE else f"{text[:SHORT_SOURCE]}…"
            return f"from “{short}”"
        return "off" if self.kind is HeadEditKind.OFF else "its mean"


class CutEdges(Struct, frozen=True):
    """Edges of attention of one head that are cut: their weights are 0, and the rest sums to 1.

    Parameters
    ----------
    cells : tuple of (query, key)
        Ascending. Those that a text does not have act on nothing.
    """

    layer: int
    head: int
    cells: tuple[tuple[int, int], ...]

    @property
    def place(self) -> LayerAndHead:
        """The numbers of the layer and the head."""
        return self.layer, self.head


def edits_in_words(edits: Mapping[LayerAndHead, str]) -> str:
    """Name what becomes of heads, those alike together: ``layer 1, heads 3, 7: off``.

    Parameters
    ----------
    edits : mapping
        As `ModelSource.becomes`.
    """
    alike: dict[str, list[LayerAndHead]] = {}
    for place, becomes in edits.items():
        alike.setdefault(becomes, []).append(place)
    named = [f"{heads_in_words(heads)}: {becomes}" for becomes, heads in alike.items()]
    rest = len(named) - MAX_LISTED_HEADS
    return " · ".join(named[:MAX_LISTED_HEADS]) + (f" and {rest:,} more" if rest > 0 else "")


def cuts_in_words(cuts: Mapping[LayerAndHead, Sequence[object]]) -> str:
    """Say how many edges of which heads are cut: ``3 edges of layer 18, head 6``."""
    return f"{format_count(sum(map(len, cuts.values())), 'edge')} of {heads_in_words([*cuts])}"


def heads_off(heads: Iterable[LayerAndHead]) -> tuple[HeadEdit, ...]:
    """Return the edits that switch heads off."""
    return tuple(HeadEdit(*place) for place in sorted({*heads}))


class ImageFile(Struct, frozen=True):
    """An image that a vision model reads.

    Parameters
    ----------
    path : str
        The absolute path of its file on this machine; empty until one is chosen.
    sha256 : str
        The hash of the file's content when it was chosen, in hexadecimal; empty likewise.
    """

    path: str = ""
    sha256: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return Path(self.path).name


class ModelSource(Struct, frozen=True):
    """A model by its folder, and what is changed in it.

    Parameters
    ----------
    folder : str
        The absolute path of its folder on this machine; of a model on a server ``attention://`` and
        the server's host and port.
    name : str
        What it is called.
    fingerprint : str
        That of its files when the document began to use them; see `ModelFolder`.
    edits : tuple of HeadEdit
        What becomes of heads, one a head, ascending by layer and head.
    cuts : tuple of CutEdges
        Edges of attention that are cut, by head, ascending.
    layers : tuple of int
        The numbers in the model of the layers that a saved document has numbers of; empty where it
        has none.
    second : str
        The second text of a pair; of a model with a decoder, what that reads. Empty for none.
    is_chat : bool
        Whether the text is given as a user's message, by the chat template of the tokenizer.
    part : str
        Which attention is shown, by where it is in the model, of several kinds; empty for the first
        one, or for the decoder's where that reads a second text.
    image : ImageFile or None
        What a vision model reads, in place of the text; None of a model that reads texts.
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

    @property
    def path(self) -> Path:
        """The path of the folder."""
        return Path(self.folder)

    @property
    def is_edited(self) -> bool:
        """Whether anything is changed in it."""
        return bool(self.edits or self.cuts)

    @property
    def edited(self) -> dict[LayerAndHead, HeadEdit]:
        """The edits of heads by their places."""
        return {edit.place: edit for edit in self.edits}

    @property
    def becomes(self) -> dict[LayerAndHead, str]:
        """What becomes of the heads that are edited, in words."""
        return {edit.place: edit.becomes for edit in self.edits}

    @property
    def cut_cells(self) -> dict[LayerAndHead, tuple[tuple[int, int], ...]]:
        """The queries and keys of cut edges, by the places of their heads."""
        return {cut.place: cut.cells for cut in self.cuts}


def claims_of_changes(source: ModelSource) -> Iterator[tuple[bool, str]]:
    """Yield what must hold of the edits and cuts of a source that somebody else has written.

    Yields
    ------
    tuple of bool and str
        Whether it holds, and the subject of the message if it does not.
    """
    for which, each in (("edits", source.edits), ("cut edges", source.cuts)):
        places = [one.place for one in each]
        are_heads = all(0 <= at < MAX_VALUES["heads"] for place in places for at in place)
        yield are_heads and places == sorted({*places}), f"{which} of a model"
    yield all(map(_is_edit, source.edits)), "an edit of a head"
    yield all(map(_are_cells, source.cuts)), "cut edges of a head"
    yield sum(len(cut.cells) for cut in source.cuts) <= MAX_CUT_EDGES, "so many cut edges"
    yield len(source.second) <= MAX_SECOND_LENGTH, "a second text"


def _is_edit(edit: HeadEdit) -> bool:
    is_scaled, is_patched = (
        edit.kind is kind for kind in (HeadEditKind.SCALED, HeadEditKind.PATCHED)
    )
    is_factor = abs(edit.factor) <= MAX_HEAD_SCALE and (is_scaled or edit.factor == 0)
    return is_factor and len(edit.text) <= MAX_SOURCE_LENGTH and (is_patched or not edit.text)


def _are_cells(cut: CutEdges) -> bool:
    are_places = all(0 <= at < MAX_TOKENS for cell in cut.cells for at in cell)
    return are_places and bool(cut.cells) and [*cut.cells] == sorted({*cut.cells})
