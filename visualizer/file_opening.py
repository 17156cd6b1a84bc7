"""Reads any supported file, and recomputes or restores the run of a document.

Modules of the lab and modules that import torch are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.roles import Role
from visualizer.attention.spec import ModelDtype
from visualizer.documents.document_file import SavedDocument
from visualizer.documents.exported_numbers import is_exported_npz
from visualizer.documents.open_document import (
    DocumentChange,
    open_document,
    read_text_file,
    switch_to_model,
)
from visualizer.errors import InputError
from visualizer.language.tokenizers import TokenizerKind
from visualizer.models.model_folder import is_model_folder
from visualizer.models.model_path import GGUF_ERROR
from visualizer.process_settings import run_in_thread
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.model_opening import open_model_source
from visualizer.session.view import View
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.session.worker_jobs import ComputeFunction


EXPORT_VIEW = View(room=512)
"""Default view with more space for matrices than in a window."""
TENSOR_FILES = frozenset({".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin"})
"""Suffixes of the files that importers read."""
_START = 64
"""Number of leading bytes from which an NPZ file with a document is recognized."""


def read_file(path: Path, document: Document) -> SavedDocument | DocumentChange:
    """Read any supported file, and return its document or a change to the given document.

    Model folders, including those of models trained in the language lab, are also supported; the
    model is applied to the document's text. Of a recorded run, the last snapshot is read.

    Raises
    ------
    InputError
        With field ``open`` if the file is invalid or unsupported.
    """
    if _is_recording(path):
        return _read_recording(path, document)
    if is_model_folder(path) or _is_lab_model(path):
        return _open_model(path, document)
    suffix = path.suffix.lower()
    if suffix == ".gguf":
        raise InputError("open", GGUF_ERROR.format(name=path.name))
    if suffix == ".txt" and document.model and document.takes_image:
        name = document.model.name
        raise InputError(
            "open", f"{name} requires an image and cannot process text. Open an image."
        )
    if suffix == ".txt":
        return DocumentChange(document.with_setting("text", read_text_file(path)))
    is_of_others = suffix in TENSOR_FILES and not (suffix == ".npz" and _is_exported_document(path))
    return _read_tensors(path, document) if is_of_others else open_document(path)


def _is_recording(path: Path) -> bool:
    """Return whether a path is the folder of a recorded run."""
    from visualizer.language.recording import is_recording
    from visualizer.language.run_folder import RunFolder

    return is_recording(RunFolder(path))


def _is_lab_model(path: Path) -> bool:
    """Return whether a path is to be opened as a model of the language lab.

    If the models extra is not installed, the attention modules in a weights file are opened
    instead.
    """
    from visualizer.models.lab_model_files import can_open_models, is_lab_model

    return is_lab_model(path) and (path.is_dir() or can_open_models())


def _is_exported_document(path: Path) -> bool:
    """Return whether an NPZ file was exported with its document."""
    try:
        with open_regular_file(path) as file:
            return is_exported_npz(file.read(_START))
    except OSError:  # the reader reports the error
        return False


def open_as_document(path: Path, document: Document) -> tuple[SavedDocument, str]:
    """Open any supported file as a document, and return it with the notice to show."""
    found = read_file(path, document)
    if isinstance(found, DocumentChange):
        view = EXPORT_VIEW if found.stages is None else replace(EXPORT_VIEW, stages=found.stages)
        saved = SavedDocument(found.document, view, opened_model=found.opened_model)
        return saved, found.notice
    return found, found.notice


def read_trained_example() -> SavedDocument:
    """Open the trained example as a model if models can be opened, otherwise as one layer."""
    from visualizer.models.lab_model_files import can_open_models

    if can_open_models():
        return run_in_thread(_open_trained_example_model)
    return read_layer_of_trained_example()


def _open_trained_example_model() -> SavedDocument:
    """Open the trained example as a model, and show only a head that is essential for copying."""
    from visualizer.language.example_run import (
        ESSENTIAL_HEAD,
        EXAMPLE_FOLDER,
        EXAMPLE_TEXT,
        EXPECTED_CELL,
    )

    change = _open_model(EXAMPLE_FOLDER, Document(text=EXAMPLE_TEXT))
    layer, head = ESSENTIAL_HEAD
    pinned = Cell(Role.WEIGHTS, (head, *EXPECTED_CELL))
    view = View(
        pinned=pinned, layer=layer, heads=frozenset({head}), stages=frozenset({Role.WEIGHTS})
    )
    return SavedDocument(change.document, view, opened_model=change.opened_model)


def read_layer_of_trained_example() -> SavedDocument:
    """Open one layer of the trained example, and show only the head with a learned pattern."""
    from visualizer.attention.torch_preload import load_torch_library

    load_torch_library()
    from visualizer.lab.layer_document import create_layer_document
    from visualizer.language import example_run

    message = example_run.create_example_layer_message()
    head, cell = example_run.HEAD, example_run.EXPECTED_CELL
    saved = create_layer_document(message, TokenizerKind.CHARACTERS, head, cell)
    view = replace(saved.view, stages=frozenset({Role.WEIGHTS}))
    return SavedDocument(saved.document, view)


def restore_document(saved: SavedDocument, compute: ComputeFunction) -> tuple[Run, View]:
    """Return the run of a saved document, and its view with side A of a comparison restored.

    The run is computed unless all its stages were recorded. Recorded arrays are not read yet: the
    caller prefetches the arrays that the view needs.

    Raises
    ------
    InputError
        If the document cannot be computed. If only side A fails, the comparison is dropped.
    """
    from visualizer.attention.captured_run import create_recorded_run

    view = _restore_side_a(saved, compute)
    if saved.recorded and not saved.recorded.missing:
        document = saved.document
        return create_recorded_run(document.spec, saved.recorded, document.weights_source), view
    kept = view.comparison.kept if view.comparison else None
    run = compute(saved.document, kept)
    different = saved.exported.describe_difference(run) if saved.exported else ""
    return (replace(run, notices=(*run.notices, different)) if different else run), view


def _restore_side_a(saved: SavedDocument, compute: ComputeFunction) -> View:
    from visualizer.attention.captured_run import create_recorded_run

    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept and not saved.kept.missing:
            before = comparison.document
            kept = create_recorded_run(before.spec, saved.kept, before.weights_source)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=comparison.with_changes(kept=kept))


def _open_model(path: Path, document: Document) -> DocumentChange:
    """Open a model, and apply it to the document's text."""
    where = document.spec.device, ModelDtype.for_document(document.spec.dtype)
    try:
        opened = open_model_source(path, *where, document.text)
    except InputError as refused:
        raise InputError("open", refused.sentence) from refused
    return switch_to_model(document, opened)


