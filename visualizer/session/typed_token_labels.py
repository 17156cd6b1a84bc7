"""Token labels that the user types for captured attention without token names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.language.tokenizers import tokenize
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.session.document import Document


Tokens = tuple[str, ...]
Labels = tuple[Tokens, Tokens]
"""Token labels of the queries and of the keys."""


def typed_labels(document: Document) -> Labels:
    """Return the token labels typed for captured attention.

    A single line labels both queries and keys of the same text; otherwise, each has a line. If
    the token count does not match, the text is split at spaces instead, as for ``[CLS]``.

    Returns
    -------
    Labels
        Empty if nothing was typed.

    Raises
    ------
    InputError
        If the number of labels differs from the number of queries or keys.
    """
    captured = document.captured
    if captured is None or not document.labels.strip():
        return (), ()
    by_tokenizer = partial(tokenize, tokenizer=document.tokenizer)
    found = _matching_labels(captured, document.labels, by_tokenizer)
    found = found or _matching_labels(captured, document.labels, _between_blanks)
    if found is None:
        raise InputError("text", _describe_needed_labels(captured, document.labels, by_tokenizer))
    return found


def _between_blanks(text: str) -> Tokens:
    return tuple(text.split())


def _matching_labels(
    captured: CapturedAttention, text: str, split: Callable[[str], Tokens]
) -> Labels | None:
    whole = split(text)
    is_of_one_text = captured.is_square or captured.is_continuation
    if is_of_one_text and len(whole) == captured.keys:
        return whole[-captured.queries :], whole
    lines = [tokens for tokens in map(split, text.splitlines()) if tokens]
    if [len(tokens) for tokens in lines] == [captured.queries, captured.keys]:
        return lines[0], lines[1]
    return None


def _describe_needed_labels(
    captured: CapturedAttention, text: str, split: Callable[[str], Tokens]
) -> str:
    if captured.is_square or captured.is_continuation:
        count = len(split(text))
        typed = f"You entered {format_count(count, 'token')}"
        return f"{typed}, but {captured.keys:,} are needed. Leave empty to number the positions."
    lines = filter(None, (len(split(line)) for line in text.splitlines()))
    return (
        f"Enter {format_count(captured.queries, 'token')} for the queries on one line and "
        f"{captured.keys:,} for the keys on the next. You entered {' and '.join(map(str, lines))}."
    )
