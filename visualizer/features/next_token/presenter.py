"""Presenter of the Next token pane: probabilities with and without edits of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.format import format_percentage, shorten
from visualizer.generation.token_choice_presenter import describe_next_tokens
from visualizer.language.tokenizers import visible_token
from visualizer.models.model_source import (
    HeadEdit,
    HeadEditKind,
    describe_edits,
    describe_heads,
)
from visualizer.session.model_pane_options import no_forward_pass_reason
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from visualizer.attention.model_forward_pass import NextTokenCandidate
    from visualizer.errors import InputError
    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.session.resolved_view import ResolvedView

MODEL_REQUIRED = "Open a model (File > Open a model…) to see its next-token probabilities."
METHOD_NOTE = (
    "Replaces the output of the heads in the model with zeros, with the mean of the output over "
    "the text, with a multiple of the output or, token by token, with the output for another "
    "text. All later layers use the result."
)
IMAGE_METHOD_NOTE = (
    "Replaces the output of the heads in the model with zeros, with the mean of the output over "
    "the image, or with a multiple of the output. All later layers use the result."
)
ABLATION_UNAVAILABLE = "Heads of this model cannot be edited individually."
MAX_LISTED_CUT_ROWS, MAX_LISTED_CUT_KEYS = 4, 3
"""Maximum number of rows with cut edges that are listed, and of keys listed per row."""
EDIT_FIELDS = ("edits", "cuts")
"""Error fields that concern edits of the model."""


class NextTokenPanel(Struct, frozen=True):
    """Contents of the Next token pane.

    Parameters
    ----------
    rows : tuple of NextTokenCandidate
        The most likely tokens, sorted by probability with the current edits.
    message : str
        Why the rows are not available; otherwise empty.
    edits : mapping
        Descriptions of the head edits.
    cuts : tuple of str
        Descriptions of the cut edges, as sentences.
    is_edited : bool
        Whether the rows were computed with an edited model.
    heads : tuple of LayerAndHead
        The heads to which an edit applies: the head of the pinned cell, or all shown heads.
    edit : HeadEdit or None
        The edit of the first of these heads.
    is_mixed : bool
        Whether these heads have different edits.
    largest_changes : tuple of NextTokenCandidate
        The tokens with the largest changes in probability due to the edits.
    problem : str
        Why the edits cannot be applied, as a sentence.
    hint : str
        What editing does, or why heads cannot be edited.
    takes_image : bool
        Whether the input is an image; heads then cannot be patched from another text.
    """

    rows: tuple[NextTokenCandidate, ...] = ()
    message: str = MODEL_REQUIRED
    edits: Mapping[LayerAndHead, str] = {}
    cuts: tuple[str, ...] = ()
    is_edited: bool = False
    heads: tuple[LayerAndHead, ...] = ()
    edit: HeadEdit | None = None
    is_mixed: bool = False
    largest_changes: tuple[NextTokenCandidate, ...] = ()
    problem: str = ""
    hint: str = ""
    takes_image: bool = False

    @property
    def head(self) -> LayerAndHead | None:
        """The head to which an edit applies, or None unless there is exactly one."""
        return self.heads[0] if len(self.heads) == 1 else None

    @property
    def is_head_edited(self) -> bool:
        """Whether there is exactly one head and it is edited."""
        return self.edit is not None and self.head is not None

    @property
    def has_edits(self) -> bool:
        """Whether there are head edits or cut edges."""
        return bool(self.edits or self.cuts)

    @property
    def kind(self) -> HeadEditKind | None:
        """Kind of edit of the heads, or None if they are unedited or their edits differ."""
        return self.edit.kind if self.edit and not self.is_mixed else None

    @property
    def heads_description(self) -> str:
        """Description of the heads to which an edit applies."""
        words = describe_heads(self.heads)
        return words[:1].upper() + words[1:]

    @property
    def edit_descriptions(self) -> tuple[str, ...]:
        """Descriptions of all edits, one per line."""
        edits = (f"Edited: {describe_edits(self.edits)}.",) if self.edits else ()
        return (*edits, *self.cuts)

    @property
    def changes_description(self) -> str:
        """Description of the largest changes in probability."""
        sentences = [
            f"“{row.token}” {format_percentage(row.probability_of_all_heads)} → "
            f"{format_percentage(row.probability)}"
            for row in self.largest_changes
        ]
        return f"Largest changes: {', '.join(sentences)}." if sentences else ""

    @property
    def description(self) -> str:
        """Description of the rows for screen readers."""
        return describe_next_tokens(self.rows, self.is_edited) or self.message


NEXT_TOKEN_PANEL: PanelId[NextTokenPanel] = PanelId("Next token")


def present_next_token(resolved: ResolvedView, refused: InputError | None = None) -> NextTokenPanel:
    """Return the contents of the Next token pane.

    Parameters
    ----------
    refused : InputError, optional
        Why the document could not be computed.
    """
    reading, model = resolved.run.reading, resolved.document.model
    if model is None:
        return NextTokenPanel()
    cuts = _describe_cut_edges(model, resolved.run.texts[0])
    if reading is None:
        message = no_forward_pass_reason(resolved.document, refused)
        return NextTokenPanel(message=message, edits=model.edit_descriptions_by_head, cuts=cuts)
    rows = sorted(reading.next_tokens, key=lambda row: -row.probability)
    editable = resolved.target_heads if reading.are_heads_switchable else ()
    heads = tuple((resolved.layer_number, head) for head in editable)
    edit, is_mixed = _common_edit(model, heads)
    hint = METHOD_NOTE if model.image is None else IMAGE_METHOD_NOTE
    return NextTokenPanel(
        tuple(rows),
        reading.no_next_token,
        model.edit_descriptions_by_head,
        cuts,
        reading.is_edited,
        heads,
        edit,
        is_mixed,
        reading.largest_changes,
        refused.sentence if refused and refused.field in EDIT_FIELDS else "",
        hint if reading.are_heads_switchable else ABLATION_UNAVAILABLE,
        model.image is not None,
    )


def _describe_cut_edges(model: ModelSource, tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Describe the cut edges, one sentence per head and query."""
    sentences = []
    for cut in model.cuts:
        keys: dict[int, list[int]] = {}
        for query, key in cut.cells:
            if max(query, key) < len(tokens):
                keys.setdefault(query, []).append(key)
        where = describe_heads((cut.layer_and_head,))
        sentences += [
            f"Cut in {where}: {_quote_token(tokens, query)} no longer attends to "
            f"{_quote_tokens(tokens, found)}."
            for query, found in keys.items()
        ]
    rest = sentences[MAX_LISTED_CUT_ROWS:]
    return (
        *sentences[:MAX_LISTED_CUT_ROWS],
        *((f"{len(rest):,} more rows have cut edges.",) if rest else ()),
    )


def _quote_tokens(tokens: tuple[str, ...], places: list[int]) -> str:
    named = ", ".join(_quote_token(tokens, at) for at in places[:MAX_LISTED_CUT_KEYS])
    rest = len(places) - MAX_LISTED_CUT_KEYS
    return named + (f" and {rest:,} more" if rest > 0 else "")


def _quote_token(tokens: tuple[str, ...], at: int) -> str:
    return f"“{shorten(visible_token(tokens[at]))}” ({at + 1})"


def _common_edit(
    model: ModelSource, heads: tuple[LayerAndHead, ...]
) -> tuple[HeadEdit | None, bool]:
    """Return the edit of the first head, and whether the edits of the heads differ."""
    edited = model.edits_by_head
    found = [edited.get(place) for place in heads]
    alike = {(edit.kind, edit.factor, edit.text) if edit else None for edit in found}
    return (found[0] if found else None), len(alike) > 1


PANEL = PanelSpec(
    NEXT_TOKEN_PANEL,
    lambda resolved, inputs, previous: present_next_token(resolved, inputs.refused),
    NextTokenPanel(),
)
