"""What can be exported, as a table: a suffix, what it is called, and who writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import InputError
from visualizer.state import files
from visualizer.ui.pictures import picture, png

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.state.heatmaps import Board


def _png(run: Run, board: Board, caption: str) -> bytes:
    return png(picture(board, caption))


def _npz(run: Run, board: Board, caption: str) -> bytes:
    return files.npz(run)


FORMATS: dict[str, tuple[str, Callable[[Run, Board, str], bytes]]] = {
    ".png": ("Picture of the heatmaps", _png),
    ".npz": ("Numbers of every stage", _npz),
}


def export(path: Path, run: Run, board: Board, caption: str) -> Path:
    """Write a run in the format that the file's name asks for; without a suffix, as PNG.

    Raises
    ------
    InputError
        When the format is unknown or the file cannot be written.
    """
    path = path if path.suffix else path.with_suffix(".png")
    known = FORMATS.get(path.suffix.lower())
    if known is None:
        takes = " or ".join(FORMATS)
        raise InputError("export", f"“{path.suffix}” is no format to export. Use {takes}.")
    files.write(path, known[1](run, board, caption))
    return path
