"""Readers of ``.npy`` and ``.npz`` files, which check headers before they allocate memory."""

from __future__ import annotations

import math
import os
import zipfile
from contextlib import contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from visualizer.attention.importers.tensor_file_listing import (
    MAX_ENTRIES,
    MAX_TEXT_CHARACTERS,
    ArrayEntry,
    TensorFileContents,
    check_declared_size,
    convert_read_errors,
    is_double,
    missing_document_message,
    sort_naturally,
    unreadable_file_error,
)
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Open = Callable[[], AbstractContextManager[IO[bytes]]]

MAX_COMPRESSION_RATIO = 100
ALLOWED_UNPACKED_BYTES = 2**26
"""Unpacked size, in bytes, up to which the compression ratio of an archive is not limited."""

DOCUMENT_MEMBER = "document"
"""Name of the array in an exported NPZ file that contains the bytes of the exported document."""
EXPORT_MEMBERS = {"spec.npy", "tokens.npy", "input.npy"}
"""Names of the members that every NPZ file exported from a module contains."""


class NpyHeader(NamedTuple):
    """The header of a ``.npy`` file or of a member of an archive."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype


def list_npy_arrays(path: Path) -> TensorFileContents:
    """List the array in a ``.npy`` file."""
    with convert_read_errors(path), open_regular_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        return _combine_arrays(
            [_list_array(path, "", file, size, partial(open_regular_file, path))]
        )


def list_npz_arrays(path: Path) -> TensorFileContents:
    """List the arrays in a ``.npz`` file, without extracting them to disk."""
    found = []
    with convert_read_errors(path), _read_archive(path) as archive:
        members = archive.infolist()
        _check_archive_size(path, members)
        names = {member.filename for member in members}
        if names >= EXPORT_MEMBERS and f"{DOCUMENT_MEMBER}.npy" not in names:
            raise unreadable_file_error(missing_document_message(path))
        for member in members:
            if member.filename.endswith(".npy"):
                name = member.filename.removesuffix(".npy")
                with archive.open(member) as file:
                    open_ = partial(_open_member, path, member)
                    found.append(_list_array(path, name, file, member.file_size, open_))
    return _combine_arrays(found)


def _check_archive_size(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_ENTRIES:
        raise unreadable_file_error(
            f"“{path.name}” contains {len(members):,} arrays; the maximum is {MAX_ENTRIES:,}. "
            "Save only the attention weights."
        )
    unpacked, size = sum(member.file_size for member in members), path.stat().st_size
    if unpacked > max(ALLOWED_UNPACKED_BYTES, MAX_COMPRESSION_RATIO * size):
        times = f"{unpacked / size:,.0f} times its size"
        raise unreadable_file_error(
            f"“{path.name}” was not opened because it would unpack to {times}."
        )


@contextmanager
def _read_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with open_regular_file(path) as file, zipfile.ZipFile(file) as archive:
        yield archive


@contextmanager
def _open_member(path: Path, member: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    with _read_archive(path) as archive, archive.open(member) as file:
        yield file


def _combine_arrays(found: list[TensorFileContents]) -> TensorFileContents:
    entries = [entry for contents in found for entry in contents.entries]
    texts = {name: words for contents in found for name, words in contents.texts.items()}
    left_out = tuple(text for contents in found for text in contents.left_out)
    return TensorFileContents(sort_naturally(entries), texts, left_out)


def _list_array(
    path: Path, name: str, file: IO[bytes], size: int, open_: Open
) -> TensorFileContents:
    """List one array from a file that is positioned at the start of the array."""
    header = _read_header(file)
    check_declared_size(name or path.name, header.shape, header.dtype.itemsize, size - file.tell())
    kind = header.dtype.kind
    if kind in "biuf":
        read = partial(_read_numbers, path, open_, header)
        return TensorFileContents(
            (ArrayEntry(name, header.shape, is_double(header.dtype), read),), {}
        )
    if kind in "US" and len(header.shape) == 1 and size <= MAX_TEXT_CHARACTERS:
        words = _read_array(file, header).astype(str).tolist()
        return TensorFileContents((), {name: tuple(words)})
    called = "complex numbers" if kind == "c" else f"type {header.dtype}"[:40]
    return TensorFileContents((), {}, (f"{name or 'an array'} ({called})",))


def _read_header(file: IO[bytes]) -> NpyHeader:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    header = NpyHeader(*read(file))
    if not all(type(size) is int for size in header.shape):  # numpy accepts True as 1
        raise ValueError("a size is not an integer")
    return header


def _read_numbers(path: Path, open_: Open, header: NpyHeader) -> np.ndarray:
    with convert_read_errors(path), open_() as file:
        _read_header(file)
        array = _read_array(file, header)
    return np.ascontiguousarray(array, np.float64 if is_double(array.dtype) else np.float32)


def _read_array(file: IO[bytes], header: NpyHeader) -> np.ndarray:
    count = math.prod(header.shape)
    data = file.read(count * header.dtype.itemsize)
    flat = np.frombuffer(data, header.dtype, count)
    return flat.reshape(header.shape[::-1]).T if header.is_fortran else flat.reshape(header.shape)
