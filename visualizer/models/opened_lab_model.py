"""Opens a model trained in the language lab as a transformers model, with its tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from visualizer.errors import InputError
from visualizer.language.checkpoints import read_checkpoint_weights, read_weights
from visualizer.language.language_models import build
from visualizer.language.memory_estimate import COPIES_OF_CHECKPOINT, check_room_to_read
from visualizer.language.run_folder import plain
from visualizer.models.lab_model_files import find_lab_model
from visualizer.models.model_folder import ModelFolder, fingerprint_of

if TYPE_CHECKING:
    from pathlib import Path


def read_lab_model(path: Path) -> tuple[ModelFolder, Any, Any]:
    """Load a run folder or weights file of the lab; return it with its model and tokenizer.

    The model is a transformers model in float32 on the CPU. transformers must be installed.

    Raises
    ------
    InputError
        With field ``model`` if it cannot be opened.
    """
    from visualizer.models.lab_transformer import LabTokenizer, lab_transformer

    found = find_lab_model(path)
    about, file, step = found.about, found.weights, found.snapshot_step
    try:
        check_room_to_read(about.settings, len(about.tokens), COPIES_OF_CHECKPOINT, file)
        trained = build(about.settings, len(about.tokens)).eval()
        if found.is_checkpoint:
            step, _ = read_checkpoint_weights(file, trained)
        else:
            read_weights(file, trained)
    except InputError as refused:
        raise InputError("model", refused.sentence) from refused
    model = lab_transformer(trained)
    folder = ModelFolder(
        path,
        found.name,
        about.settings.model.value,
        (type(model).__name__,),
        about.settings.layers,
        about.settings.heads,
        sum(each.numel() for each in model.parameters()),
        file.path.stat().st_size,
        True,
        fingerprint_of(json.loads(json.dumps(plain(about))), [file.path]),
        about,
        training_step=step,
    )
    return folder, model, LabTokenizer(about.vocabulary)
