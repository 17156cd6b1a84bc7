"""Runs a model on several texts, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError
from visualizer.models.kept_parts import ALL_PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.models.kept_parts import KeptParts
    from visualizer.models.opened_model import OpenedModel
    from visualizer.models.run_from_attention_calls import LayerRun

MAX_TEXTS = 1000


def attend_each(
    model: OpenedModel,
    texts: Sequence[str],
    *,
    is_chat: bool = False,
    kept: KeptParts = ALL_PARTS,
) -> Iterator[tuple[LayerRun, ...]]:
    """Run a model on each of several texts, like `OpenedModel.attend` on one.

    The texts are run one at a time, without padding. So the results are the same as for single
    texts, and only one text's intermediate values are in memory.

    Raises
    ------
    InputError
        As in `OpenedModel.attend`, with the number of the text; also if there are too many texts.
    """
    if len(texts) > MAX_TEXTS:
        sentence = f"There are {len(texts):,} texts; at most {MAX_TEXTS:,} can be run together."
        raise InputError("text", sentence)
    for number, text in enumerate(texts, 1):
        try:
            yield model.attend(text, is_chat=is_chat, kept=kept)
        except InputError as refused:
            sentence = f"Text {number:,} of {len(texts):,}: {refused.sentence}"
            raise InputError(refused.field, sentence) from refused
