"""The tokens that a language model knows, in both directions; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.errors import InputError
from visualizer.language.tokenizers import Tokenizer, tokenize, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_SAID = 5


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by their numbers.

    Parameters
    ----------
    tokens : tuple of str
        Each once; the place is the number.
    """

    tokens: tuple[str, ...]
    tokenizer: Tokenizer = Tokenizer.CHARACTERS

    @classmethod
    def of(cls, tokens: Iterable[str], tokenizer: Tokenizer) -> Vocabulary:
        """Take every token of a text once, in the order of the alphabet."""
        return cls(tuple(sorted(set(tokens))), tokenizer)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def __contains__(self, token: str) -> bool:
        return token in self._numbers

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """Give the numbers of tokens, int64 [token].

        Raises
        ------
        InputError
            When some are not known; it names them, and nothing is left out.
        """
        unknown = list(dict.fromkeys(token for token in tokens if token not in self))
        if unknown:
            said = ", ".join(f"“{visible(token)}”" for token in unknown[:MOST_SAID])
            more = f" and {len(unknown) - MOST_SAID:,} more" if len(unknown) > MOST_SAID else ""
            does = "is" if len(unknown) == 1 else "are"
            sentence = f"{said}{more} {does} not in the text that was learned."
            raise InputError("text", sentence)
        return np.fromiter((self._numbers[token] for token in tokens), np.int64, len(tokens))

    def read(self, text: str) -> tuple[tuple[str, ...], np.ndarray]:
        """Split a text into tokens and give their numbers; see `encode`."""
        tokens = tokenize(text, self.tokenizer)
        return tokens, self.encode(tokens)

    def decode(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Give the tokens of numbers."""
        return tuple(self.tokens[number] for number in numbers)

    def write(self, tokens: Sequence[str]) -> str:
        """Put tokens together to a text: words with spaces between them, characters without."""
        return (" " if self.tokenizer is Tokenizer.WORDS else "").join(tokens)
