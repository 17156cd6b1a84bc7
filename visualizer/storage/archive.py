"""Reads and writes zip archives in memory, and validates untrusted archives.

The reader checks every size before it allocates memory. Arrays are stored uncompressed, so they
need no more memory than the size of the file; only texts are compressed, with a separate limit.
Nothing is extracted to disk.

Sources: PKWARE, "APPNOTE.TXT", §4.3.16 (end of central directory); NumPy, "NEP 1: a simple file
format for NumPy arrays".
"""

from __future__ import annotations

import math
import re
import stat
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, BinaryIO

import numpy as np

from visualizer.storage.json_codec import DamagedFileError, format_short_value

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MEMBERS = 10_000
MAX_BYTES = 2_000_000_000
"""Maximum total size of all members, in bytes; larger archives would need ZIP64."""
MAX_TEXT_BYTES = 2**24
"""Maximum uncompressed size of each text, in bytes."""
MAX_TOTAL_TEXT_BYTES = 2**25
"""Maximum total uncompressed size of all texts, in bytes."""
MAX_NAME_LENGTH = 200
ALLOWED_DTYPES = ("<f4", "<f8", "|u1", "<i4")
TEXT_SUFFIXES = (".json", ".txt")
_END_RECORD = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR = struct.Struct("<4sLQL")
"""Format of the ZIP64 locator before the end record; archives that contain it are rejected."""
_MEMBER_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")
_NPY_HEADER = re.compile(
    r"\{'descr': '([<|][a-z]\d)', 'fortran_order': False, 'shape': "
    r"\((|\d{1,19},|\d{1,19}(?:, \d{1,19})+)\), \} *\n"
)
_READ_BLOCK_BYTES = 2**20
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # equal documents have equal bytes

BROKEN_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""Errors that zipfile and zlib raise for malformed files."""


# ------------------------------------------------------------------------------ writing


def write_archive(
    file: BinaryIO, texts: Mapping[str, bytes], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write an archive of texts and arrays, keyed by name; array names have no ``.npy`` suffix.

    Raises
    ------
    DamagedFileError
        If the content exceeds the limits of `read_archive`.
    """
    sizes = [len(text) for text in texts.values()]
    total = sum(sizes) + sum(array.nbytes for array in arrays.values())
    are_texts_short = max(sizes, default=0) <= MAX_TEXT_BYTES and sum(sizes) <= MAX_TOTAL_TEXT_BYTES
    are_few = len(texts) + len(arrays) <= MAX_MEMBERS
    if not (are_texts_short and are_few and total <= MAX_BYTES):
        raise DamagedFileError("is too large")
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            info = _create_member_info(name, zipfile.ZIP_DEFLATED)
            archive.writestr(info, text)
        for name, array in arrays.items():
            with archive.open(
                _create_member_info(f"{name}.npy", zipfile.ZIP_STORED), "w"
            ) as member:
                plain = np.ascontiguousarray(array)
                np.lib.format.write_array(member, plain, version=(1, 0), allow_pickle=False)


def _create_member_info(name: str, compression: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FIXED_TIME)
    info.compress_type = compression
    info.external_attr = 0o600 << 16
    info.create_system = 3
    return info


# ------------------------------------------------------------------------------ reading


