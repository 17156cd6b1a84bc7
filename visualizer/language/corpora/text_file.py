"""Reads a text file for training, or explains why the file is rejected.

A byte order mark (BOM) identifies UTF-16 or UTF-32; a file without one is UTF-8.
"""

from __future__ import annotations

import codecs
import stat
from pathlib import Path

from visualizer.errors import InputError, system_error_reason
from visualizer.storage.regular_file import open_regular_file

MAX_FILE_BYTES = 100 * 10**6
"""Maximum size of a text file, in bytes."""

_ENCODING_BY_MARK = {  # UTF-32 is first, because its mark begins with that of UTF-16
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_CONTROL_BYTES = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})
_BINARY_SHARE = 0.01
"""Fraction of control characters above which a file is considered binary, in any encoding."""
_ZERO_SHARE = 0.3
"""Fraction of zeros among every other byte above which UTF-16 without a mark is assumed."""
_EXAMINED_BYTES = 1 << 16


def read_text(path: str) -> str:
    """Read a text file, without its byte order mark.

    Raises
    ------
    InputError
        With field ``"path"`` if the file is too large, empty, missing, not regular, unreadable, not
        a text file, in another encoding, or changed during reading.
    """
    subject = f"“{Path(path).name or path}”"
    try:
        return _decode_text(_read_content(Path(path), subject), subject)
    except FileNotFoundError as error:
        raise InputError("path", f"File not found: {path}.") from error
    except MemoryError as error:
        sentence = f"Not enough memory to read {subject}. Choose a shorter text."
        raise InputError("path", sentence) from error
    except OSError as error:
        raise InputError("path", f"Cannot read {subject}: {system_error_reason(error)}.") from error


def _read_content(path: Path, subject: str) -> bytes:
    if "\0" in str(path):
        raise InputError("path", "A file name cannot contain a NUL character.")
    before = path.stat()
    if not stat.S_ISREG(before.st_mode):
        what = "a folder" if stat.S_ISDIR(before.st_mode) else "not a regular file"
        raise InputError("path", f"{subject} is {what}. Choose a text file.")
    with open_regular_file(path) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        limit = f"the maximum is {MAX_FILE_BYTES // 10**6:,} MB"
        size = f"{max(len(content), before.st_size):,} bytes"
        raise InputError("path", f"{subject} has {size}; {limit}. Use a part of it.")
    after = path.stat()
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, len(content)):
        raise InputError("path", f"{subject} changed while it was being read. Try again.")
    return content


def _decode_text(content: bytes, subject: str) -> str:
    mark = next((mark for mark in _ENCODING_BY_MARK if content.startswith(mark)), b"")
    if len(content) == len(mark):
        raise InputError("path", f"{subject} is empty. Choose a file that contains text.")
    encoding = _ENCODING_BY_MARK.get(mark, "utf-8")
    rest = memoryview(content)[len(mark) :]
    try:
        text = str(rest, encoding)
    except UnicodeDecodeError as error:
        if _is_binary(content[len(mark) :]) and encoding == "utf-8":
            raise InputError("path", _binary_file_message(subject, content)) from error
        raise InputError(
            "path", _decoding_error_message(subject, content, len(mark) + error.start, encoding)
        ) from error
    if "\0" in text:
        raise InputError("path", _binary_file_message(subject, content))
    return text


def _is_binary(content: bytes) -> bool:
    return len(content) - len(content.translate(None, _CONTROL_BYTES)) > _BINARY_SHARE * len(
        content
    )


def _binary_file_message(subject: str, content: bytes) -> str:
    some = content[:_EXAMINED_BYTES]
    fewer, more = sorted(half.count(0) / max(1, len(half)) for half in (some[0::2], some[1::2]))
    if more > _ZERO_SHARE and fewer < _BINARY_SHARE:
        wide = "it appears to be UTF-16 without a byte order mark"
        return f"{subject} is not encoded in UTF-8: {wide}. Save it as UTF-8 and choose it again."
    return f"{subject} is a binary file. Choose a text file."


def _decoding_error_message(subject: str, content: bytes, place: int, encoding: str) -> str:
    title = encoding.removesuffix("-le").removesuffix("-be").upper()
    line = content.count(b"\n", 0, place) + 1
    where = f"invalid byte 0x{content[place]:02X} at position {place + 1:,}, line {line:,}"
    return f"{subject} is not encoded in {title}: {where}. Save it as UTF-8 and choose it again."
