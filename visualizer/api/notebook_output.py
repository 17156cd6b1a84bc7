"""What a notebook shows by itself: figures, and numbers that are explained."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.export.figure_settings import PIXELS_AN_INCH
from visualizer.export.offscreen import drawing, lacking_fonts
from visualizer.progress_callback import no_progress
from visualizer.session.run_caption import caption

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.features.cell.model import CellPanel
    from visualizer.session.screen import Snapshot

LARGEST_SVG = 2_000_000
"""Bytes of a drawing that a notebook keeps; above, it gets a picture."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Figure:
    """Heatmaps of a moment of a computation, and how they look.

    It is drawn when it is shown, saved or asked for its pixels. Where an application of Qt is
    running, that draws, in any thread; else one without a screen is made for the time that it
    takes, in the main thread only.
    """

    shot: Snapshot
    look: FigureSettings

    def __repr__(self) -> str:
        return f"<Figure of {caption(self.shot.run)}>"

    def save(self, *paths: str | Path) -> None:
        """Write files, each in the format that its name asks for; those that are there, anew.

        Raises
        ------
        InputError
            When a format is unknown, a file cannot be written or the memory does not hold it.
        """
        with self._drawing():
            from visualizer.export.writers import export

            for path in paths:
                export(Path(path), self.shot, self.look)

    def array(self) -> np.ndarray:
        """Draw it as pixels.

        Returns
        -------
        numpy.ndarray
            uint8 [row, column, 4]: red, green, blue and opacity.
        """
        with self._drawing():
            from visualizer.export.figures.png_writer import pixels

            return pixels(self.shot, self.look)

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        with drawing():
            if lacking := lacking_fonts(self.shot, self.look):
                warnings.warn(lacking, stacklevel=4)
            yield

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        content = self._written(".png")
        width = int.from_bytes(content[16:20], "big")  # where a PNG has it
        return content, {"width": round(width / self.look.dpi * PIXELS_AN_INCH)}

    def _repr_svg_(self) -> str | None:
        content = self._written(".svg")
        return content.decode() if len(content) <= LARGEST_SVG else None

    def _written(self, suffix: str) -> bytes:
        with self._drawing():
            from visualizer.export.writers import WRITERS

            file = io.BytesIO()
            WRITERS[suffix](self.shot, self.look, file, no_progress)
        return file.getvalue()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Explained:
    """A number in words: what it means, and the terms that make it."""

    readout: CellPanel
    value: float

    @property
    def sentence(self) -> str:
        """What it means, in one sentence."""
        return self.readout.plain

    @property
    def formula(self) -> str:
        """How it is worked out."""
        return self.readout.formula

    @property
    def terms(self) -> tuple[tuple[str, str, str], ...]:
        """The terms: whose each is, the product it is, and what that comes to."""
        return tuple((term.name, term.written, term.value) for term in self.readout.terms)

    def __repr__(self) -> str:
        return "\n".join([self.readout.heading, self.sentence, self.formula, *self._lines()])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(part)}</td>' for part in term)}</tr>"
            for term in self.terms
        )
        ends = "<br>".join(
            escape(part) for part in (self.readout.rest, self.readout.closing) if part
        )
        formula = f"<code>{escape(self.formula)}</code>"
        return f"<p>{self.readout.sentence}</p><p>{formula}</p><table>{rows}</table><p>{ends}</p>"

    def _lines(self) -> Iterator[str]:
        widths = [max(map(len, column)) for column in zip(*self.terms, strict=True)]
        for term in self.terms:
            padded = (part.ljust(width) for part, width in zip(term, widths, strict=True))
            yield f"  {'  '.join(padded).rstrip()}"
        yield from filter(None, (self.readout.rest, self.readout.closing))
