"""Builds runs from the attention of recorded texts, with their tokens and notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.captured_attention import position_labels
from visualizer.errors import InputError
from visualizer.models.run_from_attention_calls import groups_of, run_of

if TYPE_CHECKING:
    from visualizer.models.recorded_texts import RecordedCall, RecordedText, RecordedTexts
    from visualizer.models.run_from_attention_calls import LayerGroup, LayerRun

Tokens = tuple[str, ...]
BATCH_NOTICE = "This is text {number:,} of {count:,} in a batch. All of them are in “texts”."
PADDING = "Padding is omitted ({padding:,} of {count:,} positions)."
MISSING = (
    "Only {recorded:,} of {count:,} rows were recorded, because the earlier positions were already "
    "in the cache. To record all rows, run the model on the whole text during the recording."
)
ABSENT = (
    "The keys and values of the first {count:,} positions are shown as 0 because the cache no "
    "longer contains them."
)


def runs_of_text(text: RecordedText, name: str, words: Tokens | None) -> tuple[LayerRun, ...]:
    """Build the runs of the layers of a recorded text.

    Parameters
    ----------
    name : str
        Name of the model.
    words : tuple of str, optional
        The tokens of the whole text, with or without padding. The tokens of the other text of an
        encoder–decoder model are numbered.

    Raises
    ------
    InputError
        With field ``model`` if no attention was recorded; with field ``tokens`` if their number
        does not match.
    """
    by_call = {id(each.call): each for each in text.calls}
    groups = groups_of([each.call for each in text.calls])
    if not groups:
        sentence = (
            "No attention was recorded: the model was not run, or its attention is unsupported."
        )
        raise InputError("model", sentence)
    each_first = [by_call[id(group.calls[0])] for group in groups]
    lengths = {one.length for one in each_first}
    named = {} if words is None else _tokens_by_length(words, text)
    if words is not None and not lengths & named.keys():
        sentence = (
            f"There are {len(words):,} token labels, but the text has {max(lengths):,} tokens."
        )
        raise InputError("tokens", sentence)
    return tuple(
        _build_run(group, first, name, named)
        for group, first in zip(groups, each_first, strict=True)
    )


def _tokens_by_length(words: Tokens, text: RecordedText) -> dict[int, Tokens]:
    """Return the tokens by the length of their text, with padding removed."""
    found = {len(words): words}
    for real in text.real.values():
        if len(real) == len(words) and not all(real):
            own = tuple(word for word, is_real in zip(words, real, strict=True) if is_real)
            found = {len(own): own}
    return found


def _build_run(
    group: LayerGroup, first: RecordedCall, name: str, named: dict[int, Tokens]
) -> LayerRun:
    words = named.get(first.length) or position_labels(first.length)
    queries, keys = first.call.weights.shape[-2:]
    if group.is_cross:  # two texts, which one list of tokens cannot label
        return run_of(group, name, position_labels(queries), position_labels(keys))
    run = run_of(group, name, *(((), words) if first.call.is_continuation else (words,)))
    if queries < first.length:
        run = run.with_notice(MISSING.format(recorded=queries, count=first.length))
    if first.absent_keys:
        run = run.with_notice(ABSENT.format(count=first.absent_keys))
    if first.padding:
        notice = PADDING.format(padding=first.padding, count=first.padding + first.length)
        run = run.with_notice(notice)
    return run


class RecordedBatch:
    """The texts of a recorded batch, whose runs are built on first access.

    Parameters
    ----------
    name : str
        Name of the model.
    words : tuple of tuple of str
        The tokens of the texts, in order; other texts have numbered tokens.
    """

    def __init__(self, recorded: RecordedTexts, name: str, words: tuple[Tokens, ...]) -> None:
        self._recorded, self._name, self._words = recorded, name, words
        self._made: dict[int, tuple[LayerRun, ...]] = {}

    def __len__(self) -> int:
        return self._recorded.count

    def runs(self, at: int) -> tuple[LayerRun, ...]:
        """Return the runs of one of the texts.

        Raises
        ------
        InputError
            As in `runs_of_text`.
        """
        if at not in self._made:
            words = self._words[at] if at < len(self._words) else None
            found = runs_of_text(self._recorded.text(at), self._name, words)
            if len(self) > 1:
                notice = BATCH_NOTICE.format(number=at + 1, count=len(self))
                found = tuple(each.with_notice(notice) for each in found)
            self._made[at] = found
        return self._made[at]
