"""What can be exported, as a table: a suffix, what it is called, and who writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.state.caption import caption
from visualizer.ui.pictures import picture, png

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.state.heatmaps import Board


def _png(run: Run, board: Board) -> bytes:
    return png(picture(board, caption(run)))


def _npz(run: Run, board: Board) -> bytes:
    return files.npz(run)


FORMATS: dict[str, tuple[str, Callable[[Run, Board], bytes]]] = {
    ".png": ("Picture of the heatmaps", _png),
    ".npz": ("Numbers of every stage", _npz),
}


def named(name: str, chosen: str) -> Path:
    """Give a file's path; a name without a suffix takes that of the chosen kind of file."""
    path = Path(name)
    suffix = next((suffix for suffix in FORMATS if f"*{suffix}" in chosen), ".png")
    return path if path.suffix else path.with_suffix(suffix)


def export(path: Path, run: Run, board: Board) -> Path:
    """Write a run in the format that the file's name asks for.

    Raises
    ------
    InputError
        When the format is unknown or the file cannot be written.
    """
    known = FORMATS.get(path.suffix.lower())
    if known is None:
        takes = " or ".join(FORMATS)
        raise InputError("export", f"“{path.suffix}” is no format to export. Use {takes}.")
    files.write(path, known[1](run, board))
    return path
