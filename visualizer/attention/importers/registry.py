"""The door through which files come in: attention to be shown, or weights to compute with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.importers import numpy_files, pt_safetensors_files
from visualizer.attention.importers.captured_arrays import captured_in, with_tokens
from visualizer.attention.importers.file_contents import reading, refused
from visualizer.attention.importers.state_dict import is_module, spec_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.captured import CapturedAttention
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
    path: Path, base: AttentionSpec
) -> tuple[CapturedAttention | AttentionSpec, str]:
    """Open a file; nothing in it is run, and no more is read than it holds.

    Parameters
    ----------
    base : AttentionSpec
        The present one: it decides what a file of weights does not say.

    Returns
    -------
    Captured or AttentionSpec
        Attention, or the module whose weights these are.
    str
        What must be said of it; empty where nothing must.

    Raises
    ------
    InputError
        Of ``open``: what is wrong with the file and what to do about it.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise refused(f"“{path.name}” is of no kind that can be opened. Use {known}.")
    with reading(path):
        is_file = path.is_file()  # a pipe would keep one waiting
    if not is_file:
        raise refused(f"There is no file “{path.name}” in {path.absolute().parent}.")
    contents = reader(path)
    if is_module(contents):
        return spec_in(contents, base)
    return with_tokens(path, captured_in(path.name, contents), contents.texts)