def _read_recording(path: Path, document: Document) -> DocumentChange:
    """Read the last snapshot of the first text of a recorded run."""
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.language.recording import OpenedRecording
    from visualizer.language.run_folder import RunFolder

    try:
        opened = OpenedRecording(RunFolder(path))
        steps, texts = opened.steps(), opened.metadata.texts
        if not steps:
            raise InputError("open", f"The recorded run in {path} has no snapshots yet.")
        weights, tokens = opened.read_weights(steps[-1], 0), texts[0].tokens
    except InputError as refused:
        raise InputError("open", refused.sentence) from refused
    name = f"{path.resolve().name}, step {steps[-1]:,}"
    captured = CapturedAttention.from_array(name, weights, tokens, tokens)
    notice = f"Step {steps[-1]:,} is shown. Open the run in the lab to see all steps and texts."
    return DocumentChange(document.with_setting("captured", captured), notice)


def _read_tensors(path: Path, document: Document) -> DocumentChange:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.importers.tensor_file_reader import read_tensor_file

    found, notice = read_tensor_file(path, document.spec, document.max_text_tokens)
    if isinstance(found, CapturedAttention):
        return DocumentChange(document.with_setting("captured", found), notice)
    changed = replace(document.with_setting("captured", None), spec=found)
    return DocumentChange(replace(changed, weights_source=f"weights from {path.name}"), notice)
