"""Builds the document and the figure settings from command-line options."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.importers.state_dict import spec_from_state_dict
from visualizer.cli.export_files import (
    ALL_OPTION,
    SEVERAL_FILES_ERROR,
    STANDARD_OUTPUT_PATH,
    with_name_suffix,
)
from visualizer.cli.option_parser import read_custom_weights
from visualizer.cli.options import SETTING_GROUPS, option_value
from visualizer.errors import InputError
from visualizer.export.figure_settings import AnimationSettings, FigureExtent, FigureTheme
from visualizer.export.option_parsing import create_figure_settings
from visualizer.file_opening import EXPORT_VIEW
from visualizer.lab.layer_document import create_layer_document
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message
from visualizer.session import document_builder
from visualizer.session.document import Document
from visualizer.session.timeline import StepSize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.documents.document_file import SavedDocument
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.view_options import ColourOptions

FILE_WEIGHTS_SOURCE = "weights from a file"
"""Source of the weights, as displayed, if they are read from a file given as an option."""


def build_document(options: argparse.Namespace, base: Document | None = None) -> Document:
    """Build the document that the options describe, without the weights of --weights.

    Settings without an option are copied from `base`, or else have their defaults.
    """
    return document_builder.create_document(options.text or (), _given_settings(options), base)


def load_weights_into_document(
    options: argparse.Namespace, document: Document
) -> tuple[Document, str]:
    """Return the document with the weights of --weights, and a notice for the user.

    Raises
    ------
    InputError
        With the field ``own_weights``, if the document cannot use the weights.
    """
    try:
        own_weights = read_custom_weights(options.weights)
        if own_weights:
            settings = _given_settings(options) | {"own_weights": own_weights}
            changed = document_builder.create_document((), settings, document)
            return replace(changed, weights_source=FILE_WEIGHTS_SOURCE), ""
        spec, notice = spec_from_state_dict(
            options.weights, document.spec, document.max_text_tokens
        )
    except InputError as refused:
        raise InputError("own_weights", refused.sentence) from refused
    document = replace(document, spec=spec, weights_source=FILE_WEIGHTS_SOURCE)
    return build_document(options, document), notice


def _given_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the document settings that are given as options, converted to their types."""
    names = ["tokenizer", "lines", *(name for names in SETTING_GROUPS.values() for name in names)]
    given = {name: option_value(options, name) for name in names if name != "own_weights"}
    defaults = Document()
    typed = {
        name: type(defaults.get_setting(name))(value) if isinstance(value, str) else value
        for name, value in given.items()
        if value is not None
    }
    # --own-mask also sets the mask to "own", unless --mask chooses another.
    painted = {"painted": typed.pop("own_mask")} if "own_mask" in typed else {}
    return painted | typed


def build_figure_settings(options: argparse.Namespace) -> FigureSettings:
    """Return the figure and animation settings that the options describe.

    Raises
    ------
    InputError
        If no figure with these settings can be created.
    """
    return create_figure_settings(
        options.size,
        layout=options.layout and FigureExtent(options.layout),
        theme=options.theme and FigureTheme(options.theme),
        dpi=options.dpi,
        title=options.title or "",
        has_caption=not options.no_caption,
        has_letters=options.letters,
        has_all_layers=options.all_layers,
        film=_build_animation_settings(options),
    )


def _build_animation_settings(options: argparse.Namespace) -> AnimationSettings:
    return AnimationSettings(
        span=options.span,
        grain=StepSize(options.grain or StepSize.TOUR),
        speed=options.speed or 1.0,
        has_motion=not options.no_motion,
    )


def apply_colour_options(options: argparse.Namespace, colouring: ColourOptions) -> ColourOptions:
    """Return the colour options, changed to use the colour maps of --colour-map."""
    for name in options.colour_map or ():
        colouring = colouring.with_colour_map(name)
    return colouring


def is_run_folder(path: Path) -> bool:
    """Return whether a folder contains a run."""
    return RunFolder(path).metadata_file.exists()


def split_options_per_layer(options: argparse.Namespace) -> list[argparse.Namespace]:
    """Return a copy of the options for each layer if all layers of a run are requested.

    Otherwise, return only the options themselves.

    Raises
    ------
    InputError
        With the field ``layer``, if the layers would not be written to separate files; with another
        field, if the run cannot be read.
    """
    if options.layer != ALL_OPTION or not options.file or not is_run_folder(options.file):
        return [options]
    if not options.export:
        raise InputError("layer", "'all' requires --export.")
    if STANDARD_OUTPUT_PATH in options.export:
        raise InputError("layer", SEVERAL_FILES_ERROR)
    from visualizer.language.language_models import count_layers

    layers = count_layers(RunFolder(options.file).read_metadata().settings)
    if not layers:
        raise InputError("open", "The model of this run has no attention layers.")
    per_layer = []
    for layer in range(1, layers + 1):
        paths = [with_name_suffix(path, f"-layer{layer}") for path in options.export]
        per_layer.append(argparse.Namespace(**vars(options) | {"layer": layer, "export": paths}))
    return per_layer


def build_document_of_layer(options: argparse.Namespace) -> SavedDocument:
    """Apply a layer of a run, with the last saved weights, to a text; return the document.

    The options select the layer and the text, and are then reset to None. The default text is the
    one that the lab shows first.

    Raises
    ------
    InputError
        With the field ``text`` or ``layer``, if the model cannot process the text or does not have
        the layer; with another field, if the run cannot be read.
    """
    from visualizer.lab.runs.store import choose_initial_probe
    from visualizer.language import probe as language_probe
    from visualizer.language.opened_run import OpenedRun

    path, layer, texts = options.file, options.layer or 1, options.text or ()
    is_layer_given = options.layer is not None
    options.layer = options.text = None
    if len(texts) > 1:
        raise InputError("text", "A lab model accepts only one text. Specify one text.")
    opened = OpenedRun(RunFolder(path), is_held=False)
    try:
        metadata = opened.metadata
        model, step = opened.model_at(None)
        text = texts[0] if texts else choose_initial_probe(path, metadata.sample, metadata.settings)
        probe = language_probe.ProbeText.from_text(text, metadata.vocabulary, model)
        if probe.cut:
            block = metadata.settings.block
            sentence = (
                f"The text has {probe.cut + block:,} tokens, but the block "
                f"size of this model is {block:,}."
            )
            raise InputError("text", f"{sentence} Use a shorter text.")
        spec, arrays = language_probe.layer_attention_inputs(model, probe, layer - 1)
    except InputError as refused:
        if refused.field == "layer" and not is_layer_given:
            raise InputError("open", refused.sentence) from refused
        raise
    finally:
        opened.close()
    fields = {"tokens": probe.tokens, "spec": spec, "layer": layer - 1, "step": step}
    message, tokenizer = (
        Message("layer", fields, arrays),
        metadata.settings.source.effective_tokenizer,
    )
    return replace(create_layer_document(message, tokenizer, run=path.name), view=EXPORT_VIEW)
