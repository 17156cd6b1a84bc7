"""The document and the figure settings that command-line options ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.attention.spec import Device, Dtype, Mask, Projection
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.film_settings import FilmSettings
from visualizer.export.option_parsing import figure_settings
from visualizer.session import document_from_texts_and_settings
from visualizer.session.timeline import Grain

if TYPE_CHECKING:
    import argparse

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.document import Document


def document_of(options: argparse.Namespace, base: Document | None = None) -> Document:
    """Make the document that the options describe; the base supplies the rest."""
    given = {
        "mechanism": options.mechanism,
        "projection": options.projection and Projection(options.projection),
        "d_in": options.embedding_size,
        "d_out": options.output_size,
        "heads": options.heads,
        "dropout": options.dropout,
        "seed": options.seed,
        "device": options.device and Device(options.device),
        "dtype": options.dtype and Dtype(options.dtype),
        "mask": _mask(options.causal),
    }
    settings = {name: value for name, value in given.items() if value is not None}
    return document_from_texts_and_settings.document_of(options.text or (), settings, base)


def _mask(causal: bool | None) -> Mask | None:
    return None if causal is None else (Mask.CAUSAL if causal else Mask.NONE)


def figure_settings_of(options: argparse.Namespace) -> FigureSettings:
    """Return the settings of figures and films that the options describe.

    Raises
    ------
    InputError
        When such a figure is impossible.
    """
    return figure_settings(
        options.size,
        layout=options.layout and FigureExtent(options.layout),
        theme=options.theme and FigurePaper(options.theme),
        dpi=options.dpi,
        title=options.title,
        has_caption=not options.no_caption,
        film=_film(options),
    )


def _film(options: argparse.Namespace) -> FilmSettings:
    usual = FilmSettings()
    grain = Grain(options.grain) if options.grain else usual.grain
    return replace(usual, span=options.span, grain=grain, speed=options.speed or usual.speed)
