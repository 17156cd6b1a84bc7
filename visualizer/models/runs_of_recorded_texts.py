"""Runs made of the attention of recorded texts, with their tokens and notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.captured_attention import position_labels
from visualizer.errors import InputError
from visualizer.models.run_from_attention_calls import groups_of, run_of

if TYPE_CHECKING:
    from visualizer.models.recorded_texts import RecordedCall, RecordedText, RecordedTexts
    from visualizer.models.run_from_attention_calls import LayerGroup, LayerRun

Tokens = tuple[str, ...]
BATCH_NOTICE = "This is text {number:,} of the {count:,} of a batch: “texts” has all of them."
PADDING = "Padding is left out: {padding:,} of {count:,} positions."
MISSING = (
    "Rows recorded: {recorded:,} of {count:,}. The earlier positions were in the cache before the "
    "recording began. To record their rows, run the model on the whole text within it."
)
ABSENT = "The keys and values of the first {count:,} positions are 0: the cache has them no longer."


def runs_of_text(text: RecordedText, name: str, words: Tokens | None) -> tuple[LayerRun, ...]:
    """Make the runs of the layers of a recorded text.

    Parameters
    ----------
    name : str
        What the model is called.
    words : tuple of str, optional
        The tokens of the whole text, with or without padding. Those of another text, which an
        encoder reads or a decoder, are numbered.

    Raises
    ------
    InputError
        Of ``model``, when no attention was recorded; of ``tokens``, when there are more or fewer.
    """
    by_call = {id(each.call): each for each in text.calls}
    groups = groups_of([each.call for each in text.calls])
    if not groups:
        sentence = "The model was not run, or computes no attention that could be read."
        raise InputError("model", sentence)
    each_first = [by_call[id(group.calls[0])] for group in groups]
    lengths = {one.length for one in each_first}
    named = {} if words is None else _named(words, text)
    if words is not None and not lengths & named.keys():
        sentence = f"There are {len(words):,} tokens, and the model read {max(lengths):,}."
        raise InputError("tokens", sentence)
    return tuple(
        _run_of(group, first, name, named) for group, first in zip(groups, each_first, strict=True)
    )


def _named(words: Tokens, text: RecordedText) -> dict[int, Tokens]:
    """Return the tokens by the length of the text that they are of, without padding."""
    found = {len(words): words}
    for real in text.real.values():
        if len(real) == len(words) and not all(real):
            own = tuple(word for word, is_real in zip(words, real, strict=True) if is_real)
            found = {len(own): own}
    return found


def _run_of(
    group: LayerGroup, first: RecordedCall, name: str, named: dict[int, Tokens]
) -> LayerRun:
    words = named.get(first.length) or position_labels(first.length)
    queries, keys = first.call.weights.shape[-2:]
    if group.is_cross:  # tokens of two texts, which one list cannot name
        return run_of(group, name, position_labels(queries), position_labels(keys))
    run = run_of(group, name, *(((), words) if first.call.is_continuation else (words,)))
    if queries < first.length:
        run = run.with_notice(MISSING.format(recorded=queries, count=first.length))
    if first.absent_keys:
        run = run.with_notice(ABSENT.format(count=first.absent_keys))
    if first.padding:
        said = PADDING.format(padding=first.padding, count=first.padding + first.length)
        run = run.with_notice(said)
    return run


class RecordedBatch:
    """The texts of a recorded batch, each made into runs when it is first asked for.

    Parameters
    ----------
    name : str
        What the model is called.
    words : tuple of tuple of str
        The tokens of the texts, in order; those of texts without any are numbered.
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
            As `runs_of_text`.
        """
        if at not in self._made:
            words = self._words[at] if at < len(self._words) else None
            found = runs_of_text(self._recorded.text(at), self._name, words)
            if len(self) > 1:
                said = BATCH_NOTICE.format(number=at + 1, count=len(self))
                found = tuple(each.with_notice(said) for each in found)
            self._made[at] = found
        return self._made[at]
