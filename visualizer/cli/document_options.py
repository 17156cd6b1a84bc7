"""Builds the document and the figure settings from command-line options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.cli.options import SETTING_GROUPS, value_of
from visualizer.cli.own_matrices import FROM_FILE, own_weights_in, with_module_in
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.film_settings import FilmSettings
from visualizer.export.option_parsing import figure_settings
from visualizer.session import document_builder
from visualizer.session.document import Document
from visualizer.session.timeline import Grain
from visualizer.session.view_options import COLOUR_MAPS

if TYPE_CHECKING:
    import argparse

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.view_options import ColourOptions


def document_of(options: argparse.Namespace, base: Document | None = None) -> Document:
    """Build the document that the options describe; the base supplies all other settings.

    Weights from a file are added by `with_weights`.
    """
    return document_builder.document_of(options.text or (), _given_settings(options), base)


def with_weights(options: argparse.Namespace, document: Document) -> tuple[Document, str]:
    """Return the document with the weights from the file of the options, and a notice.

    Raises
    ------
    InputError
        With the field ``own_weights``, if they cannot be used.
    """
    try:
        own = own_weights_in(options.weights)
        if own:
            settings = _given_settings(options) | {"own_weights": own}
            changed = document_builder.document_of((), settings, document)
            return replace(changed, weights_source=FROM_FILE), ""
        document, notice = with_module_in(options.weights, document)
    except InputError as refused:
        raise InputError("own_weights", refused.sentence) from refused
    return document_of(options, document), notice


def _given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the document settings given as options, converted to their types."""
    names = ["tokenizer", "lines", *(name for names in SETTING_GROUPS.values() for name in names)]
    given = {name: value_of(options, name) for name in names if name != "own_weights"}
    defaults = Document()
    typed = {
        name: type(defaults.get(name))(value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }
    # --own-mask also sets the mask to "own", unless --mask chooses another.
    painted = {"painted": typed.pop("own_mask")} if "own_mask" in typed else {}
    return painted | typed


def figure_settings_of(options: argparse.Namespace) -> FigureSettings:
    """Return the settings of figures and films that the options describe.

    Raises
    ------
    InputError
        If the figure is impossible.
    """
    return figure_settings(
        options.size,
        layout=options.layout and FigureExtent(options.layout),
        theme=options.theme and FigurePaper(options.theme),
        dpi=options.dpi,
        title=options.title or "",
        has_caption=not options.no_caption,
        has_all_layers=options.all_layers,
        film=_film_settings(options),
    )


def _film_settings(options: argparse.Namespace) -> FilmSettings:
    defaults = FilmSettings()
    grain = Grain(options.grain) if options.grain else defaults.grain
    return replace(
        defaults,
        span=options.span,
        grain=grain,
        speed=options.speed or defaults.speed,
        has_motion=not options.no_motion,
    )


def colours_of(options: argparse.Namespace, colouring: ColourOptions) -> ColourOptions:
    """Return colour options with the colour maps chosen by the options."""
    for name in options.colour_map or ():
        kind = next(each.kind for each in COLOUR_MAPS if each.id == name)
        colouring = replace(colouring, **{kind.value: name})
    return colouring
