"""Readers of ``.safetensors`` and ``.pt`` files, which never run the code in a file."""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open

from visualizer.attention.importers.tensor_file_listing import (
    MAX_ENTRIES,
    MAX_TEXT_CHARACTERS,
    ArrayEntry,
    TensorFileContents,
    check_declared_size,
    convert_read_errors,
    sort_naturally,
    unreadable_file_error,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

MAX_DEPTH = 8
_DOUBLE = {torch.float64, torch.int64, torch.uint32, torch.uint64}
_WIDE = {"F64": 8, "I64": 8, "U64": 8, "U32": 8}


def list_safetensors_arrays(path: Path) -> TensorFileContents:
    """List the tensors in a ``.safetensors`` file, and the tokens in its metadata."""
    entries, left_out, size = [], [], path.stat().st_size
    with convert_read_errors(path), safe_open(str(path), framework="pt") as file:
        texts = _read_tokens_in_metadata(file.metadata() or {})
        names = list(file.keys())
        _check_tensor_count(path, len(names))
        for name in names:
            part = file.get_slice(name)
            shape, dtype = tuple(part.get_shape()), part.get_dtype()
            check_declared_size(name, shape, 1, 2 * size)  # the smallest types take half a byte
            if dtype.startswith("C"):
                left_out.append(f"{name} (complex numbers)")
            else:
                read = partial(_read_safetensors, path, name)
                entries.append(ArrayEntry(name, shape, dtype in _WIDE, read))
    return TensorFileContents(sort_naturally(entries), texts, tuple(left_out))


def _read_safetensors(path: Path, name: str) -> np.ndarray:
    with convert_read_errors(path), safe_open(str(path), framework="pt") as file:
        return _to_array(file.get_tensor(name))


def _read_tokens_in_metadata(metadata: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Read tokens that are stored as JSON lists, and ignore all other metadata."""
    found = {}
    for name, written in metadata.items():
        if len(written) <= MAX_TEXT_CHARACTERS and written.lstrip().startswith("["):
            try:
                words = json.loads(written)
            except (ValueError, RecursionError):
                continue
            if _is_token_list(words):
                found[name] = tuple(words)
    return found


def list_pt_arrays(path: Path) -> TensorFileContents:
    """List the tensors in a file written by `torch.save`; files that contain code are rejected."""
    with convert_read_errors(path):
        _check_archive_format(path)
        try:
            held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except UnpicklingError as error:
            reason = "it contains Python objects, which could run code"
            sentence = f"“{path.name}” was not opened because {reason}. "
            sentence += "Save only tensors, lists and dicts."
            raise unreadable_file_error(sentence) from error
    return _list_tensors(path, held)


def _check_archive_format(path: Path) -> None:
    """Raise `InputError` if a file's format does not state its size, or the size is too large."""
    if not zipfile.is_zipfile(path):
        raise unreadable_file_error(
            f"“{path.name}” is not in the format of PyTorch 1.6 or later. "
            "Load it and save it again with torch.save."
        )
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    size = path.stat().st_size
    is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if is_packed or sum(member.file_size for member in members) > size:
        raise unreadable_file_error(
            f"“{path.name}” was not opened because it was not written by torch.save."
        )
    _check_tensor_count(path, len(members))


def _check_tensor_count(path: Path, count: int) -> None:
    if count > MAX_ENTRIES:
        raise unreadable_file_error(
            f"“{path.name}” contains more than {MAX_ENTRIES:,} tensors. "
            "Save only the attention weights."
        )


def _list_tensors(path: Path, held: Any) -> TensorFileContents:
    entries, texts, left_out, size = [], {}, [], path.stat().st_size
    for count, (name, value) in enumerate(_iterate_tensors_and_tokens("", held, 0, set())):
        _check_tensor_count(path, count)
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided or value.is_quantized or value.is_complex():
                left_out.append(f"{name or 'a tensor'} ({value.dtype}, {value.layout})")
                continue
            if value.device.type != "cpu":
                left_out.append(f"{name or 'a tensor'} (no data)")
                continue
            shape = tuple(value.shape)
            check_declared_size(name or path.name, shape, value.element_size(), size)
            read = partial(_read_tensor, path, value)
            entries.append(ArrayEntry(name, shape, value.dtype in _DOUBLE, read))
        elif _is_token_list(value):
            texts[name] = tuple(value)
    return TensorFileContents(sort_naturally(entries), texts, tuple(left_out))


def _iterate_tensors_and_tokens(
    name: str, value: Any, depth: int, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    """Yield each tensor and token list of nested dicts and lists once, with its dotted name."""
    if isinstance(value, torch.Tensor) or _is_token_list(value):
        yield name, value
    elif isinstance(value, dict | list | tuple) and depth < MAX_DEPTH and id(value) not in seen:
        seen.add(id(value))
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            joined = f"{name}.{key}" if name else str(key)
            yield from _iterate_tensors_and_tokens(joined[-200:], inner, depth + 1, seen)


def _is_token_list(value: Any) -> bool:
    is_list = isinstance(value, list | tuple) and bool(value)
    return is_list and all(isinstance(word, str) for word in value)


def _read_tensor(path: Path, tensor: torch.Tensor) -> np.ndarray:
    with convert_read_errors(path):
        return _to_array(tensor)


def _to_array(tensor: torch.Tensor) -> np.ndarray:
    dtype = torch.float64 if tensor.dtype in _DOUBLE else torch.float32
    array: np.ndarray = tensor.detach().to(dtype).contiguous().numpy()
    return array