def read_archive(file: BinaryIO) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Read the texts and arrays of an archive, keyed by name; array names have no ``.npy`` suffix.

    Raises
    ------
    DamagedFileError
        If the file is not a zip archive in the format of `write_archive`.
    """
    _check_central_directory(file)
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_members(members, file.seek(0, 2))
            texts = {
                one.filename: _read_text_bytes(archive, one)
                for one in members
                if _is_text_member(one)
            }
            arrays = {
                one.filename.removesuffix(".npy"): _read_array(archive, one)
                for one in members
                if not _is_text_member(one)
            }
            return texts, arrays
    except DamagedFileError:
        raise
    except BROKEN_ARCHIVE_ERRORS as error:
        raise DamagedFileError("is damaged: its contents are inconsistent.") from error


def _check_central_directory(file: BinaryIO) -> None:
    """Check the position and length of the central directory before it is read."""
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(2) != b"PK":
        raise DamagedFileError("is not an Attention Visualizer document.")
    file.seek(max(0, size - _END_RECORD.size - _ZIP64_LOCATOR.size))
    tail = file.read()
    larger, end = tail[: -_END_RECORD.size], tail[-_END_RECORD.size :]
    if len(end) < _END_RECORD.size or end[:4] != b"PK\5\6":
        raise DamagedFileError("is incomplete: its end is missing.")
    _, _, _, _, count, length, start, comment = _END_RECORD.unpack(end)
    is_whole = start + length + _END_RECORD.size == size and not comment
    if not is_whole or count > MAX_MEMBERS or larger.startswith(b"PK\6\7"):
        raise DamagedFileError("is damaged: its table of contents is invalid.")
    if length > count * (MAX_NAME_LENGTH + 100):
        raise DamagedFileError("is damaged: its table of contents is too long.")


def _is_text_member(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith(TEXT_SUFFIXES)


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    names = [member.filename for member in members]
    for member in members:
        if problem := _member_problem(member):
            raise DamagedFileError(f"contains {problem}: “{format_short_value(member.filename)}”.")
    if len({name.casefold() for name in names}) < len(names):
        raise DamagedFileError("contains two entries with the same name.")
    if sum(member.compress_size for member in members) > size:
        raise DamagedFileError("is damaged: its entries overlap.")
    texts = sum(member.file_size for member in members if _is_text_member(member))
    if texts > MAX_TOTAL_TEXT_BYTES or sum(member.file_size for member in members) > MAX_BYTES:
        raise DamagedFileError("is too large to open.")


def _member_problem(member: zipfile.ZipInfo) -> str:
    """Return a description of the problem with an entry, or "" if the entry is valid."""
    name, mode = member.filename, member.external_attr >> 16
    is_plain = _MEMBER_NAME.fullmatch(name) and len(name) <= MAX_NAME_LENGTH and ".." not in name
    if not is_plain or not name.endswith((*TEXT_SUFFIXES, ".npy")):
        return "an entry with an invalid name"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG) or member.flag_bits & 1:
        return "an entry that is not a regular file"
    is_stored = member.compress_type == zipfile.ZIP_STORED
    if not is_stored and not (
        _is_text_member(member) and member.compress_type == zipfile.ZIP_DEFLATED
    ):
        return "an entry with unsupported compression"
    if is_stored and member.file_size != member.compress_size:
        return "an entry with inconsistent sizes"
    if _is_text_member(member) and member.file_size > MAX_TEXT_BYTES:
        return "a text that is too long"
    return ""


def _read_text_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as opened:
        text = opened.read(member.file_size)  # without a size, all data would be decompressed
    if len(text) != member.file_size:
        raise EOFError
    return text


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read an array after checking its size against the size of the member."""
    wrong = DamagedFileError(f"contains an invalid array: “{format_short_value(member.filename)}”.")
    with archive.open(member) as opened:
        start = opened.read(10)
        if len(start) < 10 or start[:8] != b"\x93NUMPY\x01\x00":
            raise wrong
        length = int.from_bytes(start[8:], "little")
        header = _NPY_HEADER.fullmatch(opened.read(length).decode("latin-1"))
        if not header or header[1] not in ALLOWED_DTYPES:
            raise wrong
        shape = tuple(int(size) for size in header[2].split(",") if size)
        needed = math.prod(shape) * int(header[1][2:])
        if len(shape) > 8 or needed != member.file_size - 10 - length:
            raise wrong
        array = np.empty(shape, header[1])
        _read_into_buffer(opened, array.reshape(-1).view(np.uint8))
    return array


def _read_into_buffer(opened: IO[bytes], buffer: np.ndarray) -> None:
    at = 0
    while block := opened.read(_READ_BLOCK_BYTES):
        buffer[at : at + len(block)] = np.frombuffer(block, np.uint8)
        at += len(block)
    if at < len(buffer):
        raise EOFError
