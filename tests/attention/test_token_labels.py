"""Tokens that consist of bytes are labelled by characters, for every kind of vocabulary."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.attention.token_labels import (
    decode_byte_level_token,
    decode_bytes,
    label_split_characters,
    label_tokens,
)


def split(content: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({0, len(content), *(cut % (len(content) + 1) for cut in cuts)})
    return [content[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        (["æĪ", "ĳ", "åĸ", "ľ"], ("我 1/2", "我 2/2", "喜 1/2", "喜 2/2")),
        (["The", "Ġcat", "Ċ", "Ã©"], ("The", " cat", "\n", "é")),
        (["Ġå", "ĸ", "ľ"], (" 喜 1/3", "喜 2/3", "喜 3/3")),
        (["▁the", "▁c", "at", "<0xE6>", "<0x88>", "<0x91>"],
         (" the", " c", "at", "我 1/3", "我 2/3", "我 3/3")),
        (["ĳ", "Ġcat"], ("<0x91>", " cat")),
        (["play", "##ing", "[SEP]"], ("play", "##ing", "[SEP]")),
        (["é", "à", "plain"], ("é", "à", "plain")),
        (["<s>", "我", "猫"], ("<s>", "我", "猫")),
        (["<0xE6>", "a"], ("<0xE6>", "a")),
        (["a<b", "<0x"], ("a<b", "<0x")),
        ([], ()),
    ],
)  # fmt: skip
def test_tokens_are_labelled_by_their_characters(raw: list[str], labels: tuple[str, ...]) -> None:
    assert label_tokens(raw) == labels


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), st.lists(st.integers(0, 60)))
def test_every_character_is_in_the_labels_of_its_tokens(text: str, cuts: list[int]) -> None:
    parts = split(text.encode(), cuts)
    words = [decode_bytes(part) for part in parts]
    labels = label_split_characters(words)
    assert len(labels) == len(parts)
    if all(part.decode("utf-8", "replace") == decode_bytes(part) for part in parts):
        assert labels == tuple(words), "whole characters stay as they are"
    if "<0x" not in text:
        assert not any("<0x" in label for label in labels)


@given(st.binary(max_size=8))
def test_bytes_and_their_writing_name_each_other(content: bytes) -> None:
    alphabet = {decode_byte_level_token(chr(at)): chr(at) for at in range(0x144)}
    written = "".join(alphabet[bytes([byte])] for byte in content)
    assert decode_byte_level_token(written) == content
    assert decode_byte_level_token("猫") is None
