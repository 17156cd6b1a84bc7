"""The readers by file suffix; reads captured attention, or weights as a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.importers import numpy_files, pt_safetensors_files
from visualizer.attention.importers.captured_attention_arrays import read_captured_attention
from visualizer.attention.importers.captured_tokens import with_tokens
from visualizer.attention.importers.reader_checks_and_errors import unreadable_file_error
from visualizer.attention.importers.state_dict import is_module, spec_in
from visualizer.errors import reason_of
from visualizer.storage.regular_file import check_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.importers.file_contents import FileContents
    from visualizer.attention.spec import AttentionSpec

READERS: dict[str, Callable[[Path], FileContents]] = {
    ".npy": numpy_files.npy,
    ".npz": numpy_files.npz,
    ".safetensors": pt_safetensors_files.safetensors,
    ".pt": pt_safetensors_files.pt,
    ".pth": pt_safetensors_files.pt,
    ".bin": pt_safetensors_files.pt,
}


def read_tensor_file(
    path: Path, base: AttentionSpec, tokens: int | None = None
) -> tuple[CapturedAttention | AttentionSpec, str]:
    """Read a tensor file, without running code in it or trusting its declared sizes.

    Parameters
    ----------
    base : AttentionSpec
        The current spec, which supplies the settings that a file of weights lacks.
    tokens : int, optional
        Tokens of the current text, to which the mask of a file of weights is cut.

    Returns
    -------
    CapturedAttention or AttentionSpec
        Attention, or the spec of the module whose weights the file holds.
    str
        A notice for the user; may be empty.

    Raises
    ------
    InputError
        Of ``open``: what is wrong with the file and what to do about it.
    """
    contents = list_arrays(path)
    if is_module(contents):
        return spec_in(contents, base, tokens)
    return with_tokens(path, read_captured_attention(path.name, contents), contents.texts)


def list_arrays(path: Path) -> FileContents:
    """List the arrays of a tensor file; see `read_tensor_file`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise unreadable_file_error(f"“{path.name}” is of no kind that can be opened. Use {known}.")
    try:
        check_regular_file(path)  # torch and safetensors open paths, and a pipe would block
    except FileNotFoundError as error:
        sentence = f"There is no file “{path.name}” in {path.absolute().parent}."
        raise unreadable_file_error(sentence) from error
    except OSError as error:
        sentence = f"“{path.name}” could not be opened: {reason_of(error)}."
        raise unreadable_file_error(sentence) from error
    return reader(path)
