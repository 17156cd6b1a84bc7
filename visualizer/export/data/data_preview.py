"""The first lines of a data export."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from visualizer.export.data.file_size_estimate import array_names
from visualizer.export.data.parameters_safetensors_writer import mask_names
from visualizer.export.writers import WRITERS

if TYPE_CHECKING:
    from typing import BinaryIO

    from visualizer.attention.run import Run
    from visualizer.export.export_settings import ExportSettings
    from visualizer.progress_callback import Progress
    from visualizer.session.exportable_snapshot import Snapshot


LINES = 40
MAX_LINE_CHARACTERS = 1000
MAX_PREVIEW_BYTES = 2**18


class PreviewFullError(Exception):
    """Raised by `PreviewStream` once it is full."""


class PreviewStream:
    """Output file that accepts only the first lines."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> int:
        """Write bytes; raise `PreviewFullError` once the preview is full."""
        self.written += data
        if self.written.count(b"\n") >= LINES or len(self.written) >= MAX_PREVIEW_BYTES:
            raise PreviewFullError
        return len(data)


def preview_text(snapshot: Snapshot, settings: ExportSettings, progress: Progress) -> str:
    """Return the first lines of a text export, or the list of arrays of a binary export.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    if not settings.format.is_text:
        run, suffix = snapshot.run, settings.suffix
        lines = [_describe_array(run, name) for name in array_names(run, suffix)]
        if suffix == ".safetensors":
            sizes = f"{run.trace.tokens:,} × {run.trace.tokens:,}"
            lines += [f"{name}  {sizes}  float32" for name in mask_names(run)]
        return "\n".join(lines)
    file = PreviewStream()
    with suppress(PreviewFullError):
        WRITERS[settings.suffix](
            snapshot, settings.figure_settings, cast("BinaryIO", file), progress
        )
    lines = file.written.decode("utf-8-sig", "replace").splitlines()
    is_cut = len(lines) >= LINES or len(file.written) >= MAX_PREVIEW_BYTES
    return "\n".join([*map(_truncate_line, lines[:LINES]), *(["…"] if is_cut else [])])


def _truncate_line(line: str) -> str:
    return line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]}…"


def _describe_array(run: Run, name: str) -> str:
    """Return an array's name, shape with dims, and dtype."""
    trace = run.trace
    shape = trace.shape(name)
    dims: tuple[str, ...] = ("",) * len(shape)
    if name in trace.names:
        dims = (*trace.axes, *trace.stage(name).dims)
    sizes = (f"{size:,} {dim}".strip() for size, dim in zip(shape, dims, strict=True))
    return f"{name}  {' × '.join(sizes)}  {trace.read(name, (slice(0, 1),)).dtype}"
