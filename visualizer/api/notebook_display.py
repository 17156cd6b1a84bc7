"""Figures, overviews and explained values that notebooks can display."""

from __future__ import annotations

import io
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import validate_path, validate_sequence
from visualizer.brief_repr import truncate
from visualizer.errors import InputError
from visualizer.export.figure_settings import MM_PER_INCH, PIXELS_PER_INCH
from visualizer.export.offscreen_qt_application import describe_missing_characters, offscreen_qt
from visualizer.format import subscript_symbols
from visualizer.progress import ignore_progress
from visualizer.session.computation_caption import describe_value_origin
from visualizer.storage import atomic_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.figures.notebook_page import NotebookPage
    from visualizer.features.explain.presenter import CellExplanation
    from visualizer.session.export_snapshot import ExportSnapshot

MAX_SVG_BYTES = 2_000_000
"""Maximum size, in bytes, of an SVG in a notebook; larger figures are shown as PNG."""
MAX_DISPLAYED_WIDTH_PX = 960
"""Maximum width at which a notebook displays a figure; JupyterLab cuts off what does not fit."""


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Figure:
    """A figure of heatmaps, with its settings.

    The figure is drawn when it is displayed, saved or converted to pixels. It can be drawn in any
    thread and without a screen.

    Examples
    --------
    >>> figure = attention.figure("weights")  # displayed if it is the last expression of a cell
    """

    shot: ExportSnapshot
    look: FigureSettings

    def __repr__(self) -> str:
        return truncate(f"<Figure of {describe_value_origin(self.shot.run)}>")

    def save(self, *paths: str | Path) -> None:
        """Write files, each in the format of its suffix, and replace existing files.

        Raises
        ------
        InputError
            If no path is given, a format is unknown, text would be too small to print, a file
            cannot be written, or there is not enough memory.

        Examples
        --------
        >>> attention.figure("weights").save("figure.svg", "figure.png")
        """
        files = [
            validate_path("path", path)
            for path in validate_sequence("paths", "the name of a file", paths)
        ]
        with self._prepare_drawing():
            from visualizer.export.writers import export_file

            notices: list[str] = []
            for file in files:
                export_file(file, self.shot, self.look, notice=notices.append)
        for sentence in dict.fromkeys(notices):
            warnings.warn(sentence, stacklevel=2)

    def array(self) -> np.ndarray:
        """Render the figure as an array of pixels.

        Returns
        -------
        numpy.ndarray
            The pixels, uint8 [row, column, 4]: red, green, blue and alpha.

        Examples
        --------
        >>> attention.figure("weights").array().shape[2]
        4
        """
        with self._prepare_drawing():
            from visualizer.export.figures.rasterization import render_figure_pixels

            return render_figure_pixels(self.shot, self.look)

    def plot(self, ax: Any = None) -> Any:
        """Draw the heatmap into the axes of a matplotlib figure, with the tokens as tick labels.

        ::

            figure, axes = matplotlib.pyplot.subplots(1, 2)
            for head, ax in enumerate(axes):
                model_attention.figure("weights", heads=head, layer=3).plot(ax=ax)

        Masked and dropped cells are masked in the image. The colours are a linear scale.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes; those of ``matplotlib.pyplot.gca()`` by default.

        Returns
        -------
        matplotlib.image.AxesImage
            The image, which ``matplotlib.pyplot.colorbar`` accepts.

        Raises
        ------
        InputError
            If matplotlib is not installed, or the figure does not have exactly one heatmap.

        Examples
        --------
        >>> axes = attention.figure("weights", heads=0).plot()  # requires matplotlib
        """
        with self._prepare_drawing():
            from visualizer.api.matplotlib_heatmap import plot_heatmap

            return plot_heatmap(self.shot, self.look, ax)

    @contextmanager
    def _prepare_drawing(self) -> Iterator[None]:
        with offscreen_qt():
            if notice := describe_missing_characters(self.shot, self.look):
                warnings.warn(notice, stacklevel=4)
            yield

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        content = self._encode_figure(".png")
        width = int.from_bytes(content[16:20], "big")  # the width field of a PNG
        shown = min(round(width / self.look.dpi * PIXELS_PER_INCH), MAX_DISPLAYED_WIDTH_PX)
        return content, {"width": shown}

    def _repr_svg_(self) -> str | None:
        content = self._encode_figure(".svg")
        return _limit_width(content.decode()) if len(content) <= MAX_SVG_BYTES else None

    def _encode_figure(self, suffix: str) -> bytes:
        with self._prepare_drawing():
            from visualizer.export.writers import WRITERS

            file = io.BytesIO()
            WRITERS[suffix](self.shot, self.look, file, ignore_progress)
        return file.getvalue()


