"""Edits of heads in a model: off, their mean, a multiple, or what they hand on in another text.

Source: Wang et al. 2022, "Interpretability in the Wild" (arXiv 2211.00593).
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.models.model_source import HeadEditKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import torch

    from visualizer.models.attention_recorder import ContextEdit
    from visualizer.models.model_source import HeadEdit, LayerAndHead
    from visualizer.models.opened_model import OpenedModel

MOST_DIFFERENCES = 3
"""At most so many differences of two texts are named; of more, how many."""
MOST_DIFFERING = 4
"""Of each at most so many tokens."""


def log_probabilities_with(
    model: OpenedModel, text: str, edits: Iterable[HeadEdit]
) -> torch.Tensor:
    """Return the log-probability of each next token of a text, [token], float64, with edits.

    Raises
    ------
    InputError
        As `context_edits` and `OpenedModel.next_token_log_probabilities`.
    """
    return model.next_token_log_probabilities(text, context_edits(model, text, edits))


def context_edits(
    model: OpenedModel,
    text: str,
    edits: Iterable[HeadEdit],
    second: str | None = None,
    *,
    is_chat: bool = False,
) -> dict[LayerAndHead, ContextEdit]:
    """Return what becomes of the context vectors of heads, as `OpenedModel.read` takes it.

    Means and those of another text are read from the model without edits. Another text is given as
    the text is: with the same second one, or as a message, too.

    Raises
    ------
    InputError
        Of ``edits``, when another text has not as many tokens as the text; else as
        `OpenedModel.read_plainly`.
    """
    given = _Given(model, second, is_chat)
    return {edit.place: _context_edit(given, text, edit) for edit in edits}


class _Given(Struct, frozen=True, eq=False):
    """How a model is given a text."""

    model: OpenedModel
    second: str | None = None
    is_chat: bool = False

    def tokens(self, text: str) -> tuple[str, ...]:
        """Return the tokens of a text."""
        return self.model.inputs(text, self.second, is_chat=self.is_chat)[1]


def _context_edit(given: _Given, text: str, edit: HeadEdit) -> ContextEdit:
    if edit.kind is HeadEditKind.OFF:
        return 0.0
    if edit.kind is HeadEditKind.SCALED:
        return edit.factor
    if edit.kind is HeadEditKind.MEAN:
        return _context(given, text, edit.place).mean(0, keepdim=True)
    _check_as_many_tokens(given, text, edit.text)
    return _context(given, edit.text, edit.place)


def _context(given: _Given, text: str, place: LayerAndHead) -> torch.Tensor:
    """Return the context vectors of a head without edits, [query, d_value]."""
    layer, head = place
    read = given.model.read_plainly(text, given.second, is_chat=given.is_chat)
    context = read.contexts.get(layer)
    if context is None or not 0 <= head < context.shape[1]:
        raise InputError("heads", f"There is no head {head} in a layer {layer}.")
    return context[:, head]


def _check_as_many_tokens(given: _Given, text: str, source: str) -> None:
    """Refuse a text to patch from that has not as many tokens, naming where the two differ.

    Raises
    ------
    InputError
        Of ``edits``.
    """
    if not source.strip():
        raise InputError("edits", "Type the other text, of as many tokens as the one that is read.")
    try:
        others = given.tokens(source)
    except InputError as refused:
        raise InputError("edits", f"The other text: {refused.sentence}") from refused
    tokens = given.tokens(text)
    if len(tokens) != len(others):
        sentence = (
            f"The text has {len(tokens):,} tokens, and the other one {len(others):,}. Use texts of "
            f"as many tokens; they differ in {differences_in_words(tokens, others)}."
        )
        raise InputError("edits", sentence)


def differences_in_words(one: Sequence[str], other: Sequence[str]) -> str:
    """Name the tokens in which two texts differ: ``“ red” → “ old grey”``."""
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    found = [
        f"{_tokens_in_words(one[start:end])} → {_tokens_in_words(other[begin:stop])}"
        for kind, start, end, begin, stop in steps
        if kind != "equal"
    ]
    rest = len(found) - MOST_DIFFERENCES
    return ", ".join(found[:MOST_DIFFERENCES]) + (f" and {rest:,} more places" if rest > 0 else "")


def _tokens_in_words(tokens: Sequence[str]) -> str:
    if not tokens:
        return "nothing"
    more = "…" if len(tokens) > MOST_DIFFERING else ""
    return f"“{'|'.join(tokens[:MOST_DIFFERING])}{more}”"
