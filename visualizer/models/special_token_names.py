"""Descriptions of the special tokens of a tokenizer."""

from __future__ import annotations

from typing import Any

NAMES = {
    "bos_token": "BOS: start of the text",
    "eos_token": "EOS: end of the text",
    "cls_token": "CLS: represents the whole text",
    "sep_token": "SEP: separates two texts, or ends the text",
    "pad_token": "PAD: padding",
    "mask_token": "MASK: masked token",
    "unk_token": "UNK: not in the vocabulary",
}
"""By name in transformers; if a token has several names, the first is used."""
UNNAMED_SPECIAL_TOKEN = "a special token of this model"


def special_names(tokenizer: Any) -> dict[int, str]:
    """Return descriptions of the special tokens, by id."""
    found = dict.fromkeys(getattr(tokenizer, "all_special_ids", ()), UNNAMED_SPECIAL_TOKEN)
    added = getattr(tokenizer, "added_tokens_decoder", {})
    found |= {
        number: UNNAMED_SPECIAL_TOKEN
        for number, token in added.items()
        if getattr(token, "special", False)
    }
    for name in reversed(NAMES):
        number = getattr(tokenizer, f"{name}_id", None)
        if isinstance(number, int):
            found[number] = NAMES[name]
    return found
