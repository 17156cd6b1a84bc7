"""Readers by file suffix, which read captured attention, or weights as a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.importers import numpy_files, pt_safetensors_files
from visualizer.attention.importers.captured_arrays import add_tokens, read_captured_attention
from visualizer.attention.importers.file_contents import unreadable_file_error
from visualizer.attention.importers.state_dict import contains_module, spec_from_file
from visualizer.errors import system_error_reason
from visualizer.storage.regular_file import check_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.importers.file_contents import FileContents
    from visualizer.attention.spec import AttentionSpec

READERS: dict[str, Callable[[Path], FileContents]] = {
    ".npy": numpy_files.list_npy,
    ".npz": numpy_files.list_npz,
    ".safetensors": pt_safetensors_files.list_safetensors,
    ".pt": pt_safetensors_files.list_pt,
    ".pth": pt_safetensors_files.list_pt,
    ".bin": pt_safetensors_files.list_pt,
}


def read_tensor_file(
    path: Path, base: AttentionSpec, tokens: int | None = None
) -> tuple[CapturedAttention | AttentionSpec, str]:
    """Read a tensor file without running its code or trusting its declared sizes.

    Parameters
    ----------
    base : AttentionSpec
        The current spec, which supplies settings that are missing from a file of weights.
    tokens : int, optional
        Number of tokens of the current text, to which the mask of a module is cut.

    Returns
    -------
    CapturedAttention or AttentionSpec
        Attention weights, or the spec of the module whose weights are in the file.
    str
        A notice for the user; may be empty.

    Raises
    ------
    InputError
        With the field ``open``: what is wrong with the file and what to do.
    """
    contents = list_arrays(path)
    if contains_module(contents):
        return spec_from_file(contents, base, tokens)
    return add_tokens(path, read_captured_attention(path.name, contents), contents.texts)


def list_arrays(path: Path) -> FileContents:
    """List the arrays of a tensor file; see `read_tensor_file`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise unreadable_file_error(
            f"Cannot open “{path.name}”: unsupported file type. Supported: {known}."
        )
    try:
        check_regular_file(
            path
        )  # torch and safetensors open paths themselves, and a pipe would block
    except FileNotFoundError as error:
        sentence = f"There is no file “{path.name}” in {path.absolute().parent}."
        raise unreadable_file_error(sentence) from error
    except OSError as error:
        sentence = f"“{path.name}” could not be opened: {system_error_reason(error)}."
        raise unreadable_file_error(sentence) from error
    return reader(path)
