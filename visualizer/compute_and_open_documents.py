"""Computing, opening and restoring documents, for the windows, the command line and notebooks.

Modules that load torch are imported where they are used.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from visualizer.documents.document_file import SavedDocument
from visualizer.documents.open_document import DocumentChange, open_document
from visualizer.documents.plain_text_file import text_in
from visualizer.errors import InputError
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Protocol

    from visualizer.attention.buffer_pool import BufferPool
    from visualizer.attention.run import Run, Texts
    from visualizer.attention.spec import AttentionSpec
    from visualizer.session.document import Document

if TYPE_CHECKING:

    class Compute(Protocol):
        """Computes a document, reusing what is unchanged of the previous run."""

        def __call__(self, document: Document, previous: Run | None) -> Run: ...


ROOMY = View(room=512)
"""The default view, with more room for matrices than a window has."""
TENSOR_FILES = frozenset({".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin"})
"""Suffixes of the files that importers read."""


def compute(document: Document, previous: Run | None) -> Run:
    """Compute a document; called on the worker thread.

    torch is imported here, on the worker, so that the window appears before it is loaded.
    """
    from visualizer.attention.run import share_cores

    _leave_out_of_collections()
    return run_of(document, previous, share_cores, shared_buffer_pool())


def release_pooled_buffers() -> None:
    """Release the pooled buffers; called on the worker thread when it is idle."""
    if shared_buffer_pool.cache_info().currsize:
        shared_buffer_pool().release()


@cache
def shared_buffer_pool() -> BufferPool:
    """Return the buffer pool that the large tensors of all windows share."""
    from visualizer.attention.buffer_pool import BufferPool

    return BufferPool()


def run_of(
    document: Document,
    previous: Run | None,
    prepare: Callable[[Texts, AttentionSpec], None] | None = None,
    pool: BufferPool | None = None,
) -> Run:
    """Compute a document, or return the run of its captured attention if it has any.

    Parameters
    ----------
    prepare : callable, optional
        Called with the tokens and the spec before they are computed.
    pool : BufferPool, optional
        Supplies the memory of large tensors.
    """
    from visualizer.attention.run import run
    from visualizer.attention.run_from_captured_attention import captured_run
    from visualizer.session.typed_token_labels import typed_labels

    if document.captured:
        return captured_run(document.captured, *typed_labels(document), previous)
    texts = document.tokens()
    if prepare:
        prepare(texts, document.spec)
    return run(texts, document.spec, previous, pool)


def read_file(path: Path, document: Document) -> SavedDocument | DocumentChange:
    """Read any supported file: a document, or a change to the given document.

    Raises
    ------
    InputError
        Of ``open``, with what is wrong with the file and what to do about it.
    """
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return DocumentChange(document.set("text", text_in(path)))
    return _tensors(path, document) if suffix in TENSOR_FILES else open_document(path)


def open_as_document(path: Path, document: Document) -> tuple[SavedDocument, str]:
    """Open any supported file as a document; return it with the notice to show."""
    found = read_file(path, document)
    if isinstance(found, DocumentChange):
        return SavedDocument(found.document, ROOMY), found.notice
    return found, ""


def restore_document(saved: SavedDocument, compute: Compute) -> tuple[Run, View]:
    """Return the run of a saved document, and its view with side A of a comparison restored.

    Recorded numbers are not computed again. Nothing of a recorded run has been read yet: the
    caller prefetches what the view needs.

    Raises
    ------
    InputError
        When the document cannot be computed. If only side A cannot, the comparison is dropped.
    """
    from visualizer.attention.run_from_saved_numbers import recorded_run

    view = _with_a(saved, compute)
    if saved.recorded:
        return recorded_run(saved.document.spec, saved.recorded), view
    kept = view.comparison.kept if view.comparison else None
    return compute(saved.document, kept), view


def _with_a(saved: SavedDocument, compute: Compute) -> View:
    from visualizer.attention.run_from_saved_numbers import recorded_run

    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept:
            kept = recorded_run(comparison.document.spec, saved.kept)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=replace(comparison, kept=kept))


def _tensors(path: Path, document: Document) -> DocumentChange:
    from visualizer.attention.attention_from_another_program import CapturedAttention
    from visualizer.attention.importers.registry import read_tensor_file

    found, notice = read_tensor_file(path, document.spec)
    if isinstance(found, CapturedAttention):
        return DocumentChange(document.set("captured", found), notice)
    return DocumentChange(replace(document.set("captured", None), spec=found), notice)


@cache
def _leave_out_of_collections() -> None:
    # The objects of torch's import are permanent; scanning them for garbage would block the
    # window for tens of milliseconds at every collection.
    gc.freeze()
