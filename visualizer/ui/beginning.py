"""How a file of numbers begins, written by what writes the file, and how large it will be."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from visualizer.state.figure import framed
from visualizer.state.words import size
from visualizer.state.written import sheets
from visualizer.state.written.sizes import (
    size_of_arrays,
    size_of_csv,
    size_of_json,
    size_of_markdown,
)
from visualizer.ui.tensors import weights_in
from visualizer.ui.writers import WRITERS

if TYPE_CHECKING:
    from typing import BinaryIO

    from visualizer.attention.run import Run
    from visualizer.state.figure import Shot
    from visualizer.state.progress import Progress
    from visualizer.state.wish import Wish

LINES = 40
LONGEST_LINE = 1000
MOST_BYTES = 2**18
LARGE = 50 * 2**20
"""Bytes of text from which on it is said that another format is smaller."""
TEXTS = frozenset({".csv", ".md", ".json"})


class _FullError(Exception):
    """Enough is written."""


class _Beginning:
    """A file that takes no more than its first lines."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> int:
        """Take bytes, until there are enough."""
        self.written += data
        if self.written.count(b"\n") >= LINES or len(self.written) >= MOST_BYTES:
            raise _FullError
        return len(data)


def beginning(shot: Shot, wish: Wish, progress: Progress) -> str:
    """Write the first lines of a file of numbers; of one that is no text, list what is in it.

    Raises
    ------
    InputError
        When there can be no such file.
    """
    if wish.suffix not in TEXTS:
        return "\n".join(_listed(shot.run, name) for name in _names(shot.run, wish.suffix))
    file = _Beginning()
    with suppress(_FullError):
        WRITERS[wish.suffix](shot, wish.asked, cast("BinaryIO", file), progress)
    lines = file.written.decode("utf-8-sig", "replace").splitlines()
    is_cut = len(lines) >= LINES or len(file.written) >= MOST_BYTES
    return "\n".join([*map(_cut, lines[:LINES]), *(["…"] if is_cut else [])])


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _names(run: Run, suffix: str) -> tuple[str, ...]:
    weights = weights_in(run) if suffix == ".safetensors" else tuple(run.trace.parameters)
    return weights if suffix == ".safetensors" else (*run.trace.names, *weights)


def _listed(run: Run, name: str) -> str:
    """Give an array's name, sizes and type; the weights of a run stand in a folder of their own."""
    trace = run.trace
    shape = trace.tensor(name).shape
    dims: tuple[str, ...] = ("",) * len(shape)
    if name in trace.names:
        dims = (*("text" for _ in trace.batch), *trace.stage(name).dims)
    sizes = (f"{size:,} {dim}".strip() for size, dim in zip(shape, dims, strict=True))
    return f"{name}  {' × '.join(sizes)}  {trace.read(name, (slice(0, 1),)).dtype}"


def told(shot: Shot, wish: Wish) -> str:
    """Say how large the file will be, and where the same numbers take less."""
    run, suffix = shot.run, wish.suffix
    arrays = size_of_arrays(run, _names(run, suffix))
    if suffix not in TEXTS:
        return f"About {size(arrays)}"
    seen = sheets.shown(framed(shot, wish.asked))
    count = {
        ".csv": lambda: size_of_csv(run, seen),
        ".md": lambda: size_of_markdown(run, seen),
        ".json": lambda: size_of_json(run),
    }[suffix]()
    if count < LARGE:
        return f"About {size(count)}"
    return (
        f"About {size(count)}, which takes its time to be written and to be read. "
        f"As NPZ, all stages have {size(arrays)}."
    )