def _limit_width(svg: str) -> str:
    """Reduce the displayed size of an SVG image to the maximum width."""
    size = re.search(r'width="([\d.]+)mm" height="([\d.]+)mm"', svg)
    if size is None:
        return svg
    width, height = map(float, size.groups())
    factor = min(1.0, MAX_DISPLAYED_WIDTH_PX / PIXELS_PER_INCH * MM_PER_INCH / width)
    fitted = f'width="{width * factor:.4f}mm" height="{height * factor:.4f}mm"'
    return svg.replace(size[0], fitted, 1)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ExplainedValue:
    """A value with its meaning and the terms of its computation.

    Examples
    --------
    >>> explained = attention.explain("weights", head=0, query=2, key=1)
    >>> bool(explained.value == attention["weights", 0, 2, 1])
    True
    >>> print(explained)
    """

    readout: CellExplanation
    value: float

    @property
    def sentence(self) -> str:
        """The meaning of the value, as a sentence."""
        return self.readout.plain_text

    @property
    def formula(self) -> str:
        """The formula of the value."""
        return self.readout.formula

    @property
    def terms(self) -> tuple[tuple[str, str, str], ...]:
        """The terms of the computation, each with its source, product and value."""
        return tuple((term.name, term.product, term.value) for term in self.readout.terms)

    def __str__(self) -> str:
        return "\n".join([self.readout.heading, self.sentence, self.formula, *self._format_terms()])

    def __repr__(self) -> str:
        return truncate(
            f"<ExplainedValue: {self.readout.heading} = {self.value:.6g} · {self.sentence}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(part)}</td>' for part in term)}</tr>"
            for term in self.terms
        )
        ends = "<br>".join(
            escape(part) for part in (self.readout.rest, self.readout.closing) if part
        )
        formula = f"<code>{escape(self.formula)}</code>"
        sentence = subscript_symbols(self.readout.sentence)
        return f"<p>{sentence}</p><p>{formula}</p><table>{rows}</table><p>{ends}</p>"

    def _format_terms(self) -> Iterator[str]:
        widths = [max(map(len, column)) for column in zip(*self.terms, strict=True)]
        for term in self.terms:
            padded = (part.ljust(width) for part, width in zip(term, widths, strict=True))
            yield f"  {'  '.join(padded).rstrip()}"
        yield from filter(None, (self.readout.rest, self.readout.closing))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Overview:
    """An image of all heads, which notebooks display.

    Examples
    --------
    >>> overview = model_attention.overview()
    """

    png: bytes
    about: str = ""

    def __repr__(self) -> str:
        return truncate(f"<Overview: PNG of {len(self.png):,} bytes · {self.about}>")

    def save(self, path: str | Path) -> None:
        """Write the image as a PNG file and replace an existing file.

        Raises
        ------
        InputError
            If the file cannot be written, or its name does not end in ``.png``.

        Examples
        --------
        >>> model_attention.overview().save("heads.png")
        """
        _write_file(path, (".png",), "The overview is a PNG.", self.png)

    def _repr_png_(self) -> bytes:
        return self.png


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InteractiveView:
    """An interactive page, which notebooks display in a frame.

    The page contains its data and loads nothing. In the frame, its script has no access to the
    notebook.

    Examples
    --------
    >>> view = model_attention.interactive()
    """

    page: NotebookPage
    about: str = ""
    image: bytes = b""
    """A PNG image, for notebooks that are not trusted."""

    @property
    def html(self) -> str:
        """The page."""
        return self.page.html

    def __repr__(self) -> str:
        return truncate(f"<InteractiveView: page of {len(self.html):,} bytes · {self.about}>")

    def save(self, path: str | Path) -> None:
        """Write the page as an HTML file and replace an existing file.

        Raises
        ------
        InputError
            If the file cannot be written, or its name does not end in ``.html``.

        Examples
        --------
        >>> model_attention.interactive().save("heads.html")
        """
        _write_file(path, (".html", ".htm"), "The view is a web page.", self.html.encode())

    def _repr_html_(self) -> str:
        from visualizer.export.figures.notebook_page import frame_notebook_page

        return frame_notebook_page(self.page, self.image)


def _write_file(path: str | Path, suffixes: tuple[str, ...], kind: str, data: bytes) -> None:
    """Write a file and replace an existing one; reject a name that ends in none of the suffixes."""
    target = validate_path("path", path)
    if target.suffix.lower() not in suffixes:
        raise InputError("path", f"{kind} Use a name that ends in {suffixes[0]}.")
    atomic_file.write_atomically(target, lambda file: file.write(data))
