"""Opens a layer of a training run's model as a document. Torch is imported on demand."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.cli.export_files import ALL, SEVERAL, STANDARD_OUTPUT, named_path
from visualizer.errors import InputError
from visualizer.file_opening import ROOMY
from visualizer.lab.layer_document import saved_of
from visualizer.lab.runs.run_store import opening_probe
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Message

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.documents.document_file import SavedDocument


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
