"""Text files are read in each supported encoding, or rejected with a message."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from visualizer.errors import InputError
from visualizer.language.corpora import text_file
from visualizer.language.corpora.text_file import read_text

TEXT = "Häuser, 猫 und 🙂.\r\n"
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-32"]


def refusal(path: Path | str) -> str:
    with pytest.raises(InputError) as refused:
        read_text(str(path))
    assert refused.value.field == "path"
    return refused.value.sentence


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_text_is_read_as_it_was_written(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode(encoding))
    assert read_text(str(path)) == TEXT


def test_both_byte_orders_are_read(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeff".encode("utf-16-be") + TEXT.encode("utf-16-be"))
    assert read_text(str(path)) == TEXT


BINARY = "“a.txt” is a binary file. Choose a text file."
NOT_UTF_8 = (
    "“a.txt” is not encoded in UTF-8: invalid byte {}. Save it as UTF-8 and choose it again."
)
UTF_16 = (
    "“a.txt” is not encoded in UTF-8: it appears to be UTF-16 without a byte order mark. Save "
    "it as "
    "UTF-8 and choose it again."
)
SAID: list[tuple[bytes, str]] = [
    (b"", "“a.txt” is empty. Choose a file that contains text."),
    (b"\xef\xbb\xbf", "“a.txt” is empty. Choose a file that contains text."),
    (
        b"one\ntwo\nH\xe4user, and much more of it that is letters",
        "“a.txt” is not encoded in UTF-8: invalid byte 0xE4 at position 10, line 3. Save it "
        "as UTF-8 and choose it "
        "again.",
    ),
    (
        b"\xef\xbb\xbfone two three four five six\xff",
        "“a.txt” is not encoded in UTF-8: invalid byte 0xFF at position 31, line 1. Save it "
        "as UTF-8 and choose it "
        "again.",
    ),
    (b"plain\0text", BINARY),
    (bytes(range(256)) * 4, BINARY),
    (bytes(99) + b"\x89PNG", BINARY),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", BINARY),
    ("Häuser, Bäume, Straßen".encode("latin-1"), NOT_UTF_8.format("0xE4 at position 2, line 1")),
    ("Дома и деревья".encode("cp1251"), NOT_UTF_8.format("0xC4 at position 1, line 1")),
    ("Häuser and trees".encode("utf-16-le"), UTF_16),
    ("Häuser and trees".encode("utf-16-be"), UTF_16),
]


@pytest.mark.parametrize(("content", "sentence"), SAID)
def test_binary_files_are_rejected(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert refusal(tmp_path / "a.txt") == sentence


def test_truncated_utf_16_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(("long enough " * 9).encode("utf-16") + b"x")
    assert refusal(tmp_path / "a.txt").startswith(
        "“a.txt” is not encoded in UTF-16: invalid byte 0x78 at position 219"
    )


def test_missing_files_and_folders_are_rejected(tmp_path: Path) -> None:
    absent = tmp_path / "absent.txt"
    assert refusal(absent) == f"File not found: {absent}."
    folder = f"“{tmp_path.name}” is a folder. Choose a text file."
    assert refusal(tmp_path) == folder
    assert refusal(os.devnull) == "“null” is not a regular file. Choose a text file."
    assert refusal("a\0b") == "A file name cannot contain a NUL character."


def test_a_text_that_is_too_large_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "MAX_FILE_BYTES", 2 * 10**6)
    path = tmp_path / "long.txt"
    path.write_bytes(b"a " * 10**6)
    assert len(read_text(str(path))) == 2 * 10**6
    path.write_bytes(b"a " * 10**6 + b"!")
    sentence = "“long.txt” has 2,000,001 bytes; the maximum is 2 MB."
    assert refusal(path) == f"{sentence} Use a part of it."


def test_the_reason_of_the_system_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "a.txt"
    path.write_text("text")
    monkeypatch.setattr(text_file, "open_regular_file", refuse)
    assert refusal(path) == "Cannot read “a.txt”: Permission denied."


def test_running_out_of_memory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: Any) -> None:
        raise MemoryError

    path = tmp_path / "a.txt"
    path.write_text("text")
    monkeypatch.setattr(text_file, "open_regular_file", run_out)
    sentence = "Not enough memory to read “a.txt”. Choose a shorter text."
    assert refusal(path) == sentence


def test_a_file_that_changes_during_reading_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text")
    plain = Path.stat
    seen: list[None] = []

    def written_to(self: Path, **how: Any) -> os.stat_result:
        if seen:
            path.write_text("longer text")
        seen.append(None)
        return plain(self, **how)

    monkeypatch.setattr(Path, "stat", written_to)
    assert refusal(path) == "“a.txt” changed while it was being read. Try again."
