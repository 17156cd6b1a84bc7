"""Labels of the tokens of models: characters in place of bytes and marks; no torch here.

A token may hold a part of a character only. By itself it is written by its bytes, ``<0xE6><0x88>``,
as SentencePiece writes them; next to the others of its character it is labelled ``我 1/2``.

Sources: Radford et al. 2019 (byte-level BPE, whose vocabulary writes each byte as a printable
character); Kudo and Richardson 2018, "SentencePiece" (the mark ▁ for a space, byte fallback).
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
"""A space and a line break of a byte-level vocabulary."""
_BYTES = re.compile(r"((?:<0x[0-9A-F]{2}>)+)")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_MAX_CHARACTER_BYTES = 4
"""Most bytes of a character."""


def write_bytes(content: bytes) -> str:
    """Return bytes as text: the characters that are whole, and the other bytes by their numbers."""
    return content.decode("utf-8", "surrogateescape").translate(_escaped())


@cache
def _escaped() -> dict[int, str]:
    return {0xDC00 + byte: f"<0x{byte:02X}>" for byte in range(0x80, 0x100)}


@cache
def _alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(0x100) if byte not in printable)
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + at): byte for at, byte in enumerate(others)}


def bytes_of_byte_level(token: str) -> bytes | None:
    """Return the bytes of a token of a byte-level vocabulary; None if it cannot be one."""
    alphabet = _alphabet()
    if not all(letter in alphabet for letter in token):
        return None
    return bytes(alphabet[letter] for letter in token)


def readable_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return labels of tokens that are written as in a vocabulary.

    Tokens of a byte-level vocabulary become their characters, and ▁ becomes a space. Texts that are
    not of such a vocabulary stay as they are.
    """
    found = [bytes_of_byte_level(token) for token in tokens]
    if _is_byte_level(tokens, found):
        pairs = zip(tokens, found, strict=True)
        made = (token if each is None else write_bytes(each) for token, each in pairs)
    else:
        made = (token.replace(METASPACE, " ") for token in tokens)
    return join_split_characters([*made])


def _is_byte_level(tokens: Sequence[str], found: Sequence[bytes | None]) -> bool:
    """Whether tokens are of a byte-level vocabulary: by its spaces, or as they make a text so."""
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


class _Piece(Struct, frozen=True):
    """A part of a token: text, or bytes of a character."""

    token: int
    text: str
    content: bytes = b""


def join_split_characters(words: Sequence[str]) -> tuple[str, ...]:
    """Label tokens that hold parts of a character by it: ``我 1/2`` and ``我 2/2``.

    Parameters
    ----------
    words : sequence of str
        The tokens of a text in their order, with the bytes of `write_bytes`.
    """
    if not any("<0x" in word for word in words):
        return tuple(words)
    labels = [""] * len(words)
    for run in _runs(words):
        for piece in _labelled(run):
            before = labels[piece.token]
            is_apart = before and not before.endswith(" ") and "/" in before + piece.text
            labels[piece.token] = f"{before}{' ' * bool(is_apart)}{piece.text}"
    return tuple(labels)


def _runs(words: Sequence[str]) -> Iterator[list[_Piece]]:
    """Yield the parts of tokens, those together that are bytes in a row."""
    run: list[_Piece] = []
    for at, word in enumerate(words):
        for text in filter(None, _BYTES.split(word)):
            numbers = BYTE.findall(text) if _BYTES.fullmatch(text) else ()
            if numbers:
                run.append(_Piece(at, text, bytes(int(number, 16) for number in numbers)))
                continue
            if run:
                yield run
                run = []
            yield [_Piece(at, text)]
    if run:
        yield run


def _labelled(run: list[_Piece]) -> Iterator[_Piece]:
    """Yield the labels of parts whose bytes are in a row, by the characters that they make."""
    if not run[0].content:
        yield run[0]
        return
    owners = [piece.token for piece in run for _ in piece.content]
    content, at = b"".join(piece.content for piece in run), 0
    while at < len(content):
        letter, size = _character(content[at : at + _MAX_CHARACTER_BYTES])
        tokens = [*dict.fromkeys(owners[at : at + size])]
        for number, token in enumerate(tokens, 1):
            part = f" {number}/{len(tokens)}" if len(tokens) > 1 else ""
            yield _Piece(token, f"{letter}{part}")
        at += size


def _character(content: bytes) -> tuple[str, int]:
    """Return the first character of bytes and its size; a byte by its number if it begins none."""
    for size in range(1, len(content) + 1):
        try:
            return content[:size].decode(), size
        except UnicodeDecodeError:
            continue
    return write_bytes(content[:1]), 1
