"""Builds the document and the figure settings from command-line options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.importers.state_dict import spec_in
from visualizer.cli.export_files import ALL, SEVERAL, STANDARD_OUTPUT, named_path
from visualizer.cli.option_types import own_weights_in
from visualizer.cli.options import SETTING_GROUPS, value_of
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent, FigurePaper
from visualizer.export.film_settings import FilmSettings
from visualizer.export.option_parsing import figure_settings
from visualizer.file_opening import ROOMY
from visualizer.lab.layer_document import saved_of
from visualizer.lab.runs.store import opening_probe
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message
from visualizer.session import document_builder
from visualizer.session.document import Document
from visualizer.session.timeline import Grain
from visualizer.session.view_options import COLOUR_MAPS

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.documents.document_file import SavedDocument
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.view_options import ColourOptions

FROM_FILE = "weights from a file"
"""Source of weights read from a file given as an option."""


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
        spec, notice = spec_in(options.weights, document.spec, document.most_tokens)
    except InputError as refused:
        raise InputError("own_weights", refused.sentence) from refused
    document = replace(document, spec=spec, weights_source=FROM_FILE)
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


def is_run_folder(path: Path) -> bool:
    """Whether a folder contains a run."""
    return RunFolder(path).about.exists()


def each_layer_of_run(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Return the options for each layer of a run if all are requested, else only these options.

    Raises
    ------
    InputError
        With the field ``layer``, if the layers would not be written to separate files; with other
        fields, if the run cannot be read.
    """
    if options.layer != ALL or not options.file or not is_run_folder(options.file):
        return [options]
    if not options.export:
        raise InputError("layer", "all requires --export.")
    if STANDARD_OUTPUT in options.export:
        raise InputError("layer", SEVERAL)
    from visualizer.language.language_models import layers_of

    layers = layers_of(RunFolder(options.file).read_about().settings)
    if not layers:
        raise InputError("open", "This model has no attention layers.")
    found = []
    for layer in range(1, layers + 1):
        paths = [named_path(path, f"-layer{layer}") for path in options.export]
        found.append(argparse.Namespace(**vars(options) | {"layer": layer, "export": paths}))
    return found


def layer_of_run(options: argparse.Namespace) -> SavedDocument:
    """Return a layer applied to a text as a document, with the last saved weights.

    The options select the layer and the text; the default text is the first one shown by the lab.
    Both are then removed from the options.

    Raises
    ------
    InputError
        With the field ``text`` or ``layer``, if the model does not accept it; with other fields, if
        the run cannot be read.
    """
    from visualizer.language import probe as language_probe
    from visualizer.language.opened_training_run import OpenRun

    path, layer, texts = options.file, options.layer or 1, options.text or ()
    is_asked = options.layer is not None
    options.layer = options.text = None
    if len(texts) > 1:
        raise InputError("text", "A model of the lab accepts only one text.")
    opened = OpenRun(RunFolder(path), is_held=False)
    try:
        about = opened.about
        model, step = opened.model(None)
        text = texts[0] if texts else opening_probe(path, about.sample, about.settings)
        probe = language_probe.Probe.of(text, about.vocabulary, model)
        if probe.cut:
            block = about.settings.block
            sentence = (
                f"The text has {probe.cut + block:,} tokens, but the block "
                f"size of this model is {block:,}."
            )
            raise InputError("text", f"{sentence} Use a shorter text.")
        spec, arrays = language_probe.layer(model, probe, layer - 1)
    except InputError as refused:
        if refused.field == "layer" and not is_asked:
            raise InputError("open", refused.sentence) from refused
        raise
    finally:
        opened.close()
    fields = {"tokens": probe.tokens, "spec": spec, "layer": layer - 1, "step": step}
    message, tokenizer = Message("layer", fields, arrays), about.settings.source.effective_tokenizer
    return replace(saved_of(message, tokenizer, run=path.name), view=ROOMY)
