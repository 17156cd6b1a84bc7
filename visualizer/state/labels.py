"""Tokens that are typed for captured attention, whose file does not name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import InputError
from visualizer.language.tokenizers import tokenize

if TYPE_CHECKING:
    from visualizer.attention.captured import Captured
    from visualizer.state.document import Document

Labels = tuple[tuple[str, ...], tuple[str, ...]]
"""Of the queries, and of the keys."""


def typed_labels(document: Document) -> Labels:
    """Take the tokens of captured attention from what was typed.

    One text names queries and keys where these are as many; else a line each does.

    Returns
    -------
    Labels
        Empty where nothing was typed.

    Raises
    ------
    InputError
        When these are not as many tokens as there are queries and keys.
    """
    captured = document.captured
    whole = tokenize(document.labels, document.tokenizer)
    if captured is None or not whole:
        return (), ()
    if captured.is_square and len(whole) == captured.queries:
        return whole, whole
    split = (tokenize(line, document.tokenizer) for line in document.labels.splitlines())
    lines = [tokens for tokens in split if tokens]
    if [len(tokens) for tokens in lines] == [captured.queries, captured.keys]:
        return lines[0], lines[1]
    raise InputError("text", _needed(captured, [len(tokens) for tokens in lines], len(whole)))


def _needed(captured: Captured, lines: list[int], count: int) -> str:
    if captured.is_square:
        typed = f"{count:,} token{'s' * (count > 1)} {'are' if count > 1 else 'is'} typed"
        return f"{typed}, and {captured.queries:,} are needed; without any, places are numbered."
    typed = " and ".join(f"{line:,}" for line in lines)
    return (
        f"Type {captured.queries:,} tokens for the queries on one line and {captured.keys:,} for "
        f"the keys on the next; typed are {typed}."
    )
