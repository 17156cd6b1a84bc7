"""Which token a model expects next, with what is edited in it and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.language.tokenizers import visible
from visualizer.models.model_source import (
    HeadEdit,
    HeadEditKind,
    edits_in_words,
    heads_in_words,
)
from visualizer.number_format import format_share, shorten
from visualizer.session.message_without_model_reading import why_unread
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.model_reading import NextToken
    from visualizer.errors import InputError
    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.session.resolved_view import Resolved

MODEL_REQUIRED = "Open a model (File > Open a model…) to see which token it expects next."
HOW = (
    "What a head hands on to its layer is replaced in the model itself: by zeros, by its mean over "
    "the text, by a multiple, or token by token by what it hands on in another text. All layers "
    "after it read what is left."
)
HOW_WITH_IMAGE = (
    "What a head hands on to its layer is replaced in the model itself: by zeros, by its mean over "
    "the image, or by a multiple. All layers after it read what is left."
)
ABLATION_UNAVAILABLE = "Heads of this model cannot be edited one by one."
MAX_LISTED_CUT_ROWS, MAX_LISTED_CUT_KEYS = 4, 3
"""At most so many rows with cut edges are named, and so many keys of each."""
EDIT_FIELDS = ("edits", "cuts")
"""The fields of errors of what is edited in a model."""


class NextTokenPanel(Struct, frozen=True):
    """The Next token pane.

    Parameters
    ----------
    rows : tuple of NextToken
        The most probable tokens, the most probable with the heads as they are now first.
    message : str
        Why there are none; empty where there are.
    edits : mapping
        What becomes of the heads that are edited, in words.
    cuts : tuple of str
        What is cut, as sentences.
    is_edited : bool
        Whether the rows are those of an edited model.
    heads : tuple of LayerAndHead
        The heads that a choice edits: those that are shown, or that of the pinned cell.
    edit : HeadEdit or None
        What becomes of the first of them.
    is_mixed : bool
        Whether something else becomes of the others.
    largest_changes : tuple of NextToken
        The tokens whose probability the edits have changed most.
    problem : str
        Why the edits cannot be made, as a sentence.
    hint : str
        What editing does, or why it cannot be done.
    reads_image : bool
        Whether the model reads an image, so that no head is patched from another text.
    """

    rows: tuple[NextToken, ...] = ()
    message: str = MODEL_REQUIRED
    edits: Mapping[LayerAndHead, str] = {}
    cuts: tuple[str, ...] = ()
    is_edited: bool = False
    heads: tuple[LayerAndHead, ...] = ()
    edit: HeadEdit | None = None
    is_mixed: bool = False
    largest_changes: tuple[NextToken, ...] = ()
    problem: str = ""
    hint: str = ""
    reads_image: bool = False

    @property
    def head(self) -> LayerAndHead | None:
        """The only head that a choice edits; None where it edits several."""
        return self.heads[0] if len(self.heads) == 1 else None

    @property
    def is_head_edited(self) -> bool:
        """Whether anything becomes of the only head."""
        return self.edit is not None and self.head is not None

    @property
    def can_take_back(self) -> bool:
        """Whether anything is edited."""
        return bool(self.edits or self.cuts)

    @property
    def kind(self) -> HeadEditKind | None:
        """What becomes of the heads; None where nothing does, or not the same."""
        return self.edit.kind if self.edit and not self.is_mixed else None

    @property
    def heads_in_words(self) -> str:
        """The heads that a choice edits."""
        words = heads_in_words(self.heads)
        return words[:1].upper() + words[1:]

    @property
    def edits_in_words(self) -> tuple[str, ...]:
        """All edits, as lines."""
        edits = (f"Edited: {edits_in_words(self.edits)}.",) if self.edits else ()
        return (*edits, *self.cuts)

    @property
    def changes_in_words(self) -> str:
        """The largest changes of probability."""
        said = [
            f"“{row.token}” {format_share(row.probability_of_all_heads)} → "
            f"{format_share(row.probability)}"
            for row in self.largest_changes
        ]
        return f"Changed most: {', '.join(said)}." if said else ""

    @property
    def in_words(self) -> str:
        """The rows as sentences, for screen readers."""
        if not self.rows:
            return self.message
        said = []
        for row in self.rows:
            before = f", without edits {format_share(row.probability_of_all_heads)}"
            all_heads = before if self.is_edited else ""
            said.append(f"“{row.token}” {format_share(row.probability)}{all_heads}")
        return "; ".join(said) + "."


NEXT_TOKEN: PanelId[NextTokenPanel] = PanelId("Next token")


def present_next_token(resolved: Resolved, refused: InputError | None = None) -> NextTokenPanel:
    """Present what the model that reads the text expects next.

    Parameters
    ----------
    refused : InputError, optional
        Why the document's numbers could not be computed.
    """
    reading, model = resolved.run.reading, resolved.document.model
    if model is None:
        return NextTokenPanel()
    cuts = _cuts(model, resolved.run.texts[0])
    if reading is None:
        message = why_unread(resolved.document, refused)
        return NextTokenPanel(message=message, edits=model.becomes, cuts=cuts)
    rows = sorted(reading.next_tokens, key=lambda row: -row.probability)
    heads = _heads(resolved, reading.layers) if reading.are_heads_switchable else ()
    edit, is_mixed = _edit(model, heads)
    return NextTokenPanel(
        tuple(rows),
        reading.no_next_token,
        model.becomes,
        cuts,
        reading.is_edited,
        heads,
        edit,
        is_mixed,
        reading.largest_changes,
        refused.sentence if refused and refused.field in EDIT_FIELDS else "",
        _hint(model) if reading.are_heads_switchable else ABLATION_UNAVAILABLE,
        model.image is not None,
    )


def _hint(model: ModelSource) -> str:
    return HOW if model.image is None else HOW_WITH_IMAGE


def _cuts(model: ModelSource, tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Say which token no longer reads which, a sentence for each head and query."""
    said = []
    for cut in model.cuts:
        keys: dict[int, list[int]] = {}
        for query, key in cut.cells:
            if max(query, key) < len(tokens):
                keys.setdefault(query, []).append(key)
        where = heads_in_words((cut.place,))
        said += [
            f"Cut: {where}: {_token(tokens, query)} no longer reads {_tokens(tokens, found)}."
            for query, found in keys.items()
        ]
    rest = said[MAX_LISTED_CUT_ROWS:]
    return (
        *said[:MAX_LISTED_CUT_ROWS],
        *((f"And {len(rest):,} more rows are cut.",) if rest else ()),
    )


def _tokens(tokens: tuple[str, ...], places: list[int]) -> str:
    named = ", ".join(_token(tokens, at) for at in places[:MAX_LISTED_CUT_KEYS])
    rest = len(places) - MAX_LISTED_CUT_KEYS
    return named + (f" and {rest:,} more" if rest > 0 else "")


def _token(tokens: tuple[str, ...], at: int) -> str:
    return f"“{shorten(visible(tokens[at]))}” ({at + 1})"


def _edit(model: ModelSource, heads: tuple[LayerAndHead, ...]) -> tuple[HeadEdit | None, bool]:
    """Return what becomes of the first of some heads, and whether the others differ in it."""
    edited = model.edited
    found = [edited.get(place) for place in heads]
    alike = {(edit.kind, edit.factor, edit.text) if edit else None for edit in found}
    return (found[0] if found else None), len(alike) > 1


def _heads(resolved: Resolved, layers: tuple[int, ...]) -> tuple[LayerAndHead, ...]:
    layer = layers[resolved.run.trace.at("layer", resolved.leading)]
    pinned = resolved.pinned
    if len(resolved.heads) > 1 and pinned and pinned.head is not None:
        return ((layer, pinned.head),)
    return tuple((layer, head) for head in resolved.heads)
