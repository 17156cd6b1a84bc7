"""Reading of any supported file, and the run of a document: recorded, or computed anew.

Modules that load torch, and those of the lab, are imported where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.documents.document_change import DocumentChange, change_to_model
from visualizer.documents.document_file import SavedDocument
from visualizer.documents.exported_numbers import is_npz
from visualizer.documents.open_document import open_document
from visualizer.documents.plain_text_file import text_in
from visualizer.errors import InputError
from visualizer.language.tokenizers import Tokenizer
from visualizer.models.model_folder import is_model_folder
from visualizer.models.model_path import GGUF_ERROR
from visualizer.python_thread_for_qt_thread import on_python_thread
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.model_opening import open_model_source
from visualizer.session.view import View
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.session.worker_jobs import ComputeFunction


ROOMY = View(room=512)
"""The default view, with more room for matrices than a window has."""
TENSOR_FILES = frozenset({".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin"})
"""Suffixes of the files that importers read."""
_START = 64
"""Bytes that tell whether an NPZ begins with a document."""


def read_file(path: Path, document: Document) -> SavedDocument | DocumentChange:
    """Read any supported file: a document, or a change to the given document.

    A model's folder is one, too, also one that was trained in the language lab: it reads the
    document's text.

    Raises
    ------
    InputError
        Of ``open``, with what is wrong with the file and what to do about it.
    """
    if is_model_folder(path) or _is_lab_model(path):
        return _model(path, document)
    suffix = path.suffix.lower()
    if suffix == ".gguf":
        raise InputError("open", GGUF_ERROR.format(name=path.name))
    if suffix == ".txt" and document.model and document.reads_image:
        raise InputError("open", f"{document.model.name} reads images, and no texts.")
    if suffix == ".txt":
        return DocumentChange(document.set("text", text_in(path)))
    is_of_others = suffix in TENSOR_FILES and not (suffix == ".npz" and _is_exported(path))
    return _tensors(path, document) if is_of_others else open_document(path)


def _is_lab_model(path: Path) -> bool:
    """Whether it is to be opened as a model of the language lab.

    Without the library for that, a file of weights has its attention modules.
    """
    from visualizer.models.lab_model_files import can_open_models, is_lab_model

    return is_lab_model(path) and (path.is_dir() or can_open_models())


def _is_exported(path: Path) -> bool:
    """Whether an NPZ was exported with its document."""
    try:
        with open_regular_file(path) as file:
            return is_npz(file.read(_START))
    except OSError:  # which the reader says
        return False


def open_as_document(path: Path, document: Document) -> tuple[SavedDocument, str]:
    """Open any supported file as a document; return it with the notice to show."""
    found = read_file(path, document)
    if isinstance(found, DocumentChange):
        view = ROOMY if found.stages is None else replace(ROOMY, stages=found.stages)
        saved = SavedDocument(found.document, view, opened_model=found.opened_model)
        return saved, found.notice
    return found, found.notice


def read_trained_example() -> SavedDocument:
    """Open the trained example: as a model where models can be opened, or else its layer."""
    from visualizer.models.lab_model_files import can_open_models

    if can_open_models():
        return on_python_thread(_trained_example_as_model)
    return read_layer_of_trained_example()


def _trained_example_as_model() -> SavedDocument:
    """Open the trained example as a model, with a head that its copying needs alone."""
    from visualizer.language.trained_example import CELL, FOLDER, NEEDED, TEXT

    change = _model(FOLDER, Document(text=TEXT))
    layer, head = NEEDED
    pinned = Cell("weights", (head, *CELL))
    view = View(pinned=pinned, layer=layer, heads=frozenset({head}), stages=frozenset({"weights"}))
    return SavedDocument(change.document, view, opened_model=change.opened_model)


def read_layer_of_trained_example() -> SavedDocument:
    """Open the layer of the trained example, with the head that has learned something alone."""
    from visualizer.attention.torch_library_loading import load_torch_library

    load_torch_library()
    from visualizer.lab.layer_document import saved_of
    from visualizer.language import trained_example

    message = trained_example.layer_of_example()
    head, cell = trained_example.HEAD, trained_example.CELL
    saved = saved_of(message, Tokenizer.CHARACTERS, head, cell)
    view = replace(saved.view, stages=frozenset({"weights"}))
    return SavedDocument(saved.document, view)


def restore_document(saved: SavedDocument, compute: ComputeFunction) -> tuple[Run, View]:
    """Return the run of a saved document, and its view with side A of a comparison restored.

    Recorded numbers are not computed again unless some of their stages are missing. Nothing of a
    recorded run has been read yet: the caller prefetches what the view needs.

    Raises
    ------
    InputError
        When the document cannot be computed. If only side A cannot, the comparison is dropped.
    """
    from visualizer.attention.run_from_recorded_numbers import recorded_run

    view = _with_a(saved, compute)
    if saved.recorded and not saved.recorded.missing:
        document = saved.document
        return recorded_run(document.spec, saved.recorded, document.weights_source), view
    kept = view.comparison.kept if view.comparison else None
    run = compute(saved.document, kept)
    different = saved.exported.difference(run) if saved.exported else ""
    return (replace(run, notices=(*run.notices, different)) if different else run), view


def _with_a(saved: SavedDocument, compute: ComputeFunction) -> View:
    from visualizer.attention.run_from_recorded_numbers import recorded_run

    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept and not saved.kept.missing:
            before = comparison.document
            kept = recorded_run(before.spec, saved.kept, before.weights_source)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=comparison.changed(kept=kept))


def _model(path: Path, document: Document) -> DocumentChange:
    """Open a model to read the document's text."""
    where = document.spec.device, document.spec.dtype
    try:
        opened = open_model_source(path, *where, document.text)
    except InputError as refused:
        raise InputError("open", refused.sentence) from refused
    return change_to_model(document, opened)


def _tensors(path: Path, document: Document) -> DocumentChange:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.importers.readers_by_suffix import read_tensor_file

    found, notice = read_tensor_file(path, document.spec, document.most_tokens)
    if isinstance(found, CapturedAttention):
        return DocumentChange(document.set("captured", found), notice)
    changed = replace(document.set("captured", None), spec=found)
    return DocumentChange(replace(changed, weights_source=f"weights from {path.name}"), notice)
