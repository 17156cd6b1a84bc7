"""What the special tokens of a tokenizer are for, in words."""

from __future__ import annotations

from typing import Any

NAMES = {
    "bos_token": "BOS: a text begins",
    "eos_token": "EOS: a text ends",
    "cls_token": "CLS: stands for the whole text",
    "sep_token": "SEP: parts two texts, or ends one",
    "pad_token": "PAD: fills up",
    "mask_token": "MASK: a word is left out",
    "unk_token": "UNK: not in the vocabulary",
}
"""By their names in transformers; of a token with several, the first counts."""
UNNAMED_SPECIAL_TOKEN = "a special token of this model"


def special_names(tokenizer: Any) -> dict[int, str]:
    """Return what each special token is for, by its number."""
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
