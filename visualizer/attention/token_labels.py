"""Readable labels for model tokens, with characters instead of bytes; imports no torch.

A token that contains only part of a character is labelled by its bytes as in SentencePiece,
``<0xE6><0x88>``, or by ``我 1/2`` if the adjacent tokens complete the character.

Sources: Radford et al. 2019 (byte-level BPE; its vocabulary writes each byte as a printable
character); Kudo and Richardson 2018, "SentencePiece" (the symbol ▁ for a space, byte fallback).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

METASPACE = "▁"
_BLANKS = ("Ġ", "Ċ")
"""Characters for a space and a line break in a byte-level vocabulary."""
_BYTES = re.compile(r"((?:<0x[0-9A-F]{2}>)+)")
BYTE_TOKEN_PATTERN = re.compile(r"<0x([0-9A-F]{2})>")
_MAX_CHARACTER_BYTES = 4
"""Maximum number of UTF-8 bytes per character."""


def decode_bytes(content: bytes) -> str:
    """Decode bytes as UTF-8; a byte that is not part of a complete character becomes ``<0xE6>``."""
    return content.decode("utf-8", "surrogateescape").translate(_byte_escapes())


@cache
def _byte_escapes() -> dict[int, str]:
    return {0xDC00 + byte: f"<0x{byte:02X}>" for byte in range(0x80, 0x100)}


@cache
def _byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary represents."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(0x100) if byte not in printable)
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + at): byte for at, byte in enumerate(others)}


def decode_byte_level_token(token: str) -> bytes | None:
    """Return the bytes of a token in a byte-level vocabulary, or None if it cannot be in one."""
    alphabet = _byte_alphabet()
    if not all(letter in alphabet for letter in token):
        return None
    return bytes(alphabet[letter] for letter in token)


def label_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return readable labels for tokens that are written as in a vocabulary.

    Byte-level tokens are decoded to characters; in other tokens, ▁ becomes a space.
    """
    found = [decode_byte_level_token(token) for token in tokens]
    if _is_byte_level(tokens, found):
        pairs = zip(tokens, found, strict=True)
        made = (token if each is None else decode_bytes(each) for token, each in pairs)
    else:
        made = (token.replace(METASPACE, " ") for token in tokens)
    return label_split_characters([*made])


def _is_byte_level(tokens: Sequence[str], found: Sequence[bytes | None]) -> bool:
    """Return whether tokens are from a byte-level vocabulary, judging by their characters."""
    if any(token.startswith(_BLANKS) for token in tokens):
        return True
    pairs = zip(tokens, found, strict=True)
    if all(each is None or each == token.encode() for token, each in pairs):
        return False
    try:
        b"".join(each for each in found if each is not None).decode()
    except UnicodeDecodeError:
        return False
    return True


class _TokenPiece(Struct, frozen=True):
    """A part of a token: text, or bytes of incomplete characters."""

    token: int
    text: str
    content: bytes = b""


def label_split_characters(words: Sequence[str]) -> tuple[str, ...]:
    """Label tokens that share a character as its parts, such as ``我 1/2`` and ``我 2/2``.

    Parameters
    ----------
    words : sequence of str
        The tokens of a text, in which bytes are written as by `decode_bytes`.
    """
    if not any("<0x" in word for word in words):
        return tuple(words)
    labels = [""] * len(words)
    for run in _split_into_runs(words):
        for piece in _label_byte_run(run):
            before = labels[piece.token]
            is_apart = before and not before.endswith(" ") and "/" in before + piece.text
            labels[piece.token] = f"{before}{' ' * bool(is_apart)}{piece.text}"
    return tuple(labels)


def _split_into_runs(words: Sequence[str]) -> Iterator[list[_TokenPiece]]:
    """Yield the parts of tokens in lists, with consecutive bytes in one list."""
    run: list[_TokenPiece] = []
    for at, word in enumerate(words):
        for text in filter(None, _BYTES.split(word)):
            numbers = BYTE_TOKEN_PATTERN.findall(text) if _BYTES.fullmatch(text) else ()
            if numbers:
                run.append(_TokenPiece(at, text, bytes(int(number, 16) for number in numbers)))
                continue
            if run:
                yield run
                run = []
            yield [_TokenPiece(at, text)]
    if run:
        yield run


def _label_byte_run(run: list[_TokenPiece]) -> Iterator[_TokenPiece]:
    """Yield, for each token, the label of its part in a run of bytes."""
    if not run[0].content:
        yield run[0]
        return
    owners = [piece.token for piece in run for _ in piece.content]
    content, at = b"".join(piece.content for piece in run), 0
    while at < len(content):
        letter, size = _split_first_character(content[at : at + _MAX_CHARACTER_BYTES])
        tokens = [*dict.fromkeys(owners[at : at + size])]
        for number, token in enumerate(tokens, 1):
            part = f" {number}/{len(tokens)}" if len(tokens) > 1 else ""
            yield _TokenPiece(token, f"{letter}{part}")
        at += size


def _split_first_character(content: bytes) -> tuple[str, int]:
    """Return the first character, or an invalid byte as ``<0xE6>``, and its size in bytes."""
    for size in range(1, len(content) + 1):
        try:
            return content[:size].decode(), size
        except UnicodeDecodeError:
            continue
    return decode_bytes(content[:1]), 1
